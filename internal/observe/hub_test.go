package observe

import (
	"bytes"
	"context"
	"errors"
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
	"steward/internal/store/storetest"
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

// fails reads the error that ends the subscription.
func (p *pulled) fails(code string) *fault.Error {
	p.t.Helper()
	b, err, ok := p.next()
	if !ok || fault.Of(err) == nil || fault.Of(err).Code != code {
		p.t.Fatalf("got %v, %v, %v; want %s", b, err, ok, code)
	}
	if _, _, more := p.next(); more {
		p.t.Fatal("it goes on after an error")
	}
	return fault.Of(err)
}

func bubble(t *testing.T, o Options, test func(t *testing.T, h *Hub, n *notes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		defer st.Close()
		if o.Store == nil {
			o.Store = st
		}
		h := New(o)
		defer h.Close()
		test(t, h, newNotes(t, o.Store))
	})
}

var ana = store.ForUser("ana")

// What comes within 50 ms is told together, and a full batch at once.
func TestBatches(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		p := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
		defer p.stop()
		p.want(0)
		go func() {
			for range 5 {
				n.say(1)
				time.Sleep(20 * time.Millisecond) // at 0, 20, 40, 60, 80
			}
		}()
		began := time.Now()
		p.want(3)
		if d := time.Since(began); d != 50*time.Millisecond {
			t.Errorf("the first batch came after %v", d)
		}
		p.want(2)
		if d := time.Since(began); d != 110*time.Millisecond {
			t.Errorf("the second batch came after %v", d)
		}
		time.Sleep(time.Second)
		began = time.Now()
		n.say(230)
		p.want(100)
		p.want(100)
		p.want(30)
		if d := time.Since(began); d != 0 {
			t.Errorf("full batches came after %v", d)
		}
	})
}

// The batches of what the log has already are as large, and come at once.
func TestCatchingUp(t *testing.T) {
	bubble(t, Options{Size: 40}, func(t *testing.T, h *Hub, n *notes) {
		ids := n.say(250)
		began := time.Now()
		var got []id.ID
		for b, err := range h.Subscribe(t.Context(), ana, Filter{}, "") {
			if err != nil {
				t.Fatal(err)
			}
			if len(b.Changes) == 0 || len(b.Changes) > 40 {
				t.Errorf("a batch of %d", len(b.Changes))
			}
			for _, c := range b.Changes {
				got = append(got, c.Message)
			}
			if len(got) == len(ids) {
				break
			}
		}
		if !slices.Equal(got, ids) || time.Since(began) != 0 {
			t.Errorf("%d of %d after %v", len(got), len(ids), time.Since(began))
		}
	})
}

// An entry's own changes are never parted, even if they are many.
func TestEntriesStayWhole(t *testing.T) {
	bubble(t, Options{Size: 4, Queue: 5}, func(t *testing.T, h *Hub, n *notes) {
		x := n.say(1)[0]
		mark := func(k *record.Mark) {
			if _, err := n.st.Commit(t.Context(), ana, store.Batch{Changes: []store.Change{{URI: record.MarkURI(n.conv, x), Body: record.Encode(k)}}}); err != nil {
				t.Fatal(err)
			}
		}
		live := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
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
		again := pull(t, h.Subscribe(t.Context(), ana, Filter{}, first.Cursor))
		defer again.stop()
		for _, n := range []int{3, 6, 1} {
			again.want(n)
		}
	})
}

// Who does not take what comes is cut off, and comes back where he was; the
// others notice nothing.
func TestSlowObserver(t *testing.T) {
	bubble(t, Options{Queue: 200}, func(t *testing.T, h *Hub, n *notes) {
		slow := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
		defer slow.stop()
		slow.want(0)
		at := func() Batch { n.say(1); return slow.want(1) }()
		quick := 0
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for b, err := range h.Subscribe(ctx, ana, Filter{}, Now) {
				if err != nil {
					t.Error(err)
				}
				quick += len(b.Changes)
			}
		})
		synctest.Wait()
		var said []id.ID
		for range 5 {
			said = append(said, n.say(100)...)
			time.Sleep(time.Second)
		}
		cancel()
		wg.Wait()
		if quick != 500 {
			t.Errorf("the quick one got %d", quick)
		}
		e := slow.fails("observer_slow")
		if e.Kind != fault.Exhausted || e.Details["cursor"] != string(at.Cursor) || !e.Recoverable() || e.Remedy == "" {
			t.Errorf("%+v, want the cursor %s", e, at.Cursor)
		}
		again := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Cursor(e.Details["cursor"].(string))))
		defer again.stop()
		for i := range 5 {
			for j, c := range again.want(100).Changes {
				if c.Message != said[100*i+j] {
					t.Fatalf("change %d is not what was said", 100*i+j)
				}
			}
		}
	})
}

