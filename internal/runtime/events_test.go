package runtime_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/tree"
	"steward/test/storetest"
)

// happened collects n events after a cursor.
func (w *world) happened(user string, f events.Filter, from events.Cursor, n int) ([]events.Event, events.Cursor) {
	w.t.Helper()
	ctx := w.t.Context()
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

// Only its user gets the events of a turn, live and from the log, and continues
// at a cursor after a restart.
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

// Reads of audited types by an agent are recorded.
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

func TestInvalidAuditedTypes(t *testing.T) {
	w := made(t, &world{opt: runtime.Options{AuditReads: []string{"a safe"}}})
	coded(t, w.tryOpen(), "audit_invalid")
	if err := w.shut(); err != nil {
		t.Error(err)
	}
	w.Node = nil
}

// observed collects changes after a cursor until one of the kind last.
func (w *world) observed(user string, f events.ChangeFilter, from events.Cursor, last events.ChangeKind) ([]*events.Change, events.Cursor) {
	w.t.Helper()
	ctx := w.t.Context()
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

// Observers get the changes of a turn, the same live, from the log and after a
// restart. Other users get nothing.
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
	ctx := t.Context()
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

// When the node closes, observers end with a cursor to continue from.
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

func TestSearching(t *testing.T) {
	t.Parallel()
	w := made(t, &world{memory: storetest.NewModel()}).open()
	coded(t, second(w.Search(t.Context(), "anna", search.Query{Text: "x"})), "search_off")
	has := func(list []tool.Spec) bool {
		for _, s := range list {
			if s.Name == search.ToolName {
				return true
			}
		}
		return false
	}
	if has(w.Tools("")) {
		t.Error("there is a tool for nothing")
	}
	w.close()

	ix := fts.New(fts.Options{Path: filepath.Join(w.dir, "search.db"), Store: w.memory})
	w.opt = runtime.Options{Search: ix}
	w.open()
	if !has(w.Tools("")) {
		t.Error("the tool is missing")
	}
	earlier, _ := w.turn(id.ID{}, "say the train leaves at noon")
	_, frames := w.turn(id.ID{}, `call conversation.search {"query":"train"}`)
	got := said(frames)
	for _, want := range []string{"ok: 1. ", "the **train** leaves at noon", "say the **train** leaves", "2. "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if strings.Contains(got, "3. ") || strings.Contains(got, "query") {
		t.Errorf("the search finds itself: %q", got)
	}
	page, err := w.Search(t.Context(), "anna", search.Query{Text: "noon", Conversation: earlier})
	if err != nil || len(page.Hits) != 2 || page.Hits[0].Conversation != earlier {
		t.Errorf("%+v %v", page, err)
	}
	if page, err := w.Search(t.Context(), "ben", search.Query{Text: "noon", Conversation: earlier}); err != nil || len(page.Hits) != 0 {
		t.Errorf("%+v %v", page, err)
	}
	ok(t, w.Delete(t.Context(), "anna", earlier))
	if page, err := w.Search(t.Context(), "anna", search.Query{Text: "noon", Conversation: earlier}); err != nil || len(page.Hits) != 0 {
		t.Errorf("deleted, and found: %+v %v", page, err)
	}
	w.close()
	if err := ix.Close(); err != nil {
		t.Error(err)
	}
}

// An entry of the work log is a resource of the user who made the call, below
// the message that makes the call.
func TestWorkLogAsResources(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "call math.multiply {\"a\":6,\"b\":7}\ncall math.multiply {\"a\":2,\"b\":3}")
	ctx, all := t.Context(), w.Resources()
	anna, ben := tree.Caller{User: "anna"}, tree.Caller{User: "ben"}
	page, err := all.List(ctx, anna, tree.Query{Type: "worklog.Entry", Bodies: true})
	if err != nil || len(page.Items) != 2 {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, r := range page.Items {
		if r.Space != resource.UserSpace("anna") || r.At.IsZero() || r.Purpose != "Math: multiply" ||
			!strings.Contains(r.URI.String(), conv.String()) || !strings.Contains(string(r.Body), `"outcome":"success"`) {
			t.Errorf("%+v", r)
		}
		got, err := all.Get(ctx, anna, r.URI)
		if err != nil || string(got.Body) != string(r.Body) {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := all.Get(ctx, ben, r.URI); !fault.Is(err, fault.NotFound) {
			t.Errorf("another user's: %v", err)
		}
		for _, wrong := range []resource.URI{resource.Root("common.Message", id.New().String()).Child("worklog.Entry", "0"),
			r.URI.Parent().Child("worklog.Entry", "99"), r.URI.Parent().Child("worklog.Entry", "x"),
			resource.Root("common.Message", r.URI.Parent().ID()).Child("worklog.Entry", r.URI.ID())} {
			if _, err := all.Get(ctx, anna, wrong); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", wrong, err)
			}
		}
	}
	for _, uri := range []resource.URI{resource.Root("tool.Tool", "math.multiply"), resource.Root("agent.Agent", "assistant")} {
		if r, err := all.Get(ctx, anna, uri); err != nil || !strings.Contains(string(r.Body), "math.multiply") {
			t.Errorf("%s: %s, %v", uri, r.Body, err)
		}
	}
	if page, err = all.List(ctx, ben, tree.Query{Type: "worklog.Entry"}); err != nil || len(page.Items) != 0 {
		t.Errorf("ben sees %+v, %v", page, err)
	}
	if page, err = all.List(ctx, anna, tree.Query{Type: "worklog.Entry", Under: resource.Root("common.Conversation", id.New().String())}); err != nil || len(page.Items) != 0 {
		t.Errorf("elsewhere: %+v, %v", page, err)
	}
	if page, err = all.List(ctx, anna, tree.Query{Limit: tree.MaxPage}); err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Items {
		if r.URI.Type() == "worklog.Entry" {
			t.Error("what is derived is listed without being asked for")
		}
	}
}
