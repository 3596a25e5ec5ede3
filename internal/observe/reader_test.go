package observe

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/follow"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/storetest"
)

// erasing is a store in which what was deleted is erased.
type erasing struct{ store.Store }

func (s erasing) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	page, err := s.Store.Log(ctx, sc, q)
	for i := range page.Entries {
		e := &page.Entries[i]
		if _, err := s.Get(ctx, sc, e.URI); fault.Is(err, fault.NotFound) {
			e.Body = nil
			if e.Op == resource.OpDelete {
				e.Op = resource.OpErase
			}
		}
	}
	return page, err
}

// What was erased is told as that, and what led there not at all any more.
func TestErased(t *testing.T) {
	st := erasing{storetest.NewModel()}
	h := hubOf(st, 0, 0)
	defer h.Close()
	conv, inter, msg := id.New(), id.New(), id.New()
	uris := []resource.URI{record.ConversationURI(conv), record.InteractionURI(conv, inter), record.BranchURI(conv, "b"),
		record.InteractionURI(conv, inter).ChildID(record.TypeMessage, msg), record.MarkURI(conv, msg), record.PinURI(conv, msg),
		record.InteractionURI(conv, inter).ChildID(record.TypeRun, msg), record.InteractionURI(conv, inter).Child("files.Rest", "x")}
	for _, body := range []string{`{"title":"a"}`, `{"title":"b"}`, ""} {
		var b store.Batch
		for _, u := range uris {
			ch := store.Change{URI: u, Body: []byte(body)}
			if body == "" {
				ch.Op = store.Delete
			}
			b.Changes = append(b.Changes, ch)
		}
		if _, err := st.Commit(t.Context(), ana, b); err != nil {
			t.Fatal(err)
		}
	}
	p := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
	defer p.stop()
	for i, c := range p.want(4).Changes {
		if c.Kind != Erased || c.URI != uris[i] || c.Conversation != conv {
			t.Errorf("%+v", c)
		}
	}
}

