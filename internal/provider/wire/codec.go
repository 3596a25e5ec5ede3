package wire

import (
	"fmt"
	"strings"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
)

// Codec converts a vendor's histories. It implements llm.Codec. Encoder is the same encoder that
// writes requests.
type Codec struct {
	Provider string // whose metadata is written and kept
	Prefix   string // of the ids of calls that have none
	Unique   bool   // ids of calls are unique in the whole history, not only in a message

	Encoder func() llm.GroupEncoder
	Read    func(h *History, doc Value) // adds the document's messages

	// Check may refuse a message that Decode has read at a place. It may be nil.
	Check func(at string, m *message.Message) error
}

// Encode implements llm.Codec. It refuses a last message of which only some calls have results
// (history_call_unanswered), because no vendor can represent that.
func (c Codec) Encode(msgs []*message.Message) ([]byte, error) {
	for i, m := range msgs {
		if err := message.Validate(m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	if err := message.CheckView(msgs); err != nil {
		return nil, err
	}
	if open := message.Dangling(msgs); len(open) > 0 && msgs[len(msgs)-1].Role != message.Assistant {
		return nil, fault.New(fault.Invalid, CodeUnanswered, "the call %s of %.80q has no result, and others have", open[0].Ref, open[0].Name).
			WithHint("wait until all calls have their results")
	}
	head, tail, err := llm.NewTranscript(msgs...).Encoded("history", c.Encoder())
	if err != nil {
		return nil, err
	}
	return Append(nil, `[$$]`, head, After(head, tail)), nil
}

// Decode implements llm.Codec.
func (c Codec) Decode(doc []byte) ([]*message.Message, error) {
	h := c.history(document(doc, false))
	c.Read(h, h.doc)
	msgs, err := h.done()
	for i := 0; i < len(msgs) && c.Check != nil && err == nil; i++ {
		err = c.Check(h.at[i].At(), msgs[i])
	}
	if err != nil {
		return nil, err
	}
	return msgs, nil
}

// Import implements llm.Codec.
func (c Codec) Import(doc []byte) (llm.Imported, error) {
	h := c.history(document(doc, true))
	c.Read(h, h.doc)
	h.closeOpenCalls(h.doc)
	msgs, err := h.done()
	return llm.Imported{Messages: msgs, Nobodys: h.nobodys, Notes: h.doc.root.notes}, err
}

func (c Codec) history(doc Value) *History {
	return &History{Provider: c.Provider, prefix: c.Prefix, unique: c.Unique, doc: doc, nobodys: map[*message.Message]bool{}}
}

// AppendArgs appends a call's arguments for a vendor that accepts only objects. Arguments that are
// not an object are wrapped in one, readable for the model, under the wrapper's name.
func AppendArgs(dst, args []byte, wrapper string) []byte {
	switch {
	case IsObject(args):
		return append(dst, args...)
	case len(strings.TrimSpace(string(args))) == 0:
		return append(dst, `{}`...)
	}
	return Append(dst, `{$:$}`, wrapper, string(args))
}

// Args returns the arguments as the model wrote them. It reverses what AppendArgs does to arguments
// that are not an object.
func Args(raw []byte, wrapper string) []byte {
	if !strings.Contains(string(raw), wrapper) || !IsObject(raw) {
		return raw
	}
	var args []byte
	d := Decode(raw)
	d.Object(func([]byte) { args = d.Bytes() })
	if len(args) == 0 || string(AppendArgs(nil, args, wrapper)) != string(raw) {
		return raw
	}
	return args
}
