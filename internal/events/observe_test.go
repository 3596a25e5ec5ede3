package events

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
	"steward/test/storetest"
)

// notes is one conversation of ana's with an interaction, to which messages
// are added.
type notes struct {
	t     *testing.T
	st    store.Store
	conv  id.ID
	inter resource.URI
}

func newNotes(t *testing.T, st store.Store) *notes {
	n := &notes{t: t, st: st, conv: id.New()}
	n.inter = record.InteractionURI(n.conv, id.New())
	return n
}

// say adds so many messages in one commit, and returns their ids.
func (n *notes) say(count int) (ids []id.ID) {
	n.t.Helper()
	var b store.Batch
	for range count {
		x := id.New()
		ids = append(ids, x)
		b.Changes = append(b.Changes, store.Change{URI: n.inter.ChildID(record.TypeMessage, x),
			Body: message.Append(nil, &message.Message{Role: message.User, Blocks: []message.Block{&message.Text{Text: "hi"}}})})
	}
	if _, err := n.st.Commit(context.Background(), store.ForUser("ana"), b); err != nil {
		n.t.Fatal(err)
	}
	return ids
}

func (n *notes) put(u resource.URI, body string) {
	n.t.Helper()
	if _, err := n.st.Commit(context.Background(), ana, store.Batch{Changes: []store.Change{{URI: u, Body: []byte(body)}}}); err != nil {
		n.t.Fatal(err)
	}
}

// pulled is a subscription that is read step by step.
type pulled struct {
	t    *testing.T
	next func() (Batch, error, bool)
	stop func()
}

func pull(t *testing.T, seq iter.Seq2[Batch, error]) *pulled {
	next, stop := iter.Pull2(seq)
	return &pulled{t, next, stop}
}

// want reads a batch of so many changes.
func (p *pulled) want(n int) Batch {
	p.t.Helper()
	b, err, ok := p.next()
	if err != nil || !ok || len(b.Changes) != n {
		p.t.Fatalf("got %d changes, %v, %v; want %d", len(b.Changes), err, ok, n)
	}
	return b
}

// observing is an engine that tells changes, so many entries waiting and in a
// batch at most; zero: 1,000 and 100.
func observing(st store.Store, queue, size int) *Engine {
	f := follow.New(follow.Options{Store: st, Queue: cmp.Or(queue, 1000), Size: cmp.Or(size, 100)})
	return &Engine{opt: Options{Follow: f, Log: slog.New(slog.DiscardHandler)}, store: st}
}

func bubble(t *testing.T, queue, size int, test func(t *testing.T, h *Engine, n *notes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		defer st.Close()
		h := observing(st, queue, size)
		defer h.opt.Follow.Close()
		test(t, h, newNotes(t, st))
	})
}

var ana = store.ForUser("ana")

// An entry's own changes are never parted, even if they are many.
func TestEntriesStayWhole(t *testing.T) {
	bubble(t, 5, 4, func(t *testing.T, h *Engine, n *notes) {
		x := n.say(1)[0]
		mark := func(k *record.Mark) {
			if _, err := n.st.Commit(t.Context(), ana, store.Batch{Changes: []store.Change{{URI: record.MarkURI(n.conv, x), Body: record.Encode(k)}}}); err != nil {
				t.Fatal(err)
			}
		}
		live := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, Now))
		defer live.stop()
		first := live.want(0)
		k := &record.Mark{}
		for _, n := range []int{3, 6, 1} {
			for range n {
				k.Changes = append(k.Changes, record.Change{State: record.Archived})
			}
			mark(k)
			live.want(n)
		}
		again := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, first.Cursor))
		defer again.stop()
		again.want(3 + 6 + 1)
	})
}

// counting counts what is asked of a store.
type counting struct {
	store.Store
	calls atomic.Int64
}

func (c *counting) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	c.calls.Add(1)
	return c.Store.Log(ctx, sc, q)
}

func (c *counting) Wait(ctx context.Context, after uint64) (uint64, error) {
	c.calls.Add(1)
	return c.Store.Wait(ctx, after)
}

