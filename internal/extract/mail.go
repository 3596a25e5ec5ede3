package extract

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"

	"golang.org/x/net/html/charset"
)

// The media types of mail: a message (RFC 5322), and a mailbox with several (RFC 4155).
const (
	MailType    = "message/rfc822"
	MailboxType = "application/mbox"
)

// Limits of mail.
const (
	maxMails     = 2000 // messages of a mailbox
	maxMailParts = 100  // of a message
	maxMailDepth = 8    // parts within parts
)

// readMail reads a message, or all those of a mailbox. A message that cannot be read is left out, unless it
// is the only one.
func readMail(ctx context.Context, data []byte, box bool) (Document, error) {
	d := Document{Kind: Mail}
	mails := [][]byte{data}
	if box || bytes.HasPrefix(data, []byte("From ")) {
		mails = splitMailbox(data)
	}
	var b strings.Builder
	var failed error
	for i, raw := range mails[:min(len(mails), maxMails)] {
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
		if b.Len() > MaxText {
			break
		}
		title, text, err := mailText(ctx, raw)
		if err != nil {
			failed, d.Truncated = err, true
			continue
		}
		from := b.Len()
		b.WriteString(strings.ToValidUTF8(text, "\uFFFD"))
		d.Sections = append(d.Sections, Section{Number: i + 1, Title: title, From: from, To: b.Len()})
		b.WriteString("\n\n")
	}
	if len(d.Sections) == 0 {
		return Document{}, damaged("mail", errors.Join(errors.New("it has no message"), failed))
	}
	if len(mails) == 1 {
		d.Title = d.Sections[0].Title
	}
	d.Truncated = d.Truncated || len(mails) > maxMails
	d.Text = b.String()
	return d, nil
}

// splitMailbox cuts a mailbox at the lines that begin with "From ".
func splitMailbox(data []byte) (mails [][]byte) {
	start, blank := -1, true // of the message, and whether the line before is blank
	for at := 0; at < len(data); {
		end := len(data)
		if n := bytes.IndexByte(data[at:], '\n'); n >= 0 {
			end = at + n + 1
		}
		line := data[at:end]
		if blank && bytes.HasPrefix(line, []byte("From ")) {
			if start >= 0 {
				mails = append(mails, data[start:at])
			}
			start = end
		}
		blank, at = len(bytes.TrimSpace(line)) == 0, end
	}
	if start >= 0 && start < len(data) {
		mails = append(mails, data[start:])
	}
	return mails
}

// mailText returns the subject of a message and what it says.
func mailText(ctx context.Context, raw []byte) (title, text string, err error) {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return "", "", err
	}
	words := mime.WordDecoder{CharsetReader: charset.NewReaderLabel}
	header := func(name string) string {
		s := m.Header.Get(name)
		if plain, err := words.DecodeHeader(s); err == nil {
			s = plain
		}
		return oneLine(s)
	}
	var b strings.Builder
	for _, name := range []string{"Subject", "From", "To", "Date"} {
		if s := header(name); s != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, s)
		}
	}
	w := mailWalk{ctx: ctx}
	body, err := w.part(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), "", m.Body, 0)
	if err != nil {
		return "", "", err
	}
	b.WriteString("\n" + strings.TrimSpace(strings.ReplaceAll(body, "\r\n", "\n")))
	return header("Subject"), b.String(), nil
}

type mailWalk struct {
	ctx   context.Context
	parts int
}

// part returns the text of a part of a message. Of alternatives, it is the first that has any.
func (w *mailWalk) part(kind, encoding, name string, r io.Reader, depth int) (string, error) {
	if w.parts++; w.parts > maxMailParts || depth > maxMailDepth {
		return "", errors.New("it has too many parts")
	}
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		media = "text/plain"
	}
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "quoted-printable":
		r = quotedprintable.NewReader(r)
	case "base64":
		r = base64.NewDecoder(base64.StdEncoding, r)
	}
	if strings.HasPrefix(media, "multipart/") {
		var all []string
		for parts := multipart.NewReader(r, params["boundary"]); ; {
			p, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				return strings.Join(all, "\n\n"), nil
			}
			if err != nil {
				return strings.Join(all, "\n\n"), nil //nolint:nilerr // many mails lack their last boundary
			}
			text, err := w.part(p.Header.Get("Content-Type"), p.Header.Get("Content-Transfer-Encoding"), p.FileName(), p, depth+1)
			if err != nil {
				return "", err
			}
			if text = strings.TrimSpace(text); text != "" {
				all = append(all, text)
				if media == "multipart/alternative" {
					return text, nil
				}
			}
		}
	}
	switch {
	case name != "":
		return "[attachment " + oneLine(name) + "]", nil
	case media != "text/plain" && media != "text/html":
		return "", nil
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes))
	if err != nil && len(data) == 0 {
		return "", err
	}
	in := Input{Data: data, MediaType: kind, Whole: true}
	if media == "text/html" {
		d, err := readHTML(w.ctx, in)
		return d.Text, err
	}
	if params["charset"] == "" {
		in.MediaType = "text/plain; charset=utf-8"
	}
	d, err := readText(in)
	return d.Text, err
}
