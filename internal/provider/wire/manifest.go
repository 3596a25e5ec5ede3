package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/tool"
)

// Manifest is a history without its content: what a vendor's wire form of the
// history cannot say, and how the one became the other. With it, Restore makes
// the same history of what is read back from the wire.
type Manifest struct {
	Messages []Entry `json:"messages"`
	Wire     []Piece `json:"wire"` // in the order of the wire
}

// Entry is one message without its content: ids, role, time, the outcome of
// the model call, and of each block its kind, origin, labels, the provider
// whose metadata it had, its media type and name, the call and its tool, the
// link and status of a result.
type Entry struct {
	Message *message.Message

	// What the caller keeps of the message beside it, opaque here.
	State       string // its validity
	Interaction string
}

type entry struct {
	Message     json.RawMessage `json:"message"`
	State       string          `json:"state,omitempty"`
	Interaction string          `json:"interaction,omitempty"`
}

// MarshalJSON writes the message in its stored form.
func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(entry{message.Append(nil, e.Message), e.State, e.Interaction})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Entry) UnmarshalJSON(b []byte) error {
	var raw entry
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	m, err := message.Decode(raw.Message)
	if err != nil {
		return fmt.Errorf("a message of the manifest: %w", err)
	}
	*e = Entry{m, raw.State, raw.Interaction}
	return nil
}

// Kinds of pieces.
const (
	pieceText   = "text"   // words: a block's text, or what the model is told of a block
	pieceFile   = "file"   // a text file that is written out, under its name
	pieceMedia  = "media"  // an image or a file
	pieceCall   = "call"   // a tool call
	pieceVendor = "vendor" // what only the vendor has
	pieceResult = "result" // a tool result; its words follow as joined pieces
)

// Piece is what a block left on the wire.
type Piece struct {
	Kind    string `json:"kind"`
	Message int    `json:"message"`           // the place of the message; -1 for the encoder's own words
	Block   int    `json:"block,omitempty"`   // the place of the block in it
	Content int    `json:"content,omitempty"` // the place in a result's content, counted from 1; 0: the block itself
	Len     int    `json:"len,omitempty"`     // bytes of text or arguments
	Join    bool   `json:"join,omitempty"`    // goes on in the text of the piece before
	Mute    bool   `json:"mute,omitempty"`    // the wire does not say the media type
	Wrapped string `json:"wrapped,omitempty"` // arguments that look like those that are wrapped under this name, and are not
}

// Trace records how an encoder writes a history. A nil Trace records nothing.
type Trace struct {
	manifest Manifest
	places   map[message.Block][]place
}

type place struct{ message, block, content int }

// EncodeHistory returns the wire form of a history, a JSON array, with its
// manifest. What message.Validate and message.CheckHistory refuse is refused,
// and so are results of some of the last message's calls while others are open
// (history_call_unanswered): no vendor has a form for that.
func EncodeHistory(msgs []*message.Message, encode func(*Trace) llm.GroupEncoder) ([]byte, *Manifest, error) {
	t := &Trace{places: map[message.Block][]place{}}
	for i, m := range msgs {
		if err := message.Validate(m); err != nil {
			return nil, nil, fmt.Errorf("message %d: %w", i, err)
		}
		t.manifest.Messages = append(t.manifest.Messages, Entry{Message: bare(m)})
		for j, b := range m.Blocks {
			t.places[b] = append(t.places[b], place{i, j, 0})
			if r, ok := b.(*message.ToolResult); ok {
				for k, c := range r.Content {
					t.places[c] = append(t.places[c], place{i, j, k + 1})
				}
			}
		}
	}
	if err := message.CheckHistory(msgs); err != nil {
		return nil, nil, err
	}
	if open := message.Dangling(msgs); len(open) > 0 && msgs[len(msgs)-1].Role != message.Assistant {
		return nil, nil, fault.New(fault.Invalid, CodeUnanswered, "the call %s of %.80q has no result, and others have", open[0].Ref, open[0].Name).
			With("wait until all calls have their results")
	}
	head, tail, err := llm.NewTranscript(msgs...).Encoded("history", encode(t))
	if err != nil {
		return nil, nil, err
	}
	out := append([]byte{'['}, head...)
	if len(head) > 0 && len(tail) > 0 {
		out = append(out, ',')
	}
	return append(append(out, tail...), ']'), &t.manifest, nil
}

// bare returns a copy of a message without its content.
func bare(m *message.Message) *message.Message {
	c := *m
	c.Blocks = bareBlocks(m.Blocks)
	c.Meta = message.Meta{Provider: m.Meta.Provider}
	c.Unknown = nil
	return &c
}

func bareBlocks(blocks []message.Block) []message.Block {
	var out []message.Block
	for _, b := range blocks {
		out = append(out, bareBlock(b))
	}
	return out
}

func bareBlock(b message.Block) message.Block {
	from := b.Base()
	c := message.Common{Origin: from.Origin, Labels: from.Labels, Sources: from.Sources, Meta: message.Meta{Provider: from.Meta.Provider}}
	switch b := b.(type) {
	case *message.Reasoning:
		return &message.Reasoning{Common: c}
	case *message.Vendor:
		return &message.Vendor{Common: c, Kind: b.Kind}
	case *message.ToolCall:
		return &message.ToolCall{Common: c, CallID: b.CallID, Name: b.Name}
	case *message.ToolResult:
		return &message.ToolResult{Common: c, Call: b.Call, CallID: b.CallID, Name: b.Name, Status: b.Status,
			Content: bareBlocks(b.Content), Rest: b.Rest}
	case *message.Image:
		return &message.Image{Common: c, MIME: b.MIME}
	case *message.File:
		return &message.File{Common: c, MIME: b.MIME, Name: b.Name}
	}
	t := &message.Text{Common: c}
	if from, ok := b.(*message.Text); ok {
		t.Citations = from.Citations
	}
	return t
}

