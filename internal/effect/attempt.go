package effect

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/tool"
)

// How often a call that says that it may be tried again is tried, in all, and
// how long the first wait of a backoff is; each further one is twice as long.
const (
	maxTries     = 4
	firstBackoff = 500 * time.Millisecond
)

// asyncTimeout bounds a call that may go on as a task, unless its spec has a
// bound of its own.
const asyncTimeout = time.Hour

// timeoutOf is how long a call of the tool may take.
func timeoutOf(spec tool.Spec) time.Duration {
	switch {
	case spec.Timeout > 0:
		return spec.Timeout
	case spec.Async || spec.AsyncAfter > 0:
		return asyncTimeout
	}
	return tool.DefaultTimeout
}

// call calls the tool, protected, and gives the slot back when it has
// returned. A call that failed and may be tried again is, within the time that
// one call has.
func (j *job) call(ctx context.Context, key string, release func()) (tool.Result, end) {
	timeout := timeoutOf(j.spec)
	over := time.Now().Add(timeout)
	ctx = withScope(ctx, j.c.Scope)
	for try := 1; ; try++ {
		res, how := j.try(ctx, key, timeout, release)
		if how.abandoned && j.leave != nil {
			j.leave()
		}
		wait, again := j.retry(how, try)
		if timeout = time.Until(over).Round(time.Millisecond); !again || ctx.Err() != nil || timeout <= wait {
			return res, how
		}
		j.c.notify(Progress{Status: Running, Tool: j.spec.Name, Args: j.args, Fraction: -1, Message: fmt.Sprintf(
			"%s; trying again%s (%d of %d)", fault.Of(how.err).Message, inWords(wait), try+1, maxTries)})
		if !sleep(ctx, wait) {
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
func (j *job) try(ctx context.Context, key string, timeout time.Duration, release func()) (tool.Result, end) {
	p := &reporter{c: &j.c, tool: j.spec.Name, args: j.args}
	defer p.close()
	return protect(ctx, j.e, j.spec.Name, timeout, func(ctx context.Context) (tool.Result, error) {
		defer release()
		in := j.invocation(key)
		in.Progress = p.report
		return j.c.Tool.Call(ctx, in)
	})
}

// retry tells whether a call that ended so is to be tried again, and after
// how long. An action is only where it certainly did nothing.
func (j *job) retry(how end, try int) (time.Duration, bool) {
	if how.err == nil || how.abandoned || try >= maxTries || j.spec.Effect != tool.Query && !tool.Certain(how.err) {
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

func inWords(wait time.Duration) string {
	if wait <= 0 {
		return ""
	}
	return " in " + wait.Round(100*time.Millisecond).String()
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// progressEvery is how often a tool's progress is told at most; what comes
// sooner is told when it is due, the newest only.
const progressEvery = 100 * time.Millisecond

// reporter tells of a tool's progress, as often as is good, until the call has
// ended.
type reporter struct {
	c    *Call
	tool string
	args []byte

	mu     sync.Mutex
	told   time.Time // when the last was
	next   *tool.Progress
	due    *time.Timer // tells next; nil: none waits
	closed bool
}

// report implements tool.Invocation.Progress.
func (r *reporter) report(p tool.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.c.Notify == nil {
		return
	}
	if wait := progressEvery - time.Since(r.told); !r.told.IsZero() && wait > 0 {
		r.next = &p
		if r.due == nil {
			r.due = time.AfterFunc(wait, r.late)
		}
		return
	}
	r.tell(p)
}

// late tells what came too soon after another one.
func (r *reporter) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due = nil
	if r.closed || r.next == nil {
		return
	}
	p := *r.next
	r.next = nil
	r.tell(p)
}

func (r *reporter) tell(p tool.Progress) {
	r.told = time.Now()
	if math.IsNaN(p.Fraction) || p.Fraction < 0 {
		p.Fraction = -1
	}
	const most = 500
	if len(p.Message) > most {
		p.Message = cut(p.Message, most) + "…"
	}
	r.c.notify(Progress{Status: Running, Tool: r.tool, Args: r.args, Message: p.Message, Fraction: min(p.Fraction, 1)})
}

// close ends it: a tool that goes on by itself is not heard any more.
func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.due != nil {
		r.due.Stop()
	}
}
