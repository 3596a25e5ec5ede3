package wire

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
)

// The error codes for histories that are well-formed but cannot be accepted. As with CodeHistory,
// Details["at"] is the place.
const (
	CodeRole       = "history_role_unknown"    // a role that the vendor does not have
	CodePart       = "history_part_unknown"    // a kind of content that Steward does not know
	CodeStray      = "history_result_stray"    // a result of no open call
	CodeUnanswered = "history_call_unanswered" // the conversation continues before a call has its result
)

// History assembles messages as a vendor's reader finds them. It assigns ids, keeps the order, and
// links calls to their results. If the document is read leniently (see llm.Codec.Import), content
// that does not fit becomes text, and calls without results are answered.
type History struct {
	Provider string // whose metadata is kept

	prefix  string // of the ids of calls that have none
	unique  bool   // ids of calls are unique in the whole history
	doc     Value
	msgs    []*message.Message
	at      []Value // the place of each message
	ids     CallIDs
	open    []*openCall // calls of the last assistant message
	nobodys map[*message.Message]bool
}

type openCall struct {
	message.Call
	given    string // the id on the wire
	at       Value
	answered bool
}

// Meta returns metadata with the members, the inside of a JSON object.
func (h *History) Meta(members []byte) message.Meta {
	return MetaOf(h.Provider, members)
}

// AddText adds a message of the user or the system. It always has a block.
func (h *History) AddText(at Value, role message.Role, meta message.Meta, blocks ...message.Block) {
	blocks, ok := h.dropEmptyTexts(blocks)
	if !ok {
		return
	}
	if role == message.User {
		h.closeOpenCalls(at)
	}
	if len(blocks) == 0 {
		blocks = []message.Block{&message.Text{}}
	}
	h.add(at, &message.Message{Role: role, Blocks: blocks, Meta: meta})
}

// Turn adds a turn of the user: first its results, which result reads into one message each, and then the
// blocks. If there are none, the first result keeps the turn's members that are not modelled, under a name.
func (h *History) Turn(at Value, name string, extra []byte, results []Value, blocks []message.Block, result func(v Value, kept []byte)) {
	said := len(blocks) > 0 || len(results) == 0
	for i, v := range results {
		var kept []byte
		if i == 0 && !said {
			kept = AppendNested(nil, name, extra)
		}
		result(v, kept)
	}
	if said {
		h.AddText(at, message.User, h.Meta(extra), blocks...)
	}
}

// AddUnknownRole adds a message with a role that the vendor does not have. This is a fault or, if the
// document is read leniently, it is kept as a foreign user message.
func (h *History) AddUnknownRole(at Value, role string, meta message.Meta, blocks ...message.Block) {
	if !at.Lenient() {
		at.Get("role").Fault(CodeRole, "unknown role %.40q", role)
		return
	}
	at.Note("a message of the unknown role %q is kept as foreign text", brief(role))
	h.addForeign(at, meta, blocks)
}

func (h *History) addForeign(at Value, meta message.Meta, blocks []message.Block) {
	n := len(h.msgs)
	h.AddText(at, message.User, meta, blocks...)
	for _, m := range h.msgs[n:] {
		h.nobodys[m] = m.Role == message.User
	}
}

// UnknownContent handles content of a kind that Steward does not know. This is a fault or, if the document is
// read leniently, the content is replaced by the text returned.
func (h *History) UnknownContent(at Value, kind, format string, args ...any) message.Block {
	if !at.Lenient() {
		at.Fault(CodePart, format, args...)
		return &message.Text{}
	}
	return Quote(at, "["+kind+"]\n", "content of the type %q is kept as text", brief(kind))
}

// Quote returns the text that replaces something in a document that is read leniently: what it is,
// and its source.
func Quote(at Value, head, note string, args ...any) message.Block {
	at.Note(note, args...)
	return quoted(head + string(at.Raw()))
}

func quoted(s string) message.Block {
	return &message.Text{Common: message.Common{Labels: message.Untrusted}, Text: strings.ToValidUTF8(s, "\uFFFD")}
}

