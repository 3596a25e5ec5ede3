package runtime_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
)

// observed collects changes from a cursor on until one is of the kind.
func (w *world) observed(user string, f events.ChangeFilter, from events.Cursor, last events.ChangeKind) ([]*events.Change, events.Cursor) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	var got []*events.Change
	for b, err := range w.Observe(ctx, user, f, from) {
		ok(w.t, err)
		got = append(got, b.Changes...)
		if n := len(got); n > 0 && got[n-1].Kind == last {
			return got, b.Cursor
		}
	}
	w.t.Fatalf("%s never came; changes: %+v", last, got)
	return nil, ""
}

// A turn is told as what it stores, live and from the log alike, after a
// restart too, and to nobody else.
func TestObserveTurns(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, `call math.multiply {"a":6,"b":7}`)
	got, cursor := w.observed("anna", events.ChangeFilter{}, "", events.InteractionClosed)
	kinds := func(cs []*events.Change) (out []events.ChangeKind) {
		for _, c := range cs {
			if c.Conversation != conv {
				t.Errorf("%+v is of another conversation", c)
			}
			out = append(out, c.Kind)
		}
		return out
	}
	turn := []events.ChangeKind{events.InteractionOpened, events.MessageAdded, events.MessageAdded, events.MessageAdded, events.MessageAdded, events.InteractionClosed}
	if k := kinds(got); !slices.Equal(k, append([]events.ChangeKind{events.ConversationCreated}, turn...)) {
		t.Errorf("%v", k)
	}
	if c := got[4]; !slices.Equal(c.Tools, []string{"math.multiply"}) || c.Outcome != "ok" || c.Interaction != got[1].Interaction {
		t.Errorf("%+v", c)
	}
	live := make(chan []*events.Change)
	go func() {
		cs, _ := w.observed("anna", events.ChangeFilter{Conversations: []id.ID{conv}}, cursor, events.InteractionClosed)
		live <- cs
	}()
	w.turn(conv, `call math.multiply {"a":1,"b":2}`)
	lived := <-live
	if k := kinds(lived); !slices.Equal(k, turn) {
		t.Errorf("%v", k)
	}
	w.reopen()
	again, _ := w.observed("anna", events.ChangeFilter{}, cursor, events.InteractionClosed)
	if !slices.EqualFunc(again, lived, func(a, b *events.Change) bool { return a.Seq == b.Seq && a.Kind == b.Kind && a.At.Equal(b.At) }) {
		t.Errorf("%+v after a restart, %+v before", again, lived)
	}
	ok(t, second(w.Rename(t.Context(), "anna", conv, "Sums")))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for b, err := range w.Observe(ctx, "eve", events.ChangeFilter{Conversations: []id.ID{conv}}, "") {
		if err != nil || len(b.Changes) > 0 {
			t.Error(b, err)
		}
		break // it has seen all of the log
	}
	if got, _ := w.observed("anna", events.ChangeFilter{Kinds: []string{"conversation_changed"}}, cursor, events.ConversationChanged); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// Closing the node ends observers, with where to go on.
func TestObserveUntilTheNodeCloses(t *testing.T) {
	w := newWorld(t)
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		for _, err := range w.Node.Observe(context.Background(), "anna", events.ChangeFilter{}, events.Now) {
			if err != nil {
				ended <- err
				return
			}
			close(begun)
		}
	}()
	<-begun
	n := w.Node
	w.close()
	if err := <-ended; !fault.HasCode(err, "closing") || fault.Of(err).Details["cursor"] == nil {
		t.Error(err)
	}
	for _, err := range n.Observe(context.Background(), "anna", events.ChangeFilter{}, "") {
		if err == nil {
			t.Error("a closed node can be observed")
		}
	}
}
