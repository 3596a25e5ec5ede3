package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/lease"
)

func TestOneNodeHoldsAndOthersReachIt(t *testing.T) {
	w := newWorld(t)
	a, wa := w.node("a")
	b, wb := w.node("b")
	for i := range 20 {
		p := of(fmt.Sprint("user", i))
		na, herea := w.reach(a, p)
		nb, hereb := w.reach(b, p)
		if na != nb || herea == hereb || herea != (na == "a") || a.Holds(p) != herea || b.Holds(p) != hereb {
			t.Errorf("%s: %s %v, %s %v", p, na, herea, nb, hereb)
		}
		if sa, sb := wa.get(p), wb.get(p); sa.takes+sb.takes != 1 || sa.crashes+sb.crashes != 0 || sa.active != herea {
			t.Errorf("%s: %+v %+v", p, sa, sb)
		}
		if err := w.put(a, p.Space, fmt.Sprint("x", i)); (err == nil) != herea && err != nil {
			t.Error(err)
		}
	}
	nodes, err := a.Nodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[0].Name != "a" || nodes[1].Name != "b" || nodes[0].Pieces+nodes[1].Pieces != 20 {
		t.Errorf("%+v %v", nodes, err)
	}
}

func TestAllNodesHearWhatOneTells(t *testing.T) {
	w := newWorld(t)
	a, _ := w.node("a")
	b, _ := w.node("b")
	heard := make(chan string, 10)
	for name, c := range map[string]*Cluster{"a": a, "b": b} {
		if err := c.Hear("pause", func(body []byte) { heard <- name + " hears " + string(body) }); err != nil {
			t.Fatal(err)
		}
		if err := c.nc.Flush(); err != nil { // the servers know of it
			t.Fatal(err)
		}
	}
	a.Tell("other", []byte("nobody"))
	a.Tell("pause", []byte("this"))
	got := []string{<-heard, <-heard}
	if slices.Sort(got); !slices.Equal(got, []string{"a hears this", "b hears this"}) {
		t.Errorf("%q", got)
	}
}

func TestTheWorkOfASilentNodeIsTakenOver(t *testing.T) {
	w := newWorld(t)
	short := func(o *Options) { o.Silence = time.Second }
	a, wa := w.node("a", short)
	w.reach(a, ada)
	if err := w.put(a, ada.Space, "before"); err != nil {
		t.Fatal(err)
	}
	wa.hangInLeave()
	b, wb := w.node("b", short)
	a.muted.Store(true) // as if it were suspended
	w.until("b takes over", func() bool { return wb.get(ada).crashes > 0 })
	if err := w.put(a, ada.Space, "late"); !errors.Is(err, lease.ErrLost) {
		t.Errorf("a stale write: %v", err)
	}
	if _, err := w.st.Get(t.Context(), store.ForUser("ada"), resource.Root("test.Thing", "late")); !fault.Is(err, fault.NotFound) {
		t.Errorf("the stale write was made: %v", err)
	}
	if err := w.put(a, "user:bob", "bobs"); err != nil {
		t.Errorf("a write to another space: %v", err)
	}
	w.until("b works", func() bool { return b.Holds(ada) })
	a.muted.Store(false)
	wa.letLeave()
	w.until("a has left", func() bool { return wa.get(ada).leaves > 0 && a.holding(ada) == nil })
	if wa.get(ada).crashes != 0 {
		t.Errorf("%+v", wa.get(ada))
	}
}

func TestAPieceThatIsOpenIsHandedOnAtClose(t *testing.T) {
	w := newWorld(t)
	a, _ := w.node("a")
	w.reach(a, ada)
	home := Piece{Duty: Home}
	w.reach(a, home)
	b, wb := w.node("b")
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []Piece{ada, home} {
		if node, here := w.reach(b, p); node != "b" || !here || wb.get(p).crashes != 0 {
			t.Errorf("%s: %s %v %+v", p, node, here, wb.get(p))
		}
	}
	if err := w.put(b, resource.System, "any"); err != nil {
		t.Error(err)
	}
}

