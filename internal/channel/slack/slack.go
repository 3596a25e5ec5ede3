// Package slack is the channel of a Slack app, over Socket Mode and the Web API.
//
// # Receiving
//
// Slack sends envelopes over a WebSocket and expects each to be acknowledged; one that is not acknowledged
// is sent again, a few times within some minutes, and then given up. Run acknowledges an envelope after
// receive has accepted what is in it.
//
// What happens while Steward is offline for longer is nowhere but in the conversations themselves. Run
// therefore remembers the time of the last message that was accepted, in a file, and after each connection
// asks the conversations that the app is a member of for what is newer (catchup.go). A message has the same
// ID in both ways, that of its conversation and its time, so receive ignores what it knows. A button that is
// pressed while Steward is offline is lost; Slack tells the person so.
//
// # Sending
//
// The Web API recognizes no message that is sent twice, so a request without an answer is uncertain. Files
// are uploaded first, which nobody sees; then the text is posted, and then the files are shown below it.
package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"steward/internal/channel"
	"steward/internal/channel/rest"
	"steward/internal/fault"
)

const (
	service = "Slack"
	public  = "https://slack.com/api"

	callLimit   = 30 * time.Second
	uploadLimit = 5 * time.Minute
	maxAnswer   = 8 << 20
	maxFile     = 20 << 20
)

type adapter struct {
	base, token, appToken string
	own                   string // the host of a BaseURL; empty: Slack's own hosts
	client                *http.Client
	log                   *slog.Logger
	position              *position
	me                    atomic.Pointer[account]
}

// account is the app's user.
type account struct {
	User string `json:"user_id"`
	Bot  string `json:"bot_id"`
	Name string `json:"user"`
	Team string `json:"team"`
}

// New returns the channel of an app. It has two tokens: the bot token (xoxb-…), and the app-level token
// (xapp-…) with the scope connections:write. Options.Token holds both, with a space between them, so that
// both are kept as one secret; or the setting app_token holds the second one.
func New(o channel.Options) (channel.Channel, error) {
	if err := rest.Known(o, "app_token"); err != nil {
		return nil, err
	}
	var bot, app string
	for _, token := range strings.FieldsFunc(o.Token+" "+o.Settings["app_token"], func(r rune) bool { return unicode.IsSpace(r) || r == ',' }) {
		switch {
		case strings.HasPrefix(token, "xoxb-") && bot == "":
			bot = token
		case strings.HasPrefix(token, "xapp-") && app == "":
			app = token
		default:
			return nil, fault.New(fault.Invalid, "channel_token_form", "these are not the two tokens of a Slack app").
				WithHint("one begins with xoxb- and one with xapp-; write both, with a space between them")
		}
	}
	switch {
	case bot == "":
		return nil, fault.New(fault.Invalid, "channel_token_form", "the bot token of the Slack app is missing").
			WithHint("take the Bot User OAuth Token, which begins with xoxb-, from OAuth & Permissions of your app, and write it before the other one, with a space between them")
	case app == "":
		return nil, fault.New(fault.Invalid, "channel_token_form", "the app-level token of the Slack app is missing").
			WithHint("create one with the scope connections:write under Basic Information of your app, and write it behind the other one, with a space between them; it begins with xapp-")
	}
	base, err := rest.Base(o, public)
	if err != nil {
		return nil, err
	}
	a := &adapter{base: base, token: bot, appToken: app, client: o.Client, log: o.Log, position: &position{}}
	if o.BaseURL != "" {
		u, err := url.Parse(base)
		if err != nil {
			return nil, err
		}
		a.own = u.Host
	}
	a.position.state = o.State
	if o.Dir != "" {
		a.position.file = filepath.Join(o.Dir, "position.json")
	}
	return a, nil
}

func (a *adapter) Limits() channel.Limits {
	return channel.Limits{
		Text:      maxText,
		SendEvery: time.Second,             // chat.postMessage: one message a second in one conversation
		EditEvery: 1200 * time.Millisecond, // chat.update: 50 a minute
		Buttons:   5, Attachment: maxFile,
	}
}

func (a *adapter) Check(ctx context.Context) (string, error) {
	me, err := a.whoAmI(ctx)
	if err != nil {
		return "", err
	}
	if _, err := a.open(ctx); err != nil { // the other token
		return "", err
	}
	return "@" + me.Name + " in " + me.Team, nil
}

func (a *adapter) whoAmI(ctx context.Context) (*account, error) {
	var me account
	if err := a.call(ctx, "auth.test", nil, &me); err != nil {
		return nil, err
	}
	if me.User == "" {
		return nil, fault.New(fault.Unavailable, "channel_answer", "%s does not say who the app is", service)
	}
	a.me.Store(&me)
	return &me, nil
}

