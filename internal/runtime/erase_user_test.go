package runtime_test

import (
	"testing"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
)

// A task that runs ends with its user, whose
// space has nothing left, also once it would have ended by itself.
func TestTasksEndWithTheirUser(t *testing.T) {
	w, b := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
	ok(t, w.EraseUser(t.Context(), "root", "anna"))
	close(b.gate)
	w.settled()
	for en, err := range store.Entries(t.Context(), w.store, store.ForUser("anna"), store.LogQuery{}) {
		if err != nil || en.Op == resource.OpPut && en.Body != nil {
			t.Errorf("left of %s: %s %v", conv, en.URI, err)
		}
	}
	if _, err := w.Send(t.Context(), "anna", runtime.Turn{Conversation: conv}); err == nil {
		t.Error("the conversation goes on")
	}
}
