package email

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/emersion/go-message/mail"
	"github.com/emersion/go-smtp"

	"steward/internal/channel"
	"steward/internal/channel/markup"
	"steward/internal/channel/wire"
)

// idPrefix begins the Message-ID of what Steward sends.
const idPrefix = "steward-"

// Send implements channel.Channel.
func (e *Email) Send(ctx context.Context, out channel.Outgoing) (string, error) {
	to, err := mail.ParseAddress(out.At.Chat)
	if err != nil || strings.ContainsFunc(out.At.Chat, func(r rune) bool { return r < ' ' }) {
		return "", channel.Rejected(service, "the address is invalid")
	}
	size := len(out.Text)
	for _, a := range out.Attachments {
		size += len(a.Data)
	}
	if size > maxFile {
		return "", channel.Rejected(service, "the files are larger than 15 MB")
	}
	_, domain, _ := strings.Cut(e.own.Address, "@")
	id := idPrefix + wire.Key(out.Key) + "@" + domain
	raw, err := e.encode(to, id, out)
	if err != nil {
		return "", channel.Rejected(service, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := e.dialer.SMTP(ctx, e.account)
	if err != nil {
		return "", failed(err)
	}
	defer c.Close() //nolint:errcheck // what counts has been answered
	err = c.Mail(e.own.Address, nil)
	if err == nil {
		err = c.Rcpt(to.Address, nil)
	}
	var w io.WriteCloser
	if err == nil {
		w, err = c.Data()
	}
	if err != nil {
		return "", refused(err, channel.Unreachable)
	}
	_, err = w.Write(raw)
	if err := cmp.Or(err, w.Close()); err != nil {
		return "", refused(err, channel.Uncertain)
	}
	return id, nil
}

// refused returns the coded error of what the server says; otherwise says what no answer means.
func refused(err error, otherwise func(string, error) error) error {
	no := (*smtp.SMTPError)(nil)
	switch {
	case !errors.As(err, &no):
		return otherwise(service, err)
	case no.Temporary():
		return channel.Limited(service, pauseIn(no.Message))
	}
	return channel.Rejected(service, wire.Line(no.Message))
}

// pauses is how servers say when to try again, if they do: SMTP has no field for it.
var pauses = regexp.MustCompile(`(?i)(\d{1,5})\s*(s|m)(ec|in|econd|inute)?s?\b`)

// pauseIn returns the pause that a server asks for, or one that suits greylisting.
func pauseIn(message string) time.Duration {
	if m := pauses.FindStringSubmatch(message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n > 0 {
			unit := time.Second
			if strings.EqualFold(m[2], "m") {
				unit = time.Minute
			}
			return time.Duration(n) * unit
		}
	}
	return 5 * time.Minute
}

// encode writes an e-mail: the text as HTML and as plain text, and files.
func (e *Email) encode(to *mail.Address, id string, out channel.Outgoing) ([]byte, error) {
	text, _ := markup.Plain(out.Text)
	var h gomail.Header
	h.SetAddressList("From", []*gomail.Address{e.own})
	h.SetAddressList("To", []*gomail.Address{to})
	h.SetDate(time.Now())
	h.SetMessageID(id)
	h.SetSubject(subject(text))
	h.Set("Auto-Submitted", "auto-replied") // RFC 3834: no answer by a program
	if t, ok := e.threadOf(out); ok {
		if strings.Contains(t.ID, "@") {
			h.SetMsgIDList("In-Reply-To", []string{t.ID})
			h.SetMsgIDList("References", append(slices.Clone(t.References), t.ID))
		}
		if t.Subject != "" {
			h.SetSubject(t.Subject)
			if !answers.MatchString(t.Subject) {
				h.SetSubject("Re: " + t.Subject)
			}
		}
	}
	var b bytes.Buffer
	w, err := gomail.CreateWriter(&b, h)
	if err != nil {
		return nil, err
	}
	if out.Text != "" {
		if err := alternatives(w, text, out.Text); err != nil {
			return nil, err
		}
	}
	for _, a := range out.Attachments {
		var ah gomail.AttachmentHeader
		media := a.MediaType
		if media == "" || strings.ContainsAny(media, "\r\n") {
			media = "application/octet-stream"
		}
		ah.Set("Content-Type", media)
		ah.SetFilename(cmp.Or(wire.Line(a.Name), "file"))
		ah.Set("Content-Transfer-Encoding", "base64")
		p, err := w.CreateAttachment(ah)
		if err != nil {
			return nil, err
		}
		_, err = p.Write(a.Data)
		if err := errors.Join(err, p.Close()); err != nil {
			return nil, err
		}
	}
	err = w.Close()
	return b.Bytes(), err
}

func alternatives(w *gomail.Writer, text, html string) error {
	iw, err := w.CreateInline()
	if err != nil {
		return err
	}
	for _, part := range [][2]string{{"text/plain", strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"}, {"text/html", "<!DOCTYPE html><html><body>" + html + "</body></html>\r\n"}} {
		var ih gomail.InlineHeader
		ih.SetContentType(part[0], map[string]string{"charset": "utf-8"})
		ih.Set("Content-Transfer-Encoding", "quoted-printable")
		p, err := iw.CreatePart(ih)
		if err != nil {
			return err
		}
		_, err = io.WriteString(p, part[1])
		if err := errors.Join(err, p.Close()); err != nil {
			return err
		}
	}
	return iw.Close()
}

// subject returns the beginning of a text that answers nothing.
func subject(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = wire.Line(line)
	if runes := []rune(line); len(runes) > 70 {
		line = strings.TrimSpace(string(runes[:70])) + "…"
	}
	return cmp.Or(line, "Steward")
}
