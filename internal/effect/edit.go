package effect

import (
	"context"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/policy"
	"steward/internal/store"
	"steward/internal/tool"
)

// change replaces the arguments that were asked about with a person's own. They are
// validated and authorized like any others. If policy denies them, or someone else would
// have to be asked about them, they are refused and the question stays as it was. It
// reports whether the arguments have changed.
func (e *Engine) change(ctx context.Context, sc store.Scope, r *intentRecord, raw []byte) (edited bool, err error) {
	t, ok := e.toolOf(r.uri, &r.in)
	if !ok {
		return false, fault.New(fault.Conflict, "approval_edit_impossible", "the arguments cannot be checked: the tool %s is not available", r.in.Tool).
			WithHint("edit them while steward serve runs, or approve or deny them unchanged")
	}
	if t.Spec().Version != r.in.Version {
		return false, toolChanged(r.in.Tool)
	}
	j, err := e.toolCallOf(ctx, sc, r, t)
	if err != nil {
		return false, err
	}
	j.c.Args = raw
	if j.args, err = e.check(&j.c); err != nil {
		return false, err
	}
	if string(j.args) == r.in.Args {
		return false, nil
	}
	switch d := j.planned(ctx, true); {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case d.Verdict == policy.Deny:
		return false, fault.New(fault.Denied, "approval_edit_denied", "policy does not allow it with these arguments: %s", d.Reason).
			WithHint("choose other arguments, or approve or deny the original call")
	case d.Verdict == policy.Ask && d.Approvers != r.in.Approvers:
		return false, fault.New(fault.Denied, "approval_by_group", "these arguments require the approval of somebody else").
			Detail("approvers", d.Approvers).
			WithHint("choose other arguments, or have the action requested again")
	}
	r.in.Args, r.in.ArgsHash = string(j.args), intent.HashArgs(j.args)
	if !isSuccessor(r.uri) { // a retry keeps the key that was derived from the earlier attempt
		r.in.Key = j.key()
	}
	return true, nil
}

func toolChanged(name string) error {
	return fault.New(fault.Conflict, "approval_tool_changed", "the tool %s has changed since the question was asked", name).
		WithHint("reload the question: it is asked again when the run continues")
}

// toolCallOf returns the tool call of an intent: the waiting run's, or one rebuilt from the record.
func (e *Engine) toolCallOf(ctx context.Context, sc store.Scope, r *intentRecord, t tool.Tool) (*toolCall, error) {
	if w := e.waiter(r.uri); w != nil {
		j := *w.call
		j.c.Notify = nil
		return &j, nil
	}
	c, err := e.callOf(ctx, sc, r, t)
	if err != nil {
		return nil, err
	}
	return &toolCall{e: e, c: c, spec: c.Tool.Spec()}, nil
}

// adopt takes over an intent as it is recorded, because a person may have changed its
// arguments.
func (f *execution) adopt(k intentRecord) {
	f.intentRecord = k
	f.args = []byte(k.in.Args)
}

// restore puts the model's original arguments back if a person's approval of changed ones
// no longer counts. The question is then asked again.
func (f *execution) restore() {
	a := f.in.Approval
	if a == nil || a.Edited == "" {
		return
	}
	f.args = []byte(a.Edited)
	f.in.Args, f.in.ArgsHash = a.Edited, intent.HashArgs(f.args)
	if !isSuccessor(f.uri) {
		f.in.Key = f.key()
	}
}

// sameCall reports whether a recorded intent belongs to this call, even if a person has
// changed its arguments. A call that was rebuilt from the intent (CallOf) has arguments
// that were recorded for it at some time.
func (f *execution) sameCall() bool {
	if f.in.Tool != f.spec.Name || f.in.User != f.c.Request.User {
		return false
	}
	a, args := f.in.Approval, string(f.toolCall.args)
	return f.in.Args == args || a != nil && a.Edited == args || !f.c.at.Zero()
}
