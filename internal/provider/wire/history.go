package wire

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// The codes of histories that are well formed and cannot be taken. As with
// CodeHistory, Details["at"] is the place.
const (
	CodeRole       = "history_role_unknown"    // a role that the vendor does not have
	CodePart       = "history_part_unknown"    // a kind of content that Steward does not know
	CodeStray      = "history_result_stray"    // a result of no open call
	CodeUnanswered = "history_call_unanswered" // the conversation goes on before a call has its result
)

// History puts messages together as a decoder reads them: ids, order, and the
// links between calls and their results.
type History struct {
	Provider string // whose metadata is kept
	Prefix   string // of the ids of calls that came without one
	Unique   bool   // ids of calls are used once in the whole history, not only in a message

	doc  Value
	msgs []*message.Message
	at   []Value // where each message stands
	ids  CallIDs
	open []*openCall // calls of the last assistant message
}

type openCall struct {
	message.Call
	given    string // the id on the wire
	at       Value
	answered bool
}

// NewHistory returns an empty history of a document.
func NewHistory(doc Value, provider, prefix string) *History {
	return &History{Provider: provider, Prefix: prefix, doc: doc}
}

// Meta returns metadata with the members, the inside of a JSON object.
func (h *History) Meta(members []byte) message.Meta {
	if len(members) == 0 {
		return message.Meta{}
	}
	return message.Meta{Provider: h.Provider, Fields: append(append([]byte{'{'}, members...), '}')}
}

// Say adds a message of the user's or the system's, which is never without a
// block.
func (h *History) Say(at Value, role message.Role, meta message.Meta, blocks ...message.Block) {
	if role == message.User {
		h.settle(at)
	}
	if len(blocks) == 0 {
		blocks = []message.Block{&message.Text{}}
	}
	h.add(at, &message.Message{Role: role, Blocks: blocks, Meta: meta})
}

// Assistant adds a message of the model's. Its calls have the ids and names of
// the wire. One that comes before the results of the message before it
// belongs to the same turn, which some programs store in pieces.
func (h *History) Assistant(at Value, meta message.Meta, blocks ...message.Block) {
	n := len(h.msgs)
	m := &message.Message{Role: message.Assistant, Meta: meta}
	if n > 0 && len(h.open) > 0 && h.msgs[n-1].Role == message.Assistant {
		m = h.msgs[n-1]
		if len(m.Meta.Fields) == 0 {
			m.Meta = meta
		}
	} else {
		h.settle(at)
		h.add(at, m)
		if !h.Unique || h.ids.Len() == 0 {
			h.ids = CallIDs{Prefix: h.Prefix}
		}
	}
	for _, b := range blocks {
		m.Blocks = append(m.Blocks, b)
		c, ok := b.(*message.ToolCall)
		if !ok {
			continue
		}
		if c.Name == "" {
			at.Fault(CodeHistory, "a tool call has no name")
			return
		}
		o := &openCall{given: c.CallID, at: at}
		c.CallID = h.ids.Next(c.CallID, h.Provider, "history", strconv.Itoa(len(h.msgs)))
		c.Name = tool.FromWire(c.Name)
		o.Call = message.Call{Ref: message.Ref{Message: m.ID, Block: len(m.Blocks) - 1}, ToolCall: c}
		h.open = append(h.open, o)
	}
}

// Result adds a result: of the call with the id, or where there is none with
// the name, or else of the first that has none yet.
func (h *History) Result(at Value, givenID, name string, r *message.ToolResult) {
	o := h.find(givenID, tool.FromWire(name))
	if o == nil {
		at.Fault(CodeStray, "it is the result of no call before it (id %.80q, name %.80q)", givenID, name)
		return
	}
	o.answered = true
	r.Call, r.CallID, r.Name = o.Ref, o.CallID, o.Name
	h.add(at, &message.Message{Role: message.Tool, Blocks: []message.Block{r}})
}

func (h *History) find(givenID, name string) *openCall {
	match := func(ok func(*openCall) bool) *openCall {
		for _, o := range h.open {
			if !o.answered && ok(o) {
				return o
			}
		}
		return nil
	}
	if givenID != "" {
		if o := match(func(o *openCall) bool { return o.given == givenID }); o != nil {
			return o
		}
	}
	return match(func(o *openCall) bool {
		return (givenID == "" || o.given == "") && (name == "" || o.Name == name)
	})
}

