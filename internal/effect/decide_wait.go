package effect

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
)

// waiter is a run that waits for a person.
type waiter struct {
	call     *toolCall     // a copy from when the wait began; never changed
	answered chan struct{} // holds a token once the intent may have changed
	stale    atomic.Bool   // what was shown is not what is asked now: it is to be shown again
}

// wake makes the run check its intent. It does not block.
func (w *waiter) wake() {
	select {
	case w.answered <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// enlist registers a run that waits, until the returned function is called.
func (e *Engine) enlist(uri resource.URI, w *waiter) (dismiss func()) {
	ctx, cancel := context.WithCancel(context.Background())
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[uri] = w
	go e.follow(ctx, w)
	return func() {
		cancel()
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.waiting, uri)
	}
}

func (e *Engine) waiter(uri resource.URI) *waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiting[uri]
}

// wake wakes the run that waits for an answer about an intent, if there is one.
func (e *Engine) wake(uri resource.URI) {
	if w := e.waiter(uri); w != nil {
		w.wake()
	}
}

// followEvery is the minimum interval between two checks of a waiting run that follows the
// store's writes. followAgain is the delay after the store could not be read.
const (
	followEvery = time.Second
	followAgain = 10 * time.Second
)

// follow wakes a waiting run after each write to the store, because another process over
// the same store may have answered. It sleeps while nothing is written.
func (e *Engine) follow(ctx context.Context, w *waiter) {
	for after := uint64(0); ctx.Err() == nil; {
		now, err := e.opt.Store.Wait(ctx, after)
		switch {
		case err == nil:
			after = now
			w.wake()
			fault.Pause(ctx, followEvery)
		case ctx.Err() != nil || fault.HasCode(err, "store_closed"):
			return
		default:
			e.log.WarnContext(ctx, "cannot follow the decisions of other processes about a question", "error", err)
			fault.Pause(ctx, followAgain)
		}
	}
}

// Changed returns a channel that is closed when a question is next asked, answered,
// withdrawn or expires in this process.
func (e *Engine) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// Told learns from the log that an intent has changed: a run that waits for an answer about it looks again. If another
// process works on it, those who follow questions do, too; otherwise they know already.
func (e *Engine) Told(uri resource.URI, others bool) {
	if e.wake(uri); others {
		e.notifyChanged()
	}
}

// notifyChanged closes the channel that Changed returned, and makes a new one.
func (e *Engine) notifyChanged() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.changed)
	e.changed = make(chan struct{})
}

// hungCalls counts the abandoned calls that still run, by their users. The zero value is ready to use.
type hungCalls struct {
	mu     sync.Mutex
	users  map[string]int
	change chan struct{} // closed when a call has returned
}

func (h *hungCalls) add(user string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users == nil {
		h.users, h.change = map[string]int{}, make(chan struct{})
	}
	if h.users[user] += n; h.users[user] == 0 {
		delete(h.users, user)
	}
	if n < 0 {
		close(h.change)
		h.change = make(chan struct{})
	}
}

// AwaitHung waits until no abandoned call of a tool runs any more that was made for a user, at most for a time. It
// reports whether any still does.
func (e *Engine) AwaitHung(user string, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		e.hung.mu.Lock()
		n, change := e.hung.users[user], e.hung.change
		e.hung.mu.Unlock()
		if n == 0 {
			return false
		}
		select {
		case <-change:
		case <-timer.C:
			return true
		}
	}
}
