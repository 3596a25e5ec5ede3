// Package follow reads the log once for all that derives from it. Subscribers
// are handed the entries behind their cursor that fit their filter, in order,
// none missing and none twice; projections are brought up to date in quiet
// moments. The truth stays in the log: whoever is slow, or comes back, reads on
// in it.
package follow

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// Cursor is a position between entries of the log: opaque text that stays good
// over restarts, and under every filter.
type Cursor string

// The cursors that can be used without having been told one.
const (
	Now   Cursor = "now"   // the moment at which it is used
	Start Cursor = "start" // before the first entry
)

// Behind is the cursor behind an entry.
func Behind(seq uint64) Cursor { return Cursor((&store.LogQuery{}).Cursor(seq)) }

// Position opens a cursor that was told (cursor_invalid).
func (c Cursor) Position() (uint64, error) {
	seq, _, err := (&store.LogQuery{After: store.Cursor(c)}).Position()
	return seq, err
}

// Filter says which entries are handed to a subscriber.
type Filter struct {
	// Spaces returns the spaces that are read. It is asked again before
	// anything is handed on, and every Recheck.
	Spaces func(context.Context) ([]resource.Space, error)
	// Recheck is how often an idle subscriber is looked after: he is handed a
	// batch without entries. Zero: never.
	Recheck  time.Duration
	Prefixes []resource.URI // entries about a resource at or below one of them; empty: all
	Types    []string       // entries about a resource of one of these types: see Match
	// Own leaves out what is about a resource but stands elsewhere in the tree.
	Own bool
}

// Match reports whether a name is one of the patterns: the name itself, or its
// beginning and "*". Where there are no patterns, every name matches.
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

// fits looks at all but the space. about is what the entry is about, the
// resource that it changes first.
func (f *Filter) fits(about []subject) bool {
	if f.Own {
		about = about[:1]
	}
	return slices.ContainsFunc(about, func(s subject) bool {
		return Match(f.Types, s.typ) && (len(f.Prefixes) == 0 || slices.ContainsFunc(f.Prefixes, s.uri.Under))
	})
}

// Entry is an entry on its way to subscribers, who share it: do not modify.
type Entry struct {
	resource.Entry
	mu      sync.Mutex
	derived any
}

// Derived returns what derive makes of the entry. That is done once for all
// subscribers; an error is not kept.
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

// Batch is what came together: entries in order, and the cursor behind them
// and all that was passed over. Without entries it only says how far the log
// has been looked through.
type Batch struct {
	Entries []*Entry
	Cursor  Cursor
	Caught  bool // the subscriber has caught up: what comes next is new
}

// Options are a Log's parts and bounds. Store is needed.
type Options struct {
	Store store.Store
	// About returns the resources that an entry is about beside the one that it
	// changes; nil: there are none.
	About func(*resource.Entry) []resource.URI
	Queue int // entries that may wait for a subscriber before he is referred to the log; zero: 4,096
	Size  int // entries of a batch; zero: 256
}

// Log hands on the entries of a store's log. While there are subscribers, one
// goroutine reads it for all of them. Safe for concurrent use.
type Log struct {
	opt  Options
	done chan struct{} // closed when the Log closes

	mu      sync.Mutex
	closed  bool
	live    *reader // nil while nobody subscribes
	running sync.WaitGroup
}

// New returns a Log. It costs nothing until somebody subscribes.
func New(o Options) *Log {
	if o.Queue <= 0 {
		o.Queue = 4096
	}
	if o.Size <= 0 {
		o.Size = 256
	}
	return &Log{opt: o, done: make(chan struct{})}
}

// Store returns the store whose log it is.
func (l *Log) Store() store.Store { return l.opt.Store }

// Close ends all subscriptions with the error closing, and returns when
// nothing of the Log runs any more.
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

