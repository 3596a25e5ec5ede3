package turn

import (
	"errors"
	"fmt"
	"testing"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/memory"
	"steward/internal/message"
	"steward/internal/record"
)

// What was recalled stays known when the transcript has released the messages that name it, and nothing is read
// again for that.
func TestRecallsOfALongConversation(t *testing.T) {
	said := func(role message.Role, origin, text string) *message.Message {
		return &message.Message{ID: id.New(), Role: role, Blocks: []message.Block{&message.Text{Common: message.Common{Origin: origin}, Text: text}}}
	}
	recall := func() *message.Message {
		r := memory.Recalled{Facts: []record.Fact{{ID: id.New(), Revision: 3}}, Similar: []float64{0.5}}
		return said(message.User, record.OriginMemory, r.Reference())
	}
	first := recall()
	msgs := []*message.Message{said(message.User, record.OriginUser, "hello"), first, said(message.Assistant, "model", "hello")}
	for i := range 40 {
		msgs = append(msgs, said(message.User, record.OriginUser, fmt.Sprint("question ", i)), said(message.Assistant, "model", "answer"))
	}
	tr := llm.NewTranscript(msgs...)
	tr.Again(func() ([]*message.Message, error) { return nil, errors.New("it is read again") })
	var r recalls
	for turn := range 3 {
		found, err := r.in(tr)
		if err != nil || len(found) != 1+turn || found[0] != first {
			t.Fatalf("turn %d: %d recalls, %v", turn, len(found), err)
		}
		later := recall()
		tr.Append(said(message.User, record.OriginUser, "again"), later)
		if _, _, err := tr.Encoded("test", func(dst []byte, _ []*message.Message) ([]byte, error) { return append(dst, '1'), nil }); err != nil {
			t.Fatal(err)
		}
		if turn == 0 && len(tr.Messages()) > 20 {
			t.Fatalf("the transcript has released nothing: %d messages", len(tr.Messages()))
		}
		if refs := RecalledBy(later); len(refs) != 1 || refs[0].Revision != 3 || refs[0].Similar != 0.5 || refs[0].Profile {
			t.Fatalf("%+v", refs)
		}
		tr.Append(said(message.Assistant, "model", "answer"))
	}
}