// What a store of one's own conversations does meanwhile moves the cursor of
// the next batch on, so that who comes back has little to read.
func TestCursorsPassWhatDoesNotConcern(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		other := newNotes(t, n.st)
		p := pull(t, h.Subscribe(t.Context(), ana, Filter{Conversations: []id.ID{n.conv}}, Now))
		defer p.stop()
		p.want(0)
		n.say(1)
		other.say(5)
		if at, err := p.want(1).Cursor.position(); err != nil || at != 6 {
			t.Errorf("the cursor is at %d, %v", at, err)
		}
	})
}

// late is a store whose answers to the user's log queries come late: hook
// runs before an answer is handed out.
type late struct {
	store.Store
	hook func()
}

func (l *late) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	page, err := l.Store.Log(ctx, sc, q)
	if hook := l.hook; hook != nil && !sc.All() {
		hook()
	}
	return page, err
}

// Who reads the log while the others are told more than he has read gets that
// from the log, too.
func TestJoiningLate(t *testing.T) {
	l := &late{}
	synctest.Test(t, func(t *testing.T) {
		l.Store = storetest.NewModel()
		h := New(Options{Store: l})
		defer h.Close()
		n := newNotes(t, l)
		first := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
		defer first.stop()
		first.want(0)
		times := 0
		l.hook = func() {
			if times++; times <= 3 {
				n.say(2)
				time.Sleep(time.Second) // the first one has been told
			}
		}
		second := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
		defer second.stop()
		second.want(2)
		second.want(2)
		second.want(2)
		n.say(1)
		second.want(1)
		first.want(7)
	})
}

// One who joins between two entries of a page gets the later one, or is told
// to read it; what is being filled is not handed out yet.
func TestJoiningWithinAPage(t *testing.T) {
	st := storetest.NewModel()
	h := New(Options{Store: st})
	defer h.Close()
	a, b := id.New(), id.New()
	watch := func(x id.ID) *observer {
		f := Filter{Conversations: []id.ID{x}}
		m, err := f.compile()
		if err != nil {
			t.Fatal(err)
		}
		return newObserver(ana, f, m, 10)
	}
	entry := func(x id.ID, seq uint64) resource.Entry {
		return resource.Entry{Seq: seq, Space: "user:ana", Op: resource.OpPut, Version: 1, URI: record.InteractionURI(x, id.New()), Body: []byte("{}")}
	}
	first, second := watch(a), watch(b)
	f, err := h.join(first, 0)
	if f == nil || err != nil {
		t.Fatal(f, err)
	}
	defer h.leave(f, first)
	if err := f.tell(t.Context(), entry(b, 1)); err != nil { // concerns nobody
		t.Fatal(err)
	}
	if g, err := h.join(second, 0); g != nil || err != nil {
		t.Fatal("one who has not read the first entry follows live", g, err)
	}
	if g, err := h.join(second, 1); g != f || err != nil {
		t.Fatal(g, err)
	}
	defer h.leave(f, second)
	if err := errors.Join(f.tell(t.Context(), entry(b, 2)), f.tell(t.Context(), entry(b, 3))); err != nil {
		t.Fatal(err)
	}
	if got, at, err := second.take(10, f.position()); len(got) != 0 || at != 3 || err != nil {
		t.Errorf("a half batch: %v, %d, %v", got, at, err)
	}
	f.advance(5)
	if got, at, err := second.take(1, f.position()); len(got) != 1 || at != 2 || err != nil {
		t.Error(got, at, err)
	}
	if got, at, err := second.take(1, f.position()); len(got) != 1 || at != 5 || err != nil {
		t.Error(got, at, err)
	}
}

// counting counts what is asked of a store, and fails when it is told to.
type counting struct {
	store.Store
	mu    sync.Mutex
	logs  int
	waits int
	fail  error
}

func (c *counting) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	c.mu.Lock()
	c.logs++
	err := c.fail
	c.mu.Unlock()
	if err != nil {
		return store.LogPage{}, err
	}
	return c.Store.Log(ctx, sc, q)
}

func (c *counting) Wait(ctx context.Context, after uint64) (uint64, error) {
	c.mu.Lock()
	c.waits++
	c.mu.Unlock()
	return c.Store.Wait(ctx, after)
}

func (c *counting) breakDown(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

func (c *counting) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logs + c.waits
}

