package lease_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/test/storetest"
)

var (
	ada  = store.ForUser("ada")
	node = store.ForNode(resource.System)
)

// world is a store with some workers. Its time is that of synctest.
type world struct {
	*testing.T
	st *storetest.Model
}

func in(t *testing.T, do func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, storetest.NewModel()}
		defer w.st.Close()
		do(w)
	})
}

func (w *world) worker(name string, more ...func(*lease.Options)) *lease.Queue {
	o := lease.Options{Store: w.st, Holder: name, Promise: 3 * time.Second}
	for _, f := range more {
		f(&o)
	}
	return lease.New(o)
}

func (w *world) add(name string) resource.URI {
	w.Helper()
	at := lease.At(resource.Root("plan.Task", name))
	w.commit(w.Context(), w.worker("nobody").Add(at))
	return at
}

func (w *world) commit(ctx context.Context, changes ...store.Change) {
	w.Helper()
	if _, err := lease.Store(w.st).Commit(ctx, ada, store.Batch{Changes: changes}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) take(q *lease.Queue) *lease.Lease {
	w.Helper()
	l, err := q.Take(w.Context(), node, resource.URI{})
	if err != nil {
		w.Fatal(err)
	}
	return l
}

// held begins to hold a lease. The returned functions end the work with an error.
func (w *world) held(l *lease.Lease) (ctx context.Context, let func(error) error) {
	got, end, out := make(chan context.Context), make(chan error), make(chan error)
	go func() {
		out <- l.Hold(w.Context(), func(ctx context.Context) error { got <- ctx; return <-end })
	}()
	return <-got, func(err error) error { end <- err; return <-out }
}

func (w *world) state(at resource.URI) string {
	w.Helper()
	r, err := w.st.Get(w.Context(), node, at)
	if err != nil {
		w.Fatal(err)
	}
	return r.State
}

func thing(name string) store.Change {
	return store.Change{URI: resource.Root("test.Thing", name), Body: []byte("{}")}
}

// lostIn wants a commit under a lease to be refused.
func (w *world) lostIn(ctx context.Context, name string) {
	w.Helper()
	_, err := lease.Store(w.st).Commit(context.WithoutCancel(ctx), ada, store.Batch{Changes: []store.Change{thing(name)}})
	if !errors.Is(err, lease.ErrLost) || !errors.Is(err, request.ErrSuspend) || !fault.HasCode(err, "lease_lost") {
		w.Errorf("a write under a lost lease returns %v", err)
	}
	if _, err := w.st.Get(w.Context(), ada, resource.Root("test.Thing", name)); !fault.Is(err, fault.NotFound) {
		w.Errorf("it was written: %v", err)
	}
}

func TestWorkIsTakenOnceAndEndsOnce(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		at := w.add("a")
		l := w.take(w.worker("one"))
		if l.At() != at || l.Number() != 2 || w.state(at) != lease.Held {
			w.Errorf("%v %d %s", l.At(), l.Number(), w.state(at))
		}
		ctx, let := w.held(l)
		if lease.From(ctx) != l {
			w.Error("the context does not carry the lease")
		}
		w.commit(ctx, thing("x"))
		time.Sleep(time.Minute) // it is kept for as long as its holder lives
		short, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if l, err := w.worker("two").Take(short, node, resource.URI{}); l != nil || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("a second worker gets %v, %v", l, err)
		}
		if err := l.End(ctx, thing("y")); err != nil {
			w.Error(err)
		}
		w.commit(ctx, thing("z")) // what was left behind; nobody else will take the work
		if err := let(nil); err != nil || w.state(at) != "" {
			w.Errorf("%v, %q", err, w.state(at))
		}
	})
}

func TestWorkThatIsLetGoIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		w.add("a")
		first := w.take(w.worker("one"))
		_, let := w.held(first)
		next := make(chan *lease.Lease)
		go func() { next <- w.take(w.worker("two")) }()
		time.Sleep(time.Second)
		began := time.Now()
		if err := let(errUsual); !errors.Is(err, errUsual) || errors.Is(err, lease.ErrLost) {
			w.Error(err)
		}
		l := <-next
		if waited := time.Since(began); waited > 0 || l.Number() <= first.Number() {
			w.Errorf("after %s, with the numbers %d and %d", waited, first.Number(), l.Number())
		}
	})
}

