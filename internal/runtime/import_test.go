package runtime_test

import (
	"strings"
	"testing"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/message"
)

// What is imported is a conversation like any other: it goes on, is the
// user's alone, and comes out again with what was said since.
func TestImport(t *testing.T) {
	w := newWorld(t)
	const file = `[{"role":"user","content":"a secret of mine"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","function":{"name":"gone","arguments":"{}"}}]},{"role":"user","content":"never mind"}]`
	var got []conversation.Imported
	for one, err := range w.Import(t.Context(), "anna", strings.NewReader(file), importexport.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, one)
	}
	if len(got) != 1 || got[0].Stored != 4 || got[0].Conversation.Owner != "anna" {
		t.Fatalf("%+v", got)
	}
	conv := got[0].Conversation.ID
	if _, err := w.Conversation(t.Context(), "bert", conv); !fault.HasCode(err, "conversation_not_found") {
		t.Errorf("bert sees it: %v", err)
	}
	w.turn(conv, "say hello")
	page, _, err := w.Messages(t.Context(), "anna", conv, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	var history []*message.Message
	for _, m := range page {
		history = append(history, m.Message)
	}
	if err := message.CheckHistory(history); err != nil || len(history) != 6 {
		t.Errorf("%d messages, %v", len(history), err)
	}
	var out strings.Builder
	if err := w.ExportAs(t.Context(), "anna", conv, conversation.ExportOptions{Format: "markdown", MaskPrivate: true}, &out); err != nil || !strings.Contains(out.String(), "say hello") {
		t.Errorf("%s, %v", &out, err)
	}
}
