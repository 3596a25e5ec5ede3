package runtime_test

import (
	"testing"
	"testing/synctest"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
)

// Once a node is closed nothing of it begins any more: its store may be closed
// by then. Here a turn of an agent that is gone is given up just then, which
// would have what it had queued be settled.
func TestNothingBeginsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, g := newStill(t), &grove{}
		g.plant(agentOf("personal"))
		looked := 0
		w.opt.Catalog = g
		w.open()
		turn := func(conv id.ID) (runtime.Accepted, error) {
			return w.Send(t.Context(), "anna", runtime.Turn{Conversation: conv, Agent: "personal", Content: text("say hello")})
		}
		w.failsOnce()
		acc, err := turn(id.ID{})
		ok(t, err)
		synctest.Wait()
		g.plant()
		gate := make(chan struct{})
		w.faulty.set(func(b store.Batch) error {
			for _, c := range b.Changes {
				var r record.Run
				if c.URI.Type() == record.TypeRun && record.Decode(c.URI, c.Body, &r) == nil && !r.Ended.IsZero() {
					<-gate
				}
			}
			return nil
		})
		next := aside(func() (runtime.Accepted, error) { return turn(acc.Conversation) })
		if next.over() {
			t.Fatalf("it did not come to be given up: %v", next.err)
		}
		st := w.faulty
		w.close()
		st.breaks(func(q store.Query) bool {
			if q.Type == record.TypeRequest && q.State == record.RequestOpen {
				looked++
			}
			return false
		})
		close(gate)
		if !next.over() || !fault.HasCode(next.err, "closing") {
			t.Error(next.err)
		}
		if looked != 1 { // for agents that it had asked
			t.Errorf("after the end it looked %d times for what is open", looked)
		}
	})
}