// open returns the address of a WebSocket.
func (a *adapter) open(ctx context.Context) (string, error) {
	var out struct {
		URL string `json:"url"`
	}
	if err := a.post(ctx, "apps.connections.open", a.appToken, "application/x-www-form-urlencoded", nil, &out); err != nil {
		return "", err
	}
	if !a.ours(out.URL) {
		return "", fault.New(fault.Unavailable, "channel_answer", "%s does not say where to connect", service)
	}
	return out.URL, nil
}

// ours reports whether an address belongs to Slack, or to the server that stands for it: only there do
// tokens and files go.
func (a *adapter) ours(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil {
		return false
	}
	if a.own != "" && u.Host == a.own {
		return true
	}
	host := strings.ToLower(u.Hostname())
	secure := u.Scheme == "https" || u.Scheme == "wss"
	for _, domain := range []string{"slack.com", "slack-gov.com", "slack-files.com"} {
		if secure && (host == domain || strings.HasSuffix(host, "."+domain)) {
			return true
		}
	}
	return false
}

// call calls a method of the Web API with the arguments as a form, which every method accepts.
func (a *adapter) call(ctx context.Context, method string, args url.Values, result any) error {
	return a.post(ctx, method, a.token, "application/x-www-form-urlencoded", []byte(args.Encode()), result)
}

// callJSON calls one of the methods that take JSON.
func (a *adapter) callJSON(ctx context.Context, method string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	return a.post(ctx, method, a.token, "application/json; charset=utf-8", body, result)
}

func (a *adapter) post(ctx context.Context, method, token, contentType string, body []byte, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", contentType)
	answer, err := rest.Do(a.client, service, r, maxAnswer)
	if err != nil {
		return err
	}
	return decode(method, answer, result)
}

// decode reads an answer. Errors of the Web API come with the status 200, but for rate limits.
func decode(method string, answer rest.Answer, result any) error {
	var in struct {
		OK     bool   `json:"ok"`
		Error  string `json:"error"`
		Needed string `json:"needed"`
	}
	if answer.Status == http.StatusTooManyRequests {
		return channel.Limited(service, rest.RetryAfter(answer.Header, 30*time.Second))
	}
	if err := json.Unmarshal(answer.Body, &in); err != nil || answer.Cut || !in.OK && in.Error == "" {
		return channel.Uncertain(service, fault.New(fault.Unavailable, "channel_answer", "the answer with status %d is not one of the Web API", answer.Status))
	}
	if in.OK {
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(answer.Body, result); err != nil {
			return channel.Uncertain(service, fault.New(fault.Unavailable, "channel_answer", "the answer cannot be read"))
		}
		return nil
	}
	if len(in.Error) > 100 {
		in.Error = strings.ToValidUTF8(in.Error[:100], "")
	}
	switch in.Error {
	case "ratelimited", "rate_limited":
		return channel.Limited(service, rest.RetryAfter(answer.Header, 30*time.Second))
	case "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired", "not_allowed_token_type", "no_permission":
		return channel.Unauthorized(service, in.Error)
	case "internal_error", "fatal_error", "request_timeout", "service_unavailable", "team_added_to_org", "accesslimited":
		// Slack's reference says of some that a part of the operation may have succeeded.
		return channel.Uncertain(service, errors.New(in.Error))
	case "missing_scope":
		return fault.New(fault.Denied, "channel_scope", "the Slack app lacks the scope %s for %s", in.Needed, method).
			WithHint("add the scope under OAuth & Permissions of your app and install it again")
	}
	return channel.Rejected(service, in.Error)
}

// Typing does nothing: the Web API lets an app show that it writes only in the threads of its assistant.
func (a *adapter) Typing(context.Context, channel.Address) error { return nil }

func (a *adapter) Fetch(ctx context.Context, at channel.Attachment) (io.ReadCloser, error) {
	var out struct {
		File file `json:"file"`
	}
	if err := a.call(ctx, "files.info", url.Values{"file": {at.Ref}}, &out); err != nil {
		return nil, err
	}
	from := out.File.Download
	if from == "" {
		from = out.File.URL
	}
	// A file of another service ("external") has an address there, to which the token must not go.
	if !a.ours(from) {
		return nil, fault.New(fault.Unsupported, "attachment_elsewhere", "the attachment is not stored at %s", service).
			WithHint("ask its sender to upload it to Slack")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	return rest.Open(a.client, service, r, maxFile)
}
