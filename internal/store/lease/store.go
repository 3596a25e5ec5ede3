package lease

import (
	"context"

	"steward/internal/store"
)

// Store returns a store that refuses, with ErrLost, what is committed with a
// context whose lease is lost. A commit to another space than that of the work
// is not under the lease.
func Store(st store.Store) store.Store { return fenced{st} }

type fenced struct{ store.Store }

// Commit implements store.Store.
func (f fenced) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	l := From(ctx)
	if l == nil || sc.Write != l.scope.Write || l.over.Load() {
		return f.Store.Commit(ctx, sc, b)
	}
	fence := l.fence()
	if l.Number() == 0 {
		l.taking.Lock()
		defer l.taking.Unlock()
		if fence = l.fence(); l.Number() == 0 {
			if l.valid.Err() != nil {
				return store.Receipt{}, ErrLost
			}
			fence = l.queue.hold(l.at, store.If{Absent: true})
		}
	}
	b.Changes = append([]store.Change{fence}, b.Changes...)
	rec, err := f.Store.Commit(ctx, sc, b)
	if err != nil {
		if about(err, l.at) {
			l.revoke()
			return rec, ErrLost
		}
		return rec, err
	}
	l.number.CompareAndSwap(0, rec.Versions[0])
	rec.Versions = rec.Versions[1:]
	return rec, nil
}
