// Package mailtest runs a mail server for tests: IMAP and SMTP over TLS, with mailboxes in memory.
package mailtest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// The account that the server has.
const (
	User     = "ann@example.com"
	Password = "correct horse"
	Token    = "access-token-1"
)

// Server is a mail server.
type Server struct {
	IMAP, SMTP  string // addresses: TLS from the first byte
	Roots       *x509.CertPool
	Certificate *x509.Certificate // the only one among Roots
	Mailbox     *imapmemserver.User

	mu     sync.Mutex
	sent   []Sent
	refuse *smtp.SMTPError
	lose   bool
	held   func(raw string)
	answer func() (refuse *smtp.SMTPError, lose bool)
	locked bool
	talks  map[net.Conn]bool // open connections of IMAP
	every  time.Duration     // between two looks for what has arrived, while a client waits
}

// Sent is an e-mail that was submitted.
type Sent struct {
	From string
	To   []string
	Raw  string
}

// Start starts a server with the usual folders. It ends with the test.
func Start(t testing.TB, caps ...imap.Cap) *Server {
	t.Helper()
	web := httptest.NewTLSServer(nil) // its certificate is for 127.0.0.1
	web.Close()
	conf := &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}
	s := newServer(t)
	s.Roots, s.Certificate = x509.NewCertPool(), web.Certificate()
	s.Roots.AddCert(s.Certificate)
	listen := func() net.Listener {
		l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	s.serve(t, listen(), listen(), caps...)
	return s
}

// StartOn starts a server without TLS on listeners. What arrives is announced within some seconds.
func StartOn(t testing.TB, imap, smtp net.Listener) *Server {
	t.Helper()
	s := newServer(t)
	s.every = 5 * time.Second
	s.serve(t, imap, smtp)
	return s
}

func newServer(t testing.TB) *Server {
	s := &Server{Mailbox: imapmemserver.NewUser(User, Password), every: 10 * time.Millisecond, talks: map[net.Conn]bool{}}
	for _, f := range folders() {
		if err := s.Mailbox.Create(f.Mailbox, nil); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *Server) serve(t testing.TB, reads, posts net.Listener, caps ...imap.Cap) {
	set := imap.CapSet{imap.CapIMAP4rev1: {}, imap.CapIMAP4rev2: {}, imap.CapSpecialUse: {}, imap.CapMove: {}, imap.CapUIDPlus: {}}
	if len(caps) > 0 {
		set = imap.CapSet{}
		for _, c := range caps {
			set[c] = struct{}{}
		}
	}
	memory := imapserver.New(&imapserver.Options{Caps: set, InsecureAuth: true, Logger: log.New(io.Discard, "", 0),
		NewSession: func(c *imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.talks[c.NetConn()] = true
			return &session{imapmemserver.NewUserSession(s.Mailbox), s}, nil, nil
		}})
	post := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return &submission{server: s, conn: c}, nil }))
	post.Domain, post.ErrorLog, post.MaxMessageBytes, post.AllowInsecureAuth = "mail.example.com", log.New(io.Discard, "", 0), 26<<20, true
	s.IMAP = serve(t, reads, memory.Serve, memory.Close)
	s.SMTP = serve(t, posts, post.Serve, post.Close)
}

// folders are the folders of the mailbox, as LIST returns them with RFC 6154.
func folders() []imap.ListData {
	return []imap.ListData{
		{Mailbox: "Archiv/2026", Delim: '/', Attrs: []imap.MailboxAttr{imap.MailboxAttrArchive}},
		{Mailbox: "Entwürfe", Delim: '/', Attrs: []imap.MailboxAttr{imap.MailboxAttrDrafts}},
		{Mailbox: "Gesendet", Delim: '/', Attrs: []imap.MailboxAttr{imap.MailboxAttrSent}},
		{Mailbox: "INBOX", Delim: '/'},
		{Mailbox: "Papierkorb", Delim: '/', Attrs: []imap.MailboxAttr{imap.MailboxAttrTrash}},
		{Mailbox: "Sonst/Spam", Delim: '/'},
		{Mailbox: "Work", Delim: '/'},
	}
}

// List implements imapserver.Session: the one in memory knows no special uses.
func (s *session) List(w *imapserver.ListWriter, _ string, _ []string, _ *imap.ListOptions) error {
	for _, f := range folders() {
		if err := w.WriteList(&f); err != nil {
			return err
		}
	}
	return nil
}

func serve(t testing.TB, l net.Listener, run func(net.Listener) error, end func() error) string {
	t.Helper()
	done := make(chan struct{})
	go func() { run(l); close(done) }() //nolint:errcheck // it ends with Close
	t.Cleanup(func() { end(); <-done }) //nolint:errcheck // nobody uses it any more
	return l.Addr().String()
}

