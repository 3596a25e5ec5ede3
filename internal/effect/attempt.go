package effect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/tool"
)

// maxTries bounds how often a retryable call is tried in total. firstBackoff is the first
// wait of a backoff; each further wait is twice as long.
const (
	maxTries     = 4
	firstBackoff = 500 * time.Millisecond
)

// asyncTimeout is the timeout of a call that may continue as a task, unless its spec sets
// one.
const asyncTimeout = time.Hour

// timeoutOf returns the timeout of a call of the tool.
func timeoutOf(spec tool.Spec) time.Duration {
	switch {
	case spec.Timeout > 0:
		return spec.Timeout
	case spec.Async || spec.AsyncAfter > 0:
		return asyncTimeout
	}
	return tool.DefaultTimeout
}

// call calls the tool, protected, and releases the slot when the tool has returned. A
// retryable failure is retried, within the timeout of one call.
func (j *toolCall) call(ctx context.Context, key string, release func()) (tool.Result, end) {
	timeout := timeoutOf(j.spec)
	over := time.Now().Add(timeout)
	for try := 1; ; try++ {
		res, how := j.try(ctx, key, timeout, release)
		if how.abandoned && j.leave != nil {
			j.leave()
		}
		wait, again := j.retry(how, try)
		if timeout = time.Until(over).Round(time.Millisecond); !again || ctx.Err() != nil || timeout <= wait {
			return res, how
		}
		j.running(fmt.Sprintf("%s; retrying%s (%d of %d)", fault.Of(how.err).Message, waitText(wait), try+1, maxTries))
		if !fault.Pause(ctx, wait) {
			return res, how
		}
		var err error
		if release, err = j.place(ctx); err != nil {
			return res, how
		}
		if timeout = time.Until(over).Round(time.Millisecond); timeout <= 0 {
			release()
			return res, how
		}
	}
}

// try calls the tool once.
func (j *toolCall) try(ctx context.Context, key string, timeout time.Duration, release func()) (tool.Result, end) {
	p := &reporter{c: &j.c, tool: j.spec.Name, args: j.args}
	defer p.close()
	return protect(ctx, j.e, j.spec.Name, timeout, func(ctx context.Context) (tool.Result, error) {
		defer release()
		in := j.invocation(key)
		in.Trace = telemetry.Traceparent(ctx, in.Trace)
		in.Progress, in.Ask, in.Generate = p.report, j.ask, j.c.Generate
		return j.c.Tool.Call(ctx, in)
	})
}

// ask implements tool.Invocation.Ask. The question has an intent of its own, beside the call's.
func (j *toolCall) ask(ctx context.Context, t tool.Tool, args []byte) (*message.ToolResult, error) {
	c, sum := j.c, sha256.Sum256(args)
	c.Name, c.Tool, c.Args, c.Room = t.Spec().Name, t, args, nil
	c.at = j.c.Message.Child(TypeIntent, fmt.Sprintf("%d-%x", c.Ref.Block, sum[:8]))
	defer j.running("")
	return j.e.Run(ctx, c)
}

// retry reports whether a call that ended like this is retried, and after how long. An
// action is retried only if it certainly had no effect.
func (j *toolCall) retry(how end, try int) (time.Duration, bool) {
	if how.err == nil || how.abandoned || try >= maxTries || j.spec.Effect != tool.Query && !tool.CertainlyNotDone(how.err) {
		return 0, false
	}
	switch e := fault.Of(how.err); e.Retry {
	case fault.RetryImmediate:
		return 0, true
	case fault.RetryBackoff:
		return firstBackoff << (try - 1), true
	case fault.RetryAfter:
		return e.After, true
	}
	return 0, false
}

func waitText(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return " in " + wait.Round(100*time.Millisecond).String()
}

// end is how a protected call ended.
type end struct {
	err       error
	abandoned bool // it did not return, and may still be working
}

