package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

const day = 24 * time.Hour

// says reports whether the log holds a word.
func says(t *testing.T, st store.Store, word string) bool {
	t.Helper()
	for e, err := range store.Entries(t.Context(), st, store.ForNode(resource.System), store.LogQuery{}) {
		ok(t, err)
		if bytes.Contains(e.Body, []byte(word)) {
			return true
		}
	}
	return false
}

// Deleted resources can be restored for a while. Then they are erased, and
// projections are told.
func TestErasingAfterTheRetentionTime(t *testing.T) {
	for _, c := range []struct {
		keep      time.Duration
		back, not time.Duration // after so long it can be brought back, and cannot
	}{{0, 29 * day, 31 * day}, {time.Hour, 30 * time.Minute, 2 * time.Hour}, {-1, 1000 * day, 0}} {
		w := newTight(t, 100_000, true)
		w.close()
		erased := 0
		w.opt.KeepDeleted = c.keep
		w.opt.Erased = func(context.Context, string) error { erased++; return nil }
		w.open()
		ctx := t.Context()
		tend := func(after time.Duration) {
			t.Helper()
			ok(t, w.RunMaintenance(ctx, time.Now().Add(after)))
		}
		w.answered("Quittenbrot", "ok")
		ok(t, w.Delete(ctx, "anna", w.conv))
		tend(c.back)
		if err := w.Undelete(ctx, "anna", w.conv, ""); err != nil || erased != 0 {
			t.Fatalf("kept for %s: %v, %d erased", c.keep, err, erased)
		}
		w.answered("hello", "ok")
		if c.not == 0 {
			continue
		}
		b, err := w.Fork(ctx, "anna", w.conv, conversation.Fork{Message: w.all()[1].ID})
		ok(t, err)
		w.answered("Schlehenfeuer", "ok")
		ok(t, w.DeleteBranch(ctx, "anna", w.conv, b.ID))
		tend(c.not)
		if says(t, w.store, "Schlehenfeuer") || !says(t, w.store, "Quittenbrot") || erased != 1 {
			t.Errorf("kept for %s: a branch: %d erased", c.keep, erased)
		}
		coded(t, w.Undelete(ctx, "anna", w.conv, b.ID), "branch_not_found")
		ok(t, w.Delete(ctx, "anna", w.conv))
		tend(c.not)
		if says(t, w.store, "Quittenbrot") || erased != 2 {
			t.Errorf("kept for %s: the conversation: %d erased", c.keep, erased)
		}
		coded(t, w.Undelete(ctx, "anna", w.conv, ""), "conversation_not_found")
		tend(c.not)
		if erased != 2 {
			t.Errorf("told of %d erasures", erased)
		}
	}
}

// Tend returns the error of a projection that could not follow an erasure.
func TestErasingReportsFailedProjections(t *testing.T) {
	w := newTight(t, 100_000, true)
	w.close()
	behind := errors.New("the index is behind")
	w.opt.Erased = func(context.Context, string) error { return behind }
	w.open()
	w.answered("hello", "ok")
	ok(t, w.Delete(t.Context(), "anna", w.conv))
	if err := w.RunMaintenance(t.Context(), time.Now().Add(31*day)); !errors.Is(err, behind) {
		t.Error(err)
	}
}

// An unused conversation is packed once. In one that is in use, the messages
// that left the context window are packed when it is evicted.
func TestPacking(t *testing.T) {
	w := newTight(t, 4000, true)
	ctx := t.Context()
	tend := func(after time.Duration) int {
		t.Helper()
		ok(t, w.RunMaintenance(ctx, time.Now().Add(after)))
		return w.faulty.count()
	}
	w.answered("work 12", "ok")
	if b := w.branch(); b.View.Start.Pos == 0 {
		t.Fatal("all is shown")
	}
	if n := tend(0); n != 0 {
		t.Errorf("%d packed while it is in use", n)
	}
	w.reopen()
	if n := tend(0); n != 0 { // who restarts does not know; it is packed with the rest
		t.Errorf("%d packed", n)
	}
	all := len(w.all())
	if n := tend(31 * day); n != all {
		t.Errorf("%d of %d packed", n, all)
	}
	if n := tend(32 * day); n != 0 {
		t.Errorf("%d packed again", n)
	}
	before := len(w.all())
	w.answered("hello", "ok")
	if len(w.all()) != before+2 || !strings.HasPrefix(w.all()[2].Text(), "result 1") {
		t.Error("what is packed cannot be read")
	}
	if n := tend(31 * day); n != 2 {
		t.Errorf("%d packed", n)
	}
	// Deleted ones are left alone, and who has no user.
	ok(t, w.Delete(ctx, "anna", w.conv))
	if n := tend(29 * day); n != 0 {
		t.Errorf("%d packed", n)
	}
}

