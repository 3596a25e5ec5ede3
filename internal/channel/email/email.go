// Package email is the channel to people by mail, over IMAP (RFC 9051, RFC 3501) and SMTP (RFC 6409).
//
// # Receiving
//
// An e-mail in the inbox is an update. Its ID is the UIDVALIDITY of the folder and its UID. Options.Dir
// keeps the last UID that receive has accepted; nothing is changed in the mailbox, so a person can read
// it beside Steward. The server announces new e-mails (IDLE, RFC 2177); one that cannot is asked every
// minute. The first start leaves what is in the inbox alone. If the server numbers its e-mails anew, those
// that arrived after the last accepted one are read.
//
// A chat is a person's address, and an answer goes to that person alone. What is quoted from earlier
// e-mails is cut off. E-mails that a program sent (automatic answers, bounces, mailing lists, newsletters)
// are ignored, so that no two programs answer each other.
//
// # Who wrote
//
// The sender of an e-mail is whatever its writer claims. Update.Unproven is empty only if the server that
// received it says that DMARC (RFC 7489) passed for the domain of From, in the Authentication-Results
// (RFC 8601) of the name in the setting trust. The topmost field of that name counts, because the server
// has to remove those that came with the e-mail. Even so nothing is approved by mail (Limits.Unproven): a
// domain vouches for its mail server, not for a person.
//
// # Sending
//
// The Message-ID derives from Outgoing.Key, so a person's program can tell a repeated e-mail, but servers
// do not: an e-mail that may have been accepted is uncertain. Answers name the e-mail that they answer
// (In-Reply-To, References).
package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/mail"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"

	"steward/internal/channel"
	"steward/internal/channel/markup"
	"steward/internal/channel/rest"
	"steward/internal/channel/wire"
	"steward/internal/fault"
	"steward/internal/tools/mailbox"
)

const (
	service    = "email"
	maxText    = 20_000
	maxMessage = 25 << 20 // bytes of an e-mail
	maxFile    = 15 << 20 // of an attachment, which takes a third more in an e-mail
	maxTraffic = 1 << 30  // bytes of one connection
	timeout    = 90 * time.Second
)

// Email is a mailbox.
type Email struct {
	opt     channel.Options
	account mailbox.Account
	dialer  mailbox.Dialer
	own     *mail.Address
	trust   string

	mu       sync.Mutex
	threads  []thread // of the e-mails that arrived last
	failing  imap.UID // the e-mail that could not be read last
	failures int      // of reading it, in a row
}

// New makes the channel of a mailbox. Token is its password. Settings: address; imap and smtp (HOST:PORT),
// user and tls, which the large providers do not need; trust, the authserv-id of the receiving server.
func New(o channel.Options) (channel.Channel, error) {
	if err := rest.Known(o, "address", "imap", "smtp", "user", "tls", "trust"); err != nil {
		return nil, err
	}
	own, err := mail.ParseAddress(o.Settings["address"])
	if err != nil {
		return nil, fault.New(fault.Invalid, "channel_setting", "address is not an e-mail address: %.100q", o.Settings["address"]).WithHint("set it to the address of the mailbox")
	}
	if strings.TrimSpace(o.Token) == "" {
		return nil, fault.New(fault.Invalid, "channel_setting", "the password of %s is missing", own.Address).WithHint("many providers want an app password")
	}
	known, _ := mailbox.PresetFor(own.Address)
	e := &Email{opt: o, own: own, trust: o.Settings["trust"]}
	e.account = mailbox.Account{Name: own.Address, Address: own.Address, User: o.Settings["user"], TLS: mailbox.TLS(o.Settings["tls"]),
		IMAP: cmp.Or(o.Settings["imap"], known.IMAP), SMTP: cmp.Or(o.Settings["smtp"], known.SMTP),
		Secret: func(context.Context) (string, error) { return o.Token, nil }}
	for name, at := range map[string]string{"imap": e.account.IMAP, "smtp": e.account.SMTP} {
		if _, _, err := net.SplitHostPort(at); err != nil {
			return nil, fault.New(fault.Invalid, "channel_setting", "%s is not HOST:PORT: %.100q", name, at).WithHint("the pages of your mail provider about other mail programs name its servers")
		}
	}
	switch e.account.TLS {
	case "", mailbox.Implicit, mailbox.StartTLS, mailbox.NoTLS:
	default:
		return nil, fault.New(fault.Invalid, "channel_setting", "tls is neither implicit nor starttls nor none: %.100q", o.Settings["tls"])
	}
	e.dialer = mailbox.Dialer{Dial: (&net.Dialer{}).DialContext, Traffic: maxTraffic}
	if t, ok := o.Client.Transport.(*http.Transport); ok { // the same ways out as requests have
		if t.DialContext != nil {
			e.dialer.Dial = t.DialContext
		}
		e.dialer.Roots = cmp.Or(t.TLSClientConfig, &tls.Config{}).RootCAs //nolint:gosec // nothing is dialed with it
	}
	return e, nil
}

// Limits implements channel.Channel.
func (e *Email) Limits() channel.Limits {
	return channel.Limits{Text: maxText, SendEvery: time.Second, Attachment: maxFile, Unproven: true}
}

// Check implements channel.Channel.
func (e *Email) Check(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	in, err := e.dialer.IMAP(ctx, e.account, nil)
	if err != nil {
		return "", failed(err)
	}
	in.Close()
	out, err := e.dialer.SMTP(ctx, e.account)
	if err != nil {
		return "", failed(err)
	}
	return e.own.Address, failed(out.Close())
}

// failed returns the coded error of a connection over which nothing was posted.
func failed(err error) error {
	switch {
	case err == nil:
		return nil
	case fault.HasCode(err, "mail_login_refused"):
		return channel.Unauthorized(service, wire.Line(fault.Of(err).Message))
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.Denied), errors.Is(err, context.Canceled):
		return err
	}
	return channel.Unreachable(service, err)
}

// Edit implements channel.Channel.
func (e *Email) Edit(context.Context, channel.Address, string, channel.Outgoing) error {
	return channel.Unsupported(service, "change an e-mail that was sent")
}

// Typing implements channel.Channel.
func (e *Email) Typing(context.Context, channel.Address) error { return nil }

// Render implements channel.Channel.
func (e *Email) Render(markdown string) []string { return markup.HTML(markdown, maxText) }

func (e *Email) log() *slog.Logger { return e.opt.Log }
