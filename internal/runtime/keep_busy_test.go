package runtime_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// A turn that waits, for a person, say, keeps nothing else from being packed
// or erased.
func TestTendingPassesOverWhatIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStill(t).open()
		busy := w.hangs(id.ID{})
		w.talk()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Tend(ctx, time.Now().Add(31*day)); err != nil {
			t.Errorf("while a turn waits: %v", err)
		}
		if n := w.faulty.count(); n != 2 {
			t.Errorf("%d messages packed of the conversation that is not busy", n)
		}
		close(w.model.gate)
		synctest.Wait()
		if err := w.Tend(ctx, time.Now().Add(31*day)); err != nil || w.Running("anna", busy) {
			t.Error(err)
		}
		if n := w.faulty.count(); n != 2 {
			t.Errorf("%d messages packed of the one that was", n)
		}
	})
}

// What has fallen out of view of a conversation that gets busy just when it is
// to be packed is packed the next time.
func TestPackingWhatGotBusyIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTight(t, 4000, true)
		w.close()
		w.opt.IdleFor = 2 * time.Minute // not let go of at the keeper's own first look
		w.open()
		last := map[id.ID]id.ID{}
		for range 2 {
			w.conv = id.ID{}
			w.answered("work 12", "ok")
			all := w.all()
			last[w.conv] = all[len(all)-1].ID
		}
		time.Sleep(10 * time.Minute) // they are let go of
		if n := w.Held(); n != 0 {
			t.Fatalf("%d are held", n)
		}
		w.faulty.count()
		gate, left := make(chan struct{}), make(chan error, 1)
		var held resource.URI // of the one that gets busy
		w.faulty.set(func(b store.Batch) error {
			packs := slices.ContainsFunc(b.Changes, func(c store.Change) bool { return c.Op == store.Pack })
			if !packs && !held.Zero() && b.Changes[0].URI.Under(held) {
				<-gate
			}
			if !packs || !held.Zero() {
				return nil
			}
			for conv, msg := range last { // when one is packed first, the other one gets busy
				if uri := record.ConversationURI(conv); !b.Changes[0].URI.Under(uri) {
					held = uri
					go func() { left <- w.Pin(t.Context(), "anna", conv, true, msg) }()
				}
			}
			synctest.Wait()
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Tend(ctx, time.Now()); err != nil {
			t.Errorf("while one is busy: %v", err)
		}
		if n := w.faulty.count(); n == 0 {
			t.Error("nothing was packed of the one that is not")
		}
		close(gate)
		ok(t, <-left)
		synctest.Wait()
		if err := w.Tend(ctx, time.Now()); err != nil {
			t.Error(err)
		}
		if n := w.faulty.count(); n == 0 {
			t.Error("nothing was packed of the one that was busy")
		}
	})
}
