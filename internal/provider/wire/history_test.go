package wire_test

import (
	"strconv"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/provider/wire"
)

func words(s string) []message.Block { return []message.Block{&message.Text{Text: s}} }

func asks(id, name string) message.Block { return &message.ToolCall{CallID: id, Name: name} }

// chat is a history with ids.
func chat(msgs ...*message.Message) []*message.Message {
	var prev id.ID
	for i, m := range msgs {
		m.ID, m.Prev = id.Derive("chat", strconv.Itoa(i)), prev
		prev = m.ID
	}
	return msgs
}

// TestEncodeRefuses: what no vendor has a form for.
func TestEncodeRefuses(t *testing.T) {
	c := wire.Codec{Encoder: func() llm.GroupEncoder {
		return func(dst []byte, _ []*message.Message) ([]byte, error) {
			return dst, fault.New(fault.Unsupported, "no_form", "there is no form for it")
		}
	}}
	sample := func(more ...message.Block) []*message.Message {
		msgs := chat(&message.Message{Role: message.User, Blocks: words("Go")}, &message.Message{Role: message.Assistant},
			&message.Message{Role: message.Tool})
		msgs[1].Blocks = append([]message.Block{asks("1", "a.b")}, more...)
		msgs[2].Blocks = []message.Block{&message.ToolResult{Call: message.Ref{Message: msgs[1].ID}, CallID: "1", Name: "a.b", Status: message.OK}}
		return msgs
	}
	twice := sample()
	twice[2].ID = twice[0].ID
	for code, msgs := range map[string][]*message.Message{
		"message_empty":       chat(&message.Message{Role: message.User}),
		"message_id_repeated": twice,
		wire.CodeUnanswered:   sample(asks("2", "c")),
		"no_form":             sample(),
	} {
		if _, err := c.Encode(msgs); !fault.HasCode(err, code) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if b, err := c.Encode(nil); string(b) != "[]" || err != nil {
		t.Errorf("no messages: %s, %v", b, err)
	}
}
