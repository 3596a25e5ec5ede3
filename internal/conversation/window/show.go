package window

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"steward/internal/message"
	"steward/internal/record"
)

// One returns the last message of a branch as Render shows it with the same Clip.
func One(it Item, clip int) *message.Message { return show(&it, clip) }

// show returns an item's message in the form in which a model sees it.
func show(it *Item, clip int) *message.Message {
	r := it.Message.Result()
	switch {
	case r == nil:
		return it.Message
	case it.State.State == record.Invalidated:
		return withContent(it.Message, r, obsolete(r, it))
	case clips(it, clip):
		if content := clipped(r, max(clip, MinClip), it.URI); content != nil {
			return withContent(it.Message, r, content)
		}
	}
	return it.Message
}

// clips reports whether show shortens an item at a clip size.
func clips(it *Item, clip int) bool {
	if clip <= 0 || it.Pinned || it.State.State == record.Invalidated {
		return false
	}
	r := it.Message.Result()
	return r != nil && textBytes(r) > max(clip, MinClip)
}

// withContent returns a copy of a tool message whose result has the given content.
func withContent(m *message.Message, r *message.ToolResult, content []message.Block) *message.Message {
	out, res := *m, *r
	res.Content = content
	out.Blocks = []message.Block{&res}
	return &out
}

func obsolete(r *message.ToolResult, it *Item) []message.Block {
	reason := oneLine(it.State.Reason, maxShownReason)
	switch {
	case it.State.Strategy == record.StrategySequence && it.URI != "": // it still holds
		return []message.Block{line(r, fmt.Sprintf("[%s; read it with results.read uri=%s]", reason, it.URI))}
	case reason == "":
		reason = "this result is no longer valid"
	}
	return []message.Block{line(r, "[obsolete: "+reason+"]")}
}

// maxShownReason bounds the length of a reason shown to a model, in bytes.
const maxShownReason = 400

// line returns a text with origin system that replaces a result's content and
// keeps its labels.
func line(r *message.ToolResult, text string) *message.Text {
	return &message.Text{Common: message.Common{Origin: originSystem, Labels: message.LabelsOf(r.Content)}, Text: text}
}

// Whole returns the result's text blocks, joined by line breaks. The offsets in
// clipped results, and those of results.read for a message, refer to this text.
func Whole(r *message.ToolResult) string {
	var texts []string
	for _, b := range r.Content {
		if t, ok := b.(*message.Text); ok {
			texts = append(texts, t.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// clipped returns a result's content with its text cut to about clip bytes: the
// beginning, a line that says how to read on, and a short piece of the end. Images
// and files stay. It returns nil if that would save nothing.
func clipped(r *message.ToolResult, clip int, uri string) []message.Block {
	whole := Whole(r)
	tail := min(clip/8, 256)
	if r.Rest != "" {
		tail, uri = 0, r.Rest // the end of the result is stored elsewhere
	}
	head := boundary(whole, max(clip-tail-len(note(uri, len(whole), len(whole), r.Rest != "")), clip/2))
	from := len(whole) - tail
	for from < len(whole) && !utf8.RuneStart(whole[from]) {
		from++
	}
	text := whole[:head] + note(uri, from-head, head, r.Rest != "") + whole[from:]
	if len(text) >= len(whole) {
		return nil
	}
	var out []message.Block
	placed := false
	for _, b := range r.Content {
		t, ok := b.(*message.Text)
		switch {
		case !ok:
			out = append(out, b)
		case !placed:
			placed = true
			c := message.Common{Origin: t.Origin, Labels: message.LabelsOf(r.Content)}
			out = append(out, &message.Text{Common: c, Text: text})
		}
	}
	return out
}

// note returns the line that says how much is left out and how to read on. If the
// result was cut before it was stored (cutBefore), its full length is unknown.
func note(uri string, more, offset int, cutBefore bool) string {
	switch {
	case uri == "":
		return fmt.Sprintf("\n[… %d more bytes are not shown]\n", more)
	case cutBefore:
		return fmt.Sprintf("\n[… more than %d more bytes; read on with results.read uri=%s offset=%d]", more, uri, offset)
	}
	return fmt.Sprintf("\n[… %d more bytes; read on with results.read uri=%s offset=%d]\n", more, uri, offset)
}

func textBytes(r *message.ToolResult) int {
	n, texts := 0, 0
	for _, b := range r.Content {
		if t, ok := b.(*message.Text); ok {
			n += len(t.Text)
			texts++
		}
	}
	return n + max(0, texts-1)
}

// boundary returns the highest index up to n at which a character begins or s ends.
func boundary(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}
