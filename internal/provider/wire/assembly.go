package wire

import (
	"strings"

	"steward/internal/llm"
	"steward/internal/message"
)

// Assembly puts a streamed reply together, and yields its events on the way.
// It belongs to one stream.
type Assembly struct {
	Gone   bool // the consumer has left: stop reading
	yield  func(llm.Event, error) bool
	parts  []*Part
	images []*message.Image // stand at the end of the reply
}

// Part is one block that is being written.
type Part struct {
	Meta   message.Meta
	Name   string // calls
	CallID string

	asm       *Assembly
	kind      llm.Kind // TextDelta, ReasoningDelta or CallArgs
	place     int
	text      strings.Builder
	announced bool
}

// Assemble returns an empty assembly that yields to yield.
func Assemble(yield func(llm.Event, error) bool) *Assembly { return &Assembly{yield: yield} }

// Notice tells the user something.
func (a *Assembly) Notice(s string) { a.send(llm.Event{Kind: llm.Notice, Text: s}) }

// Fail ends the stream with an error.
func (a *Assembly) Fail(err error) {
	if !a.Gone {
		a.Gone = true
		a.yield(llm.Event{}, err)
	}
}

// Done ends the stream with the reply, to which it adds the blocks.
func (a *Assembly) Done(r *llm.Reply) {
	r.Blocks = a.Blocks()
	a.send(llm.Event{Kind: llm.Done, Reply: r})
}

func (a *Assembly) send(ev llm.Event) {
	if !a.Gone && !a.yield(ev, nil) {
		a.Gone = true
	}
}

// Show adds a picture at the reply's end. There is no event for it.
func (a *Assembly) Show(img *message.Image) { a.images = append(a.images, img) }

// Open begins a block: of text (llm.TextDelta), reasoning (llm.ReasoningDelta)
// or a call (llm.CallArgs). Calls before it that are not yet announced are.
func (a *Assembly) Open(kind llm.Kind) *Part {
	if n := len(a.parts); n > 0 {
		a.parts[n-1].Announce()
	}
	p := &Part{asm: a, kind: kind, place: len(a.parts)}
	a.parts = append(a.parts, p)
	return p
}

// Last returns the block begun last if it is of the kind, else begins one.
func (a *Assembly) Last(kind llm.Kind) *Part {
	if n := len(a.parts); n > 0 && a.parts[n-1].kind == kind {
		return a.parts[n-1]
	}
	return a.Open(kind)
}

// Empty reports whether no block was begun.
func (a *Assembly) Empty() bool { return len(a.parts) == 0 }

// Calls reports whether a call was begun.
func (a *Assembly) Calls() bool {
	for _, p := range a.parts {
		if p.kind == llm.CallArgs {
			return true
		}
	}
	return false
}

// Announce yields the call's start, once. Name and CallID must not change
// afterwards. It does nothing for other kinds.
func (p *Part) Announce() {
	if p.kind == llm.CallArgs && !p.announced {
		p.announced = true
		p.asm.send(llm.Event{Kind: llm.CallStart, Block: p.place, Name: p.Name, CallID: p.CallID})
	}
}

// Announced reports whether the call's start was yielded.
func (p *Part) Announced() bool { return p.announced }

// Add appends to the block's text or arguments, and yields the piece.
func (p *Part) Add(b []byte) {
	if len(b) == 0 {
		return
	}
	p.Announce()
	n := p.text.Len()
	p.text.Write(b)
	// The event's text is a part of the builder's: no copy of its own.
	p.asm.send(llm.Event{Kind: p.kind, Block: p.place, Text: p.text.String()[n:]})
}

// Len returns the length of what was added.
func (p *Part) Len() int { return p.text.Len() }

// Text returns what was added.
func (p *Part) Text() string { return p.text.String() }

// Blocks returns the blocks as they stand. Text blocks without text are left
// out only at the end, so that places hold.
func (a *Assembly) Blocks() []message.Block {
	out := make([]message.Block, 0, len(a.parts))
	for i, p := range a.parts {
		p.Announce()
		common := message.Common{Meta: p.Meta}
		switch p.kind {
		case llm.TextDelta:
			if p.Len() > 0 || i < len(a.parts)-1 || p.Meta.Fields != nil {
				out = append(out, &message.Text{Common: common, Text: p.Text()})
			}
		case llm.ReasoningDelta:
			out = append(out, &message.Reasoning{Common: common, Text: p.Text()})
		case llm.CallArgs:
			out = append(out, &message.ToolCall{Common: common, CallID: p.CallID, Name: p.Name, Args: []byte(p.Text())})
		}
	}
	for _, img := range a.images {
		out = append(out, img)
	}
	return out
}
