// Package extract turns what others have made (web pages, PDF and Word files, feeds, text in
// any encoding) into text that a model can read.
//
// The parsers of these formats are other people's code, and their input may be hostile: it can
// make a parser loop, overflow its stack or use up the memory, none of which Go code can stop
// from outside. So a Reader with a Command parses each document in a process of its own, which
// limits its own memory and processor time and is killed when the context ends. A crash of a
// parser then fails one call. The process is this program itself; see Inside.
package extract

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"steward/internal/fault"
)

// Limits of one document.
const (
	MaxBytes = 10 << 20 // of the input
	MaxText  = 1 << 20  // bytes of text; more is cut off
	MaxLinks = 200

	maxTime   = 20 * time.Second // of parsing
	maxMemory = 700 << 20        // of the process that parses
	maxAnswer = 8 << 20          // bytes of what it writes
)

// Kind says what a document was.
type Kind string

// The kinds.
const (
	HTML Kind = "html"
	PDF  Kind = "pdf"
	DOCX Kind = "docx"
	Feed Kind = "feed"
	Mail Kind = "mail"
	Text Kind = "text"
)

// Input is a document to read.
type Input struct {
	Data      []byte `json:"-"`
	MediaType string // as declared, with parameters; empty: derived from the content
	Base      string // the URL that links are relative to
	// Whole returns everything visible of an HTML page, not only its main content. It is for
	// e-mail and for pages that are not articles.
	Whole bool
}

// Document is what a document says.
type Document struct {
	Kind      Kind
	Title     string
	Byline    string
	Text      string // Markdown for HTML, DOCX and feeds, else plain text; valid UTF-8
	Links     []Link // of HTML and feeds: absolute, http and https only, each once
	Pages     int    // of a PDF
	Truncated bool   // Text or Links were cut off

	Sections []Section // pages of a PDF, messages of a mailbox; in order, without overlaps
	Above    int       // blank lines that the file has above Text
}

// Section is a part of a document that its format numbers.
type Section struct {
	Number   int    // from 1
	Title    string // the subject of a message
	From, To int    // its range of bytes in Text
}

// Link is a link of a document.
type Link struct{ Text, URL string }

// Reader reads documents. The zero value parses in this process: it is for tests and for the
// process that Command starts. Safe for concurrent use.
type Reader struct {
	// Command starts a process that calls Inside first. See Command.
	Command []string
	// Slots bounds, by its capacity, how many documents are read at a time by all Readers that
	// have it, because each may take hundreds of megabytes. nil: it is not bounded.
	Slots chan struct{}
}

// insideFlag is the first argument of a process that parses.
const insideFlag = "--steward-extract"

// Command returns the command for Reader.Command: this program itself.
func Command() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Internal, "extract_unavailable", "the path of this program is unknown: %w", err)
	}
	return []string{self, insideFlag}, nil
}

// Read reads a document. Error codes: extract_unsupported, extract_too_large, extract_damaged
// (all of kind Invalid or TooLarge), extract_timeout.
func (r Reader) Read(ctx context.Context, in Input) (Document, error) {
	if len(in.Data) > MaxBytes {
		return Document{}, tooLarge(len(in.Data))
	}
	if r.Slots != nil {
		select {
		case r.Slots <- struct{}{}:
			defer func() { <-r.Slots }()
		case <-ctx.Done():
			return Document{}, context.Cause(ctx)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if len(r.Command) == 0 {
		return parse(ctx, in)
	}
	return r.parseInProcess(ctx, in)
}

func tooLarge(n int) error {
	return fault.New(fault.TooLarge, "extract_too_large", "the document has %d bytes: the limit is %d", n, MaxBytes)
}

// answer is what the process that parses writes: a document or an error.
type answer struct {
	Document Document
	Code     string `json:",omitempty"`
	Message  string `json:",omitempty"`
}

// parseInProcess parses in a process of its own. Its input is a line of JSON with the Input, and the
// data.
func (r Reader) parseInProcess(ctx context.Context, in Input) (Document, error) {
	head, err := json.Marshal(in)
	if err != nil {
		return Document{}, err
	}
	cmd := exec.CommandContext(ctx, r.Command[0], r.Command[1:]...)
	cmd.Env = []string{"GOMAXPROCS=1", "GOMEMLIMIT=500MiB", "GOTRACEBACK=none"}
	cmd.Stdin = io.MultiReader(bytes.NewReader(head), strings.NewReader("\n"), bytes.NewReader(in.Data))
	out := &limited{most: maxAnswer}
	cmd.Stdout = out
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Document{}, fault.New(fault.Timeout, "extract_timeout", "reading the document took longer than %s", maxTime)
	case ctx.Err() != nil:
		return Document{}, ctx.Err()
	}
	var a answer
	if bad := json.Unmarshal(out.Bytes(), &a); err != nil || bad != nil {
		return Document{}, fault.New(fault.Invalid, "extract_damaged", "the document cannot be read: its parser crashed (%w)", cmp.Or(err, bad)).
			WithHint("it may be damaged or malicious")
	}
	if a.Code != "" {
		return Document{}, fault.New(fault.Invalid, a.Code, "%s", a.Message)
	}
	return a.Document, nil
}

// limited is a buffer that refuses more than a number of bytes.
type limited struct {
	bytes.Buffer
	most int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.most {
		return 0, errors.New("too much output")
	}
	return l.Buffer.Write(p)
}

// Inside must be called early in main, with os.Args. If this process was started by a Reader, it
// reads one document from in, writes the answer to out, and reports true; main must then exit.
func Inside(args []string, in io.Reader, out io.Writer) (code int, mine bool) {
	if len(args) != 2 || args[1] != insideFlag {
		return 0, false
	}
	limitSelf()
	a := parseInput(in)
	if err := json.NewEncoder(out).Encode(a); err != nil {
		return 1, true
	}
	return 0, true
}

func parseInput(in io.Reader) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{Code: "extract_damaged", Message: "the document cannot be read: it crashes its parser"}
		}
	}()
	raw, err := io.ReadAll(in)
	var x Input
	head, data, _ := bytes.Cut(raw, []byte("\n"))
	if err == nil {
		err = json.Unmarshal(head, &x)
	}
	if err == nil {
		x.Data = data
		a.Document, err = parse(context.Background(), x)
	}
	if err != nil {
		e := fault.Of(err)
		a.Code, a.Message = e.Code, e.Error()
	}
	return a
}