// Messages that left the context window of an evicted conversation are packed
// at the next pass.
func TestPackingWhatLeftTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTight(t, 4000, true)
		w.close()
		w.opt.IdleFor = time.Minute
		w.open()
		w.answered("work 12", "ok")
		time.Sleep(3 * time.Minute)
		if n := w.CachedConversations(); n != 0 {
			t.Fatalf("%d are held", n)
		}
		time.Sleep(2 * time.Hour) // the node looks by itself
		if n := w.faulty.count(); n == 0 || n >= len(w.all()) {
			t.Errorf("%d of %d packed", n, len(w.all()))
		}
		b := w.branch()
		if b.Packed.Pos == 0 || b.Packed.Pos > b.View.Start.Pos {
			t.Errorf("packed to %v, shown from %v", b.Packed, b.View.Start)
		}
		time.Sleep(2 * time.Hour)
		if n := w.faulty.count(); n != 0 {
			t.Errorf("%d packed again", n)
		}
	})
}

// The node erases by itself, soon after its start and then every hour.
func TestTendingByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTight(t, 100_000, true)
		w.close()
		w.opt.KeepDeleted = 90 * time.Minute
		w.open()
		w.answered("Quittenbrot", "ok")
		ok(t, w.Delete(t.Context(), "anna", w.conv))
		time.Sleep(80 * time.Minute)
		if !says(t, w.store, "Quittenbrot") {
			t.Error("it is erased before its time")
		}
		time.Sleep(2 * time.Hour)
		if says(t, w.store, "Quittenbrot") {
			t.Error("it is not erased")
		}
	})
}

// A failure of the keeper is logged, and it tries again the next time.
func TestTendingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTight(t, 100_000, true)
		w.answered("hello", "ok")
		for name, fail := range map[string]func(store.Query) bool{
			"what is deleted": func(q store.Query) bool { return q.State == record.StateDeleted },
			"what is old":     func(q store.Query) bool { return q.Term.Name == record.TermRecent },
		} {
			w.faulty.breaks(fail)
			if err := w.RunMaintenance(t.Context(), time.Now()); !fault.HasCode(err, "disk_full") {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(2 * time.Hour)
		w.close()
		if !strings.Contains(w.log.String(), "could not be erased") {
			t.Errorf("logged: %s", w.log.String())
		}
	})
}

// Erasing keeps the spaces of users apart.
func TestErasingOfSeveralUsers(t *testing.T) {
	w := newTight(t, 100_000, true)
	convs := map[string]id.ID{}
	for _, user := range []string{"anna", "bert"} {
		acc, err := w.Send(t.Context(), user, turn.Input{Content: text("hello from " + user)})
		ok(t, err)
		convs[user] = acc.Conversation
		ok(t, w.Delete(t.Context(), user, acc.Conversation))
	}
	if err := w.Undelete(t.Context(), "anna", convs["bert"], ""); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	ok(t, w.Undelete(t.Context(), "bert", convs["bert"], ""))
	ok(t, w.RunMaintenance(t.Context(), time.Now().Add(31*day)))
	if says(t, w.store, "hello from anna") || !says(t, w.store, "hello from bert") {
		t.Error("the wrong one was erased")
	}
}

