package mail

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-message"
	_ "github.com/emersion/go-message/charset" // texts in other encodings than UTF-8
	"github.com/emersion/go-message/mail"

	"steward/internal/tools/local"
)

// Bounds of an e-mail that is read.
const (
	maxText   = 1 << 20 // bytes of plain text, and of HTML
	maxNested = 10      // parts within parts
	maxParts  = 200
)

// letter is an e-mail as it was read. problem describes what is broken; the rest is read.
type letter struct {
	from, to, cc, replyTo, subject string
	id                             string   // Message-ID, without brackets
	references                     []string // oldest first
	date                           time.Time
	flags                          []imap.Flag
	plain                          string
	html                           []byte
	attached                       []attached
	problem                        string
	parts                          int
}

type attached struct {
	name, media string
	data        []byte
}

// parse reads an e-mail.
func parse(raw []byte) (l letter) {
	m, err := message.ReadWithOptions(bytes.NewReader(raw), &message.ReadOptions{MaxHeaderBytes: 1 << 20})
	if m == nil {
		l.problem, l.plain = "it is not an e-mail: "+oneLine(err.Error()), clean(raw[:min(len(raw), maxText)])
		return l
	}
	h := mail.Header{Header: m.Header}
	l.from, l.to, l.cc = people(h, "From"), people(h, "To"), people(h, "Cc")
	l.replyTo = cmp.Or(people(h, "Reply-To"), l.from)
	l.subject = headerText(h, "Subject")
	if l.date, err = h.Date(); err != nil {
		l.date = time.Time{}
	}
	if l.id, err = h.MessageID(); err != nil {
		l.id = ""
	}
	refs, err := h.MsgIDList("References")
	if err != nil || len(refs) == 0 {
		if refs, err = h.MsgIDList("In-Reply-To"); err != nil {
			refs = nil
		}
	}
	l.references = refs
	if err := m.Walk(l.add); err != nil {
		l.problem = "a part of it is broken: " + oneLine(err.Error())
	}
	return l
}

// headerText returns a field as one line of text, or its raw value if it cannot be decoded.
func headerText(h mail.Header, name string) string {
	text, _ := h.Text(name) //nolint:errcheck // the raw value is returned
	return short(text)
}

// people returns the names and addresses of a field.
func people(h mail.Header, name string) string {
	list, err := h.AddressList(name)
	if err != nil {
		return headerText(h, name)
	}
	return joinSome(list, 20, func(a *mail.Address) string {
		if a.Name == "" {
			return short(a.Address)
		}
		return short(a.Name) + " <" + short(a.Address) + ">"
	})
}

// joinSome joins what is shown of some things, with the number of the others.
func joinSome[T any](list []T, most int, show func(T) string) string {
	return strings.ReplaceAll(local.List(list, most, show), "\n", ", ")
}

// add adds one part; the parts inside it follow. If there are alternatives, plain text is preferred.
func (l *letter) add(path []int, part *message.Entity, _ error) error {
	if l.parts++; l.parts > maxParts || len(path) > maxNested {
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
		return fmt.Errorf("%.100q has no boundary", media)
	case strings.HasPrefix(media, "multipart/"):
		return nil
	case kind == "attachment" || media != "text/plain" && media != "text/html":
		data, err := io.ReadAll(part.Body)
		name := cmp.Or(short(cmp.Or(names["filename"], params["name"])), "without a name")
		l.attached = append(l.attached, attached{name, short(media), data})
		return err
	}
	data, err := io.ReadAll(io.LimitReader(part.Body, maxText))
	if media == "text/html" {
		l.html = append(l.html, data[:min(len(data), max(0, maxText-len(l.html)))]...)
		return err
	}
	if text := clean(data); len(l.plain)+len(text) <= maxText {
		l.plain = strings.TrimLeft(l.plain+"\n\n"+text, "\n")
	}
	return err
}

// clean returns valid UTF-8 with LF at the ends of lines.
func clean(b []byte) string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(b), "\r\n", "\n"), "�")
}
