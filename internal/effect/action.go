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
	"steward/internal/tool"
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
	version uint64 // 0: not recorded yet
	in      intent.Intent
}

// execution takes an action through the states of its intent.
type execution struct {
	*toolCall
	intentRecord
	found         bool // the intent was recorded before this call of Run: its state comes from another run
	authorizedNow bool // the intent was authorized just now
	ready         bool // it has stopped just before it begins, because of toolCall.hold
	repeats       int  // of the effect, in this call of Run
	maybeDone     bool // an earlier attempt may have done it, so the failure of a later one proves nothing

	checks []store.Change // preconditions of the commit that begins it: the grant that covers it
}

// action takes a call through its intent to a settled or queued state.
func (j *toolCall) action(ctx context.Context) (*message.ToolResult, error) {
	_, unlock, res, err := j.carryOut(ctx)
	unlock()
	return res, err
}

// carryOut is action, and keeps the intent locked until the caller calls unlock. If it
// returns neither a result nor an error, the action is ready to begin; see toolCall.hold.
func (j *toolCall) carryOut(ctx context.Context) (f *execution, unlock func(), res *message.ToolResult, err error) {
	f, unlock, err = j.openIntent(ctx)
	switch {
	case err == nil:
		res, err = f.advance(ctx)
	case fault.Is(err, fault.NotFound) && j.dropped != nil:
		res, err = j.dropped.res, nil
	case fault.Is(err, fault.NotFound) && ctx.Err() != nil:
		res, err = j.stopped(ctx)
	default:
		res, err = j.refused(err)
	}
	return f, unlock, res, err
}

// openIntent locks and loads the call's intent, or records it if there is none.
func (j *toolCall) openIntent(ctx context.Context) (f *execution, unlock func(), err error) {
	unlock = func() {}
	if err := j.inRun(ctx); err != nil {
		return nil, unlock, err
	}
	uri := j.intentURI()
	leave, err := j.e.acquireSlot(ctx, uri.String(), 1, nil)
	if err != nil {
		return nil, unlock, contended()
	}
	f = &execution{toolCall: j}
	f.intentRecord, err = j.e.load(context.WithoutCancel(ctx), j.c.Scope, uri)
	switch {
	case err == nil:
		f.found = true
		f.addObligations(policy.Obligations{Mask: f.in.Mask, Cap: f.in.Cap})
	case fault.Is(err, fault.NotFound) && ctx.Err() == nil && j.dropped == nil:
		err = f.propose(ctx, uri)
	}
	if err == nil && j.dropped == nil && !f.sameCall() {
		err = fault.New(fault.Conflict, "intent_mismatch", "another action is recorded for this call: %s of %s", f.in.Tool, f.in.User)
	}
	if err == nil {
		f.adopt(f.intentRecord)
	}
	return f, leave, err
}

// inRun refuses an action that belongs to no run, because nothing would account for its
// effect. This is a bug in the calling program, so it is logged as an error.
func (j *toolCall) inRun(ctx context.Context) error {
	c := &j.c
	own, there := request.From(ctx)
	if j.dropped != nil || !c.Request.ID.Zero() && (!there || own.ID == c.Request.ID) && !c.Message.Zero() && c.Message.ID() == c.Ref.Message.String() {
		return nil
	}
	j.e.log.ErrorContext(ctx, "action requested outside of a run: refused", "tool", j.spec.Name,
		"request", c.Request.ID, "message", c.Message.String(), "user", c.Request.User, "code", "intent_outside_run")
	return fault.New(fault.Internal, "intent_outside_run", "an action of %s was requested outside of a run", j.spec.Name).
		WithHint("report this bug: actions can be requested only in turns and in external calls")
}

func contended() error {
	return fault.New(fault.Conflict, "effect_contended", "another worker is executing this action").
		WithHint("wait until it has ended, then read the conversation again")
}

// refused returns the result for a record that cannot be written or read: the run cannot
// continue.
func (j *toolCall) refused(err error) (*message.ToolResult, error) {
	return j.c.result(message.Failed, "The action could not be recorded: "+err.Error()), err
}

// errAwaitingAnswer means that an action that is held waits for a person.
var errAwaitingAnswer = errors.New("waiting for a person's answer")

