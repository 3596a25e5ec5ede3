// Package webhook is a channel for everything that has no adapter of its own: another program posts what
// people write, and is posted what Steward answers. It is also the shortest example of an adapter.
//
// # In
//
// The program posts a JSON object (Event) to Steward at /channels/NAME. It signs the body with the account's
// token: the header X-Steward-Signature is "t=SECONDS,v1=HEX", where HEX is the HMAC-SHA256 of SECONDS, a
// dot and the body. The clock of the program may differ by five minutes. A signature is accepted once; a
// program that tries again signs again, with the same ID of the event, and the event is not processed twice.
// The answer 204 says that the event is in Steward's log. After any other answer the program tries again.
//
// The program vouches for who has written: Steward pairs its IDs of senders with users.
//
// # Out
//
// Steward posts a JSON object (Post) to base_url, signed in the same way. The header Idempotency-Key is the
// same when it is posted again, and the program must not show such a post twice. The program answers with
// 2xx and {"message": ID}. 429 with Retry-After asks for a pause, 401 and 403 refuse the token, any other
// 4xx refuses the message for good. After 5xx, or no answer, Steward posts again.
package webhook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/markup"
	"steward/internal/channel/rest"
	"steward/internal/fault"
)

// SignatureHeader is the header of signatures in both directions.
const SignatureHeader = "X-Steward-Signature"

// Limits.
const (
	maxEvent      = 1 << 20         // bytes of an event
	maxAnswer     = 64 << 10        // bytes of an answer
	maxText       = 4000            // characters of a message
	maxAttachment = 10 << 20        // bytes
	maxSkew       = 5 * time.Minute // between the clocks
	maxSigned     = 100_000         // signatures that are remembered; beyond that, events are refused
)

// service is what faults call it.
const service = "webhook"

// Event is what a person has done, as the program posts it.
type Event struct {
	ID      string    `json:"id"`   // the same when it is posted again
	Kind    string    `json:"kind"` // message (also if empty), edited or press
	At      time.Time `json:"at"`
	Chat    string    `json:"chat"`
	Thread  string    `json:"thread"`
	From    Person    `json:"from"`
	Group   bool      `json:"group"` // others read in this chat
	Title   string    `json:"title"` // of the group
	To      bool      `json:"addressed"`
	Wrote   string    `json:"forwarded"` // who wrote it, if the sender passes it on
	Message string    `json:"message"`
	ReplyTo string    `json:"reply_to"`
	Text    string    `json:"text"`
	Button  string    `json:"button"` // of a press: the button's data
	Files   []File    `json:"attachments"`
}

// Person is who has written.
type Person struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Bot  bool   `json:"bot"`
}

// File is an attachment. In an event it has the URL where it is, at the host of base_url; in a post it has
// the data.
type File struct {
	URL       string `json:"url,omitempty"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size,omitempty"`
	Voice     bool   `json:"voice,omitempty"`
	Data      []byte `json:"data,omitempty"`
}

// Post is what Steward posts: a message, that it is writing one (Typing), or neither: then it only asks
// whether the program is there, and the answer is 204.
type Post struct {
	Key     string   `json:"key,omitempty"`
	Chat    string   `json:"chat,omitempty"`
	Thread  string   `json:"thread,omitempty"`
	ReplyTo string   `json:"reply_to,omitempty"`
	Text    string   `json:"text,omitempty"`
	Typing  bool     `json:"typing,omitempty"`
	Silent  bool     `json:"silent,omitempty"`
	Buttons []Button `json:"buttons,omitempty"`
	Files   []File   `json:"attachments,omitempty"`
}

// Button is a button under a message.
type Button struct {
	Label string `json:"label"`
	Data  string `json:"data"`
}

// Channel is a webhook account. It is also the handler of what the program posts.
type Channel struct {
	o    channel.Options
	base string
	now  func() time.Time

	mu      sync.Mutex
	receive func(context.Context, []channel.Update) error // nil: Run does not run
	busy    sync.WaitGroup
	signed  map[string]time.Time // signatures that were accepted, with their times
	old     time.Time            // when signed was tidied last
}

var (
	_ channel.Channel = (*Channel)(nil)
	_ http.Handler    = (*Channel)(nil)
)

// New returns the channel of an account.
func New(o channel.Options) (*Channel, error) {
	base, err := rest.Base(o, "")
	if err != nil {
		return nil, err
	}
	if base == "" {
		return nil, fault.New(fault.Invalid, "channel_base_url", "a webhook needs base_url, to which Steward posts").WithHint("write it as https://HOST/PATH")
	}
	if len(o.Token) < 16 {
		return nil, fault.New(fault.Invalid, "channel_token_short", "the token of a webhook has fewer than 16 characters").WithHint("make one with: openssl rand -hex 32")
	}
	return &Channel{o: o, base: base, now: time.Now, signed: map[string]time.Time{}}, rest.Known(o)
}