// A version whose earlier one has been erased between two looks at the log
// has been erased with it.
func TestErasedBetweenTwoLooks(t *testing.T) {
	m := storetest.NewModel()
	u := record.MarkURI(id.New(), id.New())
	for range 2 {
		if _, err := m.Commit(t.Context(), ana, store.Batch{Changes: []store.Change{{URI: u, Body: []byte(`{"changes":[{"state":"archived"}]}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := m.Log(t.Context(), ana, store.LogQuery{Since: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Commit(t.Context(), ana, store.Batch{Changes: []store.Change{{URI: u, Op: store.Delete}}}); err != nil {
		t.Fatal(err)
	}
	r := reader{store: erasing{m}, scope: ana, log: slog.New(slog.DiscardHandler)}
	if got, err := r.read(t.Context(), &page.Entries[0]); len(got) > 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Deletions of records are told as what they mean; what comes after one
// begins anew.
func TestDeletedRecords(t *testing.T) {
	st := storetest.NewModel()
	h := hubOf(st, 0, 0)
	defer h.Close()
	conv, inter, msg := id.New(), id.New(), id.New()
	p := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
	defer p.stop()
	p.want(0)
	kinds := func(op store.Op) (out []Kind) {
		var b store.Batch
		for _, u := range []resource.URI{record.ConversationURI(conv), record.InteractionURI(conv, inter), record.BranchURI(conv, "b"),
			record.MarkURI(conv, msg), record.PinURI(conv, msg), record.InteractionURI(conv, inter).ChildID(record.TypeRun, msg),
			record.InteractionURI(conv, inter).ChildID(record.TypeMessage, msg)} {
			body := `{"changes":[{"state":"archived"}]}`
			if u.Type() == record.TypeMessage {
				body = `{"role":"user","blocks":[{"type":"text","text":"a"}]}`
			}
			b.Changes = append(b.Changes, store.Change{Op: op, URI: u, Body: []byte(body)})
		}
		if _, err := st.Commit(t.Context(), ana, b); err != nil {
			t.Fatal(err)
		}
		batch, err, _ := p.next()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Changes {
			out = append(out, c.Kind)
		}
		return out
	}
	made := []Kind{ConversationCreated, InteractionOpened, BranchCreated, MessageArchived, MessagePinned, MessageAdded}
	if got := kinds(store.Put); !slices.Equal(got, made) {
		t.Error(got)
	}
	if got, want := kinds(store.Delete), []Kind{ConversationDeleted, InteractionChanged, BranchDeleted, MessageRestored, MessageUnpinned, MessageDeleted}; !slices.Equal(got, want) {
		t.Error(got)
	}
	made[1] = InteractionChanged
	if got := kinds(store.Put); !slices.Equal(got, made) {
		t.Error(got)
	}
	again := pull(t, h.Subscribe(t.Context(), ana, Filter{}, follow.Behind(14))) // who has not seen the deletions
	defer again.stop()
	for i, c := range again.want(6).Changes {
		if c.Kind != made[i] {
			t.Errorf("%+v", c)
		}
	}
}

// An entry that cannot be read tells nothing, is named in the log, and stops
// nobody.
func TestUnreadableEntries(t *testing.T) {
	var buf bytes.Buffer
	st := storetest.NewModel()
	conv := id.New()
	for _, body := range []string{`{"title":"a"}`, `{`, `{"title":"b"}`, `{"title":"c"}`} {
		if _, err := st.Commit(t.Context(), ana, store.Batch{Changes: []store.Change{
			{URI: record.ConversationURI(conv), Body: []byte(body)}}}); err != nil {
			t.Fatal(err)
		}
	}
	h := hub{New(follow.New(follow.Options{Store: st}), slog.New(slog.NewTextHandler(&buf, nil)))}
	defer h.Close()
	p := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
	b := p.want(2)
	if b.Changes[0].Kind != ConversationCreated || b.Changes[1].Kind != ConversationChanged || b.Changes[1].Seq != 4 {
		t.Errorf("%+v", b)
	}
	p.stop()
	if !strings.Contains(buf.String(), "seq=2") {
		t.Errorf("the log says %s", &buf)
	}
}

// The version before is found however far back it is.
func TestEarlierVersions(t *testing.T) {
	st := storetest.NewModel()
	n := newNotes(t, st)
	put := func(title string) {
		if _, err := st.Commit(t.Context(), ana, store.Batch{Changes: []store.Change{
			{URI: record.ConversationURI(n.conv), Body: []byte(`{"title":"` + title + `"}`)}}}); err != nil {
			t.Fatal(err)
		}
	}
	h := hubOf(st, 0, 0)
	defer h.Close()
	put("a")
	n.say(3000)
	p := pull(t, h.Subscribe(t.Context(), ana, Filter{Kinds: []string{"conversation_*"}}, Now))
	defer p.stop()
	p.want(0)
	put("b")
	if c := p.want(1).Changes[0]; c.Kind != ConversationChanged {
		t.Errorf("%+v", c)
	}
	put("b")
	put("c")
	if c := p.want(1).Changes[0]; c.Kind != ConversationChanged || c.Seq != 3004 {
		t.Errorf("%+v", c)
	}
}

// The versions that are kept for comparison are bounded; what was let go is
// looked up again.
func TestKnownVersionsAreBounded(t *testing.T) {
	st := storetest.NewModel()
	r := reader{store: st, scope: ana, log: slog.Default()}
	for v := range 2 {
		for i := range maxKnown + 10 {
			body := fmt.Sprintf(`{"title":"%d"}`, v)
			u := record.ConversationURI(id.Derive(fmt.Sprint(i)))
			if v == 0 || i%100 == 0 {
				if _, err := st.Commit(t.Context(), ana, store.Batch{Changes: []store.Change{{URI: u, Body: []byte(body)}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	var kinds []Kind
	for e, err := range store.Entries(t.Context(), st, ana, store.LogQuery{Limit: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.read(t.Context(), &e)
		if err != nil || len(got) != 1 || len(r.known) > maxKnown {
			t.Fatal(got, err, len(r.known))
		}
		kinds = append(kinds, got[0].Kind)
	}
	for i, k := range kinds {
		if want := (i >= maxKnown+10); (k == ConversationChanged) != want {
			t.Errorf("entry %d is told as %s", i, k)
		}
	}
}

// A conversation of which only earlier versions were erased is told as what
// it is: there, with another title.
func TestErasedVersionsOfAConversation(t *testing.T) {
	for _, known := range []bool{true, false} {
		st := storetest.NewModel()
		u := record.ConversationURI(id.New())
		put := func(title string) store.Change {
			return store.Change{URI: u, Body: record.Encode(record.Conversation{Title: title})}
		}
		for _, b := range [][]store.Change{{put("a")}, {{Op: store.Erase, URI: u}, put("")}, {put("c")}} {
			if _, err := st.Commit(t.Context(), ana, store.Batch{Changes: b}); err != nil {
				t.Fatal(err)
			}
		}
		r := reader{store: st, scope: ana, log: slog.New(slog.DiscardHandler)}
		if known {
			r.keep(&resource.Entry{URI: u, Op: resource.OpPut, Version: 1, Body: record.Encode(record.Conversation{Title: "a"})})
		}
		page, err := st.Log(t.Context(), ana, store.LogQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var kinds []Kind
		for _, e := range page.Entries {
			got, err := r.read(t.Context(), &e)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range got {
				kinds = append(kinds, c.Kind)
			}
		}
		for _, k := range kinds {
			if k != ConversationChanged {
				t.Errorf("known %v: %v", known, kinds)
			}
		}
		if len(kinds) == 0 || known && len(kinds) != 2 {
			t.Errorf("known %v: %v", known, kinds)
		}
	}
}
