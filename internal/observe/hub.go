package observe

import (
	"context"
	"sync"

	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Hub tells a node's changes to its observers. While there are any, one
// goroutine follows the log. Safe for concurrent use.
type Hub struct {
	opt  Options
	done chan struct{} // closed when the hub closes

	mu      sync.Mutex
	closed  bool
	live    *follower // nil while nobody observes
	running sync.WaitGroup
}

// New returns a hub. It costs nothing until somebody observes.
func New(o Options) *Hub { return &Hub{opt: o.settled(), done: make(chan struct{})} }

// Close ends all observers with the error closing, and returns when nothing
// of the hub runs any more.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.done)
		if h.live != nil {
			h.live.cancel()
		}
	}
	h.mu.Unlock()
	h.running.Wait()
}

// place is where an observer is found: a conversation, a space, or neither
// for one who sees them all.
type place struct {
	conversation resource.URI
	space        resource.Space
}

// follower reads the log once for all observers.
type follower struct {
	hub    *Hub
	cancel context.CancelFunc
	reader reader

	// Under Hub.mu:
	pos     uint64 // what is up to here has been handed to whom it concerns
	index   map[place]map[*observer]struct{}
	count   int
	touched []*observer // have something new, and have not been told
}

// observer is one who follows live.
type observer struct {
	scope   store.Scope
	matcher *matcher
	places  []place
	after   uint64        // what is up to here it has read from the log itself
	most    int           // changes that may wait
	wake    chan struct{} // holds one token when there may be more
	touched bool          // it is among the follower's; under Hub.mu

	mu    sync.Mutex
	queue []*Change
	ready int   // so many of the queue may be taken: a batch is not parted because it is being filled
	err   error // why nothing more comes
}

func newObserver(sc store.Scope, f Filter, m *matcher, most int) *observer {
	o := &observer{scope: sc, matcher: m, most: most, wake: make(chan struct{}, 1)}
	switch {
	case len(f.Conversations) > 0:
		for x := range m.conversations {
			o.places = append(o.places, place{conversation: record.ConversationURI(x)})
		}
	case sc.All():
		o.places = []place{{}}
	default:
		for _, sp := range sc.Read {
			o.places = append(o.places, place{space: sp})
		}
	}
	return o
}

// join lets o follow live behind a position of the log. It returns nil where
// the follower has come further: then there is more to be read first.
func (h *Hub) join(o *observer, at uint64) (*follower, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, closing()
	}
	f := h.live
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		sc := store.ForNode(resource.System)
		f = &follower{hub: h, cancel: cancel, pos: at, index: map[place]map[*observer]struct{}{},
			reader: reader{store: h.opt.Store, scope: sc, log: h.opt.Log}}
		h.live = f
		h.running.Go(func() { f.run(ctx, at) })
	}
	if f.pos > at {
		return nil, nil
	}
	o.after = at
	f.count++
	for _, p := range o.places {
		if f.index[p] == nil {
			f.index[p] = map[*observer]struct{}{}
		}
		f.index[p][o] = struct{}{}
	}
	return f, nil
}

// leave lets go of o; after the last one the follower ends.
func (h *Hub) leave(f *follower, o *observer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range o.places {
		if delete(f.index[p], o); len(f.index[p]) == 0 {
			delete(f.index, p)
		}
	}
	if f.count--; f.count == 0 {
		f.cancel()
		if h.live == f {
			h.live = nil
		}
	}
}

// run follows the log until nobody observes any more, the hub closes, or the
// store fails, which ends the observers that there are.
func (f *follower) run(ctx context.Context, at uint64) {
	err := f.follow(ctx, at)
	f.cancel()
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.hub.live == f {
		f.hub.live = nil
	}
	for _, group := range f.index {
		for o := range group {
			o.end(err)
		}
	}
}

func (f *follower) follow(ctx context.Context, at uint64) error {
	opt := &f.hub.opt
	q := store.LogQuery{After: store.Cursor(cursorOf(at)), Limit: opt.pageSize()}
	for {
		if err := f.await(ctx, at); err != nil {
			return err
		}
		for more := true; more; {
			page, err := opt.Store.Log(ctx, f.reader.scope, q)
			if err != nil {
				return err
			}
			for _, e := range page.Entries {
				if err := f.tell(ctx, e); err != nil {
					return err
				}
			}
			q.After, more = page.Next, page.More
			if at, err = Cursor(page.Next).position(); err != nil {
				return err
			}
			f.advance(at)
		}
	}
}

