package effect

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/tool"
)

// recover resumes an execution that a crash interrupted, or whose outcome could not be
// recorded.
func (f *execution) recover(ctx context.Context) (*message.ToolResult, error) {
	_, hangs := f.e.hanging.Load(f.uri)
	why := errors.New("the process ended during execution")
	switch {
	case f.spec.Effect == tool.Query && f.dropped != nil:
		return f.settle(ctx, intent.Failed, f.dropped.why, f.dropped.res)
	case f.spec.Effect == tool.Query:
		return f.again(ctx)
	case f.dropped != nil:
		why = errors.New("Steward stopped during execution, and " + f.dropped.why)
	case hangs:
		why = errors.New("it did not finish in time")
	}
	return f.determineOutcome(ctx, why, hangs, true)
}

// determineOutcome handles an execution that ended without saying whether the effect happened, for
// the reason why. It asks the receiver. If the effect did not happen, it fails, or is done
// now if a crash had interrupted it. If the receiver cannot say, the effect is repeated if
// the receiver deduplicates, and its outcome is unknown otherwise. While a call of it hangs,
// a receiver's "not done" may still become untrue.
func (f *execution) determineOutcome(ctx context.Context, why error, hangs, crashed bool) (*message.ToolResult, error) {
	if suspended(ctx) { // the next start finds it executing
		return f.stopped(ctx)
	}
	happened, res, err := f.inquire(ctx)
	repeatable := f.dropped == nil && ctx.Err() == nil && f.in.Version == f.spec.Version && f.in.Attempts < maxAttempts && f.repeats < maxRepeats
	undone := err == nil && !happened && !hangs
	switch {
	case suspended(ctx):
		return f.stopped(ctx)
	case err == nil && happened:
		return f.finish(ctx, intent.Done, f.outcome(res, end{}))
	case repeatable && undone && crashed, repeatable && !undone && f.spec.Dedupes:
		f.repeats++
		f.maybeDone = !undone
		return f.again(ctx)
	case undone:
		return f.finish(ctx, intent.Failed, f.outcome(tool.Result{}, end{err: fmt.Errorf("it was not done: %w", why)}))
	}
	return f.settleUnknown(ctx, why)
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
	_, how := protect(context.WithoutCancel(ctx), f.e, f.spec.Name, timeout, func(ctx context.Context) (struct{}, error) {
		var err error
		happened, res, err = s.Settle(ctx, f.invocation(f.in.Key))
		return struct{}{}, err
	})
	if how.err != nil { // an abandoned call may still write to the results: do not read them
		f.e.log.WarnContext(ctx, "cannot determine whether an effect happened", "tool", f.spec.Name, "error", how.err)
		return false, tool.Result{}, how.err
	}
	return happened, res, nil
}

// settleUnknown records that the outcome of the effect is unknown.
func (f *execution) settleUnknown(ctx context.Context, why error) (*message.ToolResult, error) {
	f.e.log.WarnContext(ctx, "outcome of an effect unknown", "tool", f.spec.Name, "intent", f.uri.String(), "error", why)
	res := f.c.result(message.UnknownEnd, "The outcome is unknown: "+why.Error()+". Do not repeat it. "+
		"Tell the user that it may or may not have happened, and that they should check.")
	labelled(res, f.spec.Yields) // why may quote the tool
	return f.settle(ctx, intent.Unknown, why.Error(), res)
}
