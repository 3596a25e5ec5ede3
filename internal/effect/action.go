package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// How often one effect is started: over all lives of the process, so that one
// that brings it down does not do so for ever, and in one go.
const (
	maxAttempts = 10
	maxRepeats  = 2
)

// kept is an intent as the store holds it.
type kept struct {
	uri     resource.URI
	version uint64
	in      intent.Intent
}

// flight is an action on its way through its intent.
type flight struct {
	*job
	kept
	found   bool // it was recorded before this call of Run: its state is another run's
	repeats int  // of the effect, in this call of Run
}

// action takes a call through its intent to a settled state.
func (j *job) action(ctx context.Context) (*message.ToolResult, error) {
	uri := IntentURI(j.c.Message, j.c.Ref.Block)
	unlock, err := j.e.lock(ctx, uri)
	if err != nil {
		return j.refused(err)
	}
	defer unlock()
	f := &flight{job: j}
	f.kept, err = j.e.load(context.WithoutCancel(ctx), j.c.Scope, uri)
	switch {
	case err == nil:
		f.found = true
	case fault.Is(err, fault.NotFound):
		if ctx.Err() != nil {
			return j.stopped(ctx)
		}
		err = f.propose(ctx, uri)
	}
	if err != nil {
		return f.refused(err)
	}
	if f.in.Tool != j.spec.Name || f.in.Args != string(j.args) || f.in.User != j.c.Request.User {
		return f.refused(fault.New(fault.Conflict, "intent_mismatch", "another action is recorded for this call: %s of %s", f.in.Tool, f.in.User))
	}
	return f.fly(ctx)
}

// refused is the answer when the record cannot be kept: nothing can go on.
func (j *job) refused(err error) (*message.ToolResult, error) {
	return j.c.told(message.Failed, "The action could not be recorded: "+err.Error()), err
}

// fly goes from state to state until the intent is settled or queued. When
// somebody else (a person's decision) has changed it meanwhile, it looks again.
func (f *flight) fly(ctx context.Context) (*message.ToolResult, error) {
	for {
		res, err := f.next(ctx)
		switch {
		case res != nil:
			return res, err
		case err == nil:
			continue
		case !fault.HasCode(err, "conflict"):
			return f.refused(err)
		}
		was := f.version
		if f.kept, err = f.e.load(context.WithoutCancel(ctx), f.c.Scope, f.uri); err != nil {
			return f.refused(err)
		}
		if f.version == was || f.in.State == intent.Executing {
			return f.refused(contended())
		}
	}
}

// next does what the state asks for. A nil result means: look at the state again.
func (f *flight) next(ctx context.Context) (*message.ToolResult, error) {
	open := f.in.State.InFlight() && f.in.State != intent.Executing
	if open && ctx.Err() != nil {
		return f.withdraw(ctx)
	}
	if open && f.found {
		f.found = false
		if settled, err := f.rejudge(ctx); settled != nil || err != nil {
			return settled, err
		}
	}
	switch f.in.State {
	case intent.Proposed:
		return f.decide(ctx)
	case intent.Awaiting:
		return f.await(ctx)
	case intent.Approved:
		if f.deferred() && !f.last {
			return f.queued(), nil
		}
		return f.begin(ctx)
	case intent.Executing:
		return f.recover(ctx)
	}
	return f.settled()
}

// propose records the intent, not yet judged.
func (f *flight) propose(ctx context.Context, uri resource.URI) error {
	f.kept = kept{uri: uri, in: intent.Intent{
		Key: f.key(), Tool: f.spec.Name, Version: f.spec.Version,
		Args: string(f.args), ArgsHash: intent.HashArgs(f.args), Call: f.c.Ref,
		User: f.c.Request.User, Agent: f.c.Agent, Request: f.c.Request.ID, Deferred: f.deferred(),
		State: intent.Proposed, Created: time.Now().UTC().Truncate(time.Microsecond),
	}}
	return f.commit(ctx, store.If{Absent: true})
}

