package effect

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/tool"
)

// execute starts the effect once and settles the intent. It owns the slot, which release
// gives back.
func (f *execution) execute(ctx context.Context, release func()) (*message.ToolResult, error) {
	f.in.Attempts++
	if err := f.step(ctx, intent.Executing, f.checks...); err != nil {
		release()
		return nil, err
	}
	f.c.notify(Progress{Status: Running, Tool: f.spec.Name, Args: f.args})
	res, how := f.call(ctx, f.in.Key, release)
	return f.ended(ctx, res, how)
}

// ended settles an execution according to how its call ended.
func (f *execution) ended(ctx context.Context, res tool.Result, how end) (*message.ToolResult, error) {
	if how.abandoned {
		f.e.markHanging(f.uri)
	}
	switch {
	case how.err == nil && res.Failed:
		return f.finish(ctx, intent.Failed, f.outcome(res, how))
	case how.err == nil:
		return f.finish(ctx, intent.Done, f.outcome(res, how))
	case f.spec.Effect == tool.Query && errors.Is(how.err, request.ErrSuspend): // the next start finds it executing
		return f.aside()
	case f.spec.Effect == tool.Query && ctx.Err() != nil:
		return f.halted(ctx, f.shown(res, how))
	case f.spec.Effect == tool.Query || tool.Certain(how.err) && !how.abandoned && !f.doubt:
		return f.finish(ctx, intent.Failed, f.outcome(res, how))
	}
	return f.doubtful(ctx, how)
}

// halted settles a query that was stopped while it ran.
func (f *execution) halted(ctx context.Context, shown message.Labels) (*message.ToolResult, error) {
	res, err := f.stopped(ctx)
	if err != nil {
		return res, err
	}
	labelled(res, shown)
	return f.settle(ctx, intent.Failed, "stopped", res)
}

// doubtful handles an execution that ended without saying whether the effect happened: it
// asks the receiver, repeats the effect if the receiver deduplicates, or settles it as
// unknown.
func (f *execution) doubtful(ctx context.Context, how end) (*message.ToolResult, error) {
	if suspended(ctx) { // the next start finds it executing
		return f.stopped(ctx)
	}
	happened, res, err := f.inquire(ctx)
	switch {
	case err == nil && happened:
		return f.finish(ctx, intent.Done, f.outcome(res, end{}))
	case err == nil && !how.abandoned:
		return f.finish(ctx, intent.Failed, f.outcome(tool.Result{}, end{err: fmt.Errorf("it was not done: %w", how.err)}))
	case f.spec.Dedupes && ctx.Err() == nil && f.repeats < maxRepeats && f.in.Attempts < maxAttempts:
		f.repeats++
		f.doubt = true
		return f.again(ctx)
	}
	return f.settleUnknown(ctx, how.err)
}

// recover resumes an execution that a crash interrupted, or whose outcome could not be
// recorded.
func (f *execution) recover(ctx context.Context) (*message.ToolResult, error) {
	crash := errors.New("the process ended while it was being done")
	hangs := f.e.isHanging(f.uri) // the receiver's "not done" may still become untrue
	if hangs {
		crash = errors.New("it did not end in time")
	}
	if f.spec.Effect == tool.Query {
		return f.again(ctx)
	}
	happened, res, err := f.inquire(ctx)
	same := f.in.Version == f.spec.Version && f.in.Attempts < maxAttempts
	switch {
	case suspended(ctx):
		return f.stopped(ctx)
	case err == nil && happened:
		return f.finish(ctx, intent.Done, f.outcome(res, end{}))
	case err == nil && !hangs && (!same || ctx.Err() != nil):
		return f.finish(ctx, intent.Failed, f.outcome(tool.Result{}, end{err: fmt.Errorf("it was not done: %w", crash)}))
	case err == nil && !hangs || f.spec.Dedupes && same && ctx.Err() == nil:
		f.doubt = err != nil || hangs
		return f.again(ctx)
	}
	return f.settleUnknown(ctx, crash)
}

// again starts the effect once more under the same idempotency key.
func (f *execution) again(ctx context.Context) (*message.ToolResult, error) {
	release, err := f.place(ctx)
	if err != nil {
		if suspended(ctx) {
			return f.stopped(ctx)
		}
		return f.settleUnknown(ctx, err)
	}
	return f.execute(ctx, release)
}

var errNoSettler = errors.New("the receiver cannot be asked")

// inquire asks the receiver whether the effect happened. It does so even if the run was
// stopped in between.
func (f *execution) inquire(ctx context.Context) (happened bool, res tool.Result, err error) {
	s, ok := tool.SettlerOf(f.c.Tool)
	if !ok {
		return false, res, errNoSettler
	}
	timeout := f.spec.Timeout
	if timeout == 0 {
		timeout = tool.DefaultTimeout // for the inquiry, however long the effect itself may take
	}
	ctx = withScope(context.WithoutCancel(ctx), f.c.Scope)
	_, how := protect(ctx, f.e, f.spec.Name, timeout, func(ctx context.Context) (struct{}, error) {
		var err error
		happened, res, err = s.Settle(ctx, f.invocation(f.in.Key))
		return struct{}{}, err
	})
	if how.err != nil { // an abandoned call may still write to the results: do not read them
		f.e.log.WarnContext(ctx, "whether an effect happened could not be found out", "tool", f.spec.Name, "error", how.err)
		return false, tool.Result{}, how.err
	}
	return happened, res, nil
}

// settleUnknown records that nobody knows whether the effect happened.
func (f *execution) settleUnknown(ctx context.Context, why error) (*message.ToolResult, error) {
	f.e.log.WarnContext(ctx, "nobody knows whether an effect happened", "tool", f.spec.Name, "intent", f.uri.String(), "error", why)
	res := f.c.told(message.UnknownEnd, "It is not known whether this was done: "+why.Error()+". Do not do it again. "+
		"Tell the user that it may or may not have happened, and that they should look.")
	labelled(res, f.spec.Yields) // why may quote the tool
	return f.settle(ctx, intent.Unknown, why.Error(), res)
}
