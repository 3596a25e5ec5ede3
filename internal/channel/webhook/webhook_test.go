package webhook_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/webhook"
	"steward/internal/fault"
	_ "steward/test/seed"
)

func TestContract(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Service { return newProgram(t) })
}

const token = "0123456789abcdef0123456789abcdef"

// program is a program as docs/guides/messengers.md describes it: it posts events until they are accepted,
// and shows what it is posted, once for each key.
type program struct {
	*channeltest.Server
	in     *channeltest.Server // where Steward listens
	faults channeltest.Faults

	mu      sync.Mutex
	revoked bool
	current *webhook.Channel
	events  []map[string]any // all, in order
	next    int              // that is posted next
	hostile [][]byte
	grown   chan struct{}
	n       int
	skew    int64 // makes every signature another one
	chats   map[string][]channeltest.Post
	keys    map[string]string // the IDs of what was posted
	typing  map[string]int
	files   map[string][]byte
	mine    map[string]bool // messages of the account
}

func newProgram(t *testing.T) *program {
	p := &program{grown: make(chan struct{}, 1), chats: map[string][]channeltest.Post{}, keys: map[string]string{}, typing: map[string]int{}, files: map[string][]byte{}, mine: map[string]bool{}}
	p.Server = channeltest.NewServer(t, http.HandlerFunc(p.serve))
	p.in = channeltest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		c := p.current
		p.mu.Unlock()
		c.ServeHTTP(w, r)
	}))
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		p.deliver(done)
	}()
	t.Cleanup(func() { close(done); <-ended })
	return p
}

func (p *program) Traits() channeltest.Traits { return channeltest.Traits{} }

func (p *program) Channel() channel.Channel {
	c, err := webhook.New(channel.Options{Token: token, BaseURL: p.URL + "/steward", Client: p.Client(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = c
	return c
}

func (p *program) Drop()                                { p.Server.Drop(); p.in.Drop() }
func (p *program) Offline(is bool)                      { p.Server.Offline(is); p.in.Offline(is) }
func (p *program) LimitNext(n int, pause time.Duration) { p.faults.Limit(n, int(pause/time.Second)) }
func (p *program) SwallowNext(n int)                    { p.faults.Swallow(n) }
func (p *program) RefuseNext(n int)                     { p.faults.Refuse(n) }
func (p *program) Revoke()                              { p.mu.Lock(); p.revoked = true; p.mu.Unlock() }
func (p *program) Redeliver()                           { p.mu.Lock(); p.next = 0; p.mu.Unlock(); p.wake() }

func (p *program) wake() {
	select {
	case p.grown <- struct{}{}:
	default:
	}
}

// sign makes the header of the documentation. Each is another one.
func (p *program) sign(body []byte) string {
	p.mu.Lock()
	p.skew++
	at := strconv.FormatInt(time.Now().Unix()-p.skew%200, 10)
	p.mu.Unlock()
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte(at))
	m.Write([]byte("."))
	m.Write(body)
	return "t=" + at + ",v1=" + hex.EncodeToString(m.Sum(nil))
}

// deliver posts events one after the other, each until it is accepted.
func (p *program) deliver(done chan struct{}) {
	for {
		p.mu.Lock()
		var body []byte
		hostile := len(p.hostile) > 0
		if hostile {
			body, p.hostile = p.hostile[0], p.hostile[1:]
		} else if p.next < len(p.events) {
			body, _ = json.Marshal(p.events[p.next])
		}
		at := p.next
		p.mu.Unlock()
		if body == nil {
			select {
			case <-p.grown:
				continue
			case <-done:
				return
			}
		}
		if p.post(body) || hostile {
			p.mu.Lock()
			if p.next == at && !hostile {
				p.next++
			}
			p.mu.Unlock()
			continue
		}
		select {
		case <-time.After(3 * time.Millisecond):
		case <-done:
			return
		}
	}
}

func (p *program) post(body []byte) bool {
	r, err := http.NewRequest(http.MethodPost, p.in.URL+"/channels/door", bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	r.Header.Set("X-Steward-Signature", p.sign(body))
	resp, err := p.in.Client().Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusNoContent
}

func (p *program) add(e map[string]any) {
	p.mu.Lock()
	p.n++
	e["id"] = fmt.Sprint("e", p.n)
	e["at"] = time.Now().UTC()
	p.events = append(p.events, e)
	p.mu.Unlock()
	p.wake()
}

func (p *program) Say(m channeltest.Message) string {
	p.mu.Lock()
	id := fmt.Sprint("said", len(p.events))
	e := map[string]any{"chat": m.Chat, "thread": m.Thread, "from": map[string]any{"id": m.From, "name": "Person " + m.From}, "group": m.Group,
		"addressed": m.Mention || p.mine[m.ReplyTo], "message": id, "reply_to": m.ReplyTo, "text": m.Text}
	var files []map[string]any
	for _, f := range m.Files {
		at := fmt.Sprint("/files/", len(p.files))
		p.files[at] = f.Data
		files = append(files, map[string]any{"url": p.URL + at, "name": f.Name, "media_type": f.MediaType, "size": len(f.Data), "voice": f.Voice})
	}
	e["attachments"] = files
	p.mu.Unlock()
	p.add(e)
	return id
}

func (p *program) Change(chat, message, text string) {
	p.add(map[string]any{"kind": "edited", "chat": chat, "from": map[string]any{"id": "1001"}, "message": message, "text": text})
}

func (p *program) Press(from, chat, message, data string) {
	p.add(map[string]any{"kind": "press", "chat": chat, "from": map[string]any{"id": from}, "message": message, "button": data})
}

func (p *program) Posted(chat string) []channeltest.Post {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]channeltest.Post(nil), p.chats[chat]...)
}

func (p *program) Typing(chat string) int { p.mu.Lock(); defer p.mu.Unlock(); return p.typing[chat] }

func (p *program) Hostile() {
	p.mu.Lock()
	p.hostile = append(p.hostile, []byte("no JSON"), []byte(`{}`), []byte(`[]`), []byte(`{"id":1}`), []byte(`{"id":"x","chat":"1001"}`),
		[]byte(`{"id":"x","chat":"1001","from":{"id":"1001"},"kind":"explode"}`), bytes.Repeat([]byte("["), 2<<20))
	p.mu.Unlock()
	p.wake()
}

func (p *program) Shown(text string) (channeltest.Shown, error) {
	if utf8.RuneCountInString(text) > 4000 {
		return channeltest.Shown{}, errors.New("it is too long")
	}
	s := channeltest.Shown{}
	var code []string
	inside := false
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "```" && inside:
			s.Code = append(s.Code, strings.Join(code, "\n"))
			inside, code = false, nil
		case line == "```":
			inside = true
		default:
			if s.Text += line + "\n"; inside {
				code = append(code, line)
			}
		}
	}
	return s, nil
}