// Nobody observing, the log is not read; an idle observer asks for nothing;
// a hundred of them read it no oftener than one.
func TestCost(t *testing.T) {
	c := &counting{Store: storetest.NewModel()}
	bubble2(t, c, func(t *testing.T, h *Hub, n *notes) {
		n.say(10)
		time.Sleep(time.Minute)
		if c.asked() != 0 || h.live != nil {
			t.Errorf("%d calls, and nobody observes", c.asked())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var got atomic.Int64
		for range 100 {
			wg.Go(func() {
				for b, err := range h.Subscribe(ctx, ana, Filter{}, Now) {
					if err != nil {
						t.Error(err)
					}
					got.Add(int64(len(b.Changes)))
				}
			})
		}
		synctest.Wait()
		before := c.asked()
		time.Sleep(time.Hour)
		if c.asked() != before {
			t.Errorf("idle observers made %d calls", c.asked()-before)
		}
		n.say(1)
		time.Sleep(time.Second)
		if d := c.asked() - before; d > 4 || got.Load() != 100 {
			t.Errorf("one change led to %d calls, and %d were told", d, got.Load())
		}
		for i := range 10 { // what is compared with the version before, is looked up once at most
			if i == 1 {
				before = c.asked()
			}
			n.put(record.ConversationURI(n.conv), fmt.Sprintf(`{"title":"%d"}`, i))
			time.Sleep(time.Second)
		}
		if d := c.asked() - before; d > 3*9 || got.Load() != 1100 {
			t.Errorf("nine changes led to %d calls, and %d were told", d, got.Load())
		}
		cancel()
		wg.Wait()
		synctest.Wait()
		before = c.asked()
		n.say(10)
		time.Sleep(time.Minute)
		if c.asked() != before {
			t.Error("the log is followed, and nobody observes")
		}
	})
}

func bubble2(t *testing.T, c *counting, test func(t *testing.T, h *Hub, n *notes)) {
	synctest.Test(t, func(t *testing.T) {
		c.Store = storetest.NewModel() // of the bubble
		h := New(Options{Store: c, Log: slog.New(slog.DiscardHandler)})
		defer h.Close()
		test(t, h, newNotes(t, c))
	})
}

// When the store fails, observers are told so, with where to go on; the next
// one begins anew.
func TestStoreFails(t *testing.T) {
	c := &counting{}
	bubble2(t, c, func(t *testing.T, h *Hub, n *notes) {
		broken := fault.New(fault.Unavailable, "disk_gone", "no disk")
		c.breakDown(broken)
		pull(t, h.Subscribe(t.Context(), ana, Filter{}, "")).fails("disk_gone")
		c.breakDown(nil)
		live := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
		at := live.want(0)
		c.breakDown(broken)
		n.say(1)
		if e := live.fails("disk_gone"); e.Details["cursor"] != string(at.Cursor) {
			t.Errorf("%v, want the cursor %s", e.Details, at.Cursor)
		}
		c.breakDown(nil)
		again := pull(t, h.Subscribe(t.Context(), ana, Filter{}, at.Cursor))
		again.want(1)
		n.say(1)
		again.want(1)
		again.stop()
		n.say(150)
		stops := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
		stops.want(100)
		c.breakDown(errors.New("odd"))
		stops.fails("internal")
	})
}

// Closing ends observers, wherever they are, and takes no new ones.
func TestClose(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		n.say(150)
		reading := pull(t, h.Subscribe(t.Context(), ana, Filter{}, ""))
		at := reading.want(100)
		live := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
		live.want(0)
		ended := make(chan *fault.Error)
		go func() { ended <- live.fails("closing") }()
		synctest.Wait()
		h.Close()
		h.Close()
		if e := <-ended; e.Details["cursor"] == nil || e.Kind != fault.Unavailable {
			t.Errorf("%+v", e)
		}
		if e := reading.fails("closing"); e.Details["cursor"] != string(at.Cursor) {
			t.Errorf("%+v", e)
		}
		pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now)).fails("closing")
		if f, err := h.join(&observer{}, 5); f != nil || !fault.HasCode(err, "closing") {
			t.Error(f, err)
		}
	})
}

// A context that is done ends a subscription without an error, live or not.
func TestContext(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		ctx, cancel := context.WithCancel(t.Context())
		n.say(150)
		reading := pull(t, h.Subscribe(ctx, ana, Filter{}, ""))
		reading.want(100)
		live := pull(t, h.Subscribe(ctx, ana, Filter{}, Now))
		live.want(0)
		cancel()
		if _, err, more := live.next(); more {
			t.Error(err)
		}
		if _, err, more := reading.next(); more {
			t.Error(err)
		}
		for b, err := range h.Subscribe(ctx, ana, Filter{}, "") {
			t.Error(b, err)
		}
	})
}

