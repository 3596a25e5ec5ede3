package effect

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/tool"
)

// SettleOrphaned answers a call that will not be made, with res. If an earlier run had
// recorded its intent, that is settled first and its outcome is the answer, so that an
// action that may have been done is never reported as not done.
func (e *Engine) SettleOrphaned(ctx context.Context, c Call, res *message.ToolResult, why string) (*message.ToolResult, error) {
	res, err := e.settleOrphaned(ctx, e.masked(c), res, why)
	return e.hide(res), err
}

func (e *Engine) settleOrphaned(ctx context.Context, c Call, res *message.ToolResult, why string) (*message.ToolResult, error) {
	if c.Message.Zero() {
		return res, nil
	}
	j := &job{e: e, c: c}
	if c.Tool != nil {
		j.spec = c.Tool.Spec()
	}
	r, err := e.load(context.WithoutCancel(ctx), c.Scope, j.intentURI())
	switch {
	case fault.Is(err, fault.NotFound):
		return res, nil
	case err != nil:
		return j.refused(err)
	}
	if res, err = e.drop(ctx, j, r, why, res); res == nil {
		return j.refused(err)
	}
	return res, err
}

// drop settles an action that will not be performed. If it had begun before a crash, it is
// not cancelled: settleBegun finds out what happened.
func (e *Engine) drop(ctx context.Context, j *job, r intentRecord, why string, res *message.ToolResult) (*message.ToolResult, error) {
	unlock, err := e.lock(ctx, r.uri)
	if err != nil {
		return nil, err
	}
	defer unlock()
	f := &execution{job: j, intentRecord: r}
	if f.intentRecord, err = e.load(context.WithoutCancel(ctx), j.c.Scope, r.uri); err != nil {
		return nil, err
	}
	switch {
	case f.in.State.Settled(): // settled in between
		return f.settled()
	case f.in.State == intent.Executing:
		return f.settleBegun(ctx, why, res)
	}
	out, err := f.settle(ctx, intent.Cancelled, why, res)
	if fault.HasCode(err, "conflict") {
		return nil, contended()
	}
	return out, err
}

// settleBegun settles an action that had begun and cannot be resumed.
func (f *execution) settleBegun(ctx context.Context, why string, res *message.ToolResult) (*message.ToolResult, error) {
	if f.c.Tool != nil && f.spec.Effect == tool.Query {
		return f.settle(ctx, intent.Failed, why, res)
	}
	f.adopt(f.intentRecord) // ask the receiver about the arguments that were used
	crash := errors.New("Steward stopped while it was being done, and " + why)
	happened, got, err := f.inquire(ctx)
	switch {
	case suspended(ctx):
		return f.stopped(ctx)
	case err == nil && happened:
		return f.finish(ctx, intent.Done, f.outcome(got, end{}))
	case err == nil && !f.e.isHanging(f.uri):
		return f.finish(ctx, intent.Failed, f.outcome(tool.Result{}, end{err: fmt.Errorf("it was not done: %w", crash)}))
	}
	return f.settleUnknown(ctx, crash)
}