// Sign returns the signature of a body.
func Sign(token string, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte(t + "."))
	m.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(m.Sum(nil))
}

// Check implements channel.Channel.
func (c *Channel) Check(ctx context.Context) (string, error) {
	if _, err := c.post(ctx, Post{}); err != nil {
		return "", err
	}
	u, err := url.Parse(c.base)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// Run implements channel.Channel. There is no connection to lose: Run only makes sure at its beginning that
// the program is there and takes the token.
func (c *Channel) Run(ctx context.Context, connected func(), receive func(context.Context, []channel.Update) error) error {
	if _, err := c.Check(ctx); err != nil {
		return err
	}
	failed := make(chan error, 1)
	c.mu.Lock()
	c.receive = func(ctx context.Context, list []channel.Update) error {
		err := receive(ctx, list)
		if err != nil && ctx.Err() == nil {
			select {
			case failed <- err:
			default:
			}
		}
		return err
	}
	c.mu.Unlock()
	connected()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	c.receive = nil
	c.mu.Unlock()
	c.busy.Wait()
	return err
}

// ServeHTTP takes an event.
func (c *Channel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "post an event", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEvent))
	if err != nil {
		http.Error(w, "the event cannot be read, or is too long", http.StatusRequestEntityTooLarge)
		return
	}
	signature, why := c.verify(r.Header.Get(SignatureHeader), body)
	if why != "" {
		http.Error(w, why, http.StatusUnauthorized)
		return
	}
	u, why := event(body)
	if why != "" {
		http.Error(w, why, http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	receive := c.receive
	if receive != nil {
		c.busy.Add(1)
	}
	c.mu.Unlock()
	if receive == nil {
		http.Error(w, "Steward is not receiving now; try again", http.StatusServiceUnavailable)
		return
	}
	defer c.busy.Done()
	if c.remember(signature) {
		http.Error(w, "this signature was used before; sign again", http.StatusConflict)
		return
	}
	if err := receive(r.Context(), []channel.Update{u}); err != nil {
		c.forget(signature)
		c.o.Log.Warn("an event was not recorded", "error", err)
		http.Error(w, "the event could not be recorded; try again", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// verify checks a signature, and returns what it is remembered by, or why it is refused.
func (c *Channel) verify(header string, body []byte) (signature, why string) {
	const refused = "the signature is missing or wrong"
	var at int64
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return "", refused
			}
			at = n
		case "v1":
			signature = value
		}
	}
	_, want, _ := strings.Cut(Sign(c.o.Token, time.Unix(at, 0), body), "v1=")
	if !hmac.Equal([]byte(strings.ToLower(signature)), []byte(want)) {
		return "", refused
	}
	if d := c.now().Sub(time.Unix(at, 0)); d > maxSkew || d < -maxSkew {
		return "", "the signature is too old, or the clocks differ"
	}
	return want, ""
}

// remember reports whether a signature was accepted before, and notes it. When too many are remembered it
// refuses all: whoever has the token posts hundreds in a second.
func (c *Channel) remember(signature string) (known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.old) > maxSkew {
		for s, at := range c.signed {
			if now.Sub(at) > 2*maxSkew { // its time is outside of the window
				delete(c.signed, s)
			}
		}
		c.old = now
	}
	if _, known = c.signed[signature]; known || len(c.signed) >= maxSigned {
		return true
	}
	c.signed[signature] = now
	return false
}

func (c *Channel) forget(signature string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.signed, signature)
}

// event reads an event, or says why it is none.
func event(body []byte) (u channel.Update, why string) {
	var e Event
	if err := json.Unmarshal(body, &e); err != nil {
		return u, "the event is not JSON of the documented form"
	}
	if e.Kind == "" {
		e.Kind = channel.Message
	}
	switch {
	case e.ID == "" || e.Chat == "" || e.From.ID == "":
		return u, "an event needs id, chat and from.id"
	case e.Kind != channel.Message && e.Kind != channel.Edited && e.Kind != channel.Press:
		return u, "the kind of an event is message, edited or press"
	}
	u = channel.Update{ID: e.ID, Kind: e.Kind, At: e.At, Address: channel.Address{Chat: e.Chat, Thread: e.Thread}, From: channel.Sender(e.From),
		Group: e.Group, Title: e.Title, Addressed: e.To || !e.Group, Message: e.Message, ReplyTo: e.ReplyTo, Text: e.Text, Button: e.Button, Forwarded: e.Wrote}
	for _, f := range e.Files {
		u.Attachments = append(u.Attachments, channel.Attachment{Ref: f.URL, Name: f.Name, MediaType: f.MediaType, Size: f.Size, Voice: f.Voice})
	}
	return u, ""
}

