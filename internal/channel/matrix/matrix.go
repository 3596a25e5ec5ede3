// Package matrix is the channel to people on Matrix, by the Client-Server API
// (https://spec.matrix.org/v1.16/client-server-api/).
//
// # Receiving
//
// The home server is asked with GET /sync, which waits until something happens and then answers with it
// and a token. The next request begins at the last token. Options.Dir keeps the token, and it advances only
// after receive has accepted everything that came with it; so a crash or an error gives the same events
// again, with the same IDs. If more happened in a room than one answer holds, the rest is read from the
// room's history before anything is handed over. The first start reads no history: what was written
// before Steward had the account stays unanswered.
//
// Steward joins the rooms that it is invited to, since a person cannot write to it otherwise. A room of
// two is private; every other room is a group. Invitations that could not be followed at once are kept with
// the token and tried again.
//
// # Sending
//
// Each event is sent under a transaction ID that derives from Outgoing.Key, so the server recognizes a
// repeated request. (Synapse keeps transaction IDs for a day.) Files are events of their own. Text is HTML,
// which Send accompanies with plain text. Matrix has no buttons, so questions name a command.
//
// # Encryption
//
// Steward cannot read encrypted rooms. In an encrypted room of two it says so once, with what to do.
// docs/decisions/dependencies.md has the reasons.
package matrix

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"maunium.net/go/mautrix"
	"maunium.net/go/mautrix/id"

	"steward/internal/channel"
	"steward/internal/channel/rest"
	"steward/internal/channel/wire"
	"steward/internal/fault"
)

// DefaultURL is the home server of matrix.org, where most people have their account.
const DefaultURL = "https://matrix-client.matrix.org"

const (
	service = "matrix"
	// maxText leaves room in an event, which has at most 65,536 bytes (size limits of the specification),
	// for the text twice: as HTML and as plain text.
	maxText       = 6000
	maxAnswer     = 32 << 20 // bytes of an answer of the server
	maxAttachment = 50 << 20
	timeout       = time.Minute
	uploadTimeout = 10 * time.Minute
	syncWait      = 30 * time.Second // that the server waits for news
)

// Matrix is an account at a home server.
type Matrix struct {
	opt    channel.Options
	client *mautrix.Client
	home   bool // only invitations from people on the same server are followed

	mu    sync.Mutex
	me    id.UserID // empty: the server has not been asked yet
	rooms map[id.RoomID]*room
}

// New makes the channel of an account. Settings: invites ("all", the default, or "home": only those of
// people on the account's own server).
func New(o channel.Options) (channel.Channel, error) {
	base, err := rest.Base(o, DefaultURL)
	if err == nil {
		err = rest.Known(o, "invites")
	}
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(o.Token) == "" {
		return nil, fault.New(fault.Invalid, "channel_setting", "the token is missing").WithHint("docs/guides/messengers-matrix.md says how to get an access token")
	}
	invites := cmp.Or(o.Settings["invites"], "all")
	if invites != "all" && invites != "home" {
		return nil, fault.New(fault.Invalid, "channel_setting", "invites is neither all nor home: %.100q", invites)
	}
	client, err := mautrix.NewClient(base, "", strings.TrimSpace(o.Token))
	if err != nil {
		return nil, fault.New(fault.Invalid, "channel_setting", "the address of the home server: %w", err)
	}
	client.Client = o.Client
	client.UserAgent = "Steward"
	client.DefaultHTTPRetries = 0 // the caller decides whether to try again
	client.IgnoreRateLimit = true
	client.ResponseSizeLimit = maxAnswer
	return &Matrix{opt: o, client: client, home: invites == "home", rooms: map[id.RoomID]*room{}}, nil
}

// Limits implements channel.Channel. Home servers let an account send some ten events at once and then one
// every few seconds (rc_message of Synapse), edits included.
func (m *Matrix) Limits() channel.Limits {
	return channel.Limits{Text: maxText, SendEvery: 500 * time.Millisecond, EditEvery: 3 * time.Second, Attachment: maxAttachment, Repeatable: true}
}

// Check implements channel.Channel.
func (m *Matrix) Check(ctx context.Context) (string, error) {
	who, err := m.whoami(ctx)
	return who.String(), err
}

// whoami asks the server whose the token is.
func (m *Matrix) whoami(ctx context.Context) (id.UserID, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	who, err := m.client.Whoami(ctx)
	if err != nil {
		return "", failed(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.me = who.UserID
	return who.UserID, nil
}

// self returns whose the token is.
func (m *Matrix) self(ctx context.Context) (id.UserID, error) {
	m.mu.Lock()
	me := m.me
	m.mu.Unlock()
	if me != "" {
		return me, nil
	}
	return m.whoami(ctx)
}

// answer is what a server says to a request that it refuses.
type answer struct {
	status int
	code   string
	why    string
	pause  time.Duration
}

// answerOf returns the server's answer in an error; ok is false if there was none.
func answerOf(err error) (a answer, ok bool) {
	var e mautrix.HTTPError
	if !errors.As(err, &e) || e.Response == nil || e.WrappedError != nil {
		return a, false
	}
	a = answer{status: e.Response.StatusCode, why: e.Response.Status, pause: 5 * time.Second}
	if s, err := strconv.Atoi(e.Response.Header.Get("Retry-After")); err == nil && s > 0 {
		a.pause = time.Duration(s) * time.Second
	}
	if e.RespError != nil {
		a.code, a.why = e.RespError.ErrCode, wire.Line(cmp.Or(e.RespError.Err, e.RespError.ErrCode))
		if ms, isNumber := e.RespError.ExtraData["retry_after_ms"].(float64); isNumber && ms > 0 {
			a.pause = time.Duration(min(ms, 1e9)) * time.Millisecond
		}
	}
	return a, true
}

// refused returns the coded error of an answer that says that nothing was done, or nil if it leaves that open.
func (a answer) refused() error {
	switch {
	case a.status == http.StatusTooManyRequests:
		return channel.Limited(service, a.pause)
	case a.status == http.StatusUnauthorized, a.code == "M_USER_DEACTIVATED":
		return channel.Unauthorized(service, a.why)
	case a.status >= 400 && a.status < 500 && a.status != http.StatusRequestTimeout:
		return channel.Rejected(service, a.why)
	}
	return nil
}

// failed returns the coded error of a request that posts nothing.
func failed(err error) error {
	a, ok := answerOf(err)
	if !ok {
		return channel.Unreachable(service, err)
	}
	if refused := a.refused(); refused != nil && a.status != http.StatusNotFound && a.status != http.StatusForbidden {
		return refused
	}
	return fault.New(fault.Unavailable, "channel_unavailable", "%s answers: %d %s", service, a.status, a.why)
}

// gone reports whether the server says that something does not exist, or not for this account.
func gone(err error) bool {
	a, ok := answerOf(err)
	return ok && (a.status == http.StatusNotFound || a.status == http.StatusForbidden)
}

func (m *Matrix) log() *slog.Logger { return m.opt.Log }
