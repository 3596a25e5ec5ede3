// Package notify sends a user notifications outside of Steward: through ntfy (ntfy.sh or a server of
// the user's own), a webhook or e-mail. Reminders use it, and an agent may, by the tool notify.send. The
// receivers are those of the settings, never ones that a model names.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// Limits of one notification.
const (
	MaxTitle = 200  // characters
	MaxText  = 3500 // bytes; ntfy makes an attachment of more than 4096

	tries     = 3 // per receiver
	firstWait = time.Second
	maxWait   = 10 * time.Second // of one try
)

// Ntfy is where ntfy delivers. See docs.ntfy.sh/publish.
type Ntfy struct {
	URL   string // of the server; empty: https://ntfy.sh
	Topic string // empty: ntfy is not used
	Token func(ctx context.Context) (string, error)
}

// Webhook is a URL that is sent {"title", "text", "user", "time"} as JSON.
type Webhook struct {
	URL   string // empty: it is not used
	Token func(ctx context.Context) (string, error)
}

// Options configure a Notifier. Transport is required.
type Options struct {
	Transport http.RoundTripper // connects only where it is allowed; see egress.Dialer
	Ntfy      Ntfy
	Webhook   Webhook
	Mail      func(ctx context.Context, title, text string) error // sends an e-mail to the user; nil: it is not used
	For       *tool.Audience                                      // whom the receivers belong to; nil: everybody
	Now       func() time.Time
}

// Notifier sends notifications. Safe for concurrent use.
type Notifier struct {
	opt       Options
	receivers []receiver
}

// receiver is a way to the user.
type receiver struct {
	name string
	send func(ctx context.Context, user, title, text string) error
}

// New returns a notifier.
func New(opt Options) *Notifier {
	opt.Ntfy.URL = strings.TrimRight(cmp.Or(opt.Ntfy.URL, "https://ntfy.sh"), "/")
	if opt.Now == nil {
		opt.Now = time.Now
	}
	n := &Notifier{opt: opt}
	if opt.Ntfy.Topic != "" {
		n.receivers = append(n.receivers, receiver{"ntfy", func(ctx context.Context, _, title, text string) error {
			return n.deliver(ctx, opt.Ntfy.URL, opt.Ntfy.Token, map[string]any{"topic": opt.Ntfy.Topic, "title": title, "message": text})
		}})
	}
	if opt.Webhook.URL != "" {
		n.receivers = append(n.receivers, receiver{"webhook", func(ctx context.Context, user, title, text string) error {
			return n.deliver(ctx, opt.Webhook.URL, opt.Webhook.Token, map[string]any{"title": title, "text": text, "user": user, "time": opt.Now().UTC().Format(time.RFC3339)})
		}})
	}
	if opt.Mail != nil {
		n.receivers = append(n.receivers, receiver{"mail", func(ctx context.Context, _, title, text string) error { return opt.Mail(ctx, title, text) }})
	}
	return n
}

// Receivers names the receivers that are set up, for people.
func (n *Notifier) Receivers() (names []string) {
	for _, r := range n.receivers {
		names = append(names, r.name)
	}
	return names
}

// Notify sends a user a notification through every receiver. It fails only if none has taken it; what
// the others answered is then in the error. The end of ctx stops it only until one has taken it.
// Error codes: notify_off, notify_failed.
func (n *Notifier) Notify(ctx context.Context, user, title, text string) error {
	title, text = short(title, text)
	switch {
	case title == "" && text == "":
		return fault.New(fault.Invalid, "notify_empty", "the notification is empty")
	case len(n.receivers) == 0:
		return fault.New(fault.Unavailable, "notify_off", "no way to notify is set up").WithHint("set notify.ntfy.topic, notify.webhook.url or notify.mail in the settings")
	}
	var failures []error
	for _, r := range n.receivers {
		if err := r.send(ctx, user, title, text); err != nil {
			failures = append(failures, err)
			continue
		}
		ctx = context.WithoutCancel(ctx) // the other receivers are not retried later
	}
	if len(failures) < len(n.receivers) {
		return nil
	}
	return fault.New(fault.Unavailable, "notify_failed", "no notification was sent: %w", errors.Join(failures...))
}

// deliver tries a few times, as long as the receiver may only be busy or out of reach.
func (n *Notifier) deliver(ctx context.Context, to string, secret func(context.Context) (string, error), content map[string]any) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	token := ""
	if secret != nil {
		if token, err = secret(ctx); err != nil {
			return err
		}
	}
	for try := 0; ; try++ {
		again, err := n.post(ctx, to, token, body)
		if err == nil || !again || try == tries-1 {
			return err
		}
		select {
		case <-time.After(firstWait << try):
		case <-ctx.Done():
			return err
		}
	}
}

func (n *Notifier) post(ctx context.Context, to, token string, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, say, err := local.Ask(n.opt.Transport, req, 300, "notify_unreachable")
	if err != nil {
		return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Timeout), err
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return false, nil
	}
	return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, fmt.Errorf("%s answers %s: %.300q", req.URL.Host, resp.Status, say)
}

// short bounds a notification, and puts the title on one line.
func short(title, text string) (string, string) {
	title, text = local.Line(title, MaxTitle), strings.TrimSpace(strings.ToValidUTF8(text, ""))
	if len(text) > MaxText {
		text = strings.ToValidUTF8(text[:MaxText-3], "") + "…"
	}
	return title, text
}

type sendArgs struct {
	Title string `json:"title,omitzero" jsonschema:"A few words" maxlen:"200"`
	Text  string `json:"text" jsonschema:"What to tell the user" minlen:"1" maxlen:"3500"`
}

// Add adds the tool send to a kit, which notifies the user who talks to the agent.
func Add(k *local.Kit, n *Notifier) {
	host := ""
	if u, err := url.Parse(cmp.Or(map[bool]string{true: n.opt.Ntfy.URL}[n.opt.Ntfy.Topic != ""], n.opt.Webhook.URL)); err == nil {
		host = u.Host
	}
	local.Action(k, tool.Spec{Name: "send", Yields: message.Private, Reach: tool.ReachOut, Host: host, Timeout: tries*maxWait + 10*time.Second, For: n.opt.For,
		Description: "Sends a notification to the user's own phone or computer. Use it only if the user wants to be notified: the answer in the chat reaches the user anyway.",
		Log:         tool.LogSpec{Summary: "Notify you: [{title}: ]{text}", Does: "sends a notification to your own devices"},
		Widths:      []tool.Width{{Name: "send you any notification", Any: []string{"title", "text"}}}},
		func(ctx context.Context, in tool.Invocation, a sendArgs) (string, error) {
			if err := n.Notify(ctx, in.User, a.Title, a.Text); err != nil {
				return "", err
			}
			return "The user was notified.", nil
		}, nil)
}
