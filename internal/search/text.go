package search

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/message"
)

// Bounds of the searched text of a message, in bytes.
const (
	maxResult = 64 << 10 // of a tool's result, and of a call's arguments
	maxText   = 1 << 20  // of the whole
)

// Document is the searched part of a message.
type Document struct {
	Text   string
	Tools  []string       // the tools that it calls, or whose result it holds
	Labels message.Labels // of the blocks that are in Text
}

// Read returns the searched part of a message: the text of users, assistants and tools,
// and the names and arguments of tool calls. Blocks labelled secret are left out, and
// so are searches, which would find themselves.
func Read(m *message.Message) Document {
	d := reader{left: maxText}
	if m.Role != message.System {
		d.blocks(m.Blocks)
	}
	return Document{d.text.String(), d.tools, d.labels}
}

type reader struct {
	text   strings.Builder
	left   int
	tools  []string
	labels message.Labels
}

// searches reports whether a tool searches messages.
func searches(name string) bool { return name == ToolName || name == SimilarToolName }

func (d *reader) blocks(blocks []message.Block) {
	for _, b := range blocks {
		if b.Base().Labels.Has(message.Secret) {
			continue
		}
		switch b := b.(type) {
		case *message.Text:
			d.add(b.Text, maxText, b.Labels)
		case *message.ToolCall:
			if !searches(b.Name) {
				d.tools = append(d.tools, b.Name)
				d.add(b.Name+" "+arguments(b.Args), maxResult, b.Labels)
			}
		case *message.ToolResult:
			if !searches(b.Name) {
				d.tools = append(d.tools, b.Name)
				d.result(b)
			}
		}
	}
}

func (d *reader) result(r *message.ToolResult) {
	left := maxResult
	for _, b := range r.Content {
		if t, ok := b.(*message.Text); ok && !t.Labels.Has(message.Secret) {
			left -= d.add(t.Text, left, t.Labels|r.Labels)
		}
	}
}

// add adds a paragraph, cut to at most most bytes, and returns its size.
func (d *reader) add(s string, most int, l message.Labels) int {
	s = head(s, min(most, d.left))
	if s == "" {
		return 0
	}
	if d.text.Len() > 0 {
		d.text.WriteByte('\n')
	}
	d.text.WriteString(s)
	d.left -= len(s)
	d.labels |= l
	return len(s)
}

// head returns the first n bytes of a text, cut between characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

// arguments returns a call's arguments as words. Anything but JSON is returned
// unchanged.
func arguments(args []byte) string {
	var b strings.Builder
	dec := jsontext.NewDecoder(strings.NewReader(string(args)), jsontext.AllowDuplicateNames(true))
	for b.Len() < maxResult {
		t, err := dec.ReadToken()
		if err != nil {
			break
		}
		switch t.Kind() {
		case '{', '}', '[', ']':
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.String())
		if kind, n := dec.StackIndex(dec.StackDepth()); kind == '{' && n%2 == 1 {
			b.WriteByte(':')
		}
	}
	if b.Len() == 0 && len(args) > 2 {
		return string(args)
	}
	return b.String()
}