func TestAnIdlePieceIsLetGo(t *testing.T) {
	w := newWorld(t)
	a, wa := w.node("a", func(o *Options) { o.IdleFor = 20 * time.Millisecond })
	home := Piece{Duty: Home}
	w.reach(a, home)
	w.reach(a, ada)
	wa.setIdle(true)
	w.until("it is let go", func() bool { s := wa.get(ada); return s.leaves > 0 && !a.Holds(ada) })
	w.until("its record is over", func() bool { s, _ := w.state(ada); return s == "" })
	if !a.Holds(home) {
		t.Error("the duty was let go")
	}
	wa.setIdle(false)
	if node, here := w.reach(a, ada); node != "a" || !here {
		t.Error(node, here)
	}
	w.until("old pointers are dropped", func() bool { return w.pointers(a) == 2 })
}

// pointers returns how many the stream has.
func (w *world) pointers(c *Cluster) int {
	w.Helper()
	s, err := c.js.Stream(w.Context(), stream)
	if err != nil {
		w.Fatal(err)
	}
	return int(s.CachedInfo().State.Msgs)
}

func TestLabels(t *testing.T) {
	w := newWorld(t)
	needs := func(o *Options) {
		o.Needs = func(p Piece) []string {
			if p == ada {
				return []string{"gpu", "big.disk *>"}
			}
			return nil
		}
	}
	a, _ := w.node("a", needs, func(o *Options) { o.Labels = []string{"gpu"} })
	if err := a.Want(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	w.reach(a, of("bob"))
	w.until("it waits", func() bool { return w.pointers(a) == 2 })
	if e, _ := a.table.get(ada); e.State != Waiting {
		t.Errorf("%+v", e)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := a.Reach(short, ada)
	if f := fault.Of(err); f.Code != "no_worker" || f.Kind != fault.Unavailable || !slices.Equal(f.Details["labels"].([]string), []string{"big.disk *>", "gpu"}) {
		t.Error(err)
	}
	_, _ = w.node("b", needs, func(o *Options) { o.Labels = []string{"home", "gpu", "big.disk *>"} })
	if node, here := w.reach(a, ada); node != "b" || here {
		t.Error(node, here)
	}
}

func TestWhatTheStreamLostIsPublishedAgain(t *testing.T) {
	w := newWorld(t)
	short := func(o *Options) { o.Silence = time.Second }
	a, _ := w.node("a", func(o *Options) { o.Works = false })
	if err := a.Want(t.Context(), ada); err != nil {
		t.Fatal(err)
	}
	w.until("it is published", func() bool { return w.pointers(a) == 1 })
	lose := func(c *Cluster) {
		t.Helper()
		if err := c.js.DeleteStream(t.Context(), stream); err != nil {
			t.Fatal(err)
		}
	}
	lose(a)
	b, wb := w.node("b", short)
	w.until("b takes what waited", func() bool { return b.Holds(ada) })
	if wb.get(ada).crashes != 0 {
		t.Errorf("%+v", wb.get(ada))
	}
	lose(a)
	c, wc := w.node("c", short)
	if err := a.ensureStream(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.until("what is held is published", func() bool { return w.pointers(a) == 1 })
	b.muted.Store(true)
	w.until("c takes over", func() bool { return c.Holds(ada) && wc.get(ada).crashes > 0 })
}

func TestOldPointersAndDuplicatesAreDropped(t *testing.T) {
	w := newWorld(t)
	a, wa := w.node("a")
	w.reach(a, ada)
	b, wb := w.node("b")
	e, _ := a.table.get(ada)
	for _, h := range []hint{{At: e.At, Seq: e.pointer()}, {At: e.At, Seq: e.pointer() + 1}, {At: resource.Root(TypePiece, "user:nobody"), Seq: 1}, {At: resource.Root("a.B", "c"), Seq: 1}} {
		if _, err := a.js.Publish(t.Context(), subjects+"_", encode(h)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.js.Publish(t.Context(), subjects+"_", []byte("?")); err != nil {
		t.Fatal(err)
	}
	w.until("one pointer is left", func() bool { return w.pointers(a) == 1 })
	if !a.Holds(ada) || b.Holds(ada) || wa.get(ada).takes != 1 || wb.get(ada).takes != 0 {
		t.Errorf("%+v %+v", wa.get(ada), wb.get(ada))
	}
}

func TestATakeThatFailsIsRepeated(t *testing.T) {
	w := newWorld(t)
	a, wa := w.node("a")
	wa.mu.Lock()
	wa.fails = 2
	wa.mu.Unlock()
	w.reach(a, ada)
	if s := wa.get(ada); s.takes != 1 || s.crashes != 0 || s.leaves != 2 {
		t.Errorf("%+v", s)
	}
}

// At no time do two nodes work on a piece, whatever is asked of whom.
func TestExactlyOneWorks(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	works := map[Piece]string{}
	var faults []string
	var nodes []*Cluster
	var workers []*worker
	for i := range 3 {
		name := fmt.Sprint("node", i)
		c, wk := w.node(name, func(o *Options) { o.IdleFor = time.Millisecond })
		wk.mu.Lock()
		wk.take = func(p Piece) {
			mu.Lock()
			defer mu.Unlock()
			if works[p] != "" {
				faults = append(faults, fmt.Sprintf("%s takes %s from %s", name, p, works[p]))
			}
			works[p] = name
		}
		wk.leave = func(p Piece) {
			mu.Lock()
			defer mu.Unlock()
			delete(works, p)
		}
		wk.mu.Unlock()
		nodes, workers = append(nodes, c), append(workers, wk)
	}
	pieces := []Piece{of("ada"), of("bob"), {Duty: Channels}}
	rapid.Check(t, func(t *rapid.T) {
		var all sync.WaitGroup
		for range rapid.IntRange(1, 6).Draw(t, "calls") {
			c := nodes[rapid.IntRange(0, 2).Draw(t, "node")]
			p := pieces[rapid.IntRange(0, 2).Draw(t, "piece")]
			workers[rapid.IntRange(0, 2).Draw(t, "idle one")].setIdle(rapid.Bool().Draw(t, "idle"))
			all.Go(func() {
				if _, _, err := c.Reach(w.Context(), p); err != nil {
					w.Error(err)
				}
			})
		}
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(faults) > 0 {
			t.Fatal(faults)
		}
	})
}

// A holder that JetStream believes to be silent keeps what it holds if it answers the node that got the pointer.
func TestAHolderThatAnswersKeepsItsPiece(t *testing.T) {
	w := newWorld(t)
	a, wa := w.node("a", func(o *Options) { o.Most = 1 })
	w.reach(a, ada) // now it has no room, and pulls nothing
	b, wb := w.node("b")
	w.until("b is known", func() bool { return a.hearsOthers() })
	for range 3 {
		before := a.holding(ada).ticket.Load()
		a.later(*before, 0)
		w.until("a has taken over the pointer", func() bool { return a.holding(ada).ticket.Load() != before })
	}
	if !a.Holds(ada) || b.Holds(ada) || wa.get(ada).takes != 1 || wb.get(ada).takes != 0 {
		t.Errorf("%+v %+v", wa.get(ada), wb.get(ada))
	}
	if err := w.put(a, ada.Space, "x"); err != nil {
		t.Error(err)
	}
}

// A node that reaches neither JetStream nor another node lets go of everything by itself.
func TestANodeThatIsCutOffLetsGo(t *testing.T) {
	w := newWorld(t)
	a, wa := w.node("a", func(o *Options) { o.Silence = time.Second })
	w.reach(a, ada)
	w.nats.Shutdown()
	w.until("it has left", func() bool { return wa.get(ada).leaves > 0 && a.holding(ada) == nil })
	if a.Holds(ada) {
		t.Error("it still holds the piece")
	}
	if s, r := w.state(ada); s != Waiting || r.Pointer == 0 {
		t.Errorf("the record is %s %+v", s, r)
	}
}

// Engines learn by their next commit that a piece is lost, and leave it.
func TestACommitThatIsRefusedEndsTheWork(t *testing.T) {
	w := newWorld(t)
	a, wa := w.node("a")
	w.reach(a, ada)
	e, _ := a.table.get(ada)
	a.table.mu.Lock()
	a.table.followed = 1 << 60 // so that it does not learn it from the log
	old := a.table.entries[ada]
	old.Seq = 1 << 60
	a.table.entries[ada] = old
	a.table.mu.Unlock()
	if _, err := w.st.Commit(t.Context(), store.ForNode(ada.Space), store.Batch{Changes: []store.Change{{URI: e.At, State: Held, Body: encode(record{Holder: "other", Pointer: e.pointer()}), If: store.If{Version: e.Version}}}}); err != nil {
		t.Fatal(err)
	}
	wa.hangInLeave()
	for range 2 {
		if err := w.put(a, ada.Space, "x"); !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
	}
	wa.letLeave()
	w.until("it has left", func() bool { return wa.get(ada).leaves == 1 && a.holding(ada) == nil })
	if s, r := w.state(ada); s != Held || r.Holder != "other" {
		t.Errorf("the record is %s %+v", s, r)
	}
}