// settle refuses to go on while calls are open.
func (h *History) settle(at Value) {
	for _, o := range h.open {
		if !o.answered {
			o.at.Fault(CodeUnanswered, "the call of %.80q has no result before %s", o.Name, at.At())
		}
	}
	h.open = nil
}

func (h *History) add(at Value, m *message.Message) {
	m.ID = id.New()
	if n := len(h.msgs); n > 0 {
		m.Prev = h.msgs[n-1].ID
	}
	h.msgs, h.at = append(h.msgs, m), append(h.at, at)
}

// Done returns the messages, which hold together as message.CheckHistory
// demands, or the document's first fault.
func (h *History) Done() ([]*message.Message, error) {
	if err := h.doc.Err(); err != nil {
		return nil, err
	}
	for i, m := range h.msgs {
		last := i+1 == len(h.msgs) || h.msgs[i+1].Role != message.Assistant
		m.Final = m.Role == message.Assistant && last && len(m.Calls()) == 0
		if err := message.Validate(m); err != nil {
			return nil, fault.New(fault.Invalid, CodeHistory, "%s: %w", h.at[i].At(), err).Detail("at", h.at[i].At())
		}
	}
	if err := message.CheckHistory(h.msgs); err != nil {
		return nil, fmt.Errorf("the messages do not hold together: %w", err)
	}
	return h.msgs, nil
}

// Words makes a result of what it says, its texts as they came: the status is
// told by its first word ("[denied] …", see ResultText), if that agrees with
// the vendor's own mark of failures where there is one (marked).
func Words(r *message.ToolResult, failed, marked bool) {
	r.Status = message.OK
	if failed {
		r.Status = message.Failed
	}
	var first *message.Text
	at := 0
	for i, b := range r.Content {
		if t, ok := b.(*message.Text); ok && t.Text != "" {
			first, at = t, i
			break
		}
	}
	if first == nil {
		return
	}
	word, rest, ok := strings.Cut(first.Text, "]")
	status := message.Status(strings.TrimPrefix(word, "["))
	switch status {
	case message.Failed, message.DeniedCall, message.Queued, message.Accepted, message.Unavailable, message.UnknownEnd, message.Interrupted:
	default:
		return
	}
	if !ok || word != "["+string(status) || marked && failed != (status != message.Queued && status != message.Accepted) {
		return
	}
	text, spaced := strings.CutPrefix(rest, " ")
	switch {
	case spaced && text != "":
		first.Text = text
	case rest == "" && r.Text() == first.Text:
		r.Content = append(r.Content[:at:at], r.Content[at+1:]...)
	default:
		return
	}
	r.Status = status
}

// InlineURL reads a data URL in base64 that can be written again the same way.
// Others are left to be URLs.
func InlineURL(url string) (mime string, data []byte, ok bool) {
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return "", nil, false
	}
	mime, encoded, ok := strings.Cut(rest, ";base64,")
	if !ok || mime == "" || encoded == "" {
		return "", nil, false
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || base64.StdEncoding.EncodeToString(data) != encoded {
		return "", nil, false
	}
	return mime, data, true
}

// ImageAt returns the image of a URL, which may be the data itself.
func ImageAt(url string) *message.Image {
	if mime, data, ok := InlineURL(url); ok {
		return &message.Image{MIME: mime, Data: data}
	}
	return &message.Image{MIME: message.MediaType(url, "image/*"), URL: url}
}

// FileAt returns the file of a URL, which may be the data itself.
func FileAt(url, name string) *message.File {
	if mime, data, ok := InlineURL(url); ok {
		return &message.File{MIME: mime, Name: name, Data: data}
	}
	other := message.MediaType(url, "application/octet-stream")
	return &message.File{MIME: message.MediaType(name, other), Name: name, URL: url}
}

// Base64 returns the bytes of a string in base64, of either alphabet and with
// or without padding.
func (v Value) Base64() []byte {
	s := v.Text()
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(s); err == nil && len(b) > 0 {
			return b
		}
	}
	if v.Err() == nil {
		v.want("data in base64")
	}
	return nil
}
