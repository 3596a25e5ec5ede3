package email

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/emersion/go-message"
	_ "github.com/emersion/go-message/charset" // texts in other encodings than UTF-8
	"github.com/emersion/go-message/mail"
)

// Bounds of an e-mail that is read.
const (
	maxEML    = 25 << 20 // bytes of a file
	maxBody   = 1 << 20  // bytes of text
	maxNested = 10       // parts within parts
	maxParts  = 200
)

// encode returns a draft in the format of RFC 5322 with MIME: ASCII only, with short lines that end in
// CRLF.
func encode(d Draft, from *mail.Address, id string, at time.Time) ([]byte, error) {
	var h mail.Header
	h.SetAddressList("From", []*mail.Address{from})
	h.SetAddressList("To", d.To)
	if len(d.Cc) > 0 {
		h.SetAddressList("Cc", d.Cc)
	}
	h.SetSubject(d.Subject)
	h.SetDate(at)
	h.SetMessageID(id + "@steward.local")
	h.Set("Mime-Version", "1.0")
	h.SetContentType("text/plain", map[string]string{"charset": "utf-8"})
	h.Set("Content-Transfer-Encoding", "quoted-printable")
	var b bytes.Buffer
	w, err := mail.CreateSingleInlineWriter(&b, h)
	if err != nil {
		return nil, err
	}
	body := strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(d.Body)
	if _, err := io.WriteString(w, body+"\r\n"); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// decode reads an e-mail. Problem describes what is broken; the rest is read. If the file is not an e-mail
// at all, Text is its content.
func decode(raw []byte) Email {
	var e Email
	m, err := message.Read(bytes.NewReader(raw))
	if m == nil {
		e.Problem, e.Text = "it is no e-mail: "+err.Error(), clean(raw)
		return e
	}
	h := mail.Header{Header: m.Header}
	e.From = strings.Join(people(h, "From"), ", ")
	e.To, e.Cc = people(h, "To"), people(h, "Cc")
	e.Subject = word(h, "Subject")
	if t, err := h.Date(); err == nil {
		e.Date = t
	}
	p := parts{}
	if err := m.Walk(p.add); err != nil {
		e.Problem = "a part of it is broken: " + err.Error()
	}
	e.Text, e.Attachments = p.text(), p.attached
	return e
}

// word returns a field as one line of text, or its raw value if it cannot be decoded.
func word(h mail.Header, name string) string {
	text, _ := h.Text(name)
	return oneLine(clean([]byte(text)))
}

// oneLine joins a header's value into one line, so that its author cannot write lines of Steward's output.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// people returns the names and addresses of a field.
func people(h mail.Header, name string) (out []string) {
	list, err := h.AddressList(name)
	if err != nil {
		return []string{word(h, name)}
	}
	for _, a := range list {
		if a.Name == "" {
			out = append(out, oneLine(a.Address))
			continue
		}
		out = append(out, oneLine(a.Name)+" <"+oneLine(a.Address)+">")
	}
	return out
}

// parts collects the parts of an e-mail.
type parts struct {
	plain, html []string
	attached    []string
	seen        int
}

func (p *parts) text() string {
	if len(p.plain) > 0 {
		return strings.Join(p.plain, "\n\n")
	}
	return strings.Join(p.html, "\n\n")
}

// add adds one part; the parts inside it follow. If there are alternatives, text prefers plain text.
func (p *parts) add(path []int, part *message.Entity, _ error) error {
	if p.seen++; p.seen > maxParts || len(path) > maxNested {
		return errors.New("it has too many parts")
	}
	media, params, err := part.Header.ContentType()
	if err != nil || media == "" {
		media = "text/plain"
	}
	kind, names, err := part.Header.ContentDisposition()
	if err != nil {
		kind = ""
	}
	switch {
	case strings.HasPrefix(media, "multipart/") && params["boundary"] == "":
		return fmt.Errorf("%s has no boundary", media)
	case strings.HasPrefix(media, "multipart/"):
		return nil
	case kind == "attachment" || !strings.HasPrefix(media, "text/"):
		return p.attach(media, cmp.Or(names["filename"], params["name"]), part.Body)
	}
	raw, err := io.ReadAll(io.LimitReader(part.Body, maxBody))
	if media == "text/html" {
		p.html = append(p.html, plainOf(clean(raw)))
	} else {
		p.plain = append(p.plain, clean(raw))
	}
	return err
}

func (p *parts) attach(media, name string, body io.Reader) error {
	n, err := io.Copy(io.Discard, body)
	if name = oneLine(clean([]byte(name))); name == "" {
		name = "without a name"
	}
	p.attached = append(p.attached, fmt.Sprintf("%s (%s, %d bytes)", name, media, n))
	return err
}

// clean returns valid UTF-8 with LF at the ends of lines.
func clean(b []byte) string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(b), "\r\n", "\n"), "�")
}
