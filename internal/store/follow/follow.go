// Package follow reads the log once on behalf of everything that derives from it.
// Subscribers receive the entries after their cursor that match their filter: in
// order, exactly once. Projections are updated while the log is idle. The log
// stays the source of truth: a subscriber that falls behind or returns later
// continues from it.
package follow

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/resource"
	"steward/internal/store"
)

// Cursor is an opaque position between entries of the log. It stays valid across
// restarts and under every filter.
type Cursor string

// Cursors with a fixed meaning.
const (
	Now   Cursor = "now"   // the end of the log at the time of use
	Start Cursor = "start" // before the first entry
)

// Behind returns the cursor right after an entry.
func Behind(seq uint64) Cursor { return Cursor((&store.LogQuery{}).Cursor(seq)) }

// Position decodes a cursor that Behind made (cursor_invalid).
func (c Cursor) Position() (uint64, error) {
	seq, _, err := (&store.LogQuery{After: store.Cursor(c)}).Position()
	return seq, err
}

// Filter selects the entries that a subscriber receives.
type Filter struct {
	// Spaces returns the spaces to read. It is called again before every delivery
	// and every Recheck.
	Spaces func(context.Context) ([]resource.Space, error)
	// Recheck is how often Spaces is checked for an idle subscriber, who then
	// receives a batch without entries. Zero: never.
	Recheck  time.Duration
	Prefixes []resource.URI // entries about a resource at or below one of them (see resource.URI.Below); empty: all
	Types    []string       // entries about a resource of one of these types: see Match
	// Own excludes entries that are only about a resource, but change another one
	// elsewhere in the tree.
	Own bool
}

// Match reports whether a name matches one of the patterns. A pattern is a name,
// or a prefix followed by "*". If there are no patterns, every name matches.
func Match(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		start, open := strings.CutSuffix(p, "*")
		return p == name || open && strings.HasPrefix(name, start)
	})
}

// subject is a resource that an entry is about.
type subject struct {
	uri resource.URI
	typ string
}

// fits checks everything but the space. about lists the resources that the entry
// is about; the first is the one that it changes.
func (f *Filter) fits(about []subject) bool {
	if f.Own {
		about = about[:1]
	}
	return slices.ContainsFunc(about, func(s subject) bool {
		return Match(f.Types, s.typ) && (len(f.Prefixes) == 0 || slices.ContainsFunc(f.Prefixes, s.uri.Below))
	})
}

// Entry is a log entry for delivery. Subscribers share it and must not modify it.
type Entry struct {
	resource.Entry
	mu      sync.Mutex
	derived any
}

// Derived returns the result of derive for the entry. It is computed once for all
// subscribers; errors are not cached.
func (e *Entry) Derived(derive func() (any, error)) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.derived != nil {
		return e.derived, nil
	}
	made, err := derive()
	if err == nil {
		e.derived = made
	}
	return made, err
}

// Batch is a delivery: entries in order, and the cursor after them and everything
// that was skipped. A batch without entries only reports how far the log has been
// read.
type Batch struct {
	Entries []*Entry
	Cursor  Cursor
	Caught  bool // the subscriber has caught up: what follows is new
}

// Options configure a Log. Store is required.
type Options struct {
	Store store.Store
	// About returns the resources that an entry is about, other than the one that
	// it changes. nil: none.
	About func(*resource.Entry) []resource.URI
	Queue int // entries queued for a subscriber before he must read them from the log; zero: 4,096
	Size  int // entries per batch; zero: 256
	// Lag is told how far the log has been read for the subscribers. May be nil.
	Lag *telemetry.Follower
}

// Log delivers the entries of a store's log. While there are subscribers, one
// goroutine reads the log for all of them. It is safe for concurrent use.
type Log struct {
	opt  Options
	done chan struct{} // closed when the Log closes

	mu      sync.Mutex
	closed  bool
	live    *reader // nil while there are no subscribers
	running sync.WaitGroup
}

