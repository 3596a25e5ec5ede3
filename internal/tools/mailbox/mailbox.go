// Package mailbox connects to a person's mail servers, over IMAP (RFC 9051, RFC 3501) and SMTP (RFC 6409),
// for the tools over mail and for the channel by mail.
//
// A Dialer makes a connection that is encrypted, bounded and logged in. TLS may be left out only for
// servers on this machine (Proton Mail Bridge). A connection ends with the context that it was made with,
// so no read waits for ever.
package mailbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/mail"
	"net/netip"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"steward/internal/fault"
	"steward/internal/tool"
)

// maxTraffic is how many bytes a server may send on one connection unless a Dialer says otherwise.
const maxTraffic = 64 << 20

// TLS says how connections to a server are encrypted.
type TLS string

// The ways. The zero value depends on the port: 993 and 465 begin with TLS, others use STARTTLS.
const (
	Implicit TLS = "implicit"
	StartTLS TLS = "starttls"
	NoTLS    TLS = "none" // for servers on this machine only
)

// Account is a mailbox.
type Account struct {
	Name    string
	Address string // of the sender, with or without a name
	IMAP    string // HOST:PORT
	SMTP    string // HOST:PORT; empty: nothing can be sent
	User    string // empty: the address
	TLS     TLS
	Secret  func(ctx context.Context) (string, error) // the password, or an access token
	OAuth   bool                                      // Secret returns an access token
	For     *tool.Audience
}

// Dialer connects to mail servers.
type Dialer struct {
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	Roots   *x509.CertPool // nil: the system's
	Traffic int64          // bytes that a server may send on one connection; 0: 64 MB
}

// Client is a connection to an IMAP server.
type Client struct {
	*imapclient.Client
	stop func() bool
}

// Close ends the connection.
func (c *Client) Close() {
	c.stop()
	c.Client.Close() //nolint:errcheck // all commands have been answered
}

// limited bounds what a server may send, because the parsers above keep whole answers in memory.
type limited struct {
	net.Conn
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, fault.New(fault.TooLarge, "mail_too_much", "the server sends too much on one connection")
	}
	n, err := l.Conn.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

// dial connects to a server. The connection ends with the context. It reports whether STARTTLS is
// still to be done.
func (d Dialer) dial(ctx context.Context, a Account, at string) (conn net.Conn, conf *tls.Config, start bool, stop func() bool, err error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, nil, false, nil, fault.New(fault.Invalid, "mail_server_invalid", "%.100q is not HOST:PORT", at)
	}
	ip, _ := netip.ParseAddr(host) //nolint:errcheck // a name is not a loopback address
	way := a.TLS
	if way == "" {
		way = map[bool]TLS{true: Implicit, false: StartTLS}[port == "993" || port == "465"]
	}
	if way == NoTLS && !ip.IsLoopback() {
		return nil, nil, false, nil, fault.New(fault.Denied, "mail_tls_required", "%s is not on this machine, so mail is only sent there with TLS", host).WithHint("remove tls: none")
	}
	raw, err := d.Dial(ctx, "tcp", at)
	if err != nil {
		return nil, nil, false, nil, err
	}
	stop = context.AfterFunc(ctx, func() { raw.Close() }) //nolint:errcheck // it is no longer used
	conn = &limited{raw, cmp.Or(d.Traffic, maxTraffic)}
	conf = &tls.Config{ServerName: host, RootCAs: d.Roots, MinVersion: tls.VersionTLS12}
	if way == Implicit {
		conn = tls.Client(conn, conf)
	}
	return conn, conf, way == StartTLS, stop, nil
}

// IMAP connects to an account's IMAP server and logs in. arrived is called when the server says that there
// are other e-mails; nil: nothing waits for it.
func (d Dialer) IMAP(ctx context.Context, a Account, arrived func()) (*Client, error) {
	conn, conf, start, stop, err := d.dial(ctx, a, a.IMAP)
	if err != nil {
		return nil, err
	}
	opt := &imapclient.Options{TLSConfig: conf, UnilateralDataHandler: &imapclient.UnilateralDataHandler{Mailbox: func(m *imapclient.UnilateralDataMailbox) {
		if m.NumMessages != nil && arrived != nil {
			arrived()
		}
	}}}
	c := &Client{stop: stop}
	if start {
		c.Client, err = imapclient.NewStartTLS(conn, opt)
	} else {
		c.Client = imapclient.New(conn, opt)
	}
	if err == nil {
		if err = login(ctx, c.Client, a); err == nil {
			return c, nil
		}
		c.Close()
	} else {
		stop()
		conn.Close() //nolint:errcheck // nothing was sent
	}
	return nil, Broken(ctx, a, err)
}

