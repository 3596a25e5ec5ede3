package wire

import (
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
)

// Limits of one reply. A reply that exceeds one of them fails with CodeTooLarge, and its request is
// cancelled.
const (
	maxText   = 16 << 20 // bytes of text and reasoning
	maxArgs   = 4 << 20  // bytes of the arguments of one call
	maxCalls  = 16 << 20 // bytes of the arguments of all calls
	maxImages = 16 << 20 // bytes of images
	maxMeta   = 4 << 20  // bytes of names, ids and members that Steward does not model
	MaxParts  = 8192     // blocks
)

// Assembly assembles a streamed reply and yields its events. It belongs to one stream. Once Gone is
// set, further input is dropped.
type Assembly struct {
	Tools  *llm.Toolset // those that were sent
	Gone   bool         // the consumer has stopped: stop reading
	text   int          // the limited sizes
	args   int
	shown  int
	meta   int
	yield  func(llm.Event, error) bool
	parts  []*Part
	images []*message.Image // appended to the end of the reply
	speech speech           // of Say
}

// Part is one block that is being written.
type Part struct {
	Meta   message.Meta
	Name   string // of a call; of a provider-specific part, the provider's name for it
	CallID string
	Cites  []message.Citation // of a text

	asm       *Assembly
	kind      llm.Kind // TextDelta, ReasoningDelta or CallArgs
	place     int
	text      strings.Builder
	cut       []byte // the beginning of a character
	announced bool
}

// Assemble returns an empty assembly that yields to yield.
func Assemble(yield func(llm.Event, error) bool) *Assembly { return &Assembly{yield: yield} }

// Notice yields a notice to the user.
func (a *Assembly) Notice(s string) { a.send(llm.Event{Kind: llm.Notice, Text: s}) }

// Fail ends the stream with an error.
func (a *Assembly) Fail(err error) {
	if !a.Gone {
		a.Gone = true
		a.yield(llm.Event{}, err)
	}
}

// Done adds the blocks to the reply and ends the stream with it.
func (a *Assembly) Done(r *llm.Reply) {
	a.speech.end(a)
	r.Blocks = a.Blocks()
	a.send(llm.Event{Kind: llm.Done, Reply: r})
}

func (a *Assembly) send(ev llm.Event) {
	if !a.Gone && !a.yield(ev, nil) {
		a.Gone = true
	}
}

// Show adds a picture to the end of the reply. It yields no event.
func (a *Assembly) Show(img *message.Image) {
	if a.grow(&a.shown, len(img.Data), maxImages, "images") {
		a.images = append(a.images, img)
	}
}

// vendor is the kind of a part that is specific to the provider.
const vendor llm.Kind = 0

// Vendor begins a part that is specific to the provider, of a kind that Steward does not model. It
// yields no event.
func (a *Assembly) Vendor(kind string) *Part {
	p := a.Open(vendor)
	p.Name = kind
	return p
}

// Cite adds sources to the last text block, if there is one.
func (a *Assembly) Cite(list ...message.Citation) {
	a.speech.end(a)
	for _, p := range slices.Backward(a.parts) {
		if p.kind == llm.TextDelta {
			p.Cites = append(p.Cites, slices.DeleteFunc(list, func(c message.Citation) bool { return c == message.Citation{} })...)
			return
		}
	}
}

// Keep counts bytes that a provider keeps beside the text and the arguments. It returns false if
// there are too many.
func (a *Assembly) Keep(n int) bool {
	return a.grow(&a.meta, n, maxMeta, "names, ids and unknown members")
}

// grow adds n to a size. If the size then exceeds the limit, grow fails the stream and returns
// false.
func (a *Assembly) grow(size *int, n, most int, what string) bool {
	if a.Gone {
		return false
	}
	if *size += n; *size > most {
		a.Fail(tooLarge("the model's reply has more than %d MiB of %s", most>>20, what))
	}
	return !a.Gone
}

// tooLarge returns the error for a reply that exceeds a limit. It is not retried, because the same
// request would probably fail in the same way.
func tooLarge(format string, args ...any) error {
	return fault.New(fault.TooLarge, CodeTooLarge, format, args...).
		WithHint("ask for less at once, or choose another model").Retrying(fault.RetryNone, 0)
}

// Written reports whether anything was added to a block.
func (a *Assembly) Written() bool {
	a.speech.end(a)
	return slices.ContainsFunc(a.parts, func(p *Part) bool { return p.Len() > 0 || p.kind == llm.CallArgs })
}

