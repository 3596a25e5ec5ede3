package observe

import (
	"context"
	"iter"
	"slices"
	"sync"
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
