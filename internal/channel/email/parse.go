package email

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"path"
	"regexp"
	"strings"

	"github.com/emersion/go-message"
	_ "github.com/emersion/go-message/charset" // texts in other encodings than UTF-8
	gomail "github.com/emersion/go-message/mail"
	xhtml "golang.org/x/net/html"

	"steward/internal/channel/wire"
)

// Bounds of an e-mail that is read.
const (
	maxBody   = 1 << 20 // bytes of plain text, and of HTML
	maxParts  = 200
	maxNested = 10
)

// letter is an e-mail that was read.
type letter struct {
	header     message.Header
	id         string // Message-ID, without brackets
	subject    string
	references []string // oldest first
	reply      string   // the Message-ID that it answers
	plain      string
	html       []byte
	files      []file
	parts      int
}

// file is an attachment.
type file struct {
	name, media string
	data        []byte
}

// parse reads an e-mail; ok is false if it is none.
func parse(raw []byte) (l letter, ok bool) {
	m, err := message.ReadWithOptions(bytes.NewReader(raw), &message.ReadOptions{MaxHeaderBytes: 1 << 20})
	if m == nil || err != nil && !message.IsUnknownCharset(err) && !message.IsUnknownEncoding(err) {
		return l, false
	}
	l.header = m.Header
	h := gomail.Header{Header: m.Header}
	l.id, _ = h.MessageID()                     //nolint:errcheck // empty: it has none
	l.references, _ = h.MsgIDList("References") //nolint:errcheck // empty: it has none
	if answered, err := h.MsgIDList("In-Reply-To"); err == nil && len(answered) > 0 {
		l.reply = answered[0]
	}
	subject, _ := h.Text("Subject") //nolint:errcheck // the raw value is returned
	l.subject = wire.Line(subject)
	if err := m.Walk(l.add); err != nil && l.plain == "" && l.html == nil {
		l.plain = "(a part of the e-mail is broken: " + wire.Line(err.Error()) + ")"
	}
	return l, true
}

// add adds one part; the parts inside it follow. If there are alternatives, plain text is preferred.
func (l *letter) add(at []int, part *message.Entity, _ error) error {
	if l.parts++; l.parts > maxParts || len(at) > maxNested {
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
	if strings.HasPrefix(media, "multipart/") {
		if params["boundary"] == "" {
			return errors.New("a multipart has no boundary")
		}
		return nil
	}
	if kind == "attachment" || media != "text/plain" && media != "text/html" {
		data, err := io.ReadAll(part.Body)
		name := wire.Line(names["filename"])
		if name == "" {
			name = wire.Line(params["name"])
		}
		if guess := mime.TypeByExtension(strings.ToLower(path.Ext(name))); media == "application/octet-stream" && guess != "" {
			media, _, _ = strings.Cut(guess, ";")
		}
		l.files = append(l.files, file{name, wire.Line(media), data})
		return err
	}
	data, err := io.ReadAll(io.LimitReader(part.Body, maxBody))
	if media == "text/html" {
		l.html = append(l.html, data[:min(len(data), maxBody-min(len(l.html), maxBody))]...)
	} else if text := wire.Clean(string(data)); len(l.plain)+len(text) <= maxBody {
		l.plain = strings.TrimLeft(l.plain+"\n\n"+text, "\n")
	}
	return err
}

// text returns what a person wrote: without what is quoted, and with the subject if that begins a
// conversation.
func (l *letter) text() string {
	body := l.plain
	if strings.TrimSpace(body) == "" {
		body = htmlText(l.html)
	}
	body = unquoted(body)
	if subject := l.subject; subject != "" && (body == "" || l.reply == "" && !answers.MatchString(subject)) {
		body = strings.TrimSpace(subject + "\n\n" + body)
	}
	return body
}

// answers begins the subject of an answer, in the languages of large mail programs.
var answers = regexp.MustCompile(`(?i)^(re|aw|sv|antw|rif|odp|ynt|res|vs|回复|回覆)\s*(\[\d+\])?\s*[::]`)

// Lines that begin what a mail program quotes below an answer: the line of attribution, and the heads that
// Outlook writes.
var (
	attribution = regexp.MustCompile(`(?i)^\s*(on\b.{4,200}\bwrote|am\b.{4,200}\bschrieb\b.{0,100}|le\b.{4,200}\ba écrit|el\b.{4,200}\bescribió|il\b.{4,200}\bha scritto|op\b.{4,200}\bschreef\b.{0,100})\s*:\s*$`)
	original    = regexp.MustCompile(`(?i)^\s*(-{2,}\s*(original message|ursprüngliche nachricht|forwarded message|message d'origine|mensaje original)\s*-{2,}|_{20,})\s*$`)
)

// unquoted returns a text up to what is quoted or to a signature, without lines that are quoted in between.
func unquoted(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\u00a0", " "), "\n")
	var out []string
	for i, line := range lines {
		if line == "-- " || original.MatchString(line) {
			break
		}
		// The attribution may be broken into two lines.
		two := line
		if i+1 < len(lines) {
			two += " " + lines[i+1]
		}
		if attributes(line) || !strings.HasPrefix(line, ">") && attributes(two) {
			break
		}
		if strings.HasPrefix(line, ">") {
			continue
		}
		out = append(out, strings.TrimRight(line, " \t\r"))
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// attributes reports whether a line says who wrote what is quoted below, and when.
func attributes(line string) bool {
	return len(line) < 400 && strings.ContainsAny(line, "0123456789") && attribution.MatchString(line)
}

// htmlText returns what HTML shows, roughly. What a mail program marks as quoted is left out.
func htmlText(b []byte) string {
	var out strings.Builder
	hidden, quoted := "", 0
	for z := xhtml.NewTokenizer(bytes.NewReader(b)); ; {
		kind := z.Next()
		switch kind {
		case xhtml.ErrorToken:
			return strings.TrimSpace(wire.Clean(blankLines.ReplaceAllString(out.String(), "\n\n")))
		case xhtml.TextToken:
			if hidden == "" && quoted == 0 {
				out.WriteString(spaces.ReplaceAllString(string(z.Text()), " "))
			}
		case xhtml.StartTagToken, xhtml.EndTagToken, xhtml.SelfClosingTagToken:
			raw, _ := z.TagName()
			name := string(raw)
			switch {
			case hidden != "":
				if kind == xhtml.EndTagToken && name == hidden {
					hidden = ""
				}
			case kind == xhtml.StartTagToken && (name == "script" || name == "style" || name == "title"):
				hidden = name
			case name == "blockquote" && kind == xhtml.StartTagToken:
				quoted++
			case name == "blockquote" && kind == xhtml.EndTagToken:
				quoted = max(0, quoted-1)
			case name == "br", kind == xhtml.EndTagToken && (name == "p" || name == "div" || name == "li" || name == "tr" || name == "table" || len(name) == 2 && name[0] == 'h'):
				out.WriteString("\n")
			}
		}
	}
}

var (
	spaces     = regexp.MustCompile(`\s+`)
	blankLines = regexp.MustCompile(`\n\s*\n\s*`)
)
