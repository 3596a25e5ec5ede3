package effect

import (
	"context"
	"errors"
	"time"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
)

// These bound how often one effect is started: maxAttempts over all lives of the process,
// so that an effect that crashes it does not do so forever; maxRepeats within one call of
// Run.
const (
	maxAttempts = 10
	maxRepeats  = 2
)

// intentRecord is an intent as the store holds it.
type intentRecord struct {
	uri     resource.URI
	version uint64
	in      intent.Intent
}

// execution takes an action through the states of its intent.
type execution struct {
	*job
	intentRecord
	found   bool // the intent was recorded before this call of Run: its state comes from another run
	judged  bool // the intent was authorized just now
	hold    bool // it is to begin together with others, so it stops just before
	ready   bool // it has stopped there
	repeats int  // of the effect, in this call of Run
	doubt   bool // an earlier attempt may have done it, so the failure of a later one proves nothing

	checks []store.Change // preconditions of the commit that begins it: the grant that covers it
}

// action takes a call through its intent to a settled or queued state.
func (j *job) action(ctx context.Context) (*message.ToolResult, error) {
	if err := j.inRun(ctx); err != nil {
		return j.refused(err)
	}
	f, unlock, err := j.openIntent(ctx)
	if unlock != nil {
		defer unlock()
	}
	switch {
	case err == nil:
		return f.advance(ctx)
	case fault.Is(err, fault.NotFound) && ctx.Err() != nil:
		return j.stopped(ctx)
	}
	return j.refused(err)
}

// inRun refuses an action that belongs to no run, because nothing would account for its
// effect. This is a bug in the calling program, so it is logged as an error.
func (j *job) inRun(ctx context.Context) error {
	own, there := request.From(ctx)
	why := ""
	switch c := &j.c; {
	case c.Request.ID.Zero():
		why = "it belongs to no request"
	case there && own.ID != c.Request.ID:
		why = "it belongs to another request than the one that is being worked on"
	case c.Ref.Message.Zero() || c.Message.Zero() || c.Message.ID() != c.Ref.Message.String():
		why = "it belongs to no message"
	default:
		return nil
	}
	j.e.log.ErrorContext(ctx, "AN ACTION WAS ASKED FOR OUTSIDE OF ANY RUN: it is refused", "tool", j.spec.Name, "why", why,
		"message", j.c.Message.String(), "user", j.c.Request.User, "code", "intent_outside_run")
	return fault.New(fault.Internal, "intent_outside_run", "an action of %s was asked for outside of any run: %s", j.spec.Name, why).
		WithHint("actions are asked for in turns and in calls from outside; tell whoever wrote the program")
}

// openIntent locks and loads the call's intent, or records it if there is none.
func (j *job) openIntent(ctx context.Context) (*execution, func(), error) {
	uri := j.intentURI()
	unlock, err := j.e.lock(ctx, uri)
	if err != nil {
		return nil, nil, err
	}
	f := &execution{job: j}
	f.intentRecord, err = j.e.load(context.WithoutCancel(ctx), j.c.Scope, uri)
	switch {
	case err == nil:
		f.found = true
		f.addObligations(policy.Obligations{Mask: f.in.Mask, Cap: f.in.Cap})
	case fault.Is(err, fault.NotFound) && ctx.Err() == nil:
		err = f.propose(ctx, uri)
	}
	if err == nil && !f.sameCall() {
		err = fault.New(fault.Conflict, "intent_mismatch", "another action is recorded for this call: %s of %s", f.in.Tool, f.in.User)
	}
	if err == nil {
		f.adopt(f.intentRecord)
	}
	return f, unlock, err
}

// refused returns the result for a record that cannot be written or read: the run cannot
// continue.
func (j *job) refused(err error) (*message.ToolResult, error) {
	return j.c.told(message.Failed, "The action could not be recorded: "+err.Error()), err
}