// The files of the database hold nothing of an erased conversation: no message,
// no effect, no overflow of a long result.
func TestErasedFromTheFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const word = "Vogelbeerlikoer"
	conv, _ := w.turn(id.ID{}, "say "+word)
	w.send(conv, `call ledger.add {"what":"`+strings.Repeat(word+" ", 8000)+`"}`)
	w.until(conv, turn.Cursor{}, func(f turn.Frame) bool {
		if f.Call != nil && f.Call.Approval != nil {
			v := effect.Decision{ID: f.Call.Approval.ID, Hash: f.Call.Approval.Hash, Approve: true}
			if err := w.Effects.Decide(t.Context(), store.ForUser("anna"), v); err != nil {
				t.Error(err)
			}
		}
		return f.Kind == turn.FrameComplete && !strings.Contains(f.Stored.Text(), "say ") && strings.HasPrefix(f.Stored.Text(), "ok: ")
	})
	w.atRest(conv)
	kept, err := w.store.Query(t.Context(), store.ForUser("anna"), store.Query{Type: "tool.Overflow"})
	if err != nil || len(kept.Items) != 1 {
		t.Fatalf("%d long results, %v", len(kept.Items), err)
	}
	first := w.message(conv, 0)
	count := func() (n int) {
		for _, name := range []string{"steward.db", "steward.db-wal"} {
			b, err := os.ReadFile(filepath.Join(w.dir, name))
			ok(t, err)
			n += bytes.Count(b, []byte(word))
		}
		return n
	}
	if count() == 0 {
		t.Fatal("the test looks for what is never there")
	}
	var all []id.ID
	page := w.messages(conv)
	for _, m := range page {
		all = append(all, m.ID)
	}
	ok(t, second(w.Mark(t.Context(), "anna", conv, conversation.Verdict{State: record.Deleted, Reason: word}, all...)))
	ok(t, w.RunMaintenance(t.Context(), time.Now().Add(31*day)))
	if n := count(); n != 0 {
		t.Errorf("after its messages were erased, it stands there %d times", n)
	}
	if c, err := w.Conversations.Get(t.Context(), store.ForUser("anna"), conv); err != nil || c.Title != "" {
		t.Errorf("%+v, %v", c, err)
	}
	coded(t, second(w.Mark(t.Context(), "anna", conv, conversation.Verdict{State: record.Active}, first)), "message_not_found")
	w.turn(conv, "say on")
	w.turn(conv, "say "+word)
	ok(t, w.Delete(t.Context(), "anna", conv))
	ok(t, w.RunMaintenance(t.Context(), time.Now().Add(31*day)))
	if n := count(); n != 0 {
		t.Errorf("after the conversation was erased, it stands there %d times", n)
	}
}

// A turn that waits, for example for a person, does not keep other
// conversations from being packed or erased.
func TestTendingSkipsBusyConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStill(t).open()
		busy := w.hangs(id.ID{})
		w.talk()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.RunMaintenance(ctx, time.Now().Add(31*day)); err != nil {
			t.Errorf("while a turn waits: %v", err)
		}
		if n := w.faulty.count(); n != 2 {
			t.Errorf("%d messages packed of the conversation that is not busy", n)
		}
		close(w.model.gate)
		synctest.Wait()
		if err := w.RunMaintenance(ctx, time.Now().Add(31*day)); err != nil || w.Running("anna", busy) {
			t.Error(err)
		}
		if n := w.faulty.count(); n != 2 {
			t.Errorf("%d messages packed of the one that was", n)
		}
	})
}

// A conversation that becomes busy just when it is to be packed is packed the
// next time.
func TestPackingOfABusyConversationIsTriedAgain(t *testing.T) {
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
		if n := w.CachedConversations(); n != 0 {
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
		if err := w.RunMaintenance(ctx, time.Now()); err != nil {
			t.Errorf("while one is busy: %v", err)
		}
		if n := w.faulty.count(); n == 0 {
			t.Error("nothing was packed of the one that is not")
		}
		close(gate)
		ok(t, <-left)
		synctest.Wait()
		if err := w.RunMaintenance(ctx, time.Now()); err != nil {
			t.Error(err)
		}
		if n := w.faulty.count(); n == 0 {
			t.Error("nothing was packed of the one that was busy")
		}
	})
}
