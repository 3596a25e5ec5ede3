// Package message defines Steward's message model: roles, blocks and the rules
// that messages must obey. Messages are stored, exported and shown in the form
// that its codec (Append, Decode) defines.
package message

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"steward/internal/id"
)

// Role is the author of a message.
type Role string

// The roles.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Labels is a set of marks that restrict where content may go. A model's output
// carries the union of the labels of its input. Only a person's recorded
// decision removes a label.
type Labels uint8

// The labels.
const (
	Private   Labels = 1 << iota // belongs to the user; must not leave without the user's consent
	Untrusted                    // written by somebody who is not the user
	Secret                       // a credential; never shown, never logged
)

// Message is one entry of a conversation. A stored message is immutable: it may
// be shared freely and must be copied to change it.
type Message struct {
	ID     id.ID
	Role   Role
	At     time.Time // UTC; stored in microseconds
	Prev   id.ID     // the previous message; zero for the first
	Blocks []Block
	Final  bool   // an assistant message that ends its turn: it has no tool calls
	Model  string // "provider/model" that wrote it; assistant messages only
	Stop   Stop   // why the model stopped; assistant messages only
	Usage  Usage  // what the model call cost; assistant messages only

	// Approach, Took and Turn describe the whole turn and are set on its last
	// message: how it was answered ("direct", …), how long it took (whole
	// milliseconds), and the usage of all its model calls, including those of
	// agents that were asked. Turn is zero if it equals Usage; see TurnUsage.
	Approach string
	Took     time.Duration
	Turn     Usage

	Meta Meta // fields of the provider's message beyond those modelled here

	// Unknown holds members of the stored JSON object that this version does
	// not know, as raw bytes (`"a":1,"b":2`). They are written back unchanged.
	Unknown []byte
}

// Stop is why a model stopped.
type Stop string

// The stop reasons.
const (
	StopEnd       Stop = "end"       // it was done
	StopTools     Stop = "tools"     // it wants tools run
	StopLength    Stop = "length"    // out of output tokens: continue
	StopSequence  Stop = "sequence"  // it wrote a stop sequence
	StopRefused   Stop = "refused"   // the provider's safety system or the model declined
	StopCancelled Stop = "cancelled" // cancelled by the caller; the text received so far is kept
	StopBound     Stop = "bound"     // set by Steward: the run reached a limit
)

// Usage counts tokens as the provider reported them. Zero means not reported.
type Usage struct {
	Input      int64 `json:"input,omitzero"`       // all input tokens, cached ones included
	Output     int64 `json:"output,omitzero"`      // all output tokens, reasoning included
	Reasoning  int64 `json:"reasoning,omitzero"`   // the reasoning part of Output
	CacheRead  int64 `json:"cache_read,omitzero"`  // the part of Input read from a prompt cache
	CacheWrite int64 `json:"cache_write,omitzero"` // the part of Input written to one
	Searches   int64 `json:"searches,omitzero"`    // searches of the web by the provider, which it bills
}

// Add returns the sum.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.Reasoning + v.Reasoning,
		u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite, u.Searches + v.Searches}
}

func (u Usage) negative() bool {
	return min(u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Searches) < 0
}

// TurnUsage returns the usage of the whole turn that the message ends.
func (m *Message) TurnUsage() Usage {
	if m.Turn != (Usage{}) {
		return m.Turn
	}
	return m.Usage
}

// Meta holds the fields of a provider's wire format that this package does not
// model: reasoning signatures, thought signatures, cache marks. Fields is a raw
// JSON object. It is sent back byte for byte, only to the provider it came from.
type Meta struct {
	Provider string // "anthropic", "gemini", …; empty when there is none
	Fields   []byte // a JSON object, or nil
}

// Common holds the fields that every block carries.
type Common struct {
	Origin string // "user", "model:PROVIDER/MODEL", "tool:NAME", "system", "import:…"
	Labels Labels
	// Sources names the origins of the private data that the block may hold:
	// the categories of tools (the first words of their names), sorted. If it is empty and Private is set,
	// the origins are unknown. The sources of a result also apply to its content.
	Sources []string
	Meta    Meta
	Unknown []byte // see Message.Unknown
}

// Block is one of Text, Reasoning, ToolCall, ToolResult, Image, File and
// Vendor, by pointer. The set is sealed.
type Block interface {
	// Base returns the fields that all blocks share.
	Base() *Common
	kind() string
}

// Base returns c.
func (c *Common) Base() *Common { return c }

// Text is plain text.
type Text struct {
	Common
	Text      string
	Citations []Citation // the sources given for the text
}

// Citation is a source that a provider names for a text. Third parties wrote it.
type Citation struct {
	URL   string `json:"url,omitzero"`
	Title string `json:"title,omitzero"`
	Text  string `json:"text,omitzero"` // quoted from the source, if the provider sent it
}

// String names the source on one line.
func (c Citation) String() string {
	line := strings.Join(strings.Fields(c.Title), " ")
	switch {
	case c.URL == "":
		return line
	case line == "":
		return c.URL
	}
	return line + ", " + c.URL
}

// Vendor is a part of a reply that is specific to its provider: a call of a tool
// that ran on the provider's own servers, or its result. Meta holds all of it as
// raw JSON. Third parties wrote its content.
type Vendor struct {
	Common
	Kind string // the provider's word for it, such as "server_tool_use"
}

// Reasoning is a model's visible reasoning. Text may be empty if the provider
// returns only a signature or encrypted data (in Meta).
type Reasoning struct {
	Common
	Text string
}

// ToolCall requests a tool. It is identified by its message and its position
// there (Ref). CallID is the provider's id, kept and sent back unchanged.
type ToolCall struct {
	Common
	CallID string
	Name   string // "category.name", or what the model wrote
	Args   []byte // as the model wrote them: normally a JSON object
}

