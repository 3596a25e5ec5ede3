package effect

import (
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// waiter is a run that waits for a person.
type waiter struct {
	job      *job          // as it was when it began to wait; nobody changes it
	answered chan struct{} // holds a token once the intent may have changed
}

// wake has the run look at its intent.
func (w *waiter) wake() {
	select {
	case w.answered <- struct{}{}:
	default: // it is to look already
	}
}

// enlist notes that a run waits. While any does, what other processes record
// is followed.
func (e *Engine) enlist(uri resource.URI, w *waiter) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting[uri] = w
	if e.following != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	e.following = cancel
	go e.follow(ctx)
}

// dismiss notes that a run does not wait any more.
func (e *Engine) dismiss(uri resource.URI) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.waiting, uri)
	if len(e.waiting) == 0 && e.following != nil {
		e.following()
		e.following = nil
	}
}

func (e *Engine) waiter(uri resource.URI) *waiter {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiting[uri]
}

// wake has who waits for a person's word about an intent look at it.
func (e *Engine) wake(uri resource.URI) {
	if w := e.waiter(uri); w != nil {
		w.wake()
	}
}

// wakeAll has everybody look who waits.
func (e *Engine) wakeAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.waiting {
		w.wake()
	}
}

// How often what other processes record is read at most, and how long after
// the store could not be read.
const (
	followEvery = time.Second
	followAgain = 10 * time.Second
)

// follow wakes the runs whose intents another process over the same store has
// changed. It reads the log only when something was written, once for all runs
// that wait, and sleeps as long as nothing is.
func (e *Engine) follow(ctx context.Context) {
	everything := store.ForNode(resource.System)
	var after uint64
	for first := true; ctx.Err() == nil; {
		now, err := e.opt.Store.Wait(ctx, after)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && first: // what was said before this was listening
			e.wakeAll()
			after, first = now, false
			continue
		case err == nil && sleep(ctx, followEvery): // what comes meanwhile is read along
			after, err = e.wakeSince(ctx, everything, after)
		}
		if err != nil && ctx.Err() == nil {
			if fault.HasCode(err, "store_closed") {
				return
			}
			e.log.WarnContext(ctx, "what other processes decide about questions cannot be followed", "error", err)
			sleep(ctx, followAgain)
		}
	}
}

// wakeSince wakes the runs whose intents have changed after a place in the log.
func (e *Engine) wakeSince(ctx context.Context, sc store.Scope, after uint64) (uint64, error) {
	q := store.LogQuery{Since: after, Type: TypeIntent, Limit: 1000}
	for {
		page, err := e.opt.Store.Log(ctx, sc, q)
		if err != nil {
			return after, err
		}
		for _, entry := range page.Entries {
			after = max(after, entry.Seq)
			e.wake(entry.URI)
		}
		if !page.More {
			return after, nil
		}
		q.After = page.Next
	}
}

// Changed returns a channel that is closed when a question is next put,
// answered, withdrawn or expires in this process.
func (e *Engine) Changed() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.changed
}

// tell closes what Changed returned.
func (e *Engine) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.changed)
	e.changed = make(chan struct{})
}

func oldestFirst(list []Question) {
	slices.SortStableFunc(list, func(a, b Question) int {
		if c := a.Asked.Compare(b.Asked); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
}