// decide judges a proposed intent.
func (f *flight) decide(ctx context.Context) (*message.ToolResult, error) {
	d := f.judge(ctx, f.c.Attended)
	if ctx.Err() != nil {
		return f.withdraw(ctx)
	}
	f.in.Version = f.spec.Version // what is judged now is what was proposed, by its current definition
	switch {
	case d.Verdict == policy.Deny:
		return f.settle(ctx, intent.Denied, d.Reason, f.c.denied(d.Reason))
	case d.Verdict == policy.Ask:
		return nil, f.ask(ctx, d.Reason)
	case f.deferred():
		f.in.Reason = d.Reason
		return nil, f.step(ctx, intent.Approved)
	}
	return f.begin(ctx)
}

// rejudge looks again at what an earlier run had left: what policy has come to
// deny is denied, an approval that no longer covers it is void, and a question
// is put anew, since nobody could answer it.
func (f *flight) rejudge(ctx context.Context) (*message.ToolResult, error) {
	if f.in.State == intent.Proposed {
		return nil, nil
	}
	d := f.judge(ctx, true) // a person was there to be asked, or had answered
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case d.Verdict == policy.Deny:
		return f.settle(ctx, intent.Denied, d.Reason, f.c.denied(d.Reason))
	case f.in.State == intent.Awaiting && f.last && time.Now().Before(f.in.Expires):
		return nil, nil // it has stood all along
	case f.in.State == intent.Awaiting:
		return nil, f.ask(ctx, f.in.Reason)
	case d.Verdict == policy.Ask && f.in.Approval == nil:
		return nil, f.ask(ctx, d.Reason)
	case f.in.Approval == nil:
		f.in.Version = f.spec.Version // policy allows it as it is now
	}
	return nil, nil
}

// begin starts the execution: the approval is verified once more and consumed
// in the commit that says so.
func (f *flight) begin(ctx context.Context) (*message.ToolResult, error) {
	if why := f.lapsed(); why != "" {
		return nil, f.ask(ctx, why)
	}
	release, err := f.e.slot(ctx, f.spec)
	if err != nil {
		if ctx.Err() != nil {
			return f.withdraw(ctx)
		}
		return f.settle(ctx, intent.Cancelled, err.Error(), f.c.told(message.Unavailable, "Not done: "+err.Error()))
	}
	return f.execute(ctx, release)
}

// lapsed tells why the approval does not cover what is about to be done, or
// nothing when it does, or when policy asked for none.
func (f *flight) lapsed() string {
	a := f.in.Approval
	now := f.c.Tool.Spec()
	switch {
	case a == nil && f.in.Version == now.Version:
		return ""
	case f.in.Version != now.Version, a.Version != now.Version:
		return "the tool has changed since it was approved"
	case a.ArgsHash != f.in.ArgsHash, a.ArgsHash != intent.HashArgs(f.args):
		return "what was approved is not what would be done"
	case !time.Now().Before(a.Expires):
		return "the approval has expired"
	}
	return ""
}

// execute starts the effect, once, and settles it. It owns the slot.
func (f *flight) execute(ctx context.Context, release func()) (*message.ToolResult, error) {
	f.in.Attempts++
	if err := f.step(ctx, intent.Executing); err != nil {
		release()
		return nil, err
	}
	f.c.notify(Progress{Status: Running, Tool: f.spec.Name, Args: f.args})
	res, how := f.call(ctx, f.in.Key, release)
	switch {
	case how.err == nil && res.Failed:
		return f.finish(ctx, intent.Failed, f.outcome(res, how))
	case how.err == nil:
		return f.finish(ctx, intent.Done, f.outcome(res, how))
	case f.spec.Effect == tool.Query && ctx.Err() != nil:
		return f.halted(ctx)
	case f.spec.Effect == tool.Query || tool.Certain(how.err) && !how.abandoned:
		return f.finish(ctx, intent.Failed, f.outcome(res, how))
	}
	return f.doubtful(ctx, how)
}

// halted settles a query that was stopped while it ran.
func (f *flight) halted(ctx context.Context) (*message.ToolResult, error) {
	res, err := f.stopped(ctx)
	if err != nil {
		return res, err
	}
	return f.settle(ctx, intent.Failed, "stopped", res)
}