// advance moves from state to state until the intent is settled or queued. If someone else
// (a person's decision) has changed the intent in between, it reloads it. If it returns
// neither a result nor an error, the action is ready to begin and is held.
func (f *execution) advance(ctx context.Context) (*message.ToolResult, error) {
	for {
		res, err := f.next(ctx)
		switch {
		case res != nil || f.ready:
			return res, err
		case err == nil:
			continue
		case errors.Is(err, errAsks):
			return nil, err
		case !fault.HasCode(err, "conflict"):
			return f.refused(err)
		}
		was, lost := f.version, f.lostGrant(err)
		now, err := f.e.load(context.WithoutCancel(ctx), f.c.Scope, f.uri)
		if err != nil {
			return f.refused(err)
		}
		f.adopt(now)
		f.judged = false
		if f.version == was && !lost || f.in.State == intent.Executing {
			return f.refused(contended())
		}
	}
}

// next performs the step that the current state requires. A nil result means: look at the
// state again.
func (f *execution) next(ctx context.Context) (*message.ToolResult, error) {
	if f.in.State.InFlight() && f.in.State != intent.Executing && ctx.Err() != nil {
		return f.cancel(ctx)
	}
	found := f.found
	f.found = false
	switch f.in.State {
	case intent.Proposed:
		return f.decide(ctx)
	case intent.Awaiting:
		if f.hold {
			return nil, errAsks
		}
		if found {
			if res, err := f.reask(ctx); res != nil || err != nil {
				return res, err
			}
		}
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

// propose records the intent, before it is authorized.
func (f *execution) propose(ctx context.Context, uri resource.URI) error {
	f.intentRecord = f.draft(uri)
	return f.commit(ctx, store.If{Absent: true})
}

// draft returns the call's intent, before it is authorized.
func (j *job) draft(uri resource.URI) intentRecord {
	return intentRecord{uri: uri, in: intent.Intent{
		Key: j.key(), Tool: j.spec.Name, Version: j.spec.Version,
		Args: string(j.args), ArgsHash: intent.HashArgs(j.args), Call: j.c.Ref,
		User: j.c.Request.User, Agent: j.c.Agent, Request: j.c.Request.ID, Deferred: j.deferred(),
		Lineage: j.c.Lineage, Labels: j.c.Labels, Fixed: j.c.Flow.Fixed, Open: j.c.Flow.Open,
		State: intent.Proposed, Created: time.Now().UTC().Truncate(time.Microsecond),
	}}
}

// decide authorizes a proposed intent.
func (f *execution) decide(ctx context.Context) (*message.ToolResult, error) {
	f.in.Version = f.spec.Version // authorize it by the tool's current definition
	d, a := f.authorize(ctx)
	if ctx.Err() != nil {
		return f.cancel(ctx)
	}
	f.noteDecision(d)
	f.judged = true
	switch {
	case d.Verdict == policy.Deny:
		return f.settle(ctx, intent.Denied, d.Reason, f.c.denied(d.Reason))
	case a != nil:
		f.in.Approval, f.in.Reason = a, d.Reason
		return nil, f.step(ctx, intent.Approved)
	case d.Verdict == policy.Ask:
		return nil, f.ask(ctx, d.Reason)
	case f.deferred():
		f.in.Reason = d.Reason
		return nil, f.step(ctx, intent.Approved)
	}
	return f.begin(ctx)
}

// noteDecision copies a decision, apart from its verdict, to the intent.
func (f *execution) noteDecision(d policy.Decision) {
	f.in.Rule, f.in.Policy = d.Rule, d.Version
	if d.Verdict == policy.Ask {
		f.in.Approvers = d.Approvers
	}
	f.addObligations(d.Obligations)
	f.in.Mask, f.in.Cap = f.job.obligations.Mask, f.job.obligations.Cap
}

// reask re-evaluates a question that an earlier run left open. If policy now denies the
// action, it is denied. If the question is still valid, the run waits for it. If it
// expired while nobody could answer it, it is asked again.
func (f *execution) reask(ctx context.Context) (*message.ToolResult, error) {
	d := f.planned(ctx, true) // a person was there when it was asked
	switch {
	case ctx.Err() != nil:
		return f.cancel(ctx)
	case d.Verdict == policy.Deny:
		f.noteDecision(d)
		return f.settle(ctx, intent.Denied, d.Reason, f.c.denied(d.Reason))
	case time.Now().Before(f.in.Expires) && f.in.Version == f.spec.Version && (d.Verdict != policy.Ask || d.Approvers == f.in.Approvers):
		return nil, nil
	case d.Verdict == policy.Ask:
		f.noteDecision(d)
	}
	return nil, f.ask(ctx, f.in.Reason)
}

// begin starts the execution. If time has passed since the intent was authorized, policy
// is asked again: it may now deny the action or require a question. The approval is
// verified, and is consumed in the same commit that records the start.
func (f *execution) begin(ctx context.Context) (*message.ToolResult, error) {
	if !f.judged {
		d := f.askPolicy(ctx, policy.PointIntent, f.c.Attended || f.in.Approval != nil)
		covered := f.in.Approval != nil && (d.Approvers == f.in.Approvers || d.Approvers == "")
		switch {
		case ctx.Err() != nil:
			return f.cancel(ctx)
		case d.Verdict == policy.Deny:
			f.noteDecision(d)
			return f.settle(ctx, intent.Denied, d.Reason, f.c.denied(d.Reason))
		case d.Verdict == policy.Ask && !covered:
			f.noteDecision(d)
			return nil, f.ask(ctx, d.Reason)
		}
		if d.Approvers == "" { // keep on record which group answered
			d.Approvers = f.in.Approvers
		}
		f.noteDecision(d)
		if f.in.Approval == nil {
			f.in.Version = f.spec.Version // policy allows the tool as it is defined now
		}
	}
	if why := f.lapsed(); why != "" {
		return nil, f.ask(ctx, why)
	}
	if res, err := f.dropEditedDuplicate(ctx); res != nil || err != nil {
		return res, err
	}
	var why string
	var err error
	if f.checks, why, err = f.consume(ctx); err != nil {
		return f.refused(err)
	} else if why != "" {
		return nil, f.ask(ctx, why)
	}
	if f.hold {
		f.ready = true
		return nil, nil
	}
	release, err := f.place(ctx)
	if err != nil {
		return f.busy(ctx, err)
	}
	if why := f.lapsed(); why != "" { // it may have lapsed while the call waited for its slot
		release()
		return nil, f.ask(ctx, why)
	}
	return f.execute(ctx, release)
}

// busy settles an action for which no slot became free.
func (f *execution) busy(ctx context.Context, err error) (*message.ToolResult, error) {
	if ctx.Err() != nil {
		return f.cancel(ctx)
	}
	return f.settle(ctx, intent.Cancelled, err.Error(), f.c.told(message.Unavailable, "Not done: "+err.Error()))
}

// lapsed returns why the approval does not cover what is about to be done. It returns ""
// if it does, or if policy required no approval.
func (f *execution) lapsed() string {
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

// cancel cancels an action that has not begun, unless the node is only closing.
func (f *execution) cancel(ctx context.Context) (*message.ToolResult, error) {
	res, err := f.stopped(ctx)
	if err != nil {
		return res, err
	}
	return f.settle(ctx, intent.Cancelled, "stopped", res)
}

func (f *execution) queued() *message.ToolResult {
	text := "Queued: it is done when this turn ends. Do not ask for it again."
	if f.in.State == intent.Awaiting {
		text = "Queued: it is done when this turn ends, if the user approves it. Do not ask for it again."
	}
	return f.c.told(message.Queued, text)
}

// settled returns the recorded result.
func (f *execution) settled() (*message.ToolResult, error) {
	res, err := f.c.resultOf(&f.in)
	if err != nil {
		return f.refused(err)
	}
	return res, nil
}

// ResultOf returns the result of a settled intent: the recorded one, or the one that
// follows from the decision if the intent was settled while no run was active.
func ResultOf(in *intent.Intent) (*message.ToolResult, error) {
	return (&Call{Ref: in.Call, Name: in.Tool}).resultOf(in)
}

func (c *Call) resultOf(in *intent.Intent) (*message.ToolResult, error) {
	if in.Result != nil {
		return DecodeResult(in.Result)
	}
	switch in.State {
	case intent.Denied:
		return c.denied(in.Reason), nil
	case intent.Expired:
		return c.told(message.DeniedCall, "Not done: nobody answered in time whether it may be done."), nil
	case intent.Cancelled:
		return c.told(message.Interrupted, "Not done: "+in.Reason), nil
	}
	return c.told(message.UnknownEnd, "It is not recorded what became of this."), nil
}
