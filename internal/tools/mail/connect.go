package mail

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapclient"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"steward/internal/fault"
	"steward/internal/tool"
)

// client is a connection to an IMAP server.
type client struct {
	*imapclient.Client
	account Account
	folders []*imap.ListData
	stop    func() bool
}

// limited bounds what a server may send, because the parsers above keep whole answers in memory.
type limited struct {
	net.Conn
	left int64
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, fault.New(fault.TooLarge, "mail_too_much", "the server sends more than %d MB", maxTraffic>>20)
	}
	n, err := l.Conn.Read(b[:min(int64(len(b)), l.left)])
	l.left -= int64(n)
	return n, err
}

// dial connects to a server. The connection ends with the context. It reports whether STARTTLS is
// still to be done.
func (s *service) dial(ctx context.Context, a Account, at string) (conn net.Conn, conf *tls.Config, start bool, stop func() bool, err error) {
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
	raw, err := s.Dial(ctx, "tcp", at)
	if err != nil {
		return nil, nil, false, nil, err
	}
	stop = context.AfterFunc(ctx, func() { raw.Close() }) //nolint:errcheck // it is no longer used
	conn = &limited{raw, maxTraffic}
	conf = &tls.Config{ServerName: host, RootCAs: s.Roots, MinVersion: tls.VersionTLS12}
	if way == Implicit {
		conn = tls.Client(conn, conf)
	}
	return conn, conf, way == StartTLS, stop, nil
}

// open connects to an account's IMAP server and logs in.
func (s *service) open(ctx context.Context, a Account) (*client, error) {
	conn, conf, start, stop, err := s.dial(ctx, a, a.IMAP)
	if err != nil {
		return nil, tool.NotDone(err)
	}
	opt := &imapclient.Options{TLSConfig: conf, UnilateralDataHandler: &imapclient.UnilateralDataHandler{Mailbox: func(m *imapclient.UnilateralDataMailbox) {
		if m.NumMessages != nil && s.arrived != nil {
			s.arrived()
		}
	}}}
	c := &client{account: a, stop: stop}
	if start {
		c.Client, err = imapclient.NewStartTLS(conn, opt)
	} else {
		c.Client = imapclient.New(conn, opt)
	}
	if err == nil {
		err = s.login(ctx, c)
	}
	if err == nil {
		c.folders, err = c.List("", "*", &imap.ListOptions{ReturnSpecialUse: c.Caps().Has(imap.CapSpecialUse)}).Collect()
	}
	if err != nil {
		if c.Client != nil {
			c.close()
		} else {
			stop()
			conn.Close() //nolint:errcheck // nothing was sent
		}
		return nil, tool.NotDone(broken(ctx, a, err))
	}
	return c, nil
}

func (c *client) close() {
	c.stop()
	c.Close() //nolint:errcheck // all commands have been answered
}