// advance moves from state to state until the intent is settled or queued. If someone else
// (a person's decision, a revoked grant) has changed what it goes by in between, it reloads
// the intent. If it returns neither a result nor an error, the action is ready to begin and
// is held.
func (f *execution) advance(ctx context.Context) (*message.ToolResult, error) {
	for conflicts := 0; conflicts < maxAmends; {
		res, err := f.next(ctx)
		switch {
		case res != nil || f.ready || errors.Is(err, errAwaitingAnswer):
			return res, err
		case err == nil:
			continue
		case !fault.HasCode(err, "conflict"):
			return f.refused(err)
		}
		conflicts++
		now, err := f.e.load(context.WithoutCancel(ctx), f.c.Scope, f.uri)
		if err != nil {
			return f.refused(err)
		}
		f.adopt(now)
		f.authorizedNow = false
		if f.in.State == intent.Executing { // another worker has begun it
			break
		}
	}
	return f.refused(contended())
}

// next performs the step that the current state requires. A nil result means: look at the
// state again.
func (f *execution) next(ctx context.Context) (*message.ToolResult, error) {
	switch st := f.in.State; {
	case st.Settled():
		return f.settled()
	case st == intent.Executing:
		return f.recover(ctx)
	case f.dropped != nil:
		return f.settle(ctx, intent.Cancelled, f.dropped.why, f.dropped.res)
	case ctx.Err() != nil:
		return f.cancel(ctx)
	}
	if f.last {
		if res, err := f.dropDuplicate(ctx); res != nil || err != nil {
			return res, err
		}
	}
	found := f.found
	f.found = false
	switch f.in.State {
	case intent.Proposed:
		return f.decide(ctx)
	case intent.Awaiting:
		if f.hold {
			return nil, errAwaitingAnswer
		}
		if found {
			if res, err := f.reask(ctx); res != nil || err != nil {
				return res, err
			}
		}
		return f.await(ctx)
	}
	if f.deferred() && !f.last {
		return f.queued(), nil
	}
	return f.begin(ctx)
}

// propose records the intent, before it is authorized.
func (f *execution) propose(ctx context.Context, uri resource.URI) error {
	f.intentRecord = f.draft(uri)
	return step(ctx, intent.Proposed, nil, f)
}

