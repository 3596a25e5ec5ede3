//go:build long

package leases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/test/storetest"
)

// call is an operation on one piece of work, and its outcome.
type call struct {
	kind   string // take, write, letgo, end, read
	number uint64 // of the lease; of take: the new one
	value  string // written or read
	ok     bool   // it was not refused
}

// piece is the sequential specification: the work's version, whether somebody
// holds it, and what the last holder wrote.
type piece struct {
	version    uint64
	held, over bool
	value      string
}

func (p piece) step(c call) (bool, piece) {
	valid := p.held && c.number == p.version
	switch c.kind {
	case "take":
		ok := !p.over && c.number == p.version+1
		p.version, p.held = c.number, true
		return ok, p
	case "write":
		if valid && c.ok {
			p.value = c.value
		}
		return c.ok == valid, p
	case "letgo":
		if valid {
			p.version, p.held = p.version+1, false
		}
		return true, p
	case "end":
		if valid && c.ok {
			p.version, p.held, p.over = p.version+1, false, true
		}
		return c.ok == valid, p
	}
	return c.value == p.value, p
}

// TestLinearizable: what concurrent workers see of one piece of work, some of which take it from
// others that they believe dead, has one order in which each of them holds it alone.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() store.Store{
		"model":    func() store.Store { return storetest.NewModel() },
		"database": func() store.Store { return open(t) },
	} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(number("LEASES_SEED", int(time.Now().UnixNano()%1_000_000)))
			t.Logf("LEASES_SEED=%d", seed)
			for round := range 10 {
				h := &history{st: open(), began: time.Now()}
				at := lease.At(task("one"))
				if _, err := h.st.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{{URI: task("one")}, lease.New(lease.Options{}).Add(at)}}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for w := range 5 {
					all.Go(func() {
						if err := h.work(ctx, cancel, w, rand.New(rand.NewPCG(seed, uint64(100*round+w)))); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				cancel()
				if !porcupine.CheckOperations(porcupine.Model{
					Init: func() any { return piece{version: 1} },
					Step: func(s, in, _ any) (bool, any) { return s.(piece).step(in.(call)) },
				}, h.ops) {
					t.Fatalf("the %d operations of round %d have no order", len(h.ops), round)
				}
			}
		})
	}
}

// history is what workers did.
type history struct {
	st    store.Store
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// do notes an operation. What it returns is its outcome.
func (h *history) do(who int, op func() call) {
	began := time.Since(h.began)
	c := op()
	end := time.Since(h.began)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: who, Input: c, Call: int64(began), Return: int64(end)})
}

// work takes the work again and again, writes some, and lets it go, or ends it.
func (h *history) work(ctx context.Context, over func(), who int, r *rand.Rand) error {
	q := lease.New(lease.Options{Store: h.st, Holder: fmt.Sprint(who), Promise: time.Minute, Dead: func(string) bool { return true }})
	fenced := lease.Store(h.st)
	for turn := range 6 {
		var l *lease.Lease
		var err error
		h.do(who, func() call {
			if l, err = q.Take(ctx, ada, resource.URI{}); err != nil {
				return call{kind: "write", ok: false} // of nobody: it changes nothing
			}
			return call{kind: "take", number: l.Number()}
		})
		if err != nil {
			return nil // the work is over
		}
		var done time.Duration // when the worker was through with it
		ended := false
		l.Hold(ctx, func(held context.Context) error {
			held = context.WithoutCancel(held)
			for i := range r.IntN(4) {
				c := call{kind: "write", number: l.Number(), value: fmt.Sprint(who, turn, i)}
				h.do(who, func() call {
					_, err := fenced.Commit(held, ada, store.Batch{Changes: []store.Change{{URI: task("one"), Body: []byte(c.value)}}})
					c.ok = err == nil
					return c
				})
			}
			h.do(who, func() call {
				res, err := h.st.Get(held, ada, task("one"))
				if err != nil {
					return call{kind: "read", value: err.Error()}
				}
				return call{kind: "read", value: string(res.Body)}
			})
			if turn == 5 || r.IntN(20) == 0 {
				h.do(who, func() call {
					err = l.End(held)
					ended = err == nil
					return call{kind: "end", number: l.Number(), ok: ended}
				})
			}
			done = time.Since(h.began)
			return nil
		})
		h.mu.Lock()
		h.ops = append(h.ops, porcupine.Operation{ClientId: who, Input: call{kind: "letgo", number: l.Number()}, Call: int64(done), Return: int64(time.Since(h.began))})
		h.mu.Unlock()
		if ended {
			over()
		}
		if err != nil && !errors.Is(err, lease.ErrLost) {
			return err
		}
	}
	return nil
}