func (s *service) login(ctx context.Context, c *client) error {
	if err := c.WaitGreeting(); err != nil {
		return err
	}
	user, secret, err := c.account.credentials(ctx)
	if err != nil {
		return err
	}
	if c.account.OAuth {
		err = c.Authenticate(bearer(user, secret, c.Caps().Has(imap.AuthCap("XOAUTH2"))))
	} else {
		err = c.Login(user, secret).Wait()
	}
	if no := (*imap.Error)(nil); errors.As(err, &no) && no.Type == imap.StatusResponseTypeNo {
		return refusedLogin(c.account, no.Text)
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

// submit connects to an account's SMTP server and logs in.
func (s *service) submit(ctx context.Context, a Account) (*smtp.Client, error) {
	if a.SMTP == "" {
		return nil, fault.New(fault.Unsupported, "mail_cannot_send", "the account %s has no SMTP server", a.Name).WithHint("set mail.%s.smtp", a.Name)
	}
	conn, conf, start, _, err := s.dial(ctx, a, a.SMTP)
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
		return nil, broken(ctx, a, errors.Join(err, conn.Close()))
	}
	if err := s.authenticate(ctx, c, a); err != nil {
		return nil, broken(ctx, a, errors.Join(err, c.Close()))
	}
	return c, nil
}

func (s *service) authenticate(ctx context.Context, c *smtp.Client, a Account) error {
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

// broken is the coded error of a connection.
func broken(ctx context.Context, a Account, err error) error {
	if coded := (*fault.Error)(nil); errors.As(err, &coded) {
		return coded
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.New(fault.Timeout, "mail_timeout", "the mail server of %s did not answer in time", a.Name)
	}
	return fault.New(fault.Unavailable, "mail_unavailable", "the mail server of %s: %w", a.Name, err)
}

// specialFolders are the folders with a special use (RFC 6154), with names that servers without that
// extension give them.
var specialFolders = map[string]struct {
	attr  imap.MailboxAttr
	names []string
}{
	"sent":    {imap.MailboxAttrSent, []string{"Sent", "Sent Items", "Sent Messages"}},
	"drafts":  {imap.MailboxAttrDrafts, []string{"Drafts"}},
	"trash":   {imap.MailboxAttrTrash, []string{"Trash", "Deleted Items", "Deleted Messages"}},
	"junk":    {imap.MailboxAttrJunk, []string{"Junk", "Spam", "Junk Email"}},
	"archive": {imap.MailboxAttrArchive, []string{"Archive", "Archives"}},
	"all":     {imap.MailboxAttrAll, nil},
}

// folder returns a folder by its use or its name. Error code: mail_folder_unknown.
func (c *client) folder(name string) (string, error) {
	if name == "" || strings.EqualFold(name, "inbox") {
		return "INBOX", nil
	}
	use, special := specialFolders[strings.ToLower(name)]
	for _, f := range c.folders {
		if special && slices.Contains(f.Attrs, use.attr) || f.Mailbox == name {
			return f.Mailbox, nil
		}
	}
	if strings.EqualFold(name, "archive") { // Gmail: what is archived is in All Mail only
		use.names = append(use.names, "[Gmail]/All Mail")
	}
	for _, f := range c.folders {
		base := f.Mailbox[strings.LastIndexByte(f.Mailbox, byte(f.Delim))+1:]
		if slices.Contains(use.names, base) || slices.Contains(use.names, f.Mailbox) || strings.EqualFold(f.Mailbox, name) {
			return f.Mailbox, nil
		}
	}
	var names []string
	for _, f := range c.folders[:min(len(c.folders), 50)] {
		names = append(names, oneLine(f.Mailbox))
	}
	return "", tool.NotDone(fault.New(fault.NotFound, "mail_folder_unknown", "there is no folder %.100q", name).WithHint("the folders are %s", strings.Join(names, ", ")))
}

// place is where an e-mail is. Its text is the id that a model sees.
type place struct {
	account  string
	validity uint32 // of the folder's UIDs
	uid      imap.UID
	folder   string
}

func (p place) String() string {
	return fmt.Sprintf("%s/%d-%d/%s", p.account, p.validity, p.uid, p.folder)
}

// parsePlace reads an id. Error code: mail_id_invalid.
func parsePlace(id string) (p place, err error) {
	parts := strings.SplitN(id, "/", 3)
	if len(parts) == 3 {
		v, u, _ := strings.Cut(parts[1], "-")
		validity, verr := strconv.ParseUint(v, 10, 32)
		uid, uerr := strconv.ParseUint(u, 10, 32)
		if verr == nil && uerr == nil && uid > 0 && parts[2] != "" {
			return place{parts[0], uint32(validity), imap.UID(uid), parts[2]}, nil
		}
	}
	return p, tool.NotDone(fault.New(fault.Invalid, "mail_id_invalid", "%.100q is not an e-mail id", id).WithHint("search first, and give the id that is shown"))
}

// connect opens one of a user's accounts.
func (s *service) connect(ctx context.Context, user, account string) (*client, error) {
	a, err := s.account(ctx, user, account)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, a)
}

// at opens the account and the folder of an e-mail.
func (s *service) at(ctx context.Context, user, id string, change bool) (*client, place, error) {
	p, err := parsePlace(id)
	if err != nil {
		return nil, p, err
	}
	c, err := s.connect(ctx, user, p.account)
	if err != nil {
		return nil, p, err
	}
	sel, err := c.Select(p.folder, &imap.SelectOptions{ReadOnly: !change}).Wait()
	if err == nil && sel.UIDValidity == p.validity {
		return c, p, nil
	}
	c.close()
	if no := (*imap.Error)(nil); err != nil && !errors.As(err, &no) {
		return nil, p, tool.NotDone(broken(ctx, c.account, err))
	}
	return nil, p, tool.NotDone(missing(p))
}

func missing(p place) error {
	return fault.New(fault.NotFound, "mail_not_found", "the e-mail %s no longer exists", p).WithHint("search for it again: it may have been moved")
}
