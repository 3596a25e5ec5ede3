package effect

import (
	"context"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/policy"
	"steward/internal/store"
	"steward/internal/tool"
)

// change puts a person's own arguments in the place of those that were asked
// about: they are checked and judged like any. What policy denies, and what
// somebody else would have to be asked about, is refused, and the question
// stands as it was. It reports whether anything is otherwise.
func (e *Engine) change(ctx context.Context, sc store.Scope, r *kept, raw []byte) (edited bool, err error) {
	t, ok := e.toolOf(r.uri, &r.in)
	if !ok {
		return false, fault.New(fault.Conflict, "approval_edit_impossible", "the arguments cannot be checked: the tool %s is not there", r.in.Tool).
			With("edit them while Steward serves, or approve or deny them as they are")
	}
	if t.Spec().Version != r.in.Version {
		return false, toolChanged(r.in.Tool)
	}
	j := e.jobOf(sc, r, t)
	j.c.Args = raw
	if j.args, err = e.check(&j.c, j.spec); err != nil {
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
			With("change them otherwise, or approve or deny what was asked")
	case d.Verdict == policy.Ask && d.Approvers != r.in.Approvers:
		return false, fault.New(fault.Denied, "approval_by_group", "with these arguments, somebody else would have to be asked").
			Detail("approvers", d.Approvers).
			With("change them otherwise, or have the action asked for anew")
	}
	r.in.Args, r.in.ArgsHash = string(j.args), intent.HashArgs(j.args)
	if r.uri.Parent().Type() != TypeIntent { // what tries another one again keeps the key of that
		r.in.Key = j.key()
	}
	return true, nil
}

func toolChanged(name string) error {
	return fault.New(fault.Conflict, "approval_tool_changed", "the tool %s has changed since the question was asked", name).
		With("look at the question again: it is asked anew when the run goes on")
}

// jobOf is the job of an intent: that of the run that waits, or what is
// recorded of it.
func (e *Engine) jobOf(sc store.Scope, r *kept, t tool.Tool) *job {
	if w := e.waiter(r.uri); w != nil {
		j := *w.job
		j.c.Notify = nil
		return &j
	}
	c := Call{Name: r.in.Tool, Tool: t, Ref: r.in.Call, Message: r.uri.Parent(), Scope: sc, Agent: r.in.Agent,
		Lineage: r.in.Lineage, Labels: r.in.Labels, Attended: true,
		Flow: flowOf(&r.in)}
	c.Request.ID, c.Request.User = r.in.Request, r.in.User
	return &job{e: e, c: c, spec: t.Spec()}
}

// adopt takes an intent as it is recorded: a person may have changed its arguments.
func (f *flight) adopt(k kept) {
	f.kept = k
	f.args = []byte(k.in.Args)
}

// restore puts the arguments back that the model had given, where a person's
// approval of others no longer counts: they are asked about anew.
func (f *flight) restore() {
	a := f.in.Approval
	if a == nil || a.Edited == "" {
		return
	}
	f.args = []byte(a.Edited)
	f.in.Args, f.in.ArgsHash = a.Edited, intent.HashArgs(f.args)
	f.in.Key = f.key()
}

// sameCall reports whether a recorded intent is of this call: also when a
// person has changed its arguments.
func (f *flight) sameCall() bool {
	if f.in.Tool != f.spec.Name || f.in.User != f.c.Request.User {
		return false
	}
	a := f.in.Approval
	return f.in.Args == string(f.job.args) || a != nil && a.Edited != "" && a.Edited == string(f.job.args)
}
