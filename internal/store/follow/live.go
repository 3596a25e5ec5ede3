package follow

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"steward/internal/resource"
	"steward/internal/store"
)

// reader reads the log for all live subscribers.
type reader struct {
	log    *Log
	cancel context.CancelFunc
	pos    atomic.Uint64 // everything up to here has been queued for the subscribers that it concerns

	// Protected by Log.mu:
	index  index
	queues map[*queue]bool // all queues in the index; true: it received something from this page
}

// index maps an entry to the queues that it may concern: by its space, and by
// each URI that it is at or below. An entry has as few places as its URI has
// steps, so the cost does not depend on the number of subscribers.
type index map[place][]*queue

type place struct {
	space resource.Space
	at    resource.URI
}

// places returns the places at which the index lists the queue.
func (w *queue) places(spaces []resource.Space) (out []place) {
	prefixes := w.filter.Prefixes
	if len(prefixes) == 0 {
		prefixes = []resource.URI{{}}
	}
	for _, sp := range spaces {
		for _, at := range prefixes {
			out = append(out, place{sp, at})
			if whole := resource.Expand(sp, at); whole != at {
				out = append(out, place{sp, whole})
			}
		}
	}
	return out
}

// join adds w to the live subscribers, and returns the reader and its position.
// Entries after that position will be queued for w; earlier ones will not. If no
// reader runs, one is started at the position at.
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
		l.opt.Lag.At(at)
		l.running.Go(func() { r.run(ctx, at) })
	}
	r.queues[w] = false
	for _, p := range w.places(spaces) {
		r.index[p] = append(r.index[p], w)
	}
	return r, r.pos.Load(), nil
}

// leave removes w. The reader stops when the last queue is removed.
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
			l.opt.Lag.Rest()
		}
	}
}

// run reads the log until there are no subscribers, the Log closes, or the store
// fails. A failure ends the current subscriptions.
func (r *reader) run(ctx context.Context, at uint64) {
	err := r.read(ctx, at)
	r.cancel()
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	if r.log.live == r {
		r.log.live = nil
		r.log.opt.Lag.Rest()
	}
	for w := range r.queues {
		w.end(err)
	}
}

// pageSize is how many entries the reader reads at once. It bounds memory: their
// bodies are all loaded together.
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
			r.distribute(page.Entries, at)
		}
	}
}

// distribute adds a page to the queues that it concerns, and advances the position to
// pos.
func (r *reader) distribute(entries []resource.Entry, pos uint64) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	var fresh []*queue
	for i := range entries {
		fresh = r.distributeEntry(&entries[i], fresh)
	}
	r.pos.Store(pos) // only now is everything up to here in the queues
	if r.log.live == r {
		r.log.opt.Lag.At(pos)
	}
	for _, w := range fresh {
		r.queues[w] = false
		w.signal()
	}
}

// distributeEntry adds a copy of an entry to the queues that it concerns; a reference
// into the page would keep the whole page in memory. It appends queues that
// receive their first entry of this page to fresh.
func (r *reader) distributeEntry(e *resource.Entry, fresh []*queue) []*queue {
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

// maxBytes bounds the bytes queued for one subscriber. A single larger entry is
// still queued.
const maxBytes = 4 << 20

// queue holds the entries that wait for one live subscriber.
type queue struct {
	filter *Filter
	most   int           // maximum number of queued entries
	wake   chan struct{} // holds one token if there may be new entries
	seen   uint64        // sequence number of the newest queued entry; protected by Log.mu

	mu    sync.Mutex
	list  []*Entry
	bytes int   // size of the queued entries
	late  bool  // an entry did not fit: the subscriber must read on in the log
	err   error // why no more entries will come
}

func size(e *Entry) int { return len(e.Body) + len(e.URI.Key()) }

// add appends an entry, if it fits.
func (w *queue) add(e *Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := size(e)
	if w.late = w.late || len(w.list) == w.most || w.bytes > 0 && w.bytes+n > maxBytes; !w.late {
		w.list, w.bytes = append(w.list, e), w.bytes+n
	}
}

// end closes the queue with an error. Queued entries are still delivered first.
func (w *queue) end(err error) {
	w.mu.Lock()
	w.err = err
	w.mu.Unlock()
	w.signal()
}

func (w *queue) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// state describes a queue after a take.
type state struct {
	empty, late bool
	err         error
}

// take removes up to most entries and returns them, with the position after them.
// If the queue is then empty, that is pos, the reader's position before the call.
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