// Send implements channel.Channel.
func (c *Channel) Send(ctx context.Context, m channel.Outgoing) (string, error) {
	p := Post{Key: m.Key, Chat: m.At.Chat, Thread: m.At.Thread, ReplyTo: m.ReplyTo, Text: m.Text, Silent: m.Silent}
	for _, b := range m.Buttons {
		p.Buttons = append(p.Buttons, Button(b))
	}
	for _, a := range m.Attachments {
		if len(a.Data) > maxAttachment {
			return "", channel.Rejected(service, fmt.Sprintf("an attachment has more than %d MB", maxAttachment>>20))
		}
		p.Files = append(p.Files, File{Name: a.Name, MediaType: a.MediaType, Size: int64(len(a.Data)), Voice: a.Voice, Data: a.Data})
	}
	answer, err := c.post(ctx, p)
	if err != nil {
		return "", err
	}
	var said struct {
		Message string `json:"message"`
	}
	if len(answer) > 0 && json.Unmarshal(answer, &said) != nil || said.Message == "" {
		said.Message = m.Key // the program has it, and gives it no name
	}
	return said.Message, nil
}

// post posts something, and returns the answer.
func (c *Channel) post(ctx context.Context, p Post) ([]byte, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base, bytes.NewReader(body))
	if err != nil {
		return nil, channel.Rejected(service, err.Error())
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(SignatureHeader, Sign(c.o.Token, c.now(), body))
	if p.Key != "" {
		r.Header.Set("Idempotency-Key", p.Key)
	}
	a, err := rest.Do(c.o.Client, service, r, maxAnswer)
	if err != nil {
		return nil, err
	}
	switch {
	case a.Status >= 200 && a.Status < 300:
		return a.Body, nil
	case a.Status == http.StatusTooManyRequests:
		return nil, channel.Limited(service, rest.RetryAfter(a.Header, time.Second))
	case a.Status == http.StatusUnauthorized || a.Status == http.StatusForbidden:
		return nil, channel.Unauthorized(service, http.StatusText(a.Status))
	case a.Status >= 400 && a.Status < 500:
		return nil, channel.Rejected(service, http.StatusText(a.Status))
	}
	return nil, channel.Uncertain(service, fmt.Errorf("it answers %d", a.Status))
}

// Edit implements channel.Channel.
func (c *Channel) Edit(context.Context, channel.Address, string, channel.Outgoing) error {
	return channel.Unsupported(service, "change messages")
}

// Typing implements channel.Channel.
func (c *Channel) Typing(ctx context.Context, at channel.Address) error {
	_, err := c.post(ctx, Post{Chat: at.Chat, Thread: at.Thread, Typing: true})
	return err
}

// Fetch implements channel.Channel. It fetches only from the host to which Steward posts: an event must not
// make Steward read other servers.
func (c *Channel) Fetch(ctx context.Context, a channel.Attachment) (io.ReadCloser, error) {
	u, err := url.Parse(a.Ref)
	own, _ := url.Parse(c.base)
	if err != nil || u.Host != own.Host || u.Scheme != own.Scheme || u.User != nil {
		return nil, fault.New(fault.Denied, "attachment_elsewhere", "the attachment is not at %s", own.Host).WithHint("serve attachments at the host of base_url")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Ref, nil)
	if err != nil {
		return nil, channel.Rejected(service, err.Error())
	}
	r.Header.Set(SignatureHeader, Sign(c.o.Token, c.now(), nil))
	return rest.Open(c.o.Client, service, r, maxAttachment)
}

// Render implements channel.Channel. The program is sent plain text.
func (c *Channel) Render(markdown string) []string {
	return markup.Dialect{Limit: maxText, Run: func(r markup.Run, _, _ rune) string {
		if r.Link != "" && r.Link != r.Text {
			return r.Text + " (" + r.Link + ")"
		}
		return r.Text
	}, Code: func(_, code string) string { return "```\n" + code + "\n```" }, Quote: func(inner string) string {
		return "> " + strings.ReplaceAll(inner, "\n", "\n> ")
	}}.Render(markdown)
}

// Limits implements channel.Channel.
func (c *Channel) Limits() channel.Limits {
	return channel.Limits{Text: maxText, Buttons: 3, Attachment: maxAttachment, Repeatable: true}
}
