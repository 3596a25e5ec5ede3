package mail

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"path/filepath"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	gomail "github.com/emersion/go-message/mail"
	"github.com/emersion/go-smtp"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

// outgoing is an e-mail to be written.
type outgoing struct {
	account     Account
	from        *mail.Address
	to, cc, bcc []*mail.Address
	subject     string
	body        string
	id          string // Message-ID: it derives from the call's key, so that the e-mail can be found after a crash
	answers     string // the Message-ID of the e-mail that it answers
	references  []string
	automatic   bool // it was sent by a program
}

// compose checks what a model wrote. Error codes: mail_address_invalid, mail_subject_missing.
func (s *service) compose(ctx context.Context, in tool.Invocation, a writeArgs) (outgoing, error) {
	acc, err := s.account(ctx, in.User, a.Account)
	if err != nil {
		return outgoing{}, tool.NotDone(err)
	}
	out := outgoing{account: acc, body: a.Body, subject: oneLine(a.Subject)}
	if out.from, err = parseAddress(acc.Address); err != nil {
		return out, err
	}
	for _, list := range []struct {
		from []local.Email
		to   *[]*mail.Address
	}{{a.To, &out.to}, {a.Cc, &out.cc}, {a.Bcc, &out.bcc}} {
		for _, text := range list.from {
			addr, err := parseAddress(string(text))
			if err != nil {
				return out, err
			}
			*list.to = append(*list.to, addr)
		}
	}
	if out.subject == "" {
		return out, tool.NotDone(fault.New(fault.Invalid, "mail_subject_missing", "the e-mail has no subject").WithHint("give it a subject"))
	}
	_, domain, _ := strings.Cut(out.from.Address, "@")
	out.id = id.Derive("mail", local.Key(in)).String() + "@" + cmp.Or(domain, "localhost")
	return out, nil
}

// parseAddress reads an address. Line breaks would begin further headers.
func parseAddress(text string) (*mail.Address, error) {
	addr, err := mail.ParseAddress(text)
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, tool.NotDone(fault.New(fault.Invalid, "mail_address_invalid", "%.100q is not an e-mail address", text).WithHint("write it like ann@example.com"))
	}
	return addr, nil
}

