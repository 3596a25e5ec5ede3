package turn

import (
	"strings"
	"testing"

	"steward/internal/message"
)

// The material of a summary is bounded: the newest messages are kept.
func TestSummaryUsesTheNewestMessages(t *testing.T) {
	var msgs []*message.Message
	for range 100 {
		msgs = append(msgs, &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: strings.Repeat("word ", 100)}}})
	}
	if n := tooOld(msgs, 1_000_000); n != 0 {
		t.Errorf("%d of a few messages are left out", n)
	}
	n := tooOld(msgs, 2000)
	if n < 50 || n > 95 {
		t.Errorf("%d are left out", n)
	}
	if _, text := renderMessages(msgs[n:], 1_000_000); len(text) > 20_000 {
		t.Errorf("%d bytes of material are left", len(text))
	}
}
