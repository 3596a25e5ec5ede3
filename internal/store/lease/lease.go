// Package lease gives each piece of work in a store to one worker at a time,
// whatever becomes of the workers. It needs nothing but a store.Store, so the
// workers may be goroutines, processes or machines.
//
// A piece of work is a record. It waits, is held by a worker, or is over. Take
// finds work that waits, or whose holder has gone, and takes it by replacing the
// version of the record that it saw, so that one of many wins. The new version is
// the fencing number of the lease. Until the work changes hands again, the record
// does not change. Whoever makes work that is for itself begins it: then the first
// commit under the lease makes the record too.
//
// Everything that the holder commits, it commits through Store with a context
// that Hold made. Store adds the condition that the work still has this version.
// So the store itself refuses what a worker writes that has lost its lease, in
// the same transaction, however late the write arrives.
//
// No clock is compared with another one. A holder promises to be heard of within
// a time, and keeps the promise by replacing a second record, the beat. A worker
// that wants the work waits for that long, by its own monotonic clock, from when
// it saw the last beat. The holder began to count before it sent that beat, so
// its own clock runs out first, and then it stops by itself. Clocks that go wrong
// cost time, or work that is done in vain; the store still refuses the writes.
package lease

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/fault"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
)

// The types of the records, and the states of TypeWork. Work that is over has
// the state "".
const (
	TypeWork = "lease.Work"
	TypeBeat = "lease.Beat" // below a TypeWork

	Waiting = "lease.waiting"
	Held    = "lease.held"
)

// DefaultPromise is long, since work that waits for a person for a week should
// not write to the disk all the time.
const DefaultPromise = 15 * time.Minute

// work is the body of a TypeWork.
type work struct {
	Holder  string        `json:"holder,omitzero"`
	Promise time.Duration `json:"promise,omitzero"`
}

// Lease is work that a worker holds. Safe for concurrent use.
type Lease struct {
	at    resource.URI
	scope store.Scope
	queue *Queue
	taken time.Time // before the work was taken

	taking sync.Mutex    // held by the first commit under a lease on new work
	number atomic.Uint64 // zero until then

	lost, over atomic.Bool
	valid      context.Context // ends when the lease is lost or let go, but not with the work
	cancel     context.CancelFunc
}

// At returns the URI of the work.
func (l *Lease) At() resource.URI { return l.at }

// Number returns the fencing number. Each holder of the same work has a greater
// one than those before it. It is zero before the first commit under a lease on
// new work.
func (l *Lease) Number() uint64 { return l.number.Load() }

// ErrLost is returned for what was done under a lease that is lost. Its code is
// lease_lost, and it is a request.ErrSuspend: nothing more is recorded, and
// whoever has the work now continues it.
var ErrLost error = fault.New(fault.Unavailable, "lease_lost", "another worker may have taken over the work: %w", request.ErrSuspend).
	WithHint("the worker that holds it continues it")

type leaseKey struct{}

// From returns the lease that ctx carries, or nil.
func From(ctx context.Context) *Lease {
	l, _ := ctx.Value(leaseKey{}).(*Lease)
	return l
}

// Carry returns a context that carries the lease of another one, if there is
// one, and ends with request.ErrSuspend when the lease is lost or let go. It is
// for work that continues in a goroutine with a life of its own.
func Carry(ctx, from context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := From(from)
	if l == nil {
		return ctx, cancel
	}
	stop := context.AfterFunc(l.valid, func() { cancel(request.ErrSuspend) })
	return context.WithValue(ctx, leaseKey{}, l), func(cause error) { stop(); cancel(cause) }
}

// Hold does the work. The context of do carries the lease. When the lease is
// lost, the context ends with request.ErrSuspend, and Hold returns ErrLost when
// do has returned. Otherwise it returns do's error. Unless End was called, the
// work waits for the next worker then.
func (l *Lease) Hold(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := Carry(ctx, context.WithValue(ctx, leaseKey{}, l))
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		l.beat(ctx)
	}()
	err := do(ctx)
	cancel(nil)
	<-beating
	if l.over.Load() {
		return err
	}
	l.cancel()
	var free error
	if l.Number() > 0 { // after a loss too: if nobody has the work yet, nobody has to wait for the promise
		free = l.commit(context.WithoutCancel(ctx), l.queue.put(l.at, work{}, Waiting, store.If{Version: l.Number()}))
	}
	if l.lost.Load() {
		return ErrLost
	}
	return errors.Join(err, free)
}

// End records that the work is over, in one batch with changes. What the worker
// has left behind may still write: nobody else will take the work.
func (l *Lease) End(ctx context.Context, changes ...store.Change) error {
	cond := store.If{Version: l.Number(), Absent: l.Number() == 0}
	err := l.commit(ctx, append(changes, l.queue.put(l.at, work{}, "", cond))...)
	if err == nil {
		l.over.Store(true)
	}
	return err
}

// commit commits changes that contain the condition of the lease.
func (l *Lease) commit(ctx context.Context, changes ...store.Change) error {
	_, err := l.queue.opt.Store.Commit(ctx, l.scope, store.Batch{Changes: changes})
	if about(err, l.at) {
		l.revoke()
		return ErrLost
	}
	return err
}

// about reports whether a precondition on a resource did not hold.
func about(err error, at resource.URI) bool {
	f := fault.Of(err)
	return f != nil && (f.Code == "conflict" || f.Code == "not_found") && f.Details["uri"] == at.String()
}

// fence is the condition that the lease is not lost.
func (l *Lease) fence() store.Change {
	return store.Change{Op: store.Check, URI: l.at, If: store.If{Version: l.Number()}}
}

// revoke ends what is done under the lease.
func (l *Lease) revoke() {
	l.lost.Store(true)
	l.cancel()
}

// beat keeps the promise until ctx ends. When the time has run out, it forfeits
// the lease.
func (l *Lease) beat(ctx context.Context) {
	promise := l.queue.opt.Promise
	left := func(since time.Time) time.Duration { return time.Until(since.Add(promise - promise/8)) }
	dog := time.AfterFunc(left(l.taken), l.revoke)
	defer dog.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(promise / 3):
		}
		if l.Number() == 0 {
			continue
		}
		sent := time.Now()
		err := l.commit(ctx, l.fence(), store.Change{URI: beatOf(l.at), Body: []byte("{}")})
		if err == nil && dog.Stop() { // otherwise the lease is lost, or the time had run out
			dog.Reset(left(sent))
		}
	}
}