func brief(s string) string {
	r := []rune(s)
	return string(r[:min(len(r), 40)])
}

// dropEmptyTexts removes empty texts if the document is read leniently. ok is false if nothing is left of the
// message.
func (h *History) dropEmptyTexts(blocks []message.Block) (left []message.Block, ok bool) {
	if !h.doc.Lenient() {
		return blocks, true
	}
	left = slices.DeleteFunc(blocks, func(b message.Block) bool {
		t, text := b.(*message.Text)
		return text && strings.TrimSpace(t.Text) == ""
	})
	if len(left) == 0 {
		h.doc.Note("an empty message is left out")
	}
	return left, len(left) > 0
}

// Assistant adds a message of the model. Its calls have the ids and names that the document gives
// them. A message that comes before the results of the previous one belongs to the same turn,
// because some programs store a turn in pieces. It returns the message, or nil if the message is
// empty.
func (h *History) Assistant(at Value, meta message.Meta, blocks ...message.Block) *message.Message {
	blocks, ok := h.dropEmptyTexts(blocks)
	if !ok {
		return nil
	}
	n := len(h.msgs)
	m := &message.Message{Role: message.Assistant, Meta: meta}
	if n > 0 && len(h.open) > 0 && h.msgs[n-1].Role == message.Assistant {
		m = h.msgs[n-1]
		if len(m.Meta.Fields) == 0 {
			m.Meta = meta
		}
	} else {
		h.closeOpenCalls(at)
		h.add(at, m)
		if !h.unique || h.ids.Len() == 0 {
			h.ids = CallIDs{Prefix: h.prefix}
		}
	}
	for _, b := range blocks {
		m.Blocks = append(m.Blocks, b)
		c, ok := b.(*message.ToolCall)
		if !ok {
			continue
		}
		if c.Name == "" && at.Lenient() {
			c.Name = "unnamed"
		} else if c.Name == "" {
			at.Fault(CodeHistory, "a tool call has no name")
			return m
		}
		o := &openCall{given: c.CallID, at: at}
		c.CallID = h.ids.Next(c.CallID, h.Provider, "history", strconv.Itoa(len(h.msgs)))
		c.Name = tool.FromWire(c.Name)
		o.Call = message.Call{Ref: message.Ref{Message: m.ID, Block: len(m.Blocks) - 1}, ToolCall: c}
		h.open = append(h.open, o)
	}
	return m
}