var errUsual = errors.New("usual")

// TestWhoIsNotHeardOfLosesIt: a holder whose beats do not arrive stops by itself before
// another worker takes the work, and what it writes later is refused.
func TestWhoIsNotHeardOfLosesIt(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		at := w.add("a")
		cut := &cutOff{Store: w.st}
		l := w.take(w.worker("one", func(o *lease.Options) { o.Store = cut }))
		ctx, let := w.held(l)
		time.Sleep(10 * time.Second)
		next := make(chan *lease.Lease)
		go func() { next <- w.take(w.worker("two")) }()
		time.Sleep(time.Second)
		cut.off.Store(true)
		other := <-next
		if context.Cause(ctx) != request.ErrSuspend {
			w.Errorf("the first one goes on: %v", context.Cause(ctx))
		}
		w.lostIn(ctx, "x")
		cut.off.Store(false)
		if err := let(nil); !errors.Is(err, lease.ErrLost) {
			w.Error(err)
		}
		if err := l.End(ctx); err == nil {
			w.Error("it was ended by one who had lost it")
		}
		if other.At() != at || w.state(at) != lease.Held {
			w.Errorf("%v is %s", other.At(), w.state(at))
		}
	})
}

// cutOff is a store that a worker cannot reach now and then.
type cutOff struct {
	store.Store
	off atomic.Bool
}

func (c *cutOff) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	if c.off.Load() {
		return store.Receipt{}, fault.New(fault.Unavailable, "gone", "nobody is there")
	}
	return c.Store.Commit(ctx, sc, b)
}

// TestWhoLostItWithoutAnHeirTakesItAgain: a worker that was cut off for a while has the
// work again at once if nobody else wanted it.
func TestWhoLostItWithoutAnHeirTakesItAgain(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		w.add("a")
		cut := &cutOff{Store: w.st}
		q := w.worker("one", func(o *lease.Options) { o.Store = cut })
		ctx, let := w.held(w.take(q))
		cut.off.Store(true)
		<-ctx.Done()
		cut.off.Store(false)
		if err := let(nil); !errors.Is(err, lease.ErrLost) {
			w.Error(err)
		}
		began := time.Now()
		if w.take(q); time.Since(began) > 0 {
			w.Errorf("it waited for %s", time.Since(began))
		}
		w.lostIn(ctx, "x")
	})
}

func TestTheDeadAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		w.add("a")
		w.take(w.worker("one"))
		began := time.Now()
		l := w.take(w.worker("two", func(o *lease.Options) { o.Dead = func(h string) bool { return h == "one" } }))
		if time.Since(began) > 0 || l.Number() != 3 {
			w.Errorf("after %s, with the number %d", time.Since(began), l.Number())
		}
	})
}

// TestWaitingCostsLittle: a holder for whom nothing happens for a week writes some two
// thousand times, and keeps the work.
func TestWaitingCostsLittle(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		at := lease.At(resource.Root("plan.Task", "a"))
		q := w.worker("one", func(o *lease.Options) { o.Store, o.Promise = lease.Store(w.st), 0 })
		l, err := q.Begin(w.Context(), ada, at)
		if err != nil {
			w.Fatal(err)
		}
		ctx, let := w.held(l)
		w.commit(ctx, thing("w"))
		time.Sleep(7 * 24 * time.Hour)
		head, err := w.st.Wait(w.Context(), 0)
		if err != nil || head > 2100 {
			w.Errorf("%d entries, %v", head, err)
		}
		w.commit(ctx, thing("x"))
		if err := let(nil); err != nil {
			w.Error(err)
		}
		if l, err = q.Begin(w.Context(), ada, at); err != nil || l.Number() != 3 {
			w.Errorf("taken up again: %v, %v", l, err)
		}
	})
}

