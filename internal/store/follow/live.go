package follow

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"steward/internal/resource"
	"steward/internal/store"
)

// reader reads the log for all who follow live.
type reader struct {
	log    *Log
	cancel context.CancelFunc
	pos    atomic.Uint64 // what is up to here has been given to whom it concerns

	// Under Log.mu:
	index  index
	queues map[*queue]bool // all of the index; true: has something fresh
}

// index finds the queues that an entry may concern: by its space, and by each
// place in the tree that it lies at or below. An entry has as few places as its
// URI has steps, so that finding costs the same however many subscribers there
// are.
type index map[place][]*queue

type place struct {
	space resource.Space
	at    resource.URI
}

// places are where a queue is found.
func (w *queue) places(spaces []resource.Space) (out []place) {
	prefixes := w.filter.Prefixes
	if len(prefixes) == 0 {
		prefixes = []resource.URI{{}}
	}
	for _, sp := range spaces {
		for _, at := range prefixes {
			out = append(out, place{sp, at})
		}
	}
	return out
}

// join lets w be given what comes, and returns the reader and how far it has
// come: what lies behind that is given, what lies before it is not. A reader
// that is not there yet begins at a position.
func (l *Log) join(w *queue, spaces []resource.Space, at uint64) (*reader, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, 0, closing()
	}
	r := l.live
	if r == nil {
		ctx, cancel := context.WithCancel(context.Background())
		r = &reader{log: l, cancel: cancel, index: index{}, queues: map[*queue]bool{}}
		r.pos.Store(at)
		l.live = r
		l.running.Go(func() { r.run(ctx, at) })
	}
	r.queues[w] = false
	for _, p := range w.places(spaces) {
		r.index[p] = append(r.index[p], w)
	}
	return r, r.pos.Load(), nil
}

// leave lets go of w; after the last one the reader ends.
func (l *Log) leave(r *reader, w *queue, spaces []resource.Space) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range w.places(spaces) {
		list := r.index[p]
		if i := slices.Index(list, w); i >= 0 {
			last := len(list) - 1
			list[i], list[last] = list[last], nil
			r.index[p] = list[:last]
		}
		if len(r.index[p]) == 0 {
			delete(r.index, p)
		}
	}
	if delete(r.queues, w); len(r.queues) == 0 {
		r.cancel()
		if l.live == r {
			l.live = nil
		}
	}
}

// run reads the log until nobody subscribes any more, the Log closes, or the
// store fails, which ends the subscriptions that there are.
func (r *reader) run(ctx context.Context, at uint64) {
	err := r.read(ctx, at)
	r.cancel()
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.log.live == r {
		r.log.live = nil
	}
	for w := range r.queues {
		w.end(err)
	}
}

// pageSize is how many entries the reader reads at once: their bodies are in
// memory together.
const pageSize = 500

func (r *reader) read(ctx context.Context, at uint64) error {
	st := r.log.opt.Store
	q := store.LogQuery{After: store.Cursor(Behind(at)), Limit: pageSize}
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
			if at, err = Cursor(page.Next).Position(); err != nil {
				return err
			}
			r.give(page.Entries, at)
		}
	}
}

// give puts a page into the queues of whom it concerns, and says that all up
// to pos has been.
func (r *reader) give(entries []resource.Entry, pos uint64) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	var fresh []*queue
	for i := range entries {
		fresh = r.giveOne(&entries[i], fresh)
	}
	r.pos.Store(pos) // only now: what is up to here is in the queues
	for _, w := range fresh {
		r.queues[w] = false
		w.rouse()
	}
}

// giveOne gives an entry to whom it concerns: a copy, since its page must not
// stay in memory for one entry of it. It adds those to fresh to whom nothing
// of the page was given before.
func (r *reader) giveOne(e *resource.Entry, fresh []*queue) []*queue {
	var own *Entry
	about := r.log.about(e)
	for _, s := range about {
		for u := s.uri; ; u = u.Parent() {
			for _, w := range r.index[place{e.Space, u}] {
				if w.seen >= e.Seq || !w.filter.fits(about) {
					continue
				}
				if own == nil {
					own = &Entry{Entry: *e}
				}
				w.seen = e.Seq
				w.add(own)
				if !r.queues[w] {
					r.queues[w], fresh = true, append(fresh, w)
				}
			}
			if u.Zero() {
				break
			}
		}
	}
	return fresh
}

// mostBytes bounds what waits for one subscriber, unless a single entry has
// more.
const mostBytes = 4 << 20

// queue is what waits for one who follows live.
type queue struct {
	filter *Filter
	most   int           // entries that may wait
	wake   chan struct{} // holds one token when there may be more
	seen   uint64        // the newest entry that was given; under Log.mu

	mu    sync.Mutex
	list  []*Entry
	bytes int   // of what is in the list
	late  bool  // something did not fit: what comes next has to be read in the log
	err   error // why nothing more comes
}

func size(e *Entry) int { return len(e.Body) + len(e.URI.Key()) }

// add puts an entry behind those that wait, if it fits.
func (w *queue) add(e *Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := size(e)
	if w.late = w.late || len(w.list) == w.most || w.bytes > 0 && w.bytes+n > mostBytes; !w.late {
		w.list, w.bytes = append(w.list, e), w.bytes+n
	}
}

// end ends the queue with an error; what waits is handed on before.
func (w *queue) end(err error) {
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
	w.rouse()
}

func (w *queue) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// state is that of a queue after something was taken from it.
type state struct {
	empty, late bool
	err         error
}

// take takes what waits, at most so many entries, and returns the position
// behind them: pos, how far the reader had come before, if nothing is left.
func (w *queue) take(most int, pos uint64) (list []*Entry, at uint64, now state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(most, len(w.list))
	list = slices.Clone(w.list[:n])
	clear(w.list[:n])
	if w.list = w.list[n:]; len(w.list) == 0 {
		w.list = nil
		now = state{empty: true, late: w.late, err: w.err}
	}
	for _, e := range list {
		w.bytes -= size(e)
		at = e.Seq
	}
	if now.empty && !now.late && now.err == nil {
		at = max(at, pos)
	}
	return list, at, now
}
