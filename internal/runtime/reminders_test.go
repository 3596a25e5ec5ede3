package runtime_test

import (
	"testing"
	"time"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/jobs"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/turn"
	"steward/test/storetest"
)

// next returns the first reminder that anna is told from now on.
func (w *world) nextReminder() (out runtime.Reminder) {
	w.t.Helper()
	for r := range w.FollowReminders(w.t.Context(), "anna") {
		return r
	}
	w.t.Fatal("no reminder came")
	return out
}

// A reminder is told at once while a question is open. Its message follows when the turn is over,
// under the id that was told, with the time at which it was told.
func TestAReminderDoesNotWaitForAQuestion(t *testing.T) {
	w := made(t, &world{memory: storetest.NewModel()}).open()
	conv := w.send(id.ID{}, `call ledger.add {"what":"x"}`).Conversation
	w.until(conv, turn.Cursor{}, asksPerson)
	w.close()
	due := time.Now().Add(-10 * time.Second)
	before := jobs.New(jobs.Options{Store: w.memory, Now: func() time.Time { return due.Add(-time.Hour) }})
	alarm := record.Alarm{ID: id.New(), User: "anna", Conversation: conv, Kind: "reminder", Text: "drink tea", Start: due, Zone: "UTC"}
	ok(t, second(before.Set(t.Context(), alarm)))
	w.opt.Alarms = jobs.New(jobs.Options{Store: w.memory})
	w.open()

	r := w.nextReminder()
	if r.Text != "Reminder: drink tea" || r.Conversation != conv || r.At.Before(due) {
		t.Fatalf("%+v", r)
	}
	if again := w.nextReminder(); again != r { // a client that comes while the question is open
		t.Errorf("%+v, before %+v", again, r)
	}
	for _, m := range w.messages(conv) {
		if m.ID == r.Message {
			t.Error("its message is there while the turn runs")
		}
	}
	asked := w.until(conv, turn.Cursor{}, asksPerson)
	a := asked[len(asked)-1].Call.Approval
	ok(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: a.ID, Hash: a.Hash, Approve: true}))
	frames := w.until(conv, turn.Cursor{}, isKind(turn.FrameOpened))
	m := frames[len(frames)-1].Stored
	if m.ID != r.Message || m.Text() != r.Text || !m.At.Equal(r.At) || m.Blocks[0].Base().Origin != "alarm:"+alarm.ID.String() || m.Role != message.User {
		t.Errorf("%+v, told %+v", m, r)
	}
	w.atRest(conv)
}
