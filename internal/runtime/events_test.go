package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/store"
)

// happened collects so many events from a cursor on.
func (w *world) happened(user string, f events.Filter, from events.Cursor, n int) ([]events.Event, events.Cursor) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	var got []events.Event
	for b, err := range w.Subscribe(ctx, user, f, from) {
		ok(w.t, err)
		if got = append(got, b.Events...); len(got) >= n {
			return got, b.Cursor
		}
	}
	w.t.Fatalf("%d events never came: %+v", n, got)
	return nil, ""
}

// What a turn does is told, live and from the log, to its user alone, and
// goes on behind a cursor after a restart.
func TestEventsOfTurns(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, `call math.multiply {"a":6,"b":7}`)
	messages := events.Filter{Types: []string{"common.Message"}, Prefixes: []resource.URI{resource.Root("common.Conversation", conv.String())}}
	got, cursor := w.happened("anna", messages, events.Start, 4)
	for _, x := range got {
		if x.Source != "user:anna" && !strings.HasPrefix(x.Source, "agent:") || x.Detail != events.Put || x.Published {
			t.Errorf("%+v", x)
		}
	}
	w.reopen()
	w.turn(conv, "say more")
	more, _ := w.happened("anna", messages, cursor, 2)
	if more[0].Seq <= got[3].Seq {
		t.Errorf("%d after %d", more[0].Seq, got[3].Seq)
	}
	ok(t, second(w.Publish(t.Context(), "eve", events.Publication{Resources: []events.Resource{{URI: got[0].URI}}})))
	eves, _ := w.happened("eve", events.Filter{}, events.Start, 1)
	if len(eves) != 1 || eves[0].Source != "user:eve" || !eves[0].Published {
		t.Errorf("eve is told %+v", eves)
	}
}

// An agent that reads what is audited is seen to, and so is a person.
func TestAuditedReads(t *testing.T) {
	w := made(t, &world{opt: runtime.Options{AuditReads: []string{"home.Safe"}}})
	w.open()
	safe := resource.Root("identity.User", "anna").Child("home.Safe", "1")
	ok(t, second(w.store.Commit(t.Context(), store.ForUser("anna"), store.Batch{Changes: []store.Change{{URI: safe, Body: []byte(`{"code":1}`)}}})))
	_, answer := w.turn(id.ID{}, `call resource.get {"uri":"`+safe.String()+`"}`)
	got, _ := w.happened("anna", events.Filter{Details: []events.DetailType{events.Get}}, events.Start, 1)
	if x := got[0]; x.Published || x.Resources[0].URI != safe || x.Resources[0].Space != "user:anna" {
		t.Errorf("%+v after %v", x, answer)
	}
}

func TestAuditThatCannotBe(t *testing.T) {
	w := made(t, &world{opt: runtime.Options{AuditReads: []string{"a safe"}}})
	if err := w.tryOpen(); !fault.HasCode(err, "audit_invalid") {
		t.Error(err)
	}
	if err := w.shut(); err != nil {
		t.Error(err)
	}
	w.Node = nil
}