// A subscription that is ranged over twice begins twice.
func TestTwice(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		n.say(3)
		seq := h.Subscribe(t.Context(), ana, Filter{}, "")
		for range 2 {
			p := pull(t, seq)
			p.want(3)
			p.stop()
		}
	})
}

func TestRefusals(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		n.say(3)
		many := make([]string, 1001)
		for i := range many {
			many[i] = "a"
		}
		for _, c := range []struct {
			name string
			sc   store.Scope
			f    Filter
			from Cursor
			code string
		}{
			{"no scope", store.Scope{}, Filter{}, "", "scope_missing"},
			{"no cursor", ana, Filter{}, "yesterday", "cursor_invalid"},
			{"a chat's cursor", ana, Filter{}, "3", "cursor_invalid"},
			{"another query's", ana, Filter{}, Cursor((&store.Query{}).Cursor(store.Position{Num: 1})), "cursor_invalid"},
			{"beyond the end", ana, Filter{}, cursorOf(4), "cursor_invalid"},
			{"far beyond", ana, Filter{}, cursorOf(1<<64 - 1), "cursor_invalid"},
			{"a broken glob", ana, Filter{Tools: []string{"[a"}}, "", "filter_invalid"},
			{"an empty glob", ana, Filter{Tools: []string{""}}, "", "filter_invalid"},
			{"no such kind", ana, Filter{Kinds: []string{"message_added", "message_add"}}, "", "filter_invalid"},
			{"a broken kind", ana, Filter{Kinds: []string{"[m"}}, "", "filter_invalid"},
			{"too much", ana, Filter{Tools: many}, "", "filter_invalid"},
		} {
			for _, err := range h.Subscribe(context.Background(), c.sc, c.f, c.from) {
				if !fault.HasCode(err, c.code) || fault.Of(err).Remedy == "" {
					t.Errorf("%s: %v, want %s", c.name, err, c.code)
				}
			}
		}
		p := pull(t, h.Subscribe(t.Context(), ana, Filter{}, cursorOf(3)))
		p.want(0)
		p.stop()
	})
}

// A node's own scope sees everybody's; a scope of two spaces sees both.
func TestScopes(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		put := func(user string) {
			sc := store.ForUser(user)
			if _, err := n.st.Commit(t.Context(), sc, store.Batch{Changes: []store.Change{
				{URI: record.InteractionURI(id.New(), id.New()), Body: []byte("{}")}}}); err != nil {
				t.Fatal(err)
			}
		}
		all := pull(t, h.Subscribe(t.Context(), store.ForNode(resource.System), Filter{}, Now))
		both := pull(t, h.Subscribe(t.Context(), store.Scope{Read: []resource.Space{"user:ana", "user:ben"}}, Filter{}, Now))
		defer all.stop()
		defer both.stop()
		all.want(0)
		both.want(0)
		for _, u := range []string{"ana", "ben", "eve"} {
			put(u)
		}
		all.want(3)
		both.want(2)
	})
}

// A conversation of another user cannot be followed by naming it.
func TestForeignConversation(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, h *Hub, n *notes) {
		n.say(1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			n.say(1)
			time.Sleep(time.Second)
			cancel()
		}()
		for b, err := range h.Subscribe(ctx, store.ForUser("eve"), Filter{Conversations: []id.ID{n.conv}}, "") {
			if err != nil || len(b.Changes) > 0 {
				t.Error(b, err)
			}
		}
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
	h := New(Options{Store: st})
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
	if got, err := r.read(t.Context(), page.Entries[0]); len(got) > 0 || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Deletions of records are told as what they mean; what comes after one
// begins anew.
func TestDeletedRecords(t *testing.T) {
	st := storetest.NewModel()
	h := New(Options{Store: st})
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
	again := pull(t, h.Subscribe(t.Context(), ana, Filter{}, cursorOf(14))) // who has not seen the deletions
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
	h := New(Options{Store: st, Log: slog.New(slog.NewTextHandler(&buf, nil))})
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
	h := New(Options{Store: st})
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
		got, err := r.read(t.Context(), e)
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

// The kinds are told apart, and each is among those that are documented.
func TestKinds(t *testing.T) {
	seen := map[Kind]bool{}
	for _, k := range Kinds() {
		if seen[k] {
			t.Errorf("%s is there twice", k)
		}
		seen[k] = true
	}
	if len(seen) != 22 {
		t.Errorf("%d kinds", len(seen))
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
			r.keep(resource.Entry{URI: u, Version: 1}, &record.Conversation{Title: "a"})
		}
		page, err := st.Log(t.Context(), ana, store.LogQuery{})
		if err != nil {
			t.Fatal(err)
		}
		var kinds []Kind
		for _, e := range page.Entries {
			got, err := r.read(t.Context(), e)
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
