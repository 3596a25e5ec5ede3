package events

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"steward/internal/follow"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/internal/store/storetest"
)

// watching is an observer's plan: for whom, what, and how it reads.
type watching struct {
	User      int
	Chats     []int // filter: conversations
	ByInter   bool  // filter: the first interactions
	Tools     []string
	Kinds     []string
	Passes    []int // batches that each subscription reads before it breaks off
	Dawdle    []int // milliseconds that it takes over each batch
	FromStart bool
}

type plan struct {
	Writers   [][]step // one per user, in parallel
	Observers []watching
	Queue     int
	Size      int
}

var someUsers = []string{"ana", "ben", "eve"}

func drawPlan(r *rapid.T) plan {
	num := rapid.IntRange(0, 1<<10)
	steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) step {
		return step{What: rapid.IntRange(0, numSteps-1).Draw(r, "what"), Chat: rapid.IntRange(0, 1).Draw(r, "chat"), A: num.Draw(r, "a"), B: num.Draw(r, "b"),
			Join: rapid.Bool().Draw(r, "join"), Pause: rapid.SampledFrom([]int{0, 0, 0, 1, 20, 70}).Draw(r, "pause")}
	}), 0, 60)
	p := plan{Queue: rapid.SampledFrom([]int{1, 3, 20, 1000}).Draw(r, "queue"), Size: rapid.SampledFrom([]int{1, 2, 7, 100}).Draw(r, "size")}
	for range someUsers {
		p.Writers = append(p.Writers, steps.Draw(r, "steps"))
	}
	p.Observers = rapid.SliceOfN(rapid.Custom(func(r *rapid.T) watching {
		return watching{
			User:      rapid.IntRange(0, len(someUsers)-1).Draw(r, "user"),
			Chats:     rapid.SliceOfN(rapid.IntRange(0, 2*len(someUsers)-1), 0, 3).Draw(r, "chats"), // others' too
			ByInter:   rapid.IntRange(0, 5).Draw(r, "inter") == 0,
			Tools:     rapid.SampledFrom([][]string{nil, nil, nil, {"file.*"}, {"*.now", "math.add"}, {"none"}}).Draw(r, "tools"),
			Kinds:     rapid.SampledFrom([][]string{nil, nil, nil, {"message_*"}, {"view_revised", "branch_*"}, {"interaction_closed"}}).Draw(r, "kinds"),
			Passes:    rapid.SliceOfN(rapid.IntRange(1, 5), 1, 8).Draw(r, "passes"),
			Dawdle:    rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 0, 30, 300}), 1, 5).Draw(r, "dawdle"),
			FromStart: rapid.Bool().Draw(r, "from start"),
		}
	}), 1, 6).Draw(r, "observers")
	return p
}

// play lets writers and observers loose on a store, each millisecond of the
// plan taking so long, and returns what was not as it should be.
func play(t *testing.T, st store.Store, p plan, ms time.Duration) error {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := newLedger(st, someUsers...)
	h := observing(st, p.Queue, p.Size)
	defer h.opt.Follow.Close()
	errs := make(chan error, len(p.Writers)+len(p.Observers))
	var writing, observing sync.WaitGroup
	done := make(chan struct{})
	for _, o := range p.Observers {
		observing.Go(func() { errs <- observeAll(t, ctx, h, w, o, done, ms) })
	}
	for u, steps := range p.Writers {
		writing.Go(func() { errs <- write(ctx, w, w.chats[2*u:2*u+2], steps, ms) })
	}
	writing.Wait()
	close(done)
	observing.Wait()
	for range cap(errs) {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func write(ctx context.Context, w *ledger, chats []*chat, steps []step, ms time.Duration) error {
	d := &draft{}
	for i, s := range steps {
		c := chats[s.Chat]
		if i > 0 && !(s.Join && steps[i-1].Chat == s.Chat) {
			if err := w.commit(ctx, chats[steps[i-1].Chat], d); err != nil {
				return err
			}
			d = &draft{}
			pause(s.Pause, ms)
		}
		c.add(d, s)
	}
	if len(steps) == 0 {
		return nil
	}
	return w.commit(ctx, chats[steps[len(steps)-1].Chat], d)
}

// pause lets time pass; it is the plan's time, nothing waits for anything.
func pause(n int, ms time.Duration) {
	if n > 0 {
		<-time.After(time.Duration(n) * ms)
	}
}

// observeAll observes by the plan until the writers are done, then to the end
// of the log, and compares.
func observeAll(t *testing.T, ctx context.Context, h *Engine, w *ledger, o watching, done chan struct{}, ms time.Duration) error {
	user := someUsers[o.User]
	f := ChangeFilter{Tools: o.Tools, Kinds: o.Kinds}
	for _, i := range o.Chats {
		f.Conversations = append(f.Conversations, w.chats[i].conv.ID)
	}
	var got []Change
	var cursor Cursor
	live, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		<-done
		stop()
	}()
	batches := 0
	pass := func(ctx context.Context, most int, end uint64) error {
		n := 0
		for b, err := range h.Observe(ctx, store.ForUser(user), f, cursor) {
			if err != nil {
				return err
			}
			for _, c := range b.Changes {
				got = append(got, *c)
			}
			cursor = b.Cursor
			if n, batches = n+1, batches+1; n == most {
				return nil
			}
			if at, err := cursor.Position(); err != nil || end > 0 && at >= end {
				return err
			}
			if end == 0 {
				pause(o.Dawdle[batches%len(o.Dawdle)], ms)
			}
		}
		return nil
	}
	if o.FromStart {
		for i := 0; live.Err() == nil; i++ {
			if err := pass(live, o.Passes[i%len(o.Passes)], 0); err != nil {
				return err
			}
			pause(1, ms)
		}
	}
	<-done
	if o.ByInter && len(w.chats[2*o.User].inters) > 0 && !o.FromStart { // known only now
		f.Interactions = w.chats[2*o.User].inters[:1]
	}
	head, err := follow.Head(ctx, w.store)
	if err != nil {
		return err
	}
	if head > 0 {
		if err := pass(ctx, 0, head); err != nil {
			return err
		}
	}
	if want := w.expected(t, user, f); !sameChanges(got, want) {
		return fmt.Errorf("%s with %+v:\ngot  %s\nwant %s", user, f, show(got), show(want))
	}
	return nil
}

func sameChanges(a, b []Change) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) }

func show(cs []Change) string {
	s := ""
	for _, c := range cs {
		s += fmt.Sprintf("\n  %+v", c)
	}
	return s
}

// Whatever is written and however observers read, break off, dawdle and come
// back: each gets exactly what the log tells it, in order, once, and nothing
// of others.
func TestObserversGetExactlyTheLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p := drawPlan(r)
		var err error
		synctest.Test(t, func(t *testing.T) {
			st := storetest.NewModel()
			err = play(t, st, p, time.Millisecond)
			st.Close()
		})
		if err != nil {
			r.Fatal(err)
		}
	})
}

// The same on the real store and in real time, a millisecond of the plan
// taking a hundredth.
func TestObserversOfSQLite(t *testing.T) {
	t.Parallel()
	n := 0
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		if n++; n > 25 {
			return
		}
		st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, fmt.Sprintf("%d.db", n))})
		if err != nil {
			r.Fatal(err)
		}
		defer st.Close()
		if err := play(t, st, drawPlan(r), 10*time.Microsecond); err != nil {
			r.Fatal(err)
		}
	})
}
