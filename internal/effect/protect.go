package effect

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/tool"
)

// end is how a protected call ended.
type end struct {
	err       error
	abandoned bool // it did not return, and may still be working
}

// protect calls fn with a deadline in its own goroutine, so that neither a panic nor a
// hang in fn reaches the caller. When ctx or the deadline ends, fn has Options.Grace to
// return; a result within that time still counts. After that fn is abandoned, counted and
// logged.
func protect[T any](ctx context.Context, e *Engine, what string, timeout time.Duration, fn func(context.Context) (T, error)) (T, end) {
	type answer struct {
		v   T
		err error
	}
	late := fault.New(fault.Timeout, "tool_timeout", "%s did not answer within %s", what, timeout)
	inner, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	done := make(chan answer, 1)
	go func() {
		a := answer{err: fault.New(fault.Internal, "tool_panicked", "%s ended its goroutine", what)}
		defer func() {
			if p := recover(); p != nil {
				a.err = fault.New(fault.Internal, "tool_panicked", "%s panicked: %v", what, p)
				e.log.ErrorContext(ctx, "a tool panicked", "tool", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			}
			done <- a
		}()
		a.v, a.err = fn(inner)
	}()
	var a answer
	select {
	case a = <-done:
	case <-inner.Done():
		grace := time.NewTimer(e.opt.Grace)
		defer grace.Stop()
		select {
		case a = <-done:
		case <-grace.C:
			e.abandon(ctx, what, func() { <-done })
			a.err = context.Cause(inner)
			return a.v, end{err: a.err, abandoned: true}
		}
	}
	if a.err != nil && inner.Err() != nil && !fault.HasCode(a.err, "tool_panicked") && !tool.Certain(a.err) {
		a.err = context.Cause(inner) // report why it failed rather than how
	}
	return a.v, end{err: a.err}
}

// abandon counts a call that does not return, until it does.
func (e *Engine) abandon(ctx context.Context, what string, wait func()) {
	n := e.leaked.Add(1)
	e.log.WarnContext(ctx, "a tool does not return although its time is over", "tool", what, "hanging", n)
	go func() {
		wait()
		n := e.leaked.Add(-1)
		e.log.InfoContext(ctx, "a tool that hung has returned", "tool", what, "hanging", n)
	}()
}

// markHanging records that an abandoned call may still be carrying out an intent.
func (e *Engine) markHanging(uri resource.URI) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hanging[uri] = struct{}{}
}

func (e *Engine) isHanging(uri resource.URI) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.hanging[uri]
	return ok
}

// clearHanging removes the mark, because the intent is settled.
func (e *Engine) clearHanging(uri resource.URI) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.hanging, uri)
}

// place waits for one of the tool's slots, and then for Call.Room. A call that may
// continue as a task is reported as running while it waits.
func (j *job) place(ctx context.Context) (release func(), err error) {
	release, err = j.e.slot(ctx, j.spec, func() {
		if j.spec.Async || j.spec.AsyncAfter > 0 {
			j.c.notify(Progress{Status: Running, Tool: j.spec.Name, Args: j.args, Fraction: -1,
				Message: "it waits until another call of the tool has ended"})
		}
	})
	if err != nil || j.c.Room == nil {
		return release, err
	}
	if j.leave, err = j.c.Room(ctx); err != nil {
		release()
		return nil, err
	}
	leave, free := j.leave, release
	return func() { leave(); free() }, nil
}

// slot waits for one of the tool's slots, at most for the timeout of a call: a tool whose
// calls all hang must not block further calls forever. It calls waits if it has to wait.
func (e *Engine) slot(ctx context.Context, spec tool.Spec, waits func()) (release func(), err error) {
	if spec.Concurrency <= 0 {
		return func() {}, nil
	}
	e.mu.Lock()
	s := e.slots[spec.Name]
	if cap(s) != spec.Concurrency {
		s = make(chan struct{}, spec.Concurrency)
		e.slots[spec.Name] = s
	}
	e.mu.Unlock()
	release = func() { <-s }
	select {
	case s <- struct{}{}:
		return release, nil
	default:
	}
	waits()
	wait := timeoutOf(spec)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case s <- struct{}{}:
		return release, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, fault.New(fault.Unavailable, "tool_busy", "%s is busy: its %d places were taken for %s", spec.Name, spec.Concurrency, wait).
			WithHint("try again later").Retrying(fault.RetryBackoff, 0)
	}
}

// lock is a mutex for one intent. It supports waiting with a context, and is removed after
// its last user.
type lock struct {
	token chan struct{}
	users int
}

func contended() error {
	return fault.New(fault.Conflict, "effect_contended", "another worker is at this action").
		WithHint("wait until it is done, then read the conversation again")
}

func (e *Engine) lock(ctx context.Context, uri resource.URI) (unlock func(), err error) {
	e.mu.Lock()
	l := e.locks[uri]
	if l == nil {
		l = &lock{token: make(chan struct{}, 1)}
		e.locks[uri] = l
	}
	l.users++
	e.mu.Unlock()
	leave := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(e.locks, uri)
		}
	}
	unlock = func() { <-l.token; leave() }
	select {
	case l.token <- struct{}{}: // even if ctx has ended: a recorded result can be returned
		return unlock, nil
	default:
	}
	select {
	case l.token <- struct{}{}:
		return unlock, nil
	case <-ctx.Done():
		leave()
		return nil, contended()
	}
}