// Head returns the number of a log's newest entry, whosever it is.
func Head(ctx context.Context, st store.Store) (uint64, error) {
	page, err := st.Log(ctx, store.ForNode(""), store.LogQuery{Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	return page.Entries[0].Seq, nil
}

// Before returns the newest entry that a scope sees and that is older than a
// time, by halving the log: times never decrease in it. 0: there is none.
func Before(ctx context.Context, st store.Store, sc store.Scope, t time.Time) (uint64, error) {
	page, err := st.Log(ctx, sc, store.LogQuery{Reverse: true, Limit: 1})
	if err != nil || len(page.Entries) == 0 || t.IsZero() {
		return 0, err
	}
	lo, hi := uint64(0), page.Entries[0].Seq // all up to lo are older, and none behind hi is
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

// open returns the position at which a cursor stands.
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
		err = fault.New(fault.Invalid, "cursor_invalid", "the cursor stands behind the end of the log").
			WithHint("the data may have been restored from a backup: begin at now or start")
	}
	return at, err
}

// Subscribe yields the entries behind a cursor that fit the filter: first what
// the log has, then what is new as it comes, until ctx is done (which ends it
// without an error) or the loop is left. Who takes his time keeps nobody
// waiting and misses nothing: when too much waits for him, he is served from
// the log.
//
// Errors: cursor_invalid; what Spaces returns; closing when the Log closes; and
// the store's. Details["cursor"] of an error that ends a subscription says
// where to go on.
func (l *Log) Subscribe(ctx context.Context, f Filter, from Cursor) iter.Seq2[Batch, error] {
	return func(yield func(Batch, error) bool) {
		s := &subscription{log: l, filter: &f, yield: yield}
		var err error
		if s.pos, err = l.open(ctx, from); err == nil {
			err = s.run(ctx)
			if err != nil && l.ended() { // whatever broke with it
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

// subscription is one pass of a subscriber.
type subscription struct {
	log    *Log
	filter *Filter
	yield  func(Batch, error) bool
	spaces []resource.Space // that were read last
	pos    uint64           // what is up to here has been handed on
	left   bool             // the subscriber broke the loop off
}

// run reads the log to its end and then follows live, again and again: a
// subscriber who is late, or whose spaces are others now, begins anew where
// he stands.
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

// read hands on what the log has, to its end, or until it has come to a
// position.
func (s *subscription) read(ctx context.Context, to uint64) (err error) {
	q := store.LogQuery{Limit: s.log.opt.Size}
	if s.filter.Own && len(s.filter.Prefixes) == 1 {
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
		if !s.hand(list, end, false) {
			return nil
		}
		more = page.More
	}
	return nil
}

// hand yields a batch; the subscriber stands at a position then. It is false
// when he broke the loop off.
func (s *subscription) hand(list []*Entry, at uint64, caught bool) bool {
	at = max(s.pos, at)
	s.left = !s.yield(Batch{Entries: list, Cursor: Behind(at), Caught: caught}, nil)
	s.pos = at
	return !s.left
}

// follow hands on what comes, until ctx is done or the subscriber has to begin
// anew.
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
	if !s.hand(nil, s.pos, true) {
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

// step hands on a batch of what waits, one without entries only at a beat. It
// reports whether nothing more waits, and whether the subscriber has to begin
// anew.
func (s *subscription) step(ctx context.Context, r *reader, w *queue, beat bool) (idle, again bool, err error) {
	if s.log.ended() {
		return false, false, closing()
	}
	before := s.spaces
	if s.spaces, err = s.filter.Spaces(ctx); err != nil || !slices.Equal(s.spaces, before) {
		return false, true, err
	}
	list, at, state := w.take(s.log.opt.Size, r.pos.Load())
	for len(list) > 0 && list[0].Seq <= s.pos { // it was read in the log already
		list = list[1:]
	}
	switch {
	case len(list) == 0 && !beat:
		s.pos = max(s.pos, at)
	case !s.hand(list, at, false):
		return false, false, nil
	}
	return state.empty, state.late, state.err
}
