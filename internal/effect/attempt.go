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

// retry reports whether a call that ended like this is retried, and after how long. An
// action is retried only if it certainly had no effect.
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

// sleep waits for d. It returns false if ctx ended first.
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

// progressEvery is the minimum interval between two progress reports of a tool. Of the
// reports in between, only the newest is sent, when the interval has passed.
const progressEvery = 100 * time.Millisecond

// reporter forwards a tool's progress reports, at a limited rate, until the call has
// ended.
type reporter struct {
	c    *Call
	tool string
	args []byte

	mu     sync.Mutex
	told   time.Time // when the last report was sent
	next   *tool.Progress
	due    *time.Timer // sends next; nil: nothing is pending
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

// close stops reporting: a tool that keeps running by itself is ignored from now on.
func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.due != nil {
		r.due.Stop()
	}
}