func login(ctx context.Context, c *imapclient.Client, a Account) error {
	if err := c.WaitGreeting(); err != nil {
		return err
	}
	user, secret, err := a.credentials(ctx)
	if err != nil {
		return err
	}
	if a.OAuth {
		err = c.Authenticate(bearer(user, secret, c.Caps().Has(imap.AuthCap("XOAUTH2"))))
	} else {
		err = c.Login(user, secret).Wait()
	}
	if no := (*imap.Error)(nil); errors.As(err, &no) && no.Type == imap.StatusResponseTypeNo {
		return refusedLogin(a, no.Text)
	}
	return err
}

func refusedLogin(a Account, why string) error {
	return fault.New(fault.Unauthentic, "mail_login_refused", "the mail server rejects the login of the account %s: %.200q", a.Name, why).
		WithHint("check mail.%s in the settings; many services want an app password, or steward accounts connect %s", a.Name, a.Name)
}

// credentials returns the user and the password or token of an account.
func (a Account) credentials(ctx context.Context) (user, secret string, err error) {
	from, err := mail.ParseAddress(a.Address)
	if err != nil {
		return "", "", fault.New(fault.Invalid, "mail_address_invalid", "%.100q is not an e-mail address", a.Address)
	}
	if a.Secret == nil {
		return "", "", fault.New(fault.Invalid, "mail_password_missing", "the account %s has no password", a.Name).
			WithHint("run steward secrets set NAME, and set mail.%s.password to store:NAME", a.Name)
	}
	secret, err = a.Secret(ctx)
	return cmp.Or(a.User, from.Address), secret, err
}

// bearer authenticates with an access token, by the older mechanism if the server knows it.
func bearer(user, token string, older bool) sasl.Client {
	if older {
		return &xoauth2{user, token}
	}
	return sasl.NewOAuthBearerClient(&sasl.OAuthBearerOptions{Username: user, Token: token})
}

// xoauth2 is the mechanism XOAUTH2 (developers.google.com/workspace/gmail/imap/xoauth2-protocol).
type xoauth2 struct{ user, token string }

// Start implements sasl.Client.
func (x *xoauth2) Start() (string, []byte, error) {
	return "XOAUTH2", []byte("user=" + x.user + "\x01auth=Bearer " + x.token + "\x01\x01"), nil
}

// Next implements sasl.Client: the server tells why it refuses, and waits for an empty answer.
func (x *xoauth2) Next([]byte) ([]byte, error) { return []byte{}, nil }

// SMTP connects to an account's SMTP server and logs in.
func (d Dialer) SMTP(ctx context.Context, a Account) (*smtp.Client, error) {
	if a.SMTP == "" {
		return nil, fault.New(fault.Unsupported, "mail_cannot_send", "the account %s has no SMTP server", a.Name).WithHint("set mail.%s.smtp", a.Name)
	}
	conn, conf, start, _, err := d.dial(ctx, a, a.SMTP)
	if err != nil {
		return nil, err
	}
	var c *smtp.Client
	if start {
		c, err = smtp.NewClientStartTLS(conn, conf)
	} else {
		c = smtp.NewClient(conn)
	}
	if err != nil {
		return nil, Broken(ctx, a, errors.Join(err, conn.Close()))
	}
	if err := authenticate(ctx, c, a); err != nil {
		return nil, Broken(ctx, a, errors.Join(err, c.Close()))
	}
	return c, nil
}

func authenticate(ctx context.Context, c *smtp.Client, a Account) error {
	user, secret, err := a.credentials(ctx)
	if err != nil {
		return err
	}
	auth := sasl.NewPlainClient("", user, secret)
	if a.OAuth {
		auth = bearer(user, secret, c.SupportsAuth("XOAUTH2"))
	}
	err = c.Auth(auth)
	if no := (*smtp.SMTPError)(nil); errors.As(err, &no) && !no.Temporary() {
		return refusedLogin(a, no.Message)
	}
	return err
}

// Broken is the coded error of a connection.
func Broken(ctx context.Context, a Account, err error) error {
	if coded := (*fault.Error)(nil); errors.As(err, &coded) {
		return coded
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "mail_timeout", "the mail server of %s did not answer in time", a.Name)
	}
	return fault.New(fault.Unavailable, "mail_unavailable", "the mail server of %s: %w", a.Name, err)
}