// parse reads a document in this process. It returns soon after the context is done, as far as
// the parsers allow.
func parse(ctx context.Context, in Input) (d Document, err error) {
	media, _, err := mime.ParseMediaType(in.MediaType)
	if err != nil || media == "" || media == "application/octet-stream" || media == "binary/octet-stream" {
		in.MediaType = http.DetectContentType(in.Data)
		media, _, _ = mime.ParseMediaType(in.MediaType) //nolint:errcheck // what the standard library itself has written
	}
	defer func() {
		if p := recover(); p != nil { // the parsers index into what they are given
			d, err = Document{}, damaged(media, errors.New("it crashes its parser"))
		}
	}()
	switch {
	case bytes.HasPrefix(in.Data, []byte("%PDF-")):
		d, err = readPDF(ctx, in.Data)
	case bytes.HasPrefix(in.Data, []byte("PK\x03\x04")):
		d, err = readDOCX(ctx, in.Data)
	case media == MailType, media == MailboxType:
		d, err = readMail(ctx, in.Data, media == MailboxType)
	case isFeed(media, in.Data):
		d, err = readFeed(ctx, in)
	case media == "text/html" || media == "application/xhtml+xml":
		d, err = readHTML(ctx, in)
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "json"), strings.HasSuffix(media, "xml"), strings.HasSuffix(media, "yaml"),
		strings.HasSuffix(media, "javascript"):
		d, err = readText(in)
	default:
		return d, fault.New(fault.Invalid, "extract_unsupported", "%.80s cannot be read as text", media).
			WithHint("HTML, PDF, DOCX, feeds, mail and text can be read")
	}
	if err != nil {
		return Document{}, err
	}
	return d.bounded(), ctx.Err()
}

func damaged(what string, err error) error {
	return fault.New(fault.Invalid, "extract_damaged", "the %.80s document cannot be read: %w", what, err)
}

// bounded cuts off what exceeds the limits.
func (d Document) bounded() Document {
	d.Title, d.Byline = oneLine(d.Title), oneLine(d.Byline)
	text := strings.ToValidUTF8(d.Text, "\uFFFD")
	d.Text = strings.TrimLeftFunc(text, unicode.IsSpace)
	above := len(text) - len(d.Text)
	d.Above = strings.Count(text[:above], "\n")
	d.Text = strings.TrimSpace(d.Text)
	if len(d.Text) > MaxText {
		end := MaxText
		for !utf8.RuneStart(d.Text[end]) {
			end--
		}
		d.Text, d.Truncated = d.Text[:end], true
	}
	for i := range d.Sections {
		s := &d.Sections[i]
		s.From, s.To = min(max(s.From-above, 0), len(d.Text)), min(max(s.To-above, 0), len(d.Text))
	}
	return d
}

// oneLine returns a short text without line breaks.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300]) + "…"
	}
	return s
}

// decode returns a reader of UTF-8. The encoding is that of the media type, of a byte order
// mark or of a declaration in the content; see charset.NewReader.
func decode(in Input) (io.Reader, error) {
	if len(in.Data) == 0 { // which charset takes for a broken stream
		return strings.NewReader(""), nil
	}
	return charset.NewReader(bytes.NewReader(in.Data), in.MediaType)
}

func readText(in Input) (Document, error) {
	r, err := decode(in)
	if err != nil {
		return Document{}, damaged("text", err)
	}
	b, err := io.ReadAll(io.LimitReader(r, MaxText+4))
	if err != nil {
		return Document{}, damaged("text", err)
	}
	return Document{Kind: Text, Text: string(b)}, nil
}