// doubtful settles an execution that ended without saying whether the effect
// happened.
func (f *flight) doubtful(ctx context.Context, how end) (*message.ToolResult, error) {
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
		return f.again(ctx)
	}
	return f.park(ctx, how.err)
}

// recover goes on with an execution that a crash interrupted.
func (f *flight) recover(ctx context.Context) (*message.ToolResult, error) {
	crash := errors.New("the process ended while it was being done")
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
	case err == nil && (!same || ctx.Err() != nil):
		return f.finish(ctx, intent.Failed, f.outcome(tool.Result{}, end{err: fmt.Errorf("it was not done: %w", crash)}))
	case err == nil || f.spec.Dedupes && same && ctx.Err() == nil:
		return f.again(ctx)
	}
	return f.park(ctx, crash)
}

// again starts the effect once more under the same key.
func (f *flight) again(ctx context.Context) (*message.ToolResult, error) {
	release, err := f.e.slot(ctx, f.spec)
	if err != nil {
		if suspended(ctx) {
			return f.stopped(ctx)
		}
		return f.park(ctx, err)
	}
	return f.execute(ctx, release)
}

var errNoSettler = errors.New("the receiver cannot be asked")

// inquire asks the receiver whether the effect happened, also when the run was
// stopped meanwhile.
func (f *flight) inquire(ctx context.Context) (happened bool, res tool.Result, err error) {
	s, ok := tool.SettlerOf(f.c.Tool)
	if !ok {
		return false, res, errNoSettler
	}
	timeout := f.spec.Timeout
	if timeout == 0 {
		timeout = tool.DefaultTimeout
	}
	ctx = withScope(context.WithoutCancel(ctx), f.c.Scope)
	_, how := protect(ctx, f.e, f.spec.Name, timeout, func(ctx context.Context) (struct{}, error) {
		var err error
		happened, res, err = s.Settle(ctx, f.invocation(f.in.Key))
		return struct{}{}, err
	})
	if how.err != nil { // an abandoned call may still write to the results: they are not looked at
		f.e.log.WarnContext(ctx, "whether an effect happened could not be found out", "tool", f.spec.Name, "error", how.err)
		return false, tool.Result{}, how.err
	}
	return happened, res, nil
}

// park records that nobody knows whether the effect happened.
func (f *flight) park(ctx context.Context, why error) (*message.ToolResult, error) {
	f.e.log.WarnContext(ctx, "nobody knows whether an effect happened", "tool", f.spec.Name, "intent", f.uri.String(), "error", why)
	return f.settle(ctx, intent.Unknown, why.Error(), f.c.told(message.UnknownEnd,
		"It is not known whether this was done: "+why.Error()+". Do not do it again. "+
			"Tell the user that it may or may not have happened, and that they should look."))
}

// withdraw cancels what has not begun, unless the node is only closing.
func (f *flight) withdraw(ctx context.Context) (*message.ToolResult, error) {
	res, err := f.stopped(ctx)
	if err != nil {
		return res, err
	}
	return f.settle(ctx, intent.Cancelled, "stopped", res)
}

func (f *flight) queued() *message.ToolResult {
	text := "Queued: it is done when this turn ends. Do not ask for it again."
	if f.in.State == intent.Awaiting {
		text = "Queued: it is done when this turn ends, if the user approves it. Do not ask for it again."
	}
	return f.c.told(message.Queued, text)
}

// settled is the recorded result.
func (f *flight) settled() (*message.ToolResult, error) {
	if f.in.Result == nil { // settled by a decision, without a run that saw it
		return f.verdict(), nil
	}
	res, err := decodeResult(f.in.Result)
	if err != nil {
		return f.refused(err)
	}
	return res, nil
}

// verdict is the result that follows from the state alone.
func (f *flight) verdict() *message.ToolResult {
	switch f.in.State {
	case intent.Denied:
		return f.c.denied(f.in.Reason)
	case intent.Expired:
		return f.c.told(message.DeniedCall, "Not done: nobody answered in time whether it may be done.")
	case intent.Cancelled:
		return f.c.told(message.Interrupted, "Not done: "+f.in.Reason)
	}
	return f.c.told(message.UnknownEnd, "It is not recorded what became of this.")
}