// await returns when the log has grown beyond at and either there is enough
// for a batch or the time for more to come has passed.
func (f *follower) await(ctx context.Context, at uint64) error {
	opt := &f.hub.opt
	head, err := opt.Store.Wait(ctx, at)
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, opt.Wait)
	defer cancel()
	for head < at+uint64(opt.Size) {
		next, err := opt.Store.Wait(soon, head)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case soon.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		head = next
	}
	return nil
}

// tell hands an entry's changes to the observers whom they concern. One who
// joins meanwhile is told, too, or finds that pos has passed it.
func (f *follower) tell(ctx context.Context, e resource.Entry) error {
	conv, inside := e.URI.Find(record.TypeConversation)
	if !inside || f.passed(conv, e) {
		return nil
	}
	changes, err := f.reader.read(ctx, e)
	if err != nil {
		return err
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.pos = e.Seq
	for _, group := range f.concerned(conv, e.Space) {
		for o := range group {
			if e.Seq > o.after && o.scope.Sees(e.Space) && o.offer(changes) && !o.touched {
				o.touched = true
				f.touched = append(f.touched, o)
			}
		}
	}
	return nil
}

// passed moves on behind an entry that nobody asked for.
func (f *follower) passed(conv resource.URI, e resource.Entry) bool {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	for _, group := range f.concerned(conv, e.Space) {
		if len(group) > 0 {
			return false
		}
	}
	f.pos = e.Seq
	return true
}

// concerned returns the observers whom an entry may concern; nobody is in two
// of the groups. The caller holds Hub.mu.
func (f *follower) concerned(conv resource.URI, sp resource.Space) [3]map[*observer]struct{} {
	return [3]map[*observer]struct{}{f.index[place{conversation: conv}], f.index[place{space: sp}], f.index[place{}]}
}

// advance says that all up to pos has been told, and tells whom it concerns.
func (f *follower) advance(pos uint64) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.pos = max(f.pos, pos)
	for _, o := range f.touched {
		o.touched = false
		o.release()
	}
	clear(f.touched)
	f.touched = f.touched[:0]
}

// position is how far the follower has come.
func (f *follower) position() uint64 {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	return f.pos
}

// offer adds an entry's changes to what waits for o, all that fit or none, and
// reports whether o is to be told. Too much ends o.
func (o *observer) offer(changes []Change) bool {
	var fit int
	for i := range changes {
		if o.matcher.fits(&changes[i]) {
			fit++
		}
	}
	if fit == 0 {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return false
	}
	if len(o.queue) > 0 && len(o.queue)+fit > o.most {
		o.queue, o.err = nil, slow(o.most)
		return true
	}
	for i := range changes {
		if o.matcher.fits(&changes[i]) {
			o.queue = append(o.queue, &changes[i])
		}
	}
	return true
}

// release lets go of what waits.
func (o *observer) release() {
	o.mu.Lock()
	o.ready = len(o.queue)
	o.mu.Unlock()
	o.rouse()
}

// end ends o with an error; what waits is dropped.
func (o *observer) end(err error) {
	o.mu.Lock()
	if o.err == nil {
		o.queue, o.err = nil, err
	}
	o.mu.Unlock()
	o.rouse()
}

func (o *observer) rouse() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns what waits, at most about so many changes, and the position
// behind it. pos is how far the follower had come before.
func (o *observer) take(most int, pos uint64) (changes []Change, at uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return nil, 0, o.err
	}
	n := whole(o.queue[:min(o.ready, len(o.queue))], most)
	if n == 0 {
		return nil, pos, nil
	}
	changes = make([]Change, n)
	for i, c := range o.queue[:n] {
		changes[i] = *c
	}
	o.ready -= n
	at = changes[n-1].Seq
	if n < len(o.queue) {
		clear(o.queue[:n])
		o.queue = o.queue[n:]
		return changes, at, nil
	}
	o.queue = nil
	return changes, max(at, pos), nil
}

// whole returns how many of the changes a batch has: at most so many, unless
// the first entry alone has more; an entry's changes stay together.
func whole(q []*Change, most int) int {
	if len(q) <= most {
		return len(q)
	}
	n := most
	for n > 0 && q[n-1].Seq == q[n].Seq {
		n--
	}
	if n == 0 {
		for n = most; n < len(q) && q[n].Seq == q[0].Seq; n++ {
		}
	}
	return n
}