// encode returns an e-mail in the format of RFC 5322 with MIME: ASCII only, with short lines. A
// draft names its hidden recipients.
func (o outgoing) encode(at time.Time, draft bool) ([]byte, error) {
	var h gomail.Header
	set := func(name string, list []*mail.Address) {
		if len(list) > 0 {
			h.SetAddressList(name, list)
		}
	}
	set("From", []*mail.Address{o.from})
	set("To", o.to)
	set("Cc", o.cc)
	if draft {
		set("Bcc", o.bcc)
	}
	h.SetSubject(o.subject)
	h.SetDate(at)
	h.SetMessageID(o.id)
	if o.answers != "" {
		h.SetMsgIDList("In-Reply-To", []string{o.answers})
		h.SetMsgIDList("References", o.references)
	}
	if o.automatic {
		h.Set("Auto-Submitted", "auto-generated") // RFC 3834: no answer by a program
	}
	h.Set("Mime-Version", "1.0")
	h.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	h.Set("Content-Transfer-Encoding", "quoted-printable")
	var b bytes.Buffer
	w, err := gomail.CreateSingleInlineWriter(&b, h)
	if err != nil {
		return nil, err
	}
	body := strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(o.body)
	if _, err := io.WriteString(w, body+"\r\n"); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// keep appends an e-mail to a folder, unless it is already there.
func (c *client) keep(folder, messageID string, raw []byte, flags ...imap.Flag) (place, error) {
	name, err := c.folder(folder)
	if err != nil {
		return place{}, err
	}
	if p, ok, err := c.byMessageID(name, messageID); ok || err != nil {
		return p, err
	}
	cmd := c.Append(name, int64(len(raw)), &imap.AppendOptions{Flags: flags})
	_, err = cmd.Write(raw)
	if err := errors.Join(err, cmd.Close()); err != nil {
		return place{}, err
	}
	if _, err := cmd.Wait(); err != nil {
		return place{}, err
	}
	p, _, err := c.byMessageID(name, messageID)
	return p, err
}

func (s *service) draft(ctx context.Context, in tool.Invocation, a writeArgs) (string, error) {
	o, err := s.compose(ctx, in, a)
	if err != nil {
		return "", err
	}
	raw, err := o.encode(s.Time(), true)
	if err != nil {
		return "", tool.NotDone(err)
	}
	c, err := s.open(ctx, o.account)
	if err != nil {
		return "", err
	}
	defer c.close()
	if err := local.SaveNote(s.written(in.User), local.Key(in), letterNote{Account: o.account.Name, ID: o.id}); err != nil {
		return "", tool.NotDone(err)
	}
	p, err := c.keep("drafts", o.id, raw, imap.FlagDraft, imap.FlagSeen)
	if err != nil {
		return "", broken(ctx, o.account, err)
	}
	return draftReply(p), nil
}

func draftReply(p place) string { return fmt.Sprintf("The draft is written (id %s).", p) }

// letterNote is kept of an e-mail before it is written: without one, it certainly was not.
type letterNote struct {
	Account string `json:"account"`
	ID      string `json:"id"`            // its Message-ID
	Reply   string `json:"told,omitzero"` // the reply if it was sent; empty for a draft
}

// written is the place beside which a user's e-mails are noted.
func (s *service) written(user string) string { return filepath.Join(s.notes.For(user), "written") }

// wasDrafted reports whether an e-mail was written into the drafts or sent. One that is not among those that
// were sent may still have been accepted.
func (s *service) wasDrafted(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	var n letterNote
	if ok, err := local.LoadNote(s.written(in.User), local.Key(in), &n); err != nil || !ok {
		return false, tool.Result{}, err
	}
	c, err := s.connect(ctx, in.User, n.Account)
	if err != nil {
		return false, tool.Result{}, err
	}
	defer c.close()
	name, err := c.folder(map[bool]string{true: "drafts", false: "sent"}[n.Reply == ""])
	if err != nil {
		return false, tool.Result{}, err
	}
	p, ok, err := c.byMessageID(name, n.ID)
	switch {
	case err != nil:
		return false, tool.Result{}, broken(ctx, c.account, err)
	case n.Reply == "":
		return ok, tool.Text(draftReply(p)), nil
	case !ok:
		return false, tool.Result{}, outcomeUnknown()
	}
	return true, tool.Text(n.Reply), nil
}

func outcomeUnknown() error {
	return fault.New(fault.Unavailable, "mail_unsettled", "the mail server may have accepted the e-mail; it is not in the folder for sent e-mails").
		WithHint("ask a recipient, or look at your other mail programs")
}

// sending returns the function of a tool that sends what compose makes of its arguments.
func sending[In any](s *service, compose func(context.Context, tool.Invocation, In) (outgoing, error)) func(context.Context, tool.Invocation, In) (string, error) {
	return func(ctx context.Context, in tool.Invocation, a In) (string, error) {
		o, err := compose(ctx, in, a)
		if err != nil {
			return "", err
		}
		return s.deliver(ctx, in, o)
	}
}

// answer composes an answer that quotes the e-mail and belongs to its conversation (RFC 5322,
// section 3.6.4).
func (s *service) answer(ctx context.Context, in tool.Invocation, a replyArgs) (outgoing, error) {
	l, p, err := s.load(ctx, in.User, a.ID)
	if err != nil {
		return outgoing{}, err
	}
	text, err := s.textOf(ctx, l)
	if err != nil {
		return outgoing{}, tool.NotDone(err)
	}
	subject := cmp.Or(l.subject, "your e-mail")
	if len(subject) < 3 || !strings.EqualFold(subject[:3], "re:") {
		subject = "Re: " + subject
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nOn %s %s wrote:\n", strings.TrimSpace(a.Body), stamp(l.date, s.Location(in.User)), l.from)
	for line := range strings.Lines(text[:min(len(text), 100_000)]) {
		b.WriteString("> " + strings.ToValidUTF8(line, ""))
	}
	o, err := s.compose(ctx, in, writeArgs{Account: p.account, To: a.To, Cc: a.Cc, Subject: subject, Body: b.String()})
	if l.id != "" {
		o.answers = l.id
		o.references = append(l.references[max(0, len(l.references)-20):], l.id)
		if len(l.references) > 20 {
			o.references[0] = l.references[0] // the conversation is found by its first e-mail
		}
	}
	return o, err
}

// deliver submits an e-mail, at most once, and keeps a copy of it.
func (s *service) deliver(ctx context.Context, in tool.Invocation, o outgoing) (string, error) {
	raw, err := o.encode(s.Time(), false)
	if err != nil {
		return "", tool.NotDone(err)
	}
	notes, reply := s.written(in.User), sentReply(o)
	if before, err := local.LoadNote(notes, local.Key(in), &letterNote{}); before || err != nil {
		return "", cmp.Or(err, outcomeUnknown())
	}
	err = s.transmit(ctx, o, raw, func() error {
		return local.SaveNote(notes, local.Key(in), letterNote{o.account.Name, o.id, reply})
	})
	if err != nil {
		if tool.CertainlyNotDone(err) {
			err = errors.Join(err, local.Drop(notes, local.Key(in)))
		}
		return "", err
	}
	if err := s.keepSent(ctx, o, raw); err != nil {
		reply += " There is no copy in the folder for sent e-mails: " + fault.Of(err).Message + "."
	}
	return reply, nil
}

// transmit hands an e-mail to the server for sending. begin is called before the server can accept it.
func (s *service) transmit(ctx context.Context, o outgoing, raw []byte, begin func() error) error {
	c, err := s.submit(ctx, o.account)
	if err != nil {
		return tool.NotDone(err)
	}
	defer c.Close() //nolint:errcheck // what counts has been answered
	w, err := envelope(c, o)
	if err != nil {
		return tool.NotDone(rejected(ctx, o.account, err))
	}
	if err := begin(); err != nil {
		return tool.NotDone(err)
	}
	_, err = w.Write(raw)
	if err := cmp.Or(err, w.Close()); err != nil {
		if no := (*smtp.SMTPError)(nil); errors.As(err, &no) { // it was answered, so it was not accepted
			return tool.NotDone(rejected(ctx, o.account, err))
		}
		return broken(ctx, o.account, err)
	}
	return nil
}

func sentReply(o outgoing) string {
	var all []string
	for _, a := range append(append(o.to[:len(o.to):len(o.to)], o.cc...), o.bcc...) {
		all = append(all, a.Address)
	}
	return fmt.Sprintf("Sent the e-mail %q to %s.", o.subject, strings.Join(all, ", "))
}

func (s *service) keepSent(ctx context.Context, o outgoing, raw []byte) error {
	c, err := s.open(ctx, o.account)
	if err != nil {
		return err
	}
	defer c.close()
	if _, err = c.keep("sent", o.id, raw, imap.FlagSeen); err != nil {
		return broken(ctx, o.account, err)
	}
	return nil
}

// envelope tells the server the sender and the recipients, and begins the data.
func envelope(c *smtp.Client, o outgoing) (io.WriteCloser, error) {
	if err := c.Mail(o.from.Address, nil); err != nil {
		return nil, err
	}
	for _, list := range [][]*mail.Address{o.to, o.cc, o.bcc} {
		for _, a := range list {
			if err := c.Rcpt(a.Address, nil); err != nil {
				return nil, err
			}
		}
	}
	return c.Data()
}

// rejected is the error of a server that does not accept an e-mail.
func rejected(ctx context.Context, a Account, err error) error {
	if no := (*smtp.SMTPError)(nil); errors.As(err, &no) {
		return fault.New(fault.Denied, "mail_rejected", "the mail server does not accept the e-mail: %d %.300q", no.Code, no.Message)
	}
	return broken(ctx, a, err)
}
