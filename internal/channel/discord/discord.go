// Package discord is the channel to people on Discord, by its gateway and its HTTP API, version 10
// (https://discord.com/developers/docs).
//
// # Receiving
//
// The gateway is a WebSocket on which the service sends numbered events. Nothing is acknowledged on it, but
// a connection that is lost can be resumed at the number of the last event that was handled, and what came
// after that is sent again. The number advances only after receive has accepted the event, and Options.Dir
// keeps it, so it holds across a restart too. If the service no longer knows the session, a new one begins,
// and each channel that has been written in is asked for the messages after the last one that was accepted.
// What a person writes first in a new private chat while no session exists is beyond reach: a bot cannot
// list its private chats.
//
// The press of a button is answered, which ends its waiting, as soon as receive has accepted it. Discord
// gives three seconds for that.
//
// Steward does not ask for the privileged intent "message content". Without it the service hands over what
// is written in private chats and what mentions the account, and the texts of all else are empty. Messages
// without a text and a file are dropped.
//
// # Sending
//
// A message carries a nonce that derives from Outgoing.Key, by which the service recognizes a repeated
// request, but only for a few minutes. That is not enough to try an uncertain message again later, so it
// counts as not repeatable. Nobody is notified by what is in a text (allowed_mentions), and links are not
// followed by the service to show a preview.
package discord

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/markup"
	"steward/internal/channel/rest"
	"steward/internal/channel/wire"
	"steward/internal/fault"
)

// DefaultURL is where the service is.
const DefaultURL = "https://discord.com"

const (
	service       = "discord"
	maxText       = 2000
	maxButtons    = 25       // five rows of five
	maxLabel      = 80       // characters
	maxAttachment = 10 << 20 // what an account without a subscription may upload
	maxAnswer     = 16 << 20 // bytes of an answer, and of an event
	timeout       = time.Minute
	uploadTimeout = 5 * time.Minute
)

// Flags of a message.
const (
	suppressEmbeds        = 1 << 2
	suppressNotifications = 1 << 12
	isVoiceMessage        = 1 << 13
)

// Discord is an account of a bot.
type Discord struct {
	opt  channel.Options
	base string // without a slash at the end
	cdn  []string

	mu    sync.Mutex
	known map[string]room
	stuck int    // connections in a row that did not get beyond
	at    uint64 // this event
}

// New makes the channel of an account.
func New(o channel.Options) (channel.Channel, error) {
	base, err := rest.Base(o, DefaultURL)
	if err == nil {
		err = rest.Known(o)
	}
	if err != nil {
		return nil, err
	}
	host, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	token := strings.TrimPrefix(strings.TrimSpace(o.Token), "Bot ")
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.New(fault.Invalid, "channel_setting", "the token is missing or has other characters than a token").
			WithHint("copy it from the page Bot of your application at https://discord.com/developers/applications")
	}
	o.Token = token
	return &Discord{opt: o, base: base, known: map[string]room{},
		cdn: []string{"cdn.discordapp.com", "media.discordapp.net", host.Host}}, nil
}

// Limits implements channel.Channel. The service lets an account post and edit some five times in five
// seconds in one channel, and says so with each answer.
func (d *Discord) Limits() channel.Limits {
	return channel.Limits{Text: maxText, SendEvery: time.Second, EditEvery: 1500 * time.Millisecond, Buttons: maxButtons, Attachment: maxAttachment}
}

// Check implements channel.Channel.
func (d *Discord) Check(ctx context.Context) (string, error) {
	me, err := d.me(ctx)
	return "@" + me.Username, err
}

func (d *Discord) me(ctx context.Context) (u user, err error) {
	if err := d.get(ctx, "/users/@me", &u); err != nil {
		return u, err
	}
	if u.ID == "" {
		return u, channel.Unreachable(service, errors.New("the answer names no account"))
	}
	return u, nil
}

// refusal is an answer that is not 2xx.
type refusal struct {
	status int
	pause  time.Duration
	why    string
}

