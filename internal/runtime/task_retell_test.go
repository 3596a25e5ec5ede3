package runtime_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// failsOnce has the store fail once, when the run of a turn is to be recorded
// as over.
func (w *world) failsOnce() {
	var once sync.Once
	w.faulty.set(func(b store.Batch) (err error) {
		for _, c := range b.Changes {
			var r record.Run
			if c.URI.Type() == record.TypeRun && record.Decode(c.URI, c.Body, &r) == nil && !r.Ended.IsZero() {
				once.Do(func() { err = fault.New(fault.Exhausted, "disk_full", "no room") })
			}
		}
		return err
	})
}

// The result of a task is told to the end, also where the store fails for a
// moment while an agent answers to it; nobody has to say anything, nor to
// restart.
func TestTellingGoesOnAfterTheStoreFailed(t *testing.T) {
	for _, words := range []string{askMiller, ask("personal", ask("miller", askMiller))} {
		t.Run(words, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, b := newStill(t), newBench()
				g := &grove{}
				g.plant(agentOf("personal"), agentOf("personal/miller", b.tools(t)...))
				w.opt.Catalog, w.more = g, b.tools(t)
				w.open()
				conv := w.send(id.ID{}, words).Conversation
				synctest.Wait()
				w.failsOnce()
				close(b.gate)
				time.Sleep(time.Hour)
				open, err := w.Requests(t.Context(), "anna", false, 10)
				if err != nil || len(open) != 0 {
					t.Errorf("%d requests are still open, %v", len(open), err)
				}
				if got := w.users(conv); len(got) != 2 || !strings.Contains(got[1], "did flour") {
					t.Errorf("told: %q", got)
				}
			})
		})
	}
}