// New returns a Log. It uses no goroutine until somebody subscribes.
func New(o Options) *Log {
	if o.Queue <= 0 {
		o.Queue = 4096
	}
	if o.Size <= 0 {
		o.Size = 256
	}
	o.Lag.Rest()
	return &Log{opt: o, done: make(chan struct{})}
}

// Store returns the store whose log it is.
func (l *Log) Store() store.Store { return l.opt.Store }

// Close ends all subscriptions with the error closing, and returns when all
// goroutines of the Log have ended.
func (l *Log) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.done)
		if l.live != nil {
			l.live.cancel()
		}
	}
	l.mu.Unlock()
	l.running.Wait()
}

func (l *Log) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func closing() *fault.Error {
	return fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)
}

// about returns the resources that an entry is about.
func (l *Log) about(e *resource.Entry) []subject {
	out := []subject{{e.URI, e.URI.Type()}}
	if l.opt.About != nil {
		for _, u := range l.opt.About(e) {
			out = append(out, subject{u, u.Type()})
		}
	}
	return out
}

// Head returns the sequence number of the log's newest entry, in any space.
func Head(ctx context.Context, st store.Store) (uint64, error) {
	page, err := st.Log(ctx, store.ForNode(""), store.LogQuery{Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	return page.Entries[0].Seq, nil
}

// Before returns the sequence number of the newest entry in the scope that is
// older than t, or 0 if there is none. It uses binary search, since times never
// decrease in the log.
func Before(ctx context.Context, st store.Store, sc store.Scope, t time.Time) (uint64, error) {
	page, err := st.Log(ctx, sc, store.LogQuery{Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 || t.IsZero() {
		return 0, err
	}
	lo, hi := uint64(0), page.Entries[0].Seq // all entries up to lo are older than t, and none after hi is
	for lo < hi {
		mid := lo + (hi-lo)/2
		page, err := st.Log(ctx, sc, store.LogQuery{Since: mid, Limit: 1})
		if err != nil {
			return 0, err
		}
		if len(page.Entries) == 1 && page.Entries[0].At.Before(t) {
			lo = page.Entries[0].Seq
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// open returns the position of a cursor.
func (l *Log) open(ctx context.Context, from Cursor) (uint64, error) {
	if l.ended() {
		return 0, closing()
	}
	head, err := Head(ctx, l.opt.Store)
	if err != nil || from == Now {
		return head, err
	}
	if from == Start {
		return 0, nil
	}
	at, err := from.Position()
	if err == nil && at > head {
		err = fault.New(fault.Invalid, "cursor_invalid", "the cursor is after the end of the log").
			WithHint("the data may have been restored from a backup: start from now or start")
	}
	return at, err
}

// Subscribe yields the entries after a cursor that match the filter: first those
// in the log, then new ones as they are committed. It ends when ctx is done
// (without an error) or when the caller leaves the loop. A slow subscriber delays
// nobody and misses nothing: if too much is queued for him, he reads it from the
// log.
//
// Errors: cursor_invalid; those of Spaces; closing when the Log closes; and the
// store's. Details["cursor"] of an error that ends a subscription is the cursor
// to continue from.
func (l *Log) Subscribe(ctx context.Context, f Filter, from Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		s := &subscription{log: l, filter: &f, yield: yield}
		var err error
		if s.pos, err = l.open(ctx, from); err == nil {
			err = s.run(ctx)
			if err != nil && l.ended() { // the close caused it, whatever the error
				err = closing()
			}
			if err != nil {
				err = fault.Of(err).Detail("cursor", string(Behind(s.pos)))
			}
		}
		if err != nil && !s.left && ctx.Err() == nil {
			yield(Batch{}, err)
		}
	}
}

// subscription is the state of one call of Subscribe.
type subscription struct {
	log    *Log
	filter *Filter
	yield  func(Batch, error) bool
	spaces []resource.Space // that were read last
	pos    uint64           // everything up to here has been delivered
	left   bool             // the subscriber left the loop
}

// run alternates between reading the log to its end and following live. A
// subscriber that falls behind, or whose spaces have changed, starts over from
// his position.
func (s *subscription) run(ctx context.Context) error {
	for {
		if err := s.read(ctx, 0); err != nil || s.left {
			return err
		}
		if err := s.follow(ctx); err != nil || s.left || ctx.Err() != nil {
			return err
		}
	}
}

// read delivers entries from the log, up to its end or the position to (0: none).
func (s *subscription) read(ctx context.Context, to uint64) (err error) {
	q := store.LogQuery{Limit: s.log.opt.Size}
	if s.filter.Own && len(s.filter.Prefixes) == 1 && !resource.IsShort(s.filter.Prefixes[0]) {
		q.Under = s.filter.Prefixes[0]
	}
	for more := true; more && (to == 0 || s.pos < to); {
		if s.log.ended() {
			return closing()
		}
		if s.spaces, err = s.filter.Spaces(ctx); err != nil {
			return err
		}
		q.After = store.Cursor(Behind(s.pos))
		page, err := s.log.opt.Store.Log(ctx, store.Scope{Read: s.spaces}, q)
		if err != nil {
			return err
		}
		end, err := Cursor(page.Next).Position()
		if err != nil {
			return err
		}
		var list []*Entry
		for i := range page.Entries {
			if e := &page.Entries[i]; s.filter.fits(s.log.about(e)) {
				list = append(list, &Entry{Entry: *e})
			}
		}
		if !s.yieldBatch(list, end, false) {
			return nil
		}
		more = page.More
	}
	return nil
}

// yieldBatch yields a batch and advances the position. It returns false if the
// subscriber left the loop.
func (s *subscription) yieldBatch(list []*Entry, at uint64, caught bool) bool {
	at = max(s.pos, at)
	s.left = !s.yield(Batch{Entries: list, Cursor: Behind(at), Caught: caught}, nil)
	s.pos = at
	return !s.left
}

// follow delivers new entries until ctx is done or the subscriber must start
// over.
func (s *subscription) follow(ctx context.Context) error {
	spaces := s.spaces
	w := &queue{filter: s.filter, most: s.log.opt.Queue, wake: make(chan struct{}, 1)}
	r, at, err := s.log.join(w, spaces, s.pos)
	if err != nil {
		return err
	}
	defer s.log.leave(r, w, spaces)
	if err := s.read(ctx, at); err != nil || s.left {
		return err
	}
	if !slices.Equal(s.spaces, spaces) {
		return nil
	}
	if !s.yieldBatch(nil, s.pos, true) {
		return nil
	}
	var look <-chan time.Time
	if s.filter.Recheck > 0 {
		t := time.NewTicker(s.filter.Recheck)
		defer t.Stop()
		look = t.C
	}
	beat := false
	for {
		idle, again, err := s.step(ctx, r, w, beat)
		if err != nil || again || s.left {
			return err
		}
		if beat = false; !idle {
			continue
		}
		select {
		case <-w.wake:
		case <-look:
			beat = true
		case <-s.log.done:
			return closing()
		case <-ctx.Done():
			return nil
		}
	}
}

// step delivers a batch of queued entries. It delivers an empty one only on a
// beat (a recheck). It reports whether the queue is now empty, and whether the
// subscriber must start over.
func (s *subscription) step(ctx context.Context, r *reader, w *queue, beat bool) (idle, again bool, err error) {
	if s.log.ended() {
		return false, false, closing()
	}
	before := s.spaces
	if s.spaces, err = s.filter.Spaces(ctx); err != nil || !slices.Equal(s.spaces, before) {
		return false, true, err
	}
	list, at, state := w.take(s.log.opt.Size, r.pos.Load())
	for len(list) > 0 && list[0].Seq <= s.pos { // already read from the log
		list = list[1:]
	}
	switch {
	case len(list) == 0 && !beat:
		s.pos = max(s.pos, at)
	case !s.yieldBatch(list, at, false):
		return false, false, nil
	}
	return state.empty, state.late, state.err
}