// Put delivers an e-mail into a folder, with LF or CRLF at the ends of lines.
func (s *Server) Put(t testing.TB, folder, raw string, flags ...imap.Flag) {
	t.Helper()
	b := bytes.ReplaceAll(bytes.ReplaceAll([]byte(raw), []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
	if _, err := s.Mailbox.Append(folder, literal{bytes.NewReader(b)}, &imap.AppendOptions{Flags: flags}); err != nil {
		t.Fatal(err)
	}
}

type literal struct{ *bytes.Reader }

func (l literal) Size() int64 { return l.Reader.Size() }

// Sent returns what was submitted.
func (s *Server) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Sent(nil), s.sent...)
}

// Refuse makes the server refuse e-mails. nil: it accepts them.
func (s *Server) Refuse(err *smtp.SMTPError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// Lose makes the server accept e-mails and close the connection before it says so.
func (s *Server) Lose(lose bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = lose
}

// Hold makes the server call a function with each e-mail that it has accepted, before it says so.
func (s *Server) Hold(held func(raw string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = held
}

// Answer makes the server ask, for each e-mail, whether to refuse it, or to accept it and close the
// connection before it says so. It comes before Refuse, Lose and Hold.
func (s *Server) Answer(answer func() (refuse *smtp.SMTPError, lose bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// Lock makes the server refuse every login, as one whose password was changed.
func (s *Server) Lock() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locked = true
}

func (s *Server) isLocked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked
}

// HangUp closes the open connections of IMAP, as a server does that is started again.
func (s *Server) HangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.talks {
		c.Close() //nolint:errcheck // it may be closed already
		delete(s.talks, c)
	}
}

// Idle implements imapserver.Session: the one in memory misses what arrives just before it begins.
func (s *session) Idle(w *imapserver.UpdateWriter, stop <-chan struct{}) error {
	for {
		if err := s.Poll(w, true); err != nil {
			return err
		}
		select {
		case <-time.After(s.server.every):
		case <-stop:
			return nil
		}
	}
}

// session lets the user in with a password or a token.
type session struct {
	*imapmemserver.UserSession
	server *Server
}

// Login implements imapserver.Session.
func (s *session) Login(user, password string) error {
	if s.server.isLocked() {
		return imapserver.ErrAuthFailed
	}
	return s.UserSession.Login(user, password)
}

// AuthenticateMechanisms implements imapserver.SessionSASL.
func (*session) AuthenticateMechanisms() []string { return []string{"PLAIN", "XOAUTH2"} }

// Authenticate implements imapserver.SessionSASL.
func (s *session) Authenticate(mech string) (sasl.Server, error) {
	return mechanism(mech, func(user, password string) error { return s.Login(user, password) }), nil
}

func mechanism(mech string, login func(user, password string) error) sasl.Server {
	if mech == "XOAUTH2" {
		return bearer(func() error { return login(User, Password) })
	}
	return sasl.NewPlainServer(func(_, user, password string) error { return login(user, password) })
}

// bearer is the server of XOAUTH2, as developers.google.com/workspace/gmail/imap/xoauth2-protocol
// describes it.
type bearer func() error

// Next implements sasl.Server.
func (b bearer) Next(response []byte) (challenge []byte, done bool, err error) {
	if response == nil {
		return []byte{}, false, nil
	}
	if string(response) != "user="+User+"\x01auth=Bearer "+Token+"\x01\x01" {
		return nil, false, &smtp.SMTPError{Code: 535, Message: "bad token"}
	}
	return nil, true, b()
}

// submission is a session of SMTP.
type submission struct {
	server *Server
	conn   *smtp.Conn
	in     bool
	mail   Sent
}

// AuthMechanisms implements smtp.AuthSession.
func (*submission) AuthMechanisms() []string { return []string{"PLAIN", "XOAUTH2"} }

// Auth implements smtp.AuthSession.
func (s *submission) Auth(mech string) (sasl.Server, error) {
	return mechanism(mech, func(user, password string) error {
		if s.in = user == User && password == Password && !s.server.isLocked(); !s.in {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

// Reset implements smtp.Session.
func (s *submission) Reset() { s.mail = Sent{} }

// Logout implements smtp.Session.
func (s *submission) Logout() error { return nil }

// Mail implements smtp.Session.
func (s *submission) Mail(from string, _ *smtp.MailOptions) error {
	if !s.in {
		return smtp.ErrAuthRequired
	}
	s.mail.From = from
	return nil
}

// Rcpt implements smtp.Session.
func (s *submission) Rcpt(to string, _ *smtp.RcptOptions) error {
	if to == "nobody@example.com" {
		return &smtp.SMTPError{Code: 550, Message: "no such user"}
	}
	s.mail.To = append(s.mail.To, to)
	return nil
}

// Data implements smtp.Session.
func (s *submission) Data(r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mail.Raw = string(b)
	s.server.mu.Lock()
	refuse, lose, held := s.server.refuse, s.server.lose, s.server.held
	if s.server.answer != nil {
		refuse, lose = s.server.answer()
	}
	if refuse == nil {
		s.server.sent = append(s.server.sent, s.mail)
	}
	s.server.mu.Unlock()
	switch {
	case refuse != nil:
		return refuse
	case held != nil:
		held(s.mail.Raw)
	case lose:
		return s.conn.Conn().Close()
	}
	return nil
}