// TestNewWorkIsTakenByTheFirstCommit: of two that begin the same new work, the one has it that
// commits first. One that has committed nothing leaves nothing behind.
func TestNewWorkIsTakenByTheFirstCommit(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		at := lease.At(resource.Root("plan.Task", "a"))
		begin := func(name string) *lease.Lease {
			l, err := w.worker(name).Begin(w.Context(), ada, at)
			if err != nil {
				w.Fatal(err)
			}
			return l
		}
		_, let := w.held(begin("idle"))
		if err := let(errUsual); !errors.Is(err, errUsual) {
			w.Error(err)
		}
		if _, err := w.st.Get(w.Context(), node, at); !fault.Is(err, fault.NotFound) {
			w.Errorf("it was taken: %v", err)
		}
		first, second := begin("one"), begin("two")
		ctx, let := w.held(first)
		late, letLate := w.held(second)
		third := begin("three")
		ends, letThird := w.held(third)
		all := make(chan error)
		for _, name := range []string{"x", "y", "z"} {
			go func() {
				rec, err := lease.Store(w.st).Commit(ctx, ada, store.Batch{Changes: []store.Change{thing(name)}})
				if err == nil && len(rec.Versions) != 1 {
					err = fmt.Errorf("%d versions of one change", len(rec.Versions))
				}
				all <- err
			}()
		}
		for range 3 {
			if err := <-all; err != nil {
				w.Error(err)
			}
		}
		if first.Number() != 1 || w.state(at) != lease.Held {
			w.Errorf("%d %s", first.Number(), w.state(at))
		}
		w.lostIn(late, "late")
		if err := letLate(nil); !errors.Is(err, lease.ErrLost) {
			w.Error(err)
		}
		w.lostIn(late, "later")
		if err := third.End(ends); !errors.Is(err, lease.ErrLost) {
			w.Errorf("ended by one who had lost it: %v", err)
		}
		<-ends.Done()
		if err := letThird(nil); !errors.Is(err, lease.ErrLost) {
			w.Error(err)
		}
		if err := first.End(ctx); err != nil || let(nil) != nil || w.state(at) != "" {
			w.Errorf("%v, %q", err, w.state(at))
		}
	})
}

// TestCarriedLeases: what has a life of its own is under the lease too.
func TestCarriedLeases(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		w.add("a")
		ctx, let := w.held(w.take(w.worker("one")))
		life, stop := lease.Carry(w.Context(), ctx)
		defer stop(nil)
		plain, stopPlain := lease.Carry(w.Context(), w.Context())
		defer stopPlain(nil)
		w.commit(life, thing("x"))
		w.commit(plain, thing("y"))
		if _, err := lease.Store(w.st).Commit(ctx, node, store.Batch{Changes: []store.Change{thing("system")}}); err != nil {
			w.Error("a commit to another space: ", err)
		}
		if err := let(nil); err != nil {
			w.Error(err)
		}
		synctest.Wait()
		if context.Cause(life) != request.ErrSuspend || plain.Err() != nil {
			w.Errorf("%v, %v", context.Cause(life), plain.Err())
		}
		w.lostIn(life, "z")
	})
}

// TestOneOfManyTakesEach: many workers take much work, each piece once.
func TestOneOfManyTakesEach(t *testing.T) {
	t.Parallel()
	in(t, func(w *world) {
		const pieces, workers = 40, 8
		for i := range pieces {
			w.add(fmt.Sprint(i))
		}
		ends := make(chan resource.URI)
		ctx, cancel := context.WithCancel(w.Context())
		for i := range workers {
			q := w.worker(fmt.Sprint(i))
			go func() {
				for {
					l, err := q.Take(ctx, node, resource.URI{})
					if err != nil {
						return
					}
					if err := l.Hold(ctx, func(ctx context.Context) error { return l.End(ctx) }); err != nil {
						w.Error(err)
					}
					ends <- l.At()
				}
			}()
		}
		got := map[resource.URI]bool{}
		for range pieces {
			got[<-ends] = true
		}
		cancel()
		if len(got) != pieces {
			w.Errorf("%d pieces of %d", len(got), pieces)
		}
	})
}