// Arguments returns the arguments, and an empty object if there are none.
func (c *ToolCall) Arguments() []byte {
	if len(bytes.TrimSpace(c.Args)) == 0 {
		return []byte("{}")
	}
	return c.Args
}

// Ref names a block of a message: the identity of a tool call.
type Ref struct {
	Message id.ID
	Block   int
}

// Status is the outcome of a tool call.
type Status string

// The outcomes.
const (
	OK          Status = "ok"
	Failed      Status = "error"       // the tool failed, or its arguments were invalid
	DeniedCall  Status = "denied"      // policy or a person said no
	Queued      Status = "queued"      // a deferred intent was recorded
	Accepted    Status = "accepted"    // the tool is still working; its result opens an interaction of its own
	Unavailable Status = "unavailable" // the tool is known but cannot be reached
	UnknownEnd  Status = "unknown"     // unknown whether the effect happened
	Interrupted Status = "interrupted" // stopped before it ran, or before its end
)

// ToolResult answers a call. A tool message has exactly one.
type ToolResult struct {
	Common
	Call    Ref    // the call that it answers
	CallID  string // the provider's id of that call
	Name    string // the tool
	Status  Status
	Content []Block // Text, Image and File only
	Rest    string  // URI text of the resource that holds what the cap cut off, or empty
	// Denied lists the tools that were denied to the agent that was called, and
	// to the agents that it called in turn.
	Denied []string
}

// Image is a picture, inline or by URL.
type Image struct {
	Common
	MIME string // "image/png", …
	Data []byte // nil when URL is set
	URL  string
}

// File is a document, inline or by URL.
type File struct {
	Common
	MIME string
	Name string
	Data []byte // nil when URL is set
	URL  string
}

func (*Text) kind() string       { return "text" }
func (*Reasoning) kind() string  { return "reasoning" }
func (*ToolCall) kind() string   { return "tool_call" }
func (*ToolResult) kind() string { return "tool_result" }
func (*Image) kind() string      { return "image" }
func (*File) kind() string       { return "file" }
func (*Vendor) kind() string     { return "vendor" }

// Text joins the message's text blocks. For a tool message it joins those of its result.
func (m *Message) Text() string { return joinText(m.Blocks) }

// Text joins the text blocks of the result.
func (b *ToolResult) Text() string { return joinText(b.Content) }

// Citations returns the sources of the message's texts, each once, in order.
func (m *Message) Citations() []Citation {
	var out []Citation
	for _, b := range m.Blocks {
		t, ok := b.(*Text)
		if !ok {
			continue
		}
		for _, c := range t.Citations {
			same := func(o Citation) bool { return o.URL == c.URL && o.Title == c.Title }
			if !slices.ContainsFunc(out, same) {
				out = append(out, c)
			}
		}
	}
	return out
}

// Foreign reports whether a model's message contains third-party content, which
// its provider looked up: a vendor block or a text with citations.
func (m *Message) Foreign() bool {
	return slices.ContainsFunc(m.Blocks, func(b Block) bool {
		t, text := b.(*Text)
		_, vendor := b.(*Vendor)
		return vendor || text && len(t.Citations) > 0
	})
}

// FactsMark begins the last line of a failed result. That line tells the model the
// error code and whether to retry.
const FactsMark = "[error_code: "

// Plain returns the text of the result for a person, without the FactsMark line.
func (b *ToolResult) Plain() string {
	text := b.Text()
	if b.Status == OK || !strings.HasSuffix(text, "]") {
		return text
	}
	if i := strings.LastIndexByte(text, '\n'); i >= 0 && strings.HasPrefix(text[i+1:], FactsMark) {
		return text[:i]
	}
	return text
}

func joinText(blocks []Block) string {
	var first string
	var more []byte
	for _, b := range blocks {
		var s string
		switch b := b.(type) {
		case *Text:
			s = b.Text
		case *ToolResult:
			s = b.Text()
		}
		switch {
		case s == "":
		case more != nil:
			more = append(more, s...)
		case first == "":
			first = s
		default:
			more = append([]byte(first), s...)
		}
	}
	if more != nil {
		return string(more)
	}
	return first
}

// Call is a tool call together with its identity.
type Call struct {
	Ref
	*ToolCall
}

// Calls returns the message's tool calls in order.
func (m *Message) Calls() []Call {
	var out []Call
	for i, b := range m.Blocks {
		if c, ok := b.(*ToolCall); ok {
			out = append(out, Call{Ref{m.ID, i}, c})
		}
	}
	return out
}

// Result returns the result that a tool message carries, or nil.
func (m *Message) Result() *ToolResult {
	if m.Role != Tool || len(m.Blocks) == 0 {
		return nil
	}
	r, _ := m.Blocks[0].(*ToolResult)
	return r
}

// LabelsOf returns the union of the labels of the blocks, results' content included.
func LabelsOf(blocks []Block) Labels {
	var l Labels
	for _, b := range blocks {
		l |= b.Base().Labels
		if r, ok := b.(*ToolResult); ok {
			l |= LabelsOf(r.Content)
		}
	}
	return l
}

// MapBlocks returns the results of f for each block, in order. It maps the content
// of a tool result first and passes f a copy with the new content. It does not
// change the given blocks.
func MapBlocks(blocks []Block, f func(Block) Block) []Block {
	out := make([]Block, len(blocks))
	for i, b := range blocks {
		if r, ok := b.(*ToolResult); ok {
			c := *r
			c.Content = MapBlocks(r.Content, f)
			b = &c
		}
		out[i] = f(b)
	}
	return out
}
