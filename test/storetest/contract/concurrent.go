package contract

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"steward/internal/fault"
	"steward/internal/store"
)

func wait(e *env) {
	ctx := e.soon()
	const sleepers = 20
	heads := make(chan uint64, sleepers)
	for range sleepers {
		go func() {
			head, err := e.st.Wait(ctx, 0)
			if err != nil {
				e.Errorf("wait: %v", err)
			}
			heads <- head
		}()
	}
	e.must(ada, put(conv("a"), ""), put(conv("b"), ""))
	for range sleepers {
		if head := <-heads; head != 2 {
			e.Errorf("woken at %d, want 2", head)
		}
	}
	if head, err := e.st.Wait(ctx, 1); err != nil || head != 2 {
		e.Errorf("got %d, %v", head, err)
	}
	short, cancel := context.WithCancel(e.ctx)
	ended := make(chan error, 1)
	go func() {
		_, err := e.st.Wait(short, 2)
		ended <- err
	}()
	_, err := e.st.Commit(ctx, ada, store.Batch{Changes: []store.Change{{URI: conv("a"), If: store.If{Absent: true}}}})
	e.wantCode(err, "conflict")
	e.must(ada) // neither is news
	cancel()
	e.wantCancelled(<-ended)
}

// waitLosesNothing: one who always waits behind what it has seen sees all.
func waitLosesNothing(e *env) {
	const entries, watchers = 300, 4
	ctx := e.soon()
	var all sync.WaitGroup
	for range watchers {
		all.Go(func() {
			var q store.LogQuery
			for seen := uint64(0); seen < entries; {
				head, err := e.st.Wait(ctx, seen)
				if err != nil {
					e.Errorf("wait behind %d: %v", seen, err)
					return
				}
				p, err := e.st.Log(ctx, ada, q)
				if err != nil || len(p.Entries) == 0 {
					e.Errorf("the head is %d, and behind %d there are %d entries (%v)", head, seen, len(p.Entries), err)
					return
				}
				if first := p.Entries[0].Seq; first != seen+1 {
					e.Errorf("entry %d follows %d", first, seen)
				}
				seen, q.After = p.Entries[len(p.Entries)-1].Seq, p.Next
				if seen < head && !p.More {
					e.Errorf("the head was %d, the log ends at %d", head, seen)
				}
			}
		})
	}
	for w := range 3 {
		all.Go(func() {
			for i := range entries / 3 {
				if _, err := e.st.Commit(ctx, ada, store.Batch{Changes: []store.Change{put(message(fmt.Sprint(w), fmt.Sprint(i)), "")}}); err != nil {
					e.Errorf("commit: %v", err)
				}
			}
		})
	}
	all.Wait()
}

// manyWriters: 1,000 batches from 64 goroutines; each is there as a whole or
// not at all, with consecutive numbers.
func manyWriters(e *env) {
	const writers, batches = 64, 1000
	type sent struct {
		name string
		r    store.Receipt
	}
	var mu sync.Mutex
	var good []sent
	var next, refusals atomic.Int64
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for {
				n := next.Add(1)
				if n > batches {
					return
				}
				name := fmt.Sprint("batch", n)
				changes := []store.Change{put(message(name, "1"), name), put(message(name, "2"), name), put(message(name, "3"), name)}
				if n%5 == 0 { // refused at the end
					changes = append(changes, store.Change{Op: store.Check, URI: conv("none"), If: store.If{Version: 1}})
				}
				r, err := e.st.Commit(e.ctx, ada, store.Batch{Changes: changes})
				switch {
				case n%5 == 0 && fault.HasCode(err, "not_found"):
					refusals.Add(1)
				case err != nil || n%5 == 0:
					e.Errorf("%s: %v", name, err)
				default:
					mu.Lock()
					good = append(good, sent{name, r})
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if len(good) != batches*4/5 || refusals.Load() != batches/5 {
		e.Fatalf("%d committed and %d refused", len(good), refusals.Load())
	}
	at := make(map[uint64]string)
	last := uint64(0)
	for en, err := range store.Entries(e.ctx, e.st, ada, store.LogQuery{}) {
		if err != nil {
			e.Fatal(err)
		}
		if last++; en.Seq != last {
			e.Fatalf("entry %d follows %d", en.Seq, last-1)
		}
		at[en.Seq] = en.URI.Parent().ID() + "/" + en.URI.ID()
	}
	if last != uint64(3*len(good)) {
		e.Errorf("%d entries for %d batches", last, len(good))
	}
	for _, s := range good {
		for i := range uint64(3) {
			if got, want := at[s.r.Seq-2+i], fmt.Sprintf("%s/%d", s.name, i+1); got != want {
				e.Errorf("entry %d is %s, want %s", s.r.Seq-2+i, got, want)
			}
		}
	}
}

// oneWinner: of many that want the same, each time exactly one gets it.
func oneWinner(e *env) {
	const writers, rounds = 16, 25
	u := conv("lease")
	for round := range uint64(rounds) {
		want := store.If{Version: round}
		if round == 0 {
			want = store.If{Absent: true}
		}
		var won atomic.Int64
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				own := message("lease", fmt.Sprint(round, " ", w))
				_, err := e.st.Commit(e.ctx, ada, store.Batch{Changes: []store.Change{
					{URI: own, Place: &store.Place{List: u, Pos: int64(round)}}, {URI: u, If: want},
				}})
				switch {
				case err == nil:
					won.Add(1)
				case !fault.HasCode(err, "conflict"):
					e.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			e.Fatalf("round %d has %d winners", round, won.Load())
		}
	}
	if got := e.get(ada, u); got.Version != rounds {
		e.Errorf("version %d after %d rounds", got.Version, rounds)
	}
	if got := e.all(ada, store.Query{List: u}); len(got) != rounds {
		e.Errorf("%d members after %d rounds", len(got), rounds)
	}
}

// closing: each commit gets an answer, and after Close all calls one.
func closing(e *env) {
	c, ok := e.st.(io.Closer)
	if !ok {
		return // nothing to close: nothing to promise
	}
	const writers = 32
	started := make(chan struct{}, writers)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := 0; ; i++ {
				_, err := e.st.Commit(e.ctx, ada, store.Batch{Changes: []store.Change{put(message(fmt.Sprint(w), fmt.Sprint(i)), "")}})
				if i == 0 {
					started <- struct{}{}
				}
				if fault.HasCode(err, "store_closed") {
					return
				}
				if err != nil {
					e.Errorf("commit: %v", err)
					return
				}
			}
		})
	}
	all.Go(func() {
		_, err := e.st.Wait(e.ctx, 1<<40)
		if !fault.HasCode(err, "store_closed") {
			e.Errorf("wait: %v", err)
		}
	})
	for range writers {
		<-started
	}
	if err := c.Close(); err != nil {
		e.Errorf("close: %v", err)
	}
	all.Wait()
	_, err := e.st.Get(e.ctx, ada, conv("c"))
	e.wantCode(err, "store_closed")
	_, err = e.st.Query(e.ctx, ada, store.Query{})
	e.wantCode(err, "store_closed")
	_, err = e.st.Log(e.ctx, ada, store.LogQuery{})
	e.wantCode(err, "store_closed")
	_, err = e.st.Wait(e.ctx, 0)
	e.wantCode(err, "store_closed")
	if err := c.Close(); err != nil {
		e.Errorf("closing again: %v", err)
	}
}