// Result adds a result. It belongs to the call with the id or, if there is no id, to the call with
// the name, or otherwise to the first call without a result.
func (h *History) Result(at Value, givenID, name string, r *message.ToolResult) {
	o := h.find(givenID, tool.FromWire(name))
	if o == nil && at.Lenient() {
		at.Note("a result without a call is kept as text")
		h.addForeign(at, r.Meta, append([]message.Block{quoted("[result of " + cmp.Or(name, "a tool") + "]\n")}, r.Content...))
		return
	}
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

// closeOpenCalls refuses to continue while calls are open. If the document is read leniently it answers
// them, because nobody will report their results any more.
func (h *History) closeOpenCalls(at Value) {
	open := h.open
	h.open = nil
	for _, o := range open {
		switch {
		case o.answered:
		case at.Lenient():
			at.Note("a call without a result is marked as interrupted")
			r := &message.ToolResult{Call: o.Ref, CallID: o.CallID, Name: o.Name, Status: message.Interrupted,
				Content: []message.Block{quoted("The export has no result for this call.")}}
			h.add(at, &message.Message{Role: message.Tool, Blocks: []message.Block{r}})
		default:
			o.at.Fault(CodeUnanswered, "the call of %.80q has no result before %s", o.Name, at.At())
		}
	}
}

func (h *History) add(at Value, m *message.Message) {
	m.ID = id.New()
	if n := len(h.msgs); n > 0 {
		m.Prev = h.msgs[n-1].ID
	}
	h.msgs, h.at = append(h.msgs, m), append(h.at, at)
}

// done returns the messages, which pass message.CheckHistory, or the document's first fault.
func (h *History) done() ([]*message.Message, error) {
	if err := h.doc.Err(); err != nil {
		return nil, err
	}
	for i, m := range h.msgs {
		if h.doc.Lenient() {
			m.Meta = repairMeta(m.Meta)
			m.Blocks = h.repairBlocks(m.Blocks, m.Role == message.Assistant)
		}
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

// repairBlocks makes the blocks of a document that is read leniently storable: strict JSON, valid UTF-8,
// and each block in a message that may contain it.
func (h *History) repairBlocks(blocks []message.Block, model bool) []message.Block {
	for i, b := range blocks {
		b.Base().Meta = repairMeta(b.Base().Meta)
		switch b := b.(type) {
		case *message.ToolCall:
			b.Args = []byte(strings.ToValidUTF8(string(b.Args), "\uFFFD"))
			if !model {
				blocks[i] = h.UnknownContent(Value{raw: b.Args, root: h.doc.root}, "call of "+b.Name, "")
			}
		case *message.Reasoning:
			if !model {
				blocks[i] = quoted(b.Text)
			}
		case *message.Vendor:
			if !model {
				blocks[i] = h.UnknownContent(Value{raw: b.Meta.Fields, root: h.doc.root}, b.Kind, "")
			}
		case *message.ToolResult:
			b.Content = h.repairBlocks(b.Content, false)
		case *message.Image:
			b.MIME = cmp.Or(b.MIME, "image/*")
			if len(b.Data) == 0 && b.URL == "" {
				blocks[i] = quoted("[a picture that is not in the export]")
			}
		case *message.File:
			b.MIME = cmp.Or(b.MIME, "application/octet-stream")
		}
	}
	return blocks
}

// repairMeta makes metadata storable: unique names and valid UTF-8. What cannot be repaired is kept as
// text.
func repairMeta(m message.Meta) message.Meta {
	if len(m.Fields) == 0 || IsObject(m.Fields) {
		return m
	}
	out := []byte{'{'}
	seen := map[string]bool{}
	d := Decode(m.Fields)
	d.Object(func(key []byte) {
		name := strings.ToValidUTF8(string(key), "\uFFFD")
		raw := d.Span()
		if !Valid(raw) {
			raw = AppendString(nil, raw)
		}
		if !seen[name] {
			out = AppendMember(out, name, raw)
		}
		seen[name] = true
	})
	m.Fields = append(out, '}')
	return m
}

// Words sets a result's content and status from its texts, which are kept unchanged. The status is
// read from the first word ("[denied] …", see ResultText), provided that it agrees with the
// vendor's own mark of failures, if there is one (marked).
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

// InlineURL decodes a base64 data URL if it can be encoded again in exactly the same way. Others
// are kept as URLs.
func InlineURL(url string) (mime string, data []byte, ok bool) {
	_, data, ok = DataURL(url)
	mime, _, _ = strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,") // with its parameters
	if !ok || mime == "" || len(data) == 0 || InlineData(mime, data) != url {
		return "", nil, false
	}
	return mime, data, true
}

// ImageAt returns the image at a URL, which may be a data URL.
func ImageAt(url string) *message.Image {
	if mime, data, ok := InlineURL(url); ok {
		return &message.Image{MIME: mime, Data: data}
	}
	return &message.Image{MIME: message.MediaType(url, "image/*"), URL: url}
}

// FileAt returns the file at a URL, which may be a data URL.
func FileAt(url, name string) *message.File {
	if mime, data, ok := InlineURL(url); ok {
		return &message.File{MIME: mime, Name: name, Data: data}
	}
	other := message.MediaType(url, "application/octet-stream")
	return &message.File{MIME: message.MediaType(name, other), Name: name, URL: url}
}

// Base64 decodes a base64 string, in either alphabet and with or without padding.
func (v Value) Base64() []byte {
	s := v.Text()
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := e.DecodeString(s); err == nil && len(b) > 0 {
			return b
		}
	}
	v.want("data in base64")
	return nil
}
