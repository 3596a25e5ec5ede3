package lease

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// Options are those of a Queue. Store and Holder are required.
type Options struct {
	Store  store.Store
	Holder string // names the worker; no other one ever had this name
	// Promise is how soon a holder has to be heard of again; zero: DefaultPromise.
	Promise time.Duration
	// Dead reports that a holder has certainly ended, so that nobody waits for its
	// promise. May be nil.
	Dead func(holder string) bool
}

// Queue finds work and takes it. Safe for concurrent use.
type Queue struct {
	opt Options

	mu   sync.Mutex
	seen map[resource.URI]lastSeen // of work that others hold
}

// lastSeen is the last sign of life of a holder, and when this worker saw it.
type lastSeen struct {
	work, beat uint64 // versions
	promise    time.Duration
	at         time.Time
}

// New returns a queue.
func New(opt Options) *Queue {
	if f, ok := opt.Store.(fenced); ok { // the queue itself commits under no lease
		opt.Store = f.Store
	}
	if opt.Promise == 0 {
		opt.Promise = DefaultPromise
	}
	return &Queue{opt: opt, seen: map[resource.URI]lastSeen{}}
}

// At returns the URI of the work on a resource.
func At(of resource.URI) resource.URI { return of.Child(TypeWork, "work") }

// Add returns the change that makes new work wait, to be committed with what the
// work is about.
func (q *Queue) Add(at resource.URI) store.Change {
	return q.put(at, work{}, Waiting, store.If{Absent: true})
}

// Begin returns a lease on new work, which the first commit under it takes; or it
// takes up work that was begun before and is not over. If somebody else begins
// the same new work, the lease of whoever commits later is lost.
func (q *Queue) Begin(ctx context.Context, sc store.Scope, at resource.URI) (*Lease, error) {
	switch _, err := q.opt.Store.Get(ctx, sc, at); {
	case err == nil:
		return q.Take(ctx, sc, at)
	case !fault.Is(err, fault.NotFound):
		return nil, err
	}
	return q.lease(sc, at, time.Now()), nil
}

// Take takes work at or below a place (zero: anywhere). It waits until there is
// some. The caller must Hold the lease that it returns.
func (q *Queue) Take(ctx context.Context, sc store.Scope, under resource.URI) (*Lease, error) {
	for head := uint64(0); ; {
		l, rest, err := q.takeFirst(ctx, sc, under)
		if l != nil || err != nil {
			return l, err
		}
		news, cancel := context.WithTimeout(ctx, rest)
		next, err := q.opt.Store.Wait(news, head)
		late := news.Err() != nil
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			head = next
		case !late:
			return nil, err
		}
	}
}

// takeFirst takes the first piece of work that can be taken. If there is none, rest
// is when to look again at the latest.
func (q *Queue) takeFirst(ctx context.Context, sc store.Scope, under resource.URI) (l *Lease, rest time.Duration, err error) {
	rest = q.opt.Promise
	for _, state := range []string{Waiting, Held} {
		for it, err := range store.Items(ctx, q.opt.Store, sc, store.Query{Under: under, Type: TypeWork, State: state}) {
			if err != nil {
				return nil, 0, err
			}
			var w work
			if err := json.Unmarshal(it.Body, &w); err != nil {
				return nil, 0, fault.New(fault.Internal, "lease_damaged", "%s cannot be read: %w", it.URI, err)
			}
			as := sc
			as.Write = it.Space
			s := lastSeen{work: it.Version}
			if state == Held {
				var left time.Duration
				if s, left, err = q.watch(ctx, as, it, w); err != nil {
					return nil, 0, err
				}
				if left > 0 {
					rest = min(rest, left)
					continue
				}
			}
			if l, err := q.take(ctx, as, it.URI, s); l != nil || err != nil {
				return l, 0, err
			}
		}
	}
	return nil, max(rest, time.Millisecond), nil
}

// watch returns the last sign of life of a holder, and how long it has left.
func (q *Queue) watch(ctx context.Context, sc store.Scope, it store.Item, w work) (lastSeen, time.Duration, error) {
	r, err := q.opt.Store.Get(ctx, sc, beatOf(it.URI))
	now := lastSeen{work: it.Version, beat: r.Version, promise: w.Promise, at: time.Now()}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return now, 0, err
	}
	if q.opt.Dead != nil && q.opt.Dead(w.Holder) {
		return now, 0, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	last, ok := q.seen[it.URI]
	if !ok || last.work != now.work || last.beat != now.beat {
		q.seen[it.URI], last = now, now
	}
	return last, time.Until(last.at.Add(last.promise)), nil
}

// take takes work if nothing has been heard of it since it was seen. Otherwise it
// returns nil.
func (q *Queue) take(ctx context.Context, sc store.Scope, at resource.URI, s lastSeen) (*Lease, error) {
	q.mu.Lock()
	delete(q.seen, at)
	q.mu.Unlock()
	changes := []store.Change{q.hold(at, store.If{Version: s.work})}
	if s.beat > 0 {
		changes = append(changes, store.Change{Op: store.Check, URI: beatOf(at), If: store.If{Version: s.beat}})
	} else if !s.at.IsZero() {
		changes = append(changes, store.Change{Op: store.Check, URI: beatOf(at), If: store.If{Absent: true}})
	}
	now := time.Now()
	rec, err := q.opt.Store.Commit(ctx, sc, store.Batch{Changes: changes})
	if about(err, at) || about(err, beatOf(at)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := q.lease(sc, at, now)
	l.number.Store(rec.Versions[0])
	return l, nil
}

func (q *Queue) lease(sc store.Scope, at resource.URI, taken time.Time) *Lease {
	l := &Lease{at: at, scope: sc, queue: q, taken: taken}
	l.valid, l.cancel = context.WithCancel(context.Background())
	return l
}

// hold returns the change that takes work.
func (q *Queue) hold(at resource.URI, cond store.If) store.Change {
	return q.put(at, work{q.opt.Holder, q.opt.Promise}, Held, cond)
}

func beatOf(at resource.URI) resource.URI { return at.Child(TypeBeat, "beat") }

func (q *Queue) put(at resource.URI, w work, state string, cond store.If) store.Change {
	return store.Change{URI: at, Body: encode(w), State: state, If: cond}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // these types can be encoded
	}
	return b
}
