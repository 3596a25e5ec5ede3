// Package lifetime ends what a node runs, and waits for it.
//
// A Lifetime is the context of every goroutine of a node. It begins with New and
// ends once, with End. What is started by Go, or held by Hold, before the end is
// waited for by Wait; after the end nothing can be started, and whoever wanted to
// start something leaves it to the next start of the node.
//
// A node that shares its store with others works only on the users that it holds. Then its Lifetime is
// divided (Divide): what is done for a user belongs to the user's part (Of), which begins and ends by
// itself while the node lives on. A Lifetime that is not divided is the part of every user, so that the
// code is the same, and costs the same, with one node and with many.
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

	whole *Lifetime // of which it is a part; nil: it is none
	holds int       // of a part: what runs
	parts *parts    // nil: it is not divided
}

// parts are the parts of a Lifetime that have begun and have not been waited for, by user.
type parts struct {
	mu    sync.RWMutex
	named map[string]*Lifetime
	none  *Lifetime // the part of whoever has none: it has ended
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
	if l.whole == nil {
		l.runs.Add(1)
		return l.runs.Done, true
	}
	above, ok := l.whole.Hold()
	if !ok {
		return nil, false
	}
	l.runs.Add(1)
	l.holds++
	return func() {
		l.mu.Lock()
		l.holds--
		l.mu.Unlock()
		l.runs.Done()
		above()
	}, true
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

// Divide divides a Lifetime, before anything is started. Without a part, nothing can be started for a
// user; why is the cause that its context has ended with.
func (l *Lifetime) Divide(why error) {
	none := New(l)
	none.End(why)
	l.parts = &parts{named: map[string]*Lifetime{}, none: none}
}

// Divided reports whether Divide was called.
func (l *Lifetime) Divided() bool { return l.parts != nil }

// Begin begins a user's part. It returns false if there is one already.
func (l *Lifetime) Begin(user string) bool {
	l.parts.mu.Lock()
	defer l.parts.mu.Unlock()
	if l.parts.named[user] != nil {
		return false
	}
	p := &Lifetime{whole: l}
	p.Context, p.cancel = context.WithCancelCause(l.Context) // the end of the whole ends it too
	l.parts.named[user] = p
	return true
}

// Of returns the part in which what is done for a user lives: l itself if it is not divided, and a Lifetime
// that has ended if the user has no part. What is done for no user ("") belongs to the whole.
func (l *Lifetime) Of(user string) *Lifetime {
	if l.parts == nil || user == "" {
		return l
	}
	l.parts.mu.RLock()
	defer l.parts.mu.RUnlock()
	if p := l.parts.named[user]; p != nil {
		return p
	}
	return l.parts.none
}

// Has reports whether things can be started for a user.
func (l *Lifetime) Has(user string) bool { return l.Of(user).Err() == nil }

// Leave ends a user's part with a cause, and returns when nothing of it runs any more.
func (l *Lifetime) Leave(user string, cause error) {
	p := l.Of(user)
	if p.whole == nil {
		return
	}
	p.End(cause)
	p.Wait()
	l.parts.mu.Lock()
	defer l.parts.mu.Unlock()
	delete(l.parts.named, user)
}

// Users returns the users that have a part.
func (l *Lifetime) Users() (out []string) {
	if l.parts == nil {
		return nil
	}
	l.parts.mu.RLock()
	defer l.parts.mu.RUnlock()
	for user := range l.parts.named {
		out = append(out, user)
	}
	return out
}

// Stay delays the return of Leave while a request of a user is being answered. The context that it returns
// ends when the user's part does. It returns false if that has ended. If l is not divided, Stay returns ctx,
// and costs nothing.
func (l *Lifetime) Stay(ctx context.Context, user string) (_ context.Context, release func(), ok bool) {
	if l.parts == nil || user == "" {
		return ctx, func() {}, true
	}
	p := l.Of(user)
	let, ok := p.Hold()
	if !ok {
		return nil, nil, false
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(p, func() { cancel(context.Cause(p)) })
	return ctx, func() { stop(); cancel(nil); let() }, true
}

// Left returns a channel that is closed when a user's part ends, or nil if l is not divided.
func (l *Lifetime) Left(user string) <-chan struct{} {
	if l.parts == nil || user == "" {
		return nil
	}
	return l.Of(user).Done()
}

// Busy reports whether anything of a user's part runs.
func (l *Lifetime) Busy(user string) bool {
	p := l.Of(user)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds > 0
}
