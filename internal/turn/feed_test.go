package turn

import (
	"slices"
	"testing"

	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/message"
)

// A watcher that comes when the turn is over reads the notices about the turn before the message that they
// preceded, except those about a wait that is over.
func TestNoticesAboutATurnAreReplayed(t *testing.T) {
	var f Feed
	m := &message.Message{ID: id.New(), Role: message.Assistant, Final: true, Blocks: []message.Block{&message.Text{Text: "done"}}}
	f.notice("waiting for the model", true)
	f.notice("this could be planned", false)
	f.messageStored(m, 7)
	w := f.Join()
	defer f.Leave(w)
	var got []string
	p := position{yield: func(fr Frame, _ error) bool {
		got = append(got, string(fr.Kind)+" "+fr.Text)
		return true
	}}
	p.replay([]conversation.Entry{{Message: m, Seq: 7}}, Cursor{}, f.copyState(w).storedNotices)
	if want := []string{"notice this could be planned", "token done", "complete "}; !slices.Equal(got, want) {
		t.Errorf("replayed %q, want %q", got, want)
	}
}
