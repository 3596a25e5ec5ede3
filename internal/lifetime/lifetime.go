// Package lifetime ends what a node runs, and waits for it.
//
// A Lifetime is the context of every goroutine of a node. It begins with New and
// ends once, with End. What is started by Go, or held by Hold, before the end is
// waited for by Wait; after the end nothing can be started, and whoever wanted to
// start something leaves it to the next start of the node.
package lifetime

import (
	"context"
	"sync"
)

// Lifetime is a context that ends when its owner closes. Safe for concurrent use.
type Lifetime struct {
	context.Context
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	ended bool
	runs  sync.WaitGroup
}

// New returns a Lifetime with the values of ctx, which its end does not depend on.
func New(ctx context.Context) *Lifetime {
	l := &Lifetime{}
	l.Context, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return l
}

// Hold delays the return of Wait until release is called, once. It returns false
// if the Lifetime has ended: Wait may have returned.
func (l *Lifetime) Hold() (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, false
	}
	l.runs.Add(1)
	return l.runs.Done, true
}

// Go runs f in a goroutine that Wait waits for. It returns false, without running
// f, if the Lifetime has ended.
func (l *Lifetime) Go(f func()) bool {
	release, ok := l.Hold()
	if ok {
		go func() {
			defer release()
			f()
		}()
	}
	return ok
}

// End ends the context with a cause. It returns false if it had ended already.
func (l *Lifetime) End(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel(cause) // first, so that whoever is refused finds the cause
	was := l.ended
	l.ended = true
	return !was
}

// Wait returns when nothing runs any more. It is called after End.
func (l *Lifetime) Wait() { l.runs.Wait() }