// stopped reports whether a call failed because ctx ended, or because the node is closing.
func (h end) stopped(ctx context.Context) bool {
	return h.err != nil && (ctx.Err() != nil || errors.Is(h.err, request.ErrSuspend))
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
		a := answer{err: fault.New(fault.Internal, "tool_panicked", "%s exited its goroutine", what)}
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
			e.log.WarnContext(ctx, "tool call still running after its timeout", "tool", what, "hanging", e.leaked.Add(1))
			rc, _ := request.From(ctx)
			e.hung.add(rc.User, 1)
			go func() {
				<-done
				e.hung.add(rc.User, -1)
				e.log.InfoContext(ctx, "hung tool call has returned", "tool", what, "hanging", e.leaked.Add(-1))
			}()
			return a.v, end{err: context.Cause(inner), abandoned: true}
		}
	}
	if a.err != nil && inner.Err() != nil && !fault.HasCode(a.err, "tool_panicked") && !tool.CertainlyNotDone(a.err) {
		a.err = context.Cause(inner) // report why it failed rather than how
	}
	return a.v, end{err: a.err}
}

// place waits for one of the tool's slots, at most for the timeout of a call, because a
// tool whose calls all hang must not block further calls forever. Then it waits for
// Call.Room. A call that may continue as a task is reported as running while it waits.
func (j *toolCall) place(ctx context.Context) (release func(), err error) {
	release = func() {}
	if n := j.spec.Concurrency; n > 0 {
		wait := timeoutOf(j.spec)
		bounded, cancel := context.WithTimeoutCause(ctx, wait, fault.New(fault.Unavailable, "tool_busy", "%s is busy: all its %d slots were taken for %s", j.spec.Name, n, wait).
			WithHint("try again later").Retrying(fault.RetryBackoff, 0))
		defer cancel()
		release, err = j.e.acquireSlot(bounded, fmt.Sprintf("%s/%d", j.spec.Name, n), n, func() {
			if j.spec.Async || j.spec.AsyncAfter > 0 {
				j.running("waiting for another call of the tool to end")
			}
		})
	}
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

// gate lets a number of calls through at a time.
type gate struct {
	places chan struct{}
	users  int // calls that are in or wait; the last one removes the gate
}

// acquireSlot waits for a place at a gate, until ctx ends. It calls waits if it has to wait.
func (e *Engine) acquireSlot(ctx context.Context, name string, places int, waits func()) (leave func(), err error) {
	e.mu.Lock()
	g := e.gates[name]
	if g == nil {
		g = &gate{places: make(chan struct{}, places)}
		e.gates[name] = g
	}
	g.users++
	e.mu.Unlock()
	forget := func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if g.users--; g.users == 0 {
			delete(e.gates, name)
		}
	}
	leave = func() { <-g.places; forget() }
	select {
	case g.places <- struct{}{}: // even if ctx has ended: a recorded result can be returned
		return leave, nil
	default:
	}
	if waits != nil {
		waits()
	}
	select {
	case g.places <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
}

// progressEvery is the minimum interval between two progress reports of a tool. Of the
// reports in between, only the newest is sent, when the interval has passed.
const progressEvery = 100 * time.Millisecond

// reporter forwards a tool's progress reports, at a limited rate, until the call has
// ended.
type reporter struct {
	c    *Call
	tool string
	args []byte

	mu         sync.Mutex
	lastReport time.Time // when the last report was sent
	next       *tool.Progress
	due        *time.Timer // sends next; nil: nothing is pending
	closed     bool
}

// report implements tool.Invocation.Progress.
func (r *reporter) report(p tool.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.c.Notify == nil {
		return
	}
	if wait := progressEvery - time.Since(r.lastReport); !r.lastReport.IsZero() && wait > 0 {
		r.next = &p
		if r.due == nil {
			r.due = time.AfterFunc(wait, r.late)
		}
		return
	}
	r.emit(p)
}

// late sends the pending report.
func (r *reporter) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = nil
	if r.closed || r.next == nil {
		return
	}
	p := *r.next
	r.next = nil
	r.emit(p)
}

func (r *reporter) emit(p tool.Progress) {
	r.lastReport = time.Now()
	if math.IsNaN(p.Fraction) || p.Fraction < 0 {
		p.Fraction = -1
	}
	const most = 500
	if len(p.Message) > most {
		p.Message = cut(p.Message, most) + "…"
	}
	r.c.notify(Progress{Status: Running, Tool: r.tool, Args: r.args, Message: p.Message, Fraction: min(p.Fraction, 1)})
}

// close stops reporting: a tool that keeps running by itself is ignored from now on.
func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.due != nil {
		r.due.Stop()
	}
}