func (r refusal) Error() string { return fmt.Sprintf("%d %s", r.status, r.why) }

// coded returns the coded error of an answer that says that nothing was done, or nil if it leaves that open.
func (r refusal) coded() error {
	switch {
	case r.status == http.StatusTooManyRequests:
		return channel.Limited(service, r.pause)
	case r.status == http.StatusUnauthorized:
		return channel.Unauthorized(service, r.why)
	case r.status >= 400 && r.status < 500 && r.status != http.StatusRequestTimeout:
		return channel.Rejected(service, r.why)
	}
	return nil
}

// call makes a request of the API. An answer that is not 2xx is a refusal.
func (d *Discord) call(ctx context.Context, method, path, media string, body []byte, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, d.base+"/api/v10"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bot "+d.opt.Token)
	req.Header.Set("User-Agent", "DiscordBot (steward, 1.0)")
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	answer, err := rest.Do(d.opt.Client, service, req, maxAnswer)
	switch {
	case answer.Status == 0: // there was none
		return err
	case answer.Status < 200 || answer.Status > 299:
		return refused(answer)
	case err != nil || out == nil:
		return err
	}
	return json.Unmarshal(answer.Body, out)
}

// refused reads an answer that is not 2xx.
func refused(a rest.Answer) refusal {
	r := refusal{status: a.Status, why: http.StatusText(a.Status), pause: rest.RetryAfter(a.Header, 5*time.Second)}
	var said struct {
		Message    string  `json:"message"`
		RetryAfter float64 `json:"retry_after"` // more exact than the header
	}
	if json.Unmarshal(a.Body, &said) == nil {
		if said.Message != "" {
			r.why = wire.Line(said.Message)
		}
		if said.RetryAfter > 0 {
			r.pause = time.Duration(min(said.RetryAfter, 86_400) * float64(time.Second)).Round(time.Millisecond)
		}
	}
	return r
}

// get reads something. It posts nothing, so a failure is never uncertain.
func (d *Discord) get(ctx context.Context, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return failed(d.call(ctx, http.MethodGet, path, "", nil, out))
}

// failed returns the coded error of a request that posts nothing.
func failed(err error) error {
	var r refusal
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &r):
		return channel.Unreachable(service, err)
	case r.status == http.StatusUnauthorized || r.status == http.StatusTooManyRequests:
		return r.coded()
	case r.status == http.StatusForbidden || r.status == http.StatusNotFound:
		return fault.New(fault.NotFound, "channel_gone", "%s answers: %w", service, r)
	}
	return fault.New(fault.Unavailable, "channel_unavailable", "%s answers: %w", service, r)
}

// post makes a request that posts or changes a message, and returns the message's ID.
func (d *Discord) post(ctx context.Context, method, path, media string, body []byte) (string, error) {
	var posted message
	err := d.call(ctx, method, path, media, body, &posted)
	var r refusal
	switch {
	case err == nil && posted.ID != "":
		return posted.ID, nil
	case errors.As(err, &r):
		if coded := r.coded(); coded != nil {
			return "", coded
		}
	case fault.HasCode(err, "channel_unreachable"), fault.HasCode(err, "channel_uncertain"):
		return "", err
	}
	return "", channel.Uncertain(service, cmp.Or(err, errors.New("the answer names no message")))
}

type object = map[string]any

// content returns what Send and Edit have in common.
func content(out channel.Outgoing) object {
	flags := suppressEmbeds
	if out.Silent {
		flags |= suppressNotifications
	}
	rows := []object{}
	for row := range slices.Chunk(out.Buttons[:min(len(out.Buttons), maxButtons)], 5) {
		var buttons []object
		for _, b := range row {
			label := []rune(wire.Line(b.Label))
			buttons = append(buttons, object{"type": 2, "style": 2, "label": string(label[:min(len(label), maxLabel)]), "custom_id": b.Data})
		}
		rows = append(rows, object{"type": 1, "components": buttons})
	}
	return object{"content": out.Text, "flags": flags, "components": rows, "allowed_mentions": object{"parse": []string{}, "replied_user": true}}
}