// serve is what the program does with a post.
func (p *program) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	want := r.Header.Get("X-Steward-Signature")
	at, _, _ := strings.Cut(strings.TrimPrefix(want, "t="), ",")
	m := hmac.New(sha256.New, []byte(token))
	m.Write([]byte(at + "."))
	m.Write(body)
	p.mu.Lock()
	revoked := p.revoked
	p.mu.Unlock()
	if want != "t="+at+",v1="+hex.EncodeToString(m.Sum(nil)) || revoked {
		http.Error(w, "wrong signature", http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		p.mu.Lock()
		data := p.files[r.URL.Path]
		p.mu.Unlock()
		w.Write(data)
		return
	}
	var x struct {
		Key, Chat, Thread, Text string
		ReplyTo                 string `json:"reply_to"`
		Typing                  bool
		Buttons                 []channel.Button
		Attachments             []struct {
			Name      string
			MediaType string `json:"media_type"`
			Voice     bool
			Data      []byte
		}
	}
	if json.Unmarshal(body, &x) != nil || x.Key != r.Header.Get("Idempotency-Key") {
		http.Error(w, "no post", http.StatusBadRequest)
		return
	}
	if x.Typing || x.Key == "" {
		p.mu.Lock()
		p.typing[x.Chat]++
		p.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
		return
	}
	pause, refuse, swallow := p.faults.Next()
	switch {
	case pause > 0:
		w.Header().Set("Retry-After", strconv.Itoa(pause))
		http.Error(w, "slowly", http.StatusTooManyRequests)
		return
	case refuse:
		http.Error(w, "no", http.StatusGone)
		return
	}
	p.mu.Lock()
	id, known := p.keys[x.Key]
	if !known {
		id = fmt.Sprint("post", len(p.keys))
		p.keys[x.Key], p.mine[id] = id, true
		post := channeltest.Post{ID: id, Thread: x.Thread, ReplyTo: x.ReplyTo, Text: x.Text, Buttons: x.Buttons}
		for _, f := range x.Attachments {
			post.Files = append(post.Files, channeltest.File{Name: f.Name, MediaType: f.MediaType, Voice: f.Voice, Data: f.Data})
		}
		p.chats[x.Chat] = append(p.chats[x.Chat], post)
	}
	p.mu.Unlock()
	if swallow {
		panic(http.ErrAbortHandler)
	}
	json.NewEncoder(w).Encode(map[string]string{"message": id})
}

func newChannel(t *testing.T) *webhook.Channel {
	t.Helper()
	c, err := webhook.New(channel.Options{Token: token, BaseURL: "https://door.example/x", Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOptions(t *testing.T) {
	for _, o := range []channel.Options{{Token: token}, {Token: "short", BaseURL: "https://door.example"}, {Token: token, BaseURL: "door"},
		{Token: token, BaseURL: "https://door.example", Settings: map[string]string{"colour": "red"}}} {
		if _, err := webhook.New(o); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestAttachmentsElsewhereAreNotFetched(t *testing.T) {
	c := newChannel(t)
	for _, ref := range []string{"https://169.254.169.254/x", "http://door.example/x", "file:///etc/passwd", "https://a@door.example/x", "%"} {
		if _, err := c.Fetch(t.Context(), channel.Attachment{Ref: ref}); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", ref, err)
		}
	}
}
