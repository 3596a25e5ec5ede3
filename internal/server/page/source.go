package page

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
)

// A source is what open pages show and what changes by itself: a list, a conversation. All pages of a person that
// show the same, in the same language, share one source. It looks and renders once, and hands the same bytes to
// all of them, so that a page that shows nothing new costs its connection and nothing else.
//
// A source begins with its first page and ends with its last. It runs as its person: the key has everything that
// what is shown depends on (visit.key). A page whose rights end leaves by itself (server.live).
//
// Each page has a queue with a bound. A page that does not keep up is closed; the browser opens its stream again,
// and begins where it was.
type hub struct {
	log *slog.Logger

	mu  sync.Mutex
	all map[string]*source
}

type source struct {
	hub    *hub
	key    string
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended

	joined chan struct{} // holds a token after a page has joined
	ready  chan struct{} // closed once nothing is missed by who has joined: see followChat

	mu    sync.Mutex
	looks int                          // that have begun
	pages map[*queue]int               // the looks that had begun when a page joined; shown: it has what the source shows
	parts map[string][sha256.Size]byte // what the last look has seen, by the ids of the patches
}

// shown stands for the looks of a page that has what its source shows.
const shown = -1

// Bounds of what waits for a page.
const (
	maxQueued    = 256
	maxQueueSize = 4 << 20
)

// join adds a page to a source, which begins if there is none with the key. The returned function leaves it, and
// waits for its end if the page was its last.
func (h *hub) join(key string, q *queue, run func(ctx context.Context, s *source) error) (s *source, leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.Background(), context.CancelFunc(nil)
	if s = h.all[key]; s == nil {
		ctx, cancel = context.WithCancel(ctx)
		s = &source{hub: h, key: key, cancel: cancel, done: make(chan struct{}), joined: make(chan struct{}, 1), ready: make(chan struct{}), pages: map[*queue]int{}}
		if h.all == nil {
			h.all = map[string]*source{}
		}
		h.all[key] = s
	}
	s.mu.Lock()
	s.pages[q] = s.looks
	s.mu.Unlock()
	signal(s.joined)
	if cancel != nil {
		go s.run(ctx, run) // the first look is for this page, too
	}
	return s, func() { s.leave(q) }
}

func (s *source) run(ctx context.Context, run func(ctx context.Context, s *source) error) {
	defer close(s.done)
	defer s.cancel()
	err := alive(s.hub.log, func() error { return run(ctx, s) })
	s.hub.mu.Lock()
	s.remove()
	s.hub.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.pages {
		q.end(err)
	}
}

// remove makes later pages begin a new source. The caller holds hub.mu.
func (s *source) remove() {
	if s.hub.all[s.key] == s {
		delete(s.hub.all, s.key)
	}
}

func (s *source) leave(q *queue) {
	s.hub.mu.Lock()
	s.mu.Lock()
	delete(s.pages, q)
	last := len(s.pages) == 0
	s.mu.Unlock()
	if last {
		s.remove()
	}
	s.hub.mu.Unlock()
	if last {
		s.cancel()
		<-s.done
	}
}

// tell sends all pages the same.
func (s *source) tell(event []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.pages {
		q.put(event)
	}
}

// report tells that there is something new. Who has not taken the last report is not told again.
func (s *source) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for q := range s.pages {
		q.report()
	}
}

// tellNew sends the pages that have joined since the last call something else, if there are any.
func (s *source) tellNew(event []byte, whole func() []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []byte
	for q, at := range s.pages {
		if at == shown {
			q.put(event)
			continue
		}
		if all == nil {
			all = whole()
		}
		q.put(all)
		s.pages[q] = shown
	}
}

// begin begins a look.
func (s *source) begin() (look int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.looks
}

// show shows what a look has seen. Pages that had joined before it are sent all of it, or what has changed.
func (s *source) show(look int, list []patch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all, changed []patch
	parts := make(map[string][sha256.Size]byte, len(list))
	within := false // a patch that has the following ones within it has changed
	for _, p := range list {
		what := p.HTML
		if p.shape != "" {
			what = p.shape
		}
		parts[p.ID] = sha256.Sum256([]byte(what))
		before, known := s.parts[p.ID]
		isNew := !known || before != parts[p.ID]
		if p.shape != "" {
			within = isNew
		}
		if isNew && !(p.within && within) {
			changed = append(changed, p)
		}
		if !p.within {
			all = append(all, p)
		}
	}
	s.parts = parts
	var news, whole []byte
	for q, at := range s.pages {
		switch {
		case at == shown && len(changed) > 0:
			if news == nil {
				news = patchEvent("", changed)
			}
			q.put(news)
		case at != shown && at < look:
			if whole == nil {
				whole = patchEvent("", all)
			}
			q.put(whole)
			s.pages[q] = shown
		}
	}
}

// patchEvent is the event that sends patches. With an id, a stream that begins again after a break goes on after
// this event.
func patchEvent(id string, list []patch) []byte {
	b, err := json.Marshal(list)
	if err != nil {
		panic(err) // strings: cannot fail
	}
	return event(id, "patch", b)
}

func event(id, name string, data []byte) []byte {
	b := make([]byte, 0, len(id)+len(name)+len(data)+30)
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	b = append(append(append(b, "event: "...), name...), '\n')
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}

// queue holds what a page has not been sent yet. Events are shared by all pages: they are not modified.
type queue struct {
	wake chan struct{} // holds a token when there is something

	mu     sync.Mutex
	events [][]byte
	size   int
	ended  bool
	err    error
}

func newQueue() *queue { return &queue{wake: make(chan struct{}, 1)} }

// errSlow ends a page that does not keep up.
var errSlow = errors.New("the page does not keep up")

func (q *queue) put(event []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return
	}
	if len(q.events) >= maxQueued || len(q.events) > 0 && q.size+len(event) > maxQueueSize {
		q.events, q.size, q.ended, q.err = nil, 0, true, errSlow
	} else {
		q.events, q.size = append(q.events, event), q.size+len(event)
	}
	signal(q.wake)
}

func (q *queue) report() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended && len(q.events) == 0 {
		q.events = append(q.events, nil)
		signal(q.wake)
	}
}

// end ends the page, after what it has not been sent yet.
func (q *queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ended {
		q.ended, q.err = true, err
		signal(q.wake)
	}
}

// take returns what is to be sent, and whether the page ends then.
func (q *queue) take() (events [][]byte, ended bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	events, q.events, q.size = q.events, nil, 0
	return events, q.ended, q.err
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