// place is the ID of the channel of the API: a thread is a channel of its own.
func place(at channel.Address) string { return url.PathEscape(cmp.Or(at.Thread, at.Chat)) }

// Send implements channel.Channel.
func (d *Discord) Send(ctx context.Context, out channel.Outgoing) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTimeout)
	defer cancel()
	payload := content(out)
	payload["nonce"], payload["enforce_nonce"] = wire.Key(out.Key), true
	if out.ReplyTo != "" {
		payload["message_reference"] = object{"message_id": out.ReplyTo, "fail_if_not_exists": false}
	}
	var list []object
	size := 0
	for i, a := range out.Attachments {
		if size += len(a.Data); size > maxAttachment {
			return "", channel.Rejected(service, "the files are larger than 10 MB")
		}
		list = append(list, object{"id": i, "filename": cmp.Or(wire.Line(a.Name), "file")})
	}
	if len(list) == 0 {
		body, err := json.Marshal(payload)
		if err != nil {
			return "", channel.Rejected(service, err.Error())
		}
		return d.post(ctx, http.MethodPost, "/channels/"+place(out.At)+"/messages", "application/json", body)
	}
	payload["attachments"] = list
	media, body, err := form(payload, out.Attachments)
	if err != nil {
		return "", channel.Rejected(service, err.Error())
	}
	return d.post(ctx, http.MethodPost, "/channels/"+place(out.At)+"/messages", media, body)
}

// form encodes a message with files (Uploading Files in the API's reference).
func form(payload object, files []channel.Attachment) (media string, body []byte, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part := func(disposition, media string, data []byte) error {
		p, err := w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {media}})
		if err == nil {
			_, err = p.Write(data)
		}
		return err
	}
	js, err := json.Marshal(payload)
	if err == nil {
		err = part(`form-data; name="payload_json"`, "application/json", js)
	}
	for i, f := range files {
		name := strings.NewReplacer(`\`, "_", `"`, "_").Replace(cmp.Or(wire.Line(f.Name), "file"))
		media := f.MediaType
		if media == "" || strings.ContainsAny(media, "\r\n") {
			media = "application/octet-stream"
		}
		err = errors.Join(err, part(fmt.Sprintf(`form-data; name="files[%d]"; filename="%s"`, i, name), media, f.Data))
	}
	err = errors.Join(err, w.Close())
	return w.FormDataContentType(), b.Bytes(), err
}

// Edit implements channel.Channel.
func (d *Discord) Edit(ctx context.Context, at channel.Address, message string, out channel.Outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	payload := content(out)
	payload["flags"] = suppressEmbeds
	body, err := json.Marshal(payload)
	if err != nil {
		return channel.Rejected(service, err.Error())
	}
	_, err = d.post(ctx, http.MethodPatch, "/channels/"+place(at)+"/messages/"+url.PathEscape(message), "application/json", body)
	return err
}

// Typing implements channel.Channel.
func (d *Discord) Typing(ctx context.Context, at channel.Address) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return failed(d.call(ctx, http.MethodPost, "/channels/"+place(at)+"/typing", "", nil, nil))
}

// Fetch implements channel.Channel. Ref is the address of the file, at the service's own hosts only. It is
// signed, so it needs no token.
func (d *Discord) Fetch(ctx context.Context, a channel.Attachment) (io.ReadCloser, error) {
	u, err := url.Parse(a.Ref)
	if err != nil || !slices.Contains(d.cdn, u.Host) || u.Scheme != "https" && u.Host != d.cdn[2] {
		return nil, channel.Rejected(service, "the address of the file is not Discord's")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Ref, nil)
	if err != nil {
		return nil, channel.Rejected(service, "the address of the file is invalid")
	}
	return rest.Open(d.opt.Client, service, req, maxAttachment)
}

// Render implements channel.Channel.
func (d *Discord) Render(markdown string) []string {
	return markup.Dialect{Limit: maxText, Size: markup.UTF16, Run: run, Code: code, Quote: quote}.Render(markdown)
}