// Nobody observing, the log is not read; an idle observer asks for nothing; a
// hundred of them read it no oftener than one, nor what an entry is compared
// with.
func TestCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counting{Store: storetest.NewModel()}
		h, n := observing(c, 0, 0), newNotes(t, c)
		defer h.opt.Follow.Close()
		n.say(10)
		time.Sleep(time.Minute)
		if c.calls.Load() != 0 {
			t.Errorf("%d calls, and nobody observes", c.calls.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var got atomic.Int64
		for range 100 {
			wg.Go(func() {
				for b, err := range h.Observe(ctx, ana, ChangeFilter{}, Now) {
					if err != nil {
						t.Error(err)
					}
					got.Add(int64(len(b.Changes)))
				}
			})
		}
		synctest.Wait()
		before := c.calls.Load()
		time.Sleep(time.Hour)
		if c.calls.Load() != before {
			t.Errorf("idle observers made %d calls", c.calls.Load()-before)
		}
		n.say(1)
		time.Sleep(time.Second)
		if d := c.calls.Load() - before; d > 4 || got.Load() != 100 {
			t.Errorf("one change led to %d calls, and %d were told", d, got.Load())
		}
		for i := range 10 { // what is compared with the version before
			if i == 1 {
				before = c.calls.Load()
			}
			n.put(record.ConversationURI(n.conv), fmt.Sprintf(`{"title":"%d"}`, i))
			time.Sleep(time.Second)
		}
		if d := c.calls.Load() - before; d > 3*9 || got.Load() != 1100 {
			t.Errorf("nine changes led to %d calls, and %d were told", d, got.Load())
		}
		cancel()
		wg.Wait()
		synctest.Wait()
		before = c.calls.Load()
		n.say(10)
		time.Sleep(time.Minute)
		if c.calls.Load() != before {
			t.Error("the log is followed, and nobody observes")
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, h *Engine, n *notes) {
		n.say(3)
		many := make([]string, 1001)
		for i := range many {
			many[i] = "a"
		}
		for _, c := range []struct {
			name string
			sc   store.Scope
			f    ChangeFilter
			from Cursor
			code string
		}{
			{"no scope", store.Scope{}, ChangeFilter{}, "", "scope_missing"},
			{"no cursor", ana, ChangeFilter{}, "yesterday", "cursor_invalid"},
			{"a chat's cursor", ana, ChangeFilter{}, "3", "cursor_invalid"},
			{"another query's", ana, ChangeFilter{}, Cursor((&store.Query{}).Cursor(store.Position{Num: 1})), "cursor_invalid"},
			{"beyond the end", ana, ChangeFilter{}, follow.Behind(4), "cursor_invalid"},
			{"far beyond", ana, ChangeFilter{}, follow.Behind(1<<64 - 1), "cursor_invalid"},
			{"a broken glob", ana, ChangeFilter{Tools: []string{"[a"}}, "", "filter_invalid"},
			{"an empty glob", ana, ChangeFilter{Tools: []string{""}}, "", "filter_invalid"},
			{"no such kind", ana, ChangeFilter{Kinds: []string{"message_added", "message_add"}}, "", "filter_invalid"},
			{"a broken kind", ana, ChangeFilter{Kinds: []string{"[m"}}, "", "filter_invalid"},
			{"too much", ana, ChangeFilter{Tools: many}, "", "filter_invalid"},
		} {
			for _, err := range h.Observe(context.Background(), c.sc, c.f, c.from) {
				if !fault.HasCode(err, c.code) || fault.Of(err).Remedy == "" {
					t.Errorf("%s: %v, want %s", c.name, err, c.code)
				}
			}
		}
		p := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, follow.Behind(3)))
		p.want(0)
		p.stop()
	})
}

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
	h := observing(st, 0, 0)
	defer h.opt.Follow.Close()
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
	p := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, ""))
	defer p.stop()
	for i, c := range p.want(4).Changes {
		if c.Kind != Erased || c.URI != uris[i] || c.Conversation != conv {
			t.Errorf("%+v", c)
		}
	}
}

// A version whose earlier one has been erased between two looks at the log
// has been erased with it.
func TestErasedBetweenTwoReads(t *testing.T) {
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
	h := observing(erasing{m}, 0, 0)
	if got, err := h.changesOf(t.Context(), &page.Entries[0], nil); len(got) > 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Deletions of records are told as what they mean; what comes after one
// begins again.
func TestDeletedRecords(t *testing.T) {
	st := storetest.NewModel()
	h := observing(st, 0, 0)
	defer h.opt.Follow.Close()
	conv, inter, msg := id.New(), id.New(), id.New()
	p := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, ""))
	defer p.stop()
	p.want(0)
	kinds := func(op store.Op) (out []ChangeKind) {
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
	made := []ChangeKind{ConversationCreated, InteractionOpened, BranchCreated, MessageArchived, MessagePinned, MessageAdded}
	if got := kinds(store.Put); !slices.Equal(got, made) {
		t.Error(got)
	}
	if got, want := kinds(store.Delete), []ChangeKind{ConversationDeleted, InteractionChanged, BranchDeleted, MessageRestored, MessageUnpinned, MessageDeleted}; !slices.Equal(got, want) {
		t.Error(got)
	}
	made[1] = InteractionChanged
	if got := kinds(store.Put); !slices.Equal(got, made) {
		t.Error(got)
	}
	again := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, follow.Behind(14))) // who has not seen the deletions
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
	h := observing(st, 0, 0)
	h.opt.Log = slog.New(slog.NewTextHandler(&buf, nil))
	defer h.opt.Follow.Close()
	p := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, ""))
	b := p.want(2)
	if b.Changes[0].Kind != ConversationCreated || b.Changes[1].Kind != ConversationChanged || b.Changes[1].Seq != 4 {
		t.Errorf("%+v", b)
	}
	p.stop()
	if !strings.Contains(buf.String(), "seq=2") {
		t.Errorf("the log says %s", &buf)
	}
}

// A conversation of which only earlier versions were erased is told as what
// it is: there, with another title.
func TestErasedVersionsOfAConversation(t *testing.T) {
	st := storetest.NewModel()
	h := observing(st, 0, 0)
	defer h.opt.Follow.Close()
	live := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, Now))
	defer live.stop()
	live.want(0)
	u := record.ConversationURI(id.New())
	put := func(title string) store.Change {
		return store.Change{URI: u, Body: record.Encode(record.Conversation{Title: title})}
	}
	want := []ChangeKind{ConversationCreated, ConversationChanged, ConversationChanged}
	for i, b := range [][]store.Change{{put("a")}, {{Op: store.Erase, URI: u}, put("")}, {put("c")}} {
		if _, err := st.Commit(t.Context(), ana, store.Batch{Changes: b}); err != nil {
			t.Fatal(err)
		}
		if c := live.want(1).Changes[0]; c.Kind != want[i] {
			t.Errorf("%d: %+v", i, c)
		}
	}
	later := pull(t, h.Observe(t.Context(), ana, ChangeFilter{}, ""))
	defer later.stop()
	for i, c := range later.want(2).Changes {
		if c.Kind != want[i+1] {
			t.Errorf("%+v", c)
		}
	}
}