// draft returns the call's intent, before it is authorized.
func (j *toolCall) draft(uri resource.URI) intentRecord {
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
	f.authorizedNow = true
	switch {
	case d.Verdict == policy.Deny:
		return f.deny(ctx, d)
	case a == nil && d.Verdict == policy.Ask:
		return nil, f.ask(ctx, d.Reason)
	case a != nil || f.deferred():
		f.in.Approval, f.in.Reason = a, d.Reason
		return nil, step(ctx, intent.Approved, nil, f)
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
	f.in.Mask, f.in.Cap = f.toolCall.obligations.Mask, f.toolCall.obligations.Cap
}

// deny settles an action that policy denies.
func (f *execution) deny(ctx context.Context, d policy.Decision) (*message.ToolResult, error) {
	f.noteDecision(d)
	return f.settle(ctx, intent.Denied, d.Reason, f.c.denied(d.Reason))
}

// reask re-evaluates a question that an earlier run left open. If policy now denies the
// action, it is denied. If the question is still valid, the run waits for it. If it
// expired while no answer was possible, it is asked again.
func (f *execution) reask(ctx context.Context) (*message.ToolResult, error) {
	d := f.planned(ctx, true) // a person was there when it was asked
	switch {
	case ctx.Err() != nil:
		return f.cancel(ctx)
	case d.Verdict == policy.Deny:
		return f.deny(ctx, d)
	case time.Now().Before(f.in.Expires) && f.in.Version == f.spec.Version && (d.Verdict != policy.Ask || d.Approvers == f.in.Approvers):
		return nil, nil
	case d.Verdict == policy.Ask:
		f.noteDecision(d)
	}
	return nil, f.ask(ctx, f.in.Reason)
}

// ask asks a person, or asks again.
func (f *execution) ask(ctx context.Context, reason string) error {
	f.restore()
	f.in.Reason, f.in.Version, f.in.Approval = reason, f.c.Tool.Spec().Version, nil
	f.in.Expires = time.Now().UTC().Add(f.e.opt.ApprovalTimeout)
	f.authorizedNow = false
	return step(ctx, intent.Awaiting, nil, f)
}

// begin starts the execution. If time has passed since the intent was authorized, policy
// is asked again: it may now deny the action or require a question. The approval is
// verified, and is consumed in the same commit that records the start.
func (f *execution) begin(ctx context.Context) (*message.ToolResult, error) {
	if !f.authorizedNow {
		attended := f.c.Attended || f.in.Approval != nil
		d := f.askPolicy(ctx, policy.PointIntent, attended)
		if !attended {
			d = unattended(d)
		}
		covered := f.in.Approval != nil && (d.Approvers == f.in.Approvers || d.Approvers == "")
		switch {
		case ctx.Err() != nil:
			return f.cancel(ctx)
		case d.Verdict == policy.Deny:
			return f.deny(ctx, d)
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
	var err error
	why := f.lapseReason()
	if why == "" {
		f.checks, why, err = f.consume(ctx)
	}
	switch {
	case err != nil:
		return f.refused(err)
	case why != "":
		return nil, f.ask(ctx, why)
	case f.hold:
		f.ready = true
		return nil, nil
	}
	release, err := f.place(ctx)
	if err != nil {
		return f.busy(ctx, err)
	}
	if why := f.lapseReason(); why != "" { // it may have lapsed while the call waited for its slot
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
	return f.settle(ctx, intent.Cancelled, err.Error(), f.c.result(message.Unavailable, "Not done: "+err.Error()))
}

// lapseReason returns why the approval does not cover what is about to be done. It returns ""
// if it does, or if policy required no approval.
func (f *execution) lapseReason() string {
	a := f.in.Approval
	now := f.c.Tool.Spec()
	switch {
	case a == nil && f.in.Version == now.Version:
		return ""
	case f.in.Version != now.Version, a.Version != now.Version:
		return "the tool has changed since it was approved"
	case a.ArgsHash != f.in.ArgsHash, a.ArgsHash != intent.HashArgs(f.args):
		return "the action differs from what was approved"
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

// execute starts the effect once and settles the intent. It owns the slot, which release
// gives back.
func (f *execution) execute(ctx context.Context, release func()) (*message.ToolResult, error) {
	f.in.Attempts++
	if err := step(ctx, intent.Executing, f.checks, f); err != nil {
		release()
		return nil, err
	}
	f.running("")
	res, how := f.call(ctx, f.in.Key, release)
	return f.ended(ctx, res, how)
}

// ended settles an execution according to how its call ended.
func (f *execution) ended(ctx context.Context, res tool.Result, how end) (*message.ToolResult, error) {
	query := f.spec.Effect == tool.Query
	if how.abandoned {
		f.e.hanging.Store(f.uri, true)
	}
	switch {
	case how.err == nil && (res.Failed || res.Stopped):
		return f.finish(ctx, intent.Failed, f.outcome(res, how))
	case how.err == nil:
		return f.finish(ctx, intent.Done, f.outcome(res, how))
	case query && how.stopped(ctx):
		out, err := f.cutShort(ctx, res, how)
		if err != nil { // the next start finds it executing
			return out, err
		}
		return f.settle(ctx, intent.Failed, "stopped", out)
	case query || tool.CertainlyNotDone(how.err) && !how.abandoned && !f.maybeDone:
		return f.finish(ctx, intent.Failed, f.outcome(res, how))
	}
	return f.determineOutcome(ctx, how.err, how.abandoned, false)
}

func (f *execution) queued() *message.ToolResult {
	text := "Queued: it will be done when this turn ends. Do not request it again."
	if f.in.State == intent.Awaiting {
		text = "Queued: it will be done when this turn ends, if the user approves it. Do not request it again."
	}
	return f.c.result(message.Queued, text)
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
		return c.expired(), nil
	case intent.Cancelled:
		return c.result(message.Interrupted, "Not done: "+in.Reason), nil
	}
	return c.result(message.UnknownEnd, "The outcome was not recorded."), nil
}
