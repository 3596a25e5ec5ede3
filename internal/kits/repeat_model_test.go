package kits

import (
	"testing"

	"steward/internal/llm"
	"steward/internal/message"
)

// What Steward notes for models beside a message, such as when it was sent, is not repeated.
func TestRepeatedIsWhatWasSaid(t *testing.T) {
	log := llm.NewTranscript(&message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "Reminder: call mum"},
		&message.Text{Common: message.Common{Origin: "system"}, Text: "(Sent on Wednesday.)"}}})
	for ev, err := range repeatModel().Model.Stream(t.Context(), &llm.Request{Transcript: log}) {
		if err != nil || ev.Reply == nil && ev.Text != "Reminder: call mum" {
			t.Errorf("%q %v", ev.Text, err)
		}
	}
}
