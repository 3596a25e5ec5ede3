package events

import (
	"context"
	"sync"
	"sync/atomic"

	"steward/internal/resource"
	"steward/internal/store"
)

// follower reads the log once for all subscribers.
type follower struct {
	engine *Engine
	cancel context.CancelFunc
	pos    atomic.Uint64 // what is up to here has been handed to whom it concerns

	// Under Engine.mu:
	index   index
	count   int
	touched []*subscriber // have something new, and have not been given it
	found   []*subscriber // of one entry; kept for its memory
}

// subscriber is one who follows live.
type subscriber struct {
	spaces  []resource.Space
	matcher *matcher
	most    int           // events that may wait
	wake    chan struct{} // holds one token when there may be more

	fresh []waiting // of the page that is being read; under Engine.mu
	seen  uint64    // the last entry that was looked at for him; under Engine.mu

	mu    sync.Mutex
	queue []waiting
	bytes int    // of what is in the queue; see mostBytes
	late  bool   // something that was for him did not fit: he reads on in the log
	safe  uint64 // late: what is up to here was in the queue
	err   error  // why nothing more comes
}

// waiting is an event on its way to a subscriber, with the bodies only if he
// asked for them: what waits must not hold on to much.
type waiting struct {
	*told
	content *content
}

func (m *matcher) waiting(t *told, c *content) waiting {
	if !m.bodies {
		c = nil
	}
	return waiting{t, c}
}

func (w *waiting) size() int {
	if w.content == nil {
		return w.told.size
	}
	return w.told.size + w.content.size
}

// mostBytes bounds the bodies, and what published events name, that wait for
// one subscriber.
const mostBytes = 4 << 20

// pageSize is how many entries are read from the log at once: their bodies
// are in memory together.
const pageSize = 500

// join lets s follow live, and returns the follower and how far it has come:
// what lies behind that is for s, what lies before it s reads itself.
func (e *Engine) join(s *subscriber, at uint64) (*follower, uint64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, 0, closing()
	}
	f := e.live
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &follower{engine: e, cancel: cancel, index: index{}}
		f.pos.Store(at)
		e.live = f
		e.running.Go(func() { f.run(ctx, at) })
	}
	f.count++
	f.index.add(s)
	return f, f.pos.Load(), nil
}

// leave lets go of s; after the last one the follower ends.
func (e *Engine) leave(f *follower, s *subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f.index.remove(s)
	if f.count--; f.count == 0 {
		f.cancel()
		if e.live == f {
			e.live = nil
		}
	}
}

// run follows the log until nobody subscribes any more, the engine closes, or
// the store fails, which ends the subscriptions that there are.
func (f *follower) run(ctx context.Context, at uint64) {
	err := f.follow(ctx, at)
	f.cancel()
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	if f.engine.live == f {
		f.engine.live = nil
	}
	for _, here := range f.index {
		for _, list := range here {
			for _, s := range list {
				s.end(err)
			}
		}
	}
}

func (f *follower) follow(ctx context.Context, at uint64) error {
	st := f.engine.opt.Store
	q := store.LogQuery{After: store.Cursor(cursorOf(at)), Limit: pageSize}
	for {
		if _, err := st.Wait(ctx, at); err != nil {
			return err
		}
		for more := true; more; {
			page, err := st.Log(ctx, store.ForNode(""), q)
			if err != nil {
				return err
			}
			q.After, more = page.Next, page.More
			if at, err = Cursor(page.Next).position(); err != nil {
				return err
			}
			f.hand(ctx, page.Entries, at)
		}
	}
}

// hand gives a page to whom it concerns, and says that all up to pos has been.
func (f *follower) hand(ctx context.Context, entries []resource.Entry, pos uint64) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	for i := range entries {
		f.sort(ctx, &entries[i])
	}
	before := f.pos.Load()
	for _, s := range f.touched {
		s.take(before)
		s.rouse()
	}
	clear(f.touched)
	f.touched = f.touched[:0]
	f.pos.Store(pos)
}

// sort finds whom an entry concerns.
func (f *follower) sort(ctx context.Context, x *resource.Entry) {
	here := f.index[x.Space]
	if here == nil {
		return
	}
	typ := x.URI.Type()
	f.found = f.index.find(f.found[:0], x.Space, x.URI, typ)
	var t *told
	var c *content
	if typ == TypeEvent { // it may be about what lies elsewhere
		var ok bool
		if t, c, ok = f.engine.derive(ctx, x); !ok {
			return
		}
		for i := range t.Resources {
			f.found = f.index.find(f.found, x.Space, t.Resources[i].URI, t.Resources[i].Type)
		}
	}
	for _, s := range f.found {
		if s.seen >= x.Seq {
			continue
		}
		s.seen = x.Seq
		if t == nil {
			t, c, _ = f.engine.derive(ctx, x)
		}
		if !s.matcher.fits(t) {
			continue
		}
		if len(s.fresh) == 0 {
			f.touched = append(f.touched, s)
		}
		s.fresh = append(s.fresh, s.matcher.waiting(t, c))
	}
	clear(f.found)
}

// take moves what is fresh into the queue, all of it or nothing: who is late
// reads it in the log. before is up to where all is in the queue.
func (s *subscriber) take(before uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := 0
	for i := range s.fresh {
		size += s.fresh[i].size()
	}
	switch {
	case s.late || s.err != nil:
	case len(s.queue)+len(s.fresh) > s.most || size > 0 && s.bytes+size > mostBytes:
		s.late, s.safe = true, before
	default:
		s.queue, s.bytes = append(s.queue, s.fresh...), s.bytes+size
	}
	clear(s.fresh)
	s.fresh = s.fresh[:0]
}

// end ends s with an error; what waits is told before.
func (s *subscriber) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.rouse()
}

func (s *subscriber) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next takes what waits, at most so many events, and returns the position
// behind them: pos, how far the follower had come before, if nothing is left.
// It is late when what comes next has to be read in the log.
func (s *subscriber) next(most int, pos uint64) (list []waiting, at uint64, late bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := min(most, len(s.queue)); n < len(s.queue) {
		list = append(list, s.queue[:n]...)
		clear(s.queue[:n])
		s.queue = s.queue[n:]
		for i := range list {
			s.bytes -= list[i].size()
		}
		return list, list[n-1].Seq, false, nil
	}
	list, s.queue, s.bytes = s.queue, nil, 0
	if len(list) > 0 {
		at = list[len(list)-1].Seq
	}
	if s.late {
		pos = s.safe
	}
	return list, max(at, pos), s.late, s.err
}