// Open begins a block: text (llm.TextDelta), reasoning (llm.ReasoningDelta) or a call
// (llm.CallArgs). It first announces earlier calls that are not yet announced.
func (a *Assembly) Open(kind llm.Kind) *Part {
	a.speech.pause(a)
	if n := len(a.parts); n > 0 {
		last := a.parts[n-1]
		last.Announce()
		a.Keep(len(last.Name) + len(last.CallID) + len(last.Meta.Fields))
	}
	p := &Part{asm: a, kind: kind, place: len(a.parts)}
	if len(a.parts) == MaxParts {
		a.Fail(tooLarge("the model's reply has more than %d parts", MaxParts))
	}
	if !a.Gone {
		a.parts = append(a.parts, p)
	}
	return p
}

// Last returns the last block if it is of the kind, and begins a new one otherwise.
func (a *Assembly) Last(kind llm.Kind) *Part {
	a.speech.pause(a)
	if n := len(a.parts); n > 0 && a.parts[n-1].kind == kind {
		return a.parts[n-1]
	}
	return a.Open(kind)
}

// Announce yields the start of a call, once. Name and CallID must not change afterwards. It does
// nothing for other kinds.
func (p *Part) Announce() {
	if p.kind == llm.CallArgs && !p.announced {
		p.announced = true
		p.asm.send(llm.Event{Kind: llm.CallStart, Block: p.place, Name: p.Name, CallID: p.CallID})
	}
}

// Announced reports whether the start of the call was yielded.
func (p *Part) Announced() bool { return p.announced }

// Add appends to the block's text or arguments, and yields the added piece. A character that is cut at the end
// of the piece waits for the next one.
func (p *Part) Add(b []byte) {
	b, p.cut = joinPieces(p.cut, b)
	p.add(b)
}

// flushPartial adds what is left of a character that was cut and never completed.
func (p *Part) flushPartial() {
	if len(p.cut) > 0 {
		p.cut = nil
		p.add([]byte("\uFFFD"))
	}
}

func (p *Part) add(b []byte) {
	if len(b) == 0 {
		return
	}
	p.Announce()
	n := p.text.Len()
	if !p.grow(n+len(b), len(b)) {
		return
	}
	p.text.Write(b)
	// The event's text shares the builder's memory, so nothing is copied.
	p.asm.send(llm.Event{Kind: p.kind, Block: p.place, Text: p.text.String()[n:]})
}

// grow counts bytes added to a part. size is the part's size with them.
func (p *Part) grow(size, added int) bool {
	a := p.asm
	if p.kind != llm.CallArgs {
		return a.grow(&a.text, added, maxText, "text")
	}
	return a.grow(&size, 0, maxArgs, "arguments of one call") && a.grow(&a.args, added, maxCalls, "arguments")
}

// Len returns the length of what was added.
func (p *Part) Len() int { return p.text.Len() }

// Text returns what was added.
func (p *Part) Text() string { return p.text.String() }

// Blocks returns the current blocks. Empty text blocks are left out only at the end, so that
// indexes stay valid.
func (a *Assembly) Blocks() []message.Block {
	out := make([]message.Block, 0, len(a.parts))
	for i, p := range a.parts {
		p.Announce()
		p.flushPartial()
		common := message.Common{Meta: a.Sound(p.Meta)}
		switch p.kind {
		case llm.TextDelta:
			if p.Len() > 0 || i < len(a.parts)-1 || p.Meta.Fields != nil {
				out = append(out, &message.Text{Common: common, Text: p.Text(), Citations: p.Cites})
			}
		case vendor:
			out = append(out, &message.Vendor{Common: common, Kind: p.Name})
		case llm.ReasoningDelta:
			out = append(out, &message.Reasoning{Common: common, Text: p.Text()})
		case llm.CallArgs:
			out = append(out, &message.ToolCall{Common: common, CallID: p.CallID, Name: p.Name, Args: a.original(p.Name, []byte(p.Text()))})
		}
	}
	for _, img := range a.images {
		out = append(out, img)
	}
	return out
}

// Sound returns metadata unchanged if it can be stored. If it is not strict JSON, for example
// because of a repeated member, nothing of it is kept, and a notice says so.
func (a *Assembly) Sound(m message.Meta) message.Meta {
	probe := &message.Text{Common: message.Common{Meta: m}}
	if len(m.Fields) == 0 || message.Validate(&message.Message{ID: id.ID{15: 1}, Role: message.User, Blocks: []message.Block{probe}}) == nil {
		return m
	}
	a.Notice("What " + m.Provider + " sent with the answer is not valid JSON and was dropped.")
	return message.Meta{}
}
