package email

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"strings"
	"time"

	"golang.org/x/text/encoding/htmlindex"
)

// Bounds of an e-mail that is read.
const (
	maxEML    = 25 << 20 // bytes of a file
	maxBody   = 1 << 20  // bytes of text
	maxNested = 10       // parts within parts
	maxParts  = 200
)

// encode writes a draft as RFC 5322 with MIME: everything beyond ASCII is
// encoded, lines are short and end in CRLF.
func encode(d Draft, from *mail.Address, id string, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	field := func(name, value string) { b.WriteString(fold(name + ": " + value)) }
	field("From", from.String())
	field("To", addresses(d.To))
	if len(d.Cc) > 0 {
		field("Cc", addresses(d.Cc))
	}
	field("Subject", mime.QEncoding.Encode("utf-8", d.Subject))
	field("Date", at.Format(time.RFC1123Z))
	field("Message-ID", "<"+id+"@steward.local>")
	field("MIME-Version", "1.0")
	field("Content-Type", "text/plain; charset=utf-8")
	field("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	body := strings.ReplaceAll(strings.ReplaceAll(d.Body, "\r\n", "\n"), "\r", "\n")
	if _, err := io.WriteString(w, strings.ReplaceAll(body, "\n", "\r\n")); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b.WriteString("\r\n")
	return b.Bytes(), nil
}

func addresses(list []*mail.Address) string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

const foldAt = 76 // characters of a header's line

// fold breaks a header at its spaces (RFC 5322, 2.2.3).
func fold(line string) string {
	var b strings.Builder
	for len(line) > foldAt {
		at := strings.LastIndexByte(line[:foldAt], ' ')
		if at <= strings.IndexByte(line, ' ') {
			next := strings.IndexByte(line[foldAt:], ' ')
			if next < 0 {
				break
			}
			at = foldAt + next
		}
		if strings.TrimSpace(line[:at]) == "" {
			break
		}
		b.WriteString(line[:at] + "\r\n")
		line = line[at:]
	}
	return b.String() + line + "\r\n"
}

var words = mime.WordDecoder{CharsetReader: charset}

// charset reads a text in an encoding by its name.
func charset(name string, in io.Reader) (io.Reader, error) {
	enc, err := htmlindex.Get(name)
	if err != nil {
		return nil, err
	}
	return enc.NewDecoder().Reader(in), nil
}

// decode reads an e-mail. What is broken in it is told in Problem, and
// everything else is there; a file that is no e-mail at all has its text.
func decode(raw []byte) Email {
	var e Email
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		e.Problem, e.Text = "it is no e-mail: "+err.Error(), clean(raw)
		return e
	}
	e.From = addressText(m.Header, "From")
	e.To, e.Cc = addressList(m.Header, "To"), addressList(m.Header, "Cc")
	e.Subject = oneLine(word(m.Header.Get("Subject")))
	if t, err := m.Header.Date(); err == nil {
		e.Date = t
	}
	p := parts{}
	if err := p.read(m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Header.Get("Content-Disposition"), m.Body, 0); err != nil {
		e.Problem = "a part of it is broken: " + err.Error()
	}
	e.Text, e.Attachments = p.text(), p.attached
	return e
}

func word(s string) string {
	if d, err := words.DecodeHeader(s); err == nil {
		return d
	}
	return clean([]byte(s))
}

// oneLine makes a header's value one line: whoever wrote it does not write
// Steward's.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func addressText(h mail.Header, name string) string {
	return strings.Join(addressList(h, name), ", ")
}

func addressList(h mail.Header, name string) []string {
	raw := h.Get(name)
	if raw == "" {
		return nil
	}
	p := mail.AddressParser{WordDecoder: &words}
	list, err := p.ParseList(raw)
	if err != nil {
		return []string{oneLine(word(raw))}
	}
	var out []string
	for _, a := range list {
		if a.Name == "" {
			out = append(out, oneLine(a.Address))
			continue
		}
		out = append(out, oneLine(a.Name)+" <"+oneLine(a.Address)+">")
	}
	return out
}

// parts collects what an e-mail is made of.
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

// read reads one part and those within.
func (p *parts) read(contentType, transfer, disposition string, body io.Reader, depth int) error {
	if p.seen++; p.seen > maxParts || depth > maxNested {
		return errors.New("it has too many parts")
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media == "" {
		media = "text/plain"
		if params == nil {
			params = map[string]string{}
		}
	}
	switch strings.ToLower(strings.TrimSpace(transfer)) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	kind, names, err := mime.ParseMediaType(disposition)
	if err != nil {
		kind = ""
	}
	switch {
	case strings.HasPrefix(media, "multipart/"):
		return p.multi(media, params["boundary"], body, depth)
	case kind == "attachment" || !strings.HasPrefix(media, "text/"):
		return p.attach(media, cmp.Or(names["filename"], params["name"]), body)
	}
	raw, readErr := io.ReadAll(io.LimitReader(body, maxBody))
	text := clean(raw)
	if name := params["charset"]; name != "" && !strings.EqualFold(name, "utf-8") && !strings.EqualFold(name, "us-ascii") {
		if r, err := charset(name, bytes.NewReader(raw)); err == nil {
			if b, err := io.ReadAll(r); err == nil {
				text = clean(b)
			}
		}
	}
	if media == "text/html" {
		p.html = append(p.html, plainOf(text))
	} else {
		p.plain = append(p.plain, text)
	}
	return readErr
}

// multi reads the parts of a multipart. Of alternatives the plain text is
// taken, if there is one: text prefers it.
func (p *parts) multi(media, boundary string, body io.Reader, depth int) error {
	if boundary == "" {
		return fmt.Errorf("%s has no boundary", media)
	}
	r := multipart.NewReader(body, boundary)
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		h := part.Header
		if err := p.read(h.Get("Content-Type"), h.Get("Content-Transfer-Encoding"), h.Get("Content-Disposition"), part, depth+1); err != nil {
			return err
		}
	}
}

func (p *parts) attach(media, name string, body io.Reader) error {
	n, err := io.Copy(io.Discard, body)
	if name = oneLine(word(name)); name == "" {
		name = "without a name"
	}
	p.attached = append(p.attached, fmt.Sprintf("%s (%s, %d bytes)", name, media, n))
	return err
}

// clean makes bytes a text: valid UTF-8 with plain ends of lines.
func clean(b []byte) string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(b), "\r\n", "\n"), "�")
}