// add records a piece of a block; one of no block of the history is the
// encoder's own.
func (t *Trace) add(b message.Block, p Piece) {
	if t == nil {
		return
	}
	p.Message = -1
	if at := t.places[b]; len(at) > 0 {
		p.Message, p.Block, p.Content = at[0].message, at[0].block, at[0].content
		if len(at) > 1 { // a block that stands at several places
			t.places[b] = at[1:]
		}
	}
	t.manifest.Wire = append(t.manifest.Wire, p)
}

// Text records that n bytes of text stand for the block: its own, or words of
// it. They join the text recorded before, or begin one.
func (t *Trace) Text(b message.Block, n int, join bool) {
	t.add(b, Piece{Kind: pieceText, Len: n, Join: join})
}

// Words records n bytes of the encoder's own.
func (t *Trace) Words(n int, join bool) { t.Text(nil, n, join) }

// System records the texts of a message as one, between words of so many bytes.
func (t *Trace) System(m *message.Message, before, after int) {
	if t == nil {
		return
	}
	t.Words(before, false)
	for _, b := range m.Blocks {
		if b, ok := b.(*message.Text); ok && b.Text != "" {
			t.Text(b, len(b.Text), true)
		}
	}
	t.Words(after, true)
}

// Told records n bytes of words of an image or a file; whole says that they are
// all of a text file, see FileText.
func (t *Trace) Told(b message.Block, n int, whole, join bool) {
	kind := pieceText
	if whole {
		kind = pieceFile
	}
	t.add(b, Piece{Kind: kind, Len: n, Join: join})
}

// Media records an image or a file that the vendor takes; typed says whether
// the wire tells its type.
func (t *Trace) Media(b message.Block, typed bool) { t.add(b, Piece{Kind: pieceMedia, Mute: !typed}) }

// Call records a call. wrapper is the name under which arguments that are no
// object are wrapped; empty for a vendor that takes any.
func (t *Trace) Call(c *message.ToolCall, wrapper string) {
	if t == nil {
		return
	}
	p := Piece{Kind: pieceCall, Len: len(c.Args)}
	if _, ok := unwrapped(c.Args, wrapper); ok {
		p.Wrapped = wrapper
	}
	t.add(c, p)
}

// Vendor records a part that only the vendor has.
func (t *Trace) Vendor(b *message.Vendor) { t.add(b, Piece{Kind: pieceVendor}) }

// Result records a result whose words on the wire are these. Its images and
// files are recorded by themselves.
func (t *Trace) Result(r *message.ToolResult, words string) {
	if t == nil {
		return
	}
	t.Begin(r)
	if !t.Prefix(words, r.Text()) {
		return
	}
	for _, b := range r.Content {
		if b, ok := b.(*message.Text); ok && b.Text != "" {
			t.Text(b, len(b.Text), true)
		}
	}
}

// Prefix records what words have before own, which they end in, and reports
// whether own is to follow. If they do not end in it, all of them are the
// encoder's own.
func (t *Trace) Prefix(words, own string) bool {
	found := own != "" && strings.HasSuffix(words, own)
	if !found {
		own = ""
	}
	if n := len(words) - len(own); n > 0 {
		t.Words(n, true)
	}
	return found
}

// Begin records a result whose words are recorded next, joined.
func (t *Trace) Begin(r *message.ToolResult) { t.add(r, Piece{Kind: pieceResult}) }

// AppendArgs appends a call's arguments for a vendor that takes an object
// only. What is none stands readable to the model under the wrapper's name.
func AppendArgs(dst, args []byte, wrapper string) []byte {
	switch {
	case IsObject(args):
		return append(dst, args...)
	case len(strings.TrimSpace(string(args))) == 0:
		return append(dst, `{}`...)
	}
	return append(AppendString(append(AppendString(append(dst, '{'), wrapper), ':'), args), '}')
}

// Args returns the arguments as the model wrote them: unwrapped if they are
// what AppendArgs makes of others.
func Args(raw []byte, wrapper string) []byte {
	if args, ok := unwrapped(raw, wrapper); ok {
		return args
	}
	return raw
}

func unwrapped(raw []byte, wrapper string) ([]byte, bool) {
	if wrapper == "" || !strings.Contains(string(raw), wrapper) || !IsObject(raw) {
		return nil, false
	}
	var args []byte
	d := Decode(raw)
	d.Object(func([]byte) { args = d.Bytes() })
	if len(args) == 0 || string(AppendArgs(nil, args, wrapper)) != string(raw) {
		return nil, false
	}
	return args, true
}

// sameTool reports whether two names of tools are one to a vendor.
func sameTool(a, b string) bool {
	short := func(s string) string {
		s = strings.TrimLeft(ToolName(tool.WireName(s)), "_")
		return s[:min(len(s), 63)]
	}
	return short(a) == short(b)
}
