package observe

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/follow"
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

// hub is a Hub with a follower of its own.
type hub struct{ *Hub }

func (h hub) Close() { h.follow.Close() }

// hubOf tells the changes of a store, so many entries waiting and in a batch at
// most; zero: 1,000 and 100.
func hubOf(st store.Store, queue, size int) hub {
	f := follow.New(follow.Options{Store: st, Queue: cmp.Or(queue, 1000), Size: cmp.Or(size, 100)})
	return hub{New(f, slog.New(slog.DiscardHandler))}
}

func bubble(t *testing.T, queue, size int, test func(t *testing.T, h hub, n *notes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := storetest.NewModel()
		defer st.Close()
		h := hubOf(st, queue, size)
		defer h.Close()
		test(t, h, newNotes(t, st))
	})
}

var ana = store.ForUser("ana")

// What comes at once is told together, in batches of a bounded size.
func TestBatches(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, h hub, n *notes) {
		p := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
		defer p.stop()
		p.want(0)
		n.say(1)
		p.want(1)
		n.say(230)
		synctest.Wait()
		p.want(100)
		p.want(100)
		p.want(30)
	})
}

// The batches of what the log has already are as large, and come at once.
func TestCatchingUp(t *testing.T) {
	bubble(t, 0, 40, func(t *testing.T, h hub, n *notes) {
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
	bubble(t, 5, 4, func(t *testing.T, h hub, n *notes) {
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
		again.want(3 + 6 + 1)
	})
}

// Who does not take what comes is told it from the log; the others notice
// nothing.
func TestSlowObserver(t *testing.T) {
	bubble(t, 200, 0, func(t *testing.T, h hub, n *notes) {
		slow := pull(t, h.Subscribe(t.Context(), ana, Filter{}, Now))
		defer slow.stop()
		slow.want(0)
		n.say(1)
		slow.want(1)
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
		for i := range 5 {
			for j, c := range slow.want(100).Changes {
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
	bubble(t, 0, 0, func(t *testing.T, h hub, n *notes) {
		other := newNotes(t, n.st)
		p := pull(t, h.Subscribe(t.Context(), ana, Filter{Conversations: []id.ID{n.conv}}, Now))
		defer p.stop()
		p.want(0)
		n.say(1)
		other.say(5)
		synctest.Wait()
		if at, err := p.want(1).Cursor.Position(); err != nil || at != 6 {
			t.Errorf("the cursor is at %d, %v", at, err)
		}
	})
}

// Closing ends observers, wherever they are, and takes no new ones.
func TestClose(t *testing.T) {
	bubble(t, 0, 0, func(t *testing.T, h hub, n *notes) {
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
