package turn

import (
	"context"
	"slices"
	"strings"
	"sync"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/tool"
)

// Calls runs the tool calls of a run.
type Calls struct {
	engine       *Engine
	Conversation *Conversation
	Session      *conversation.Session
	Kit          *kits.Kit
	Run          *record.Run
	Request      request.Context
	Scope        store.Scope
	slots        slots // slots of the turn

	beforeMu      sync.Mutex // guards the turn as Before has read it
	beforeMessage id.ID
	beforeTurn    []*message.Message
}

// newCalls returns the calls of a run.
func (e *Engine) newCalls(c *Conversation, s *conversation.Session, kit *kits.Kit, run *record.Run, rc request.Context) *Calls {
	if kit.Small { // policy decides for both, so that it never has more rights than the assistant
		rc.Lineage = append(slices.Clip(rc.Lineage), kits.DefaultAgent)
	}
	rc.User, rc.Actor, rc.Attended = c.User, Actor(run), run.Attended
	rc.Conversation = record.ConversationURI(c.ID)
	sc := store.ForUser(c.User)
	sc.Actor = rc.Actor
	return &Calls{engine: e, Conversation: c, Session: s, Kit: kit, Run: run, Request: rc, Scope: sc, slots: make(slots, e.opt.Parallel)}
}

// call takes a tool call from the model's text to its result. It finds the tool
// and what policy has to know about the call. The effect engine then authorizes,
// records, executes and settles it. A call that continues in the background, or
// waits for the end of the turn, is recorded as a request.
func (x *Calls) call(ctx context.Context, call agent.Call) (*message.ToolResult, error) {
	e, c := x.engine, x.Conversation
	ec := effect.Call{
		Name: call.Name, Args: call.Args, Ref: call.Ref, Message: x.Session.MessageURI(call.Message),
		Scope: x.Scope, Request: x.Request, Agent: x.Kit.Name, Lineage: x.Request.Lineage, Labels: call.Labels, Sources: call.Sources, Left: c.Remaining(x.Request.ID),
		Attended: x.Run.Attended, Notify: func(p effect.Progress) { call.Progress(progress(p)) },
		Generate: x.Inner(call, nil).generate,
	}
	if !x.Kit.Has(call.Name) {
		ec.Near, ec.Waits = x.Kit.Names, e.kits.PendingSource(call.Name)
		return e.work.CallTool(ctx, c, x.Request, ec)
	}
	var err error
	if ec.Tool, err = e.kits.Usable(x.Kit, call.Name); err != nil { // the call may have begun before a crash nevertheless
		return e.effects.SettleOrphaned(ctx, ec, refusedResult(err), fault.Of(err).Message)
	}
	if fitted, err := tool.Correct(ec.Tool, call.Args, nil); err == nil { // what is judged is what is executed
		c := *call.ToolCall
		c.Args = fitted
		call.ToolCall, ec.Args = &c, fitted
	}
	if call.Name == requests.StartTool && x.startsSecondPlan(call) {
		return SystemResult(call.Ref, call.Name, message.Interrupted, "Not begun: a reply may carry out one plan, and this is its second. "+
			"Put what belongs together into one plan, or start this one when you have the result of the first."), nil
	}
	if x.Run.Plan && call.Name == requests.StartTool {
		ec.Tool = e.plans.StartTool(ctx, x.Inner(call, nil))
	}
	leave, err := x.findFlow(ctx, call, &ec)
	if err != nil {
		return nil, err
	}
	defer leave()
	if ctx, err = x.withTurn(ctx, call); err != nil {
		return nil, err
	}
	if !x.Kit.Asks[call.Name] {
		p := &callSlot{pools: []slots{x.slots, e.slots}}
		defer p.close()
		ec.Room = p.acquire
	}
	return e.work.CallTool(ctx, c, x.Request, ec)
}

// startsSecondPlan reports whether the reply of a call carries out another plan before it. The tasks of both
// would stand below the same message, under the same lease.
func (x *Calls) startsSecondPlan(call agent.Call) bool {
	for _, m := range slices.Backward(x.Session.Transcript().Messages()) {
		if m.ID == call.Message {
			return slices.ContainsFunc(m.Calls(), func(c message.Call) bool { return c.Name == requests.StartTool && c.Block < call.Block })
		}
	}
	return false
}

// withTurn adds the turn to the context of a call whose tool works inside it.
func (x *Calls) withTurn(ctx context.Context, call agent.Call) (context.Context, error) {
	if x.Kit.Asks[call.Name] {
		var err error
		if call.Labels, err = taint.AskedWith(ctx, x, call); err != nil {
			return ctx, err
		}
	} else if !taint.Plans(call.Name) {
		return ctx, nil
	}
	return taint.With(ctx, x.Inner(call, nil)), nil
}

// findFlow computes where a call's data comes from (its information flow). If the
// call may need an approval for the data it would carry, findFlow waits until no
// other call to the same place is in that position, so that one answer counts
// for all. leave admits the next one.
func (x *Calls) findFlow(ctx context.Context, call agent.Call, ec *effect.Call) (leave func(), err error) {
	nothing := func() {}
	spec := ec.Tool.Spec()
	find := func() (asks bool, err error) {
		ec.Flow, err = taint.FlowOf(ctx, x, call, spec)
		return taint.AsksToRead(spec, call.Labels, ec.Flow), err
	}
	if asks, err := find(); err != nil || !asks {
		return nothing, err
	}
	leave, ok := x.Conversation.reads.Enter(ctx, ec.Flow.To)
	if !ok {
		return nothing, nil
	}
	if asks, err := find(); err != nil || !asks { // it was answered in the meantime
		leave()
		return nothing, err
	}
	return leave, nil
}

// SystemResult returns a result in Steward's own words.
func SystemResult(call message.Ref, name string, status message.Status, text string) *message.ToolResult {
	own := message.Common{Origin: "system"}
	return &message.ToolResult{Common: own, Call: call, Name: name, Status: status, Content: []message.Block{&message.Text{Common: own, Text: text}}}
}

// refusedResult returns the result of a call that is refused.
func refusedResult(why error) *message.ToolResult {
	status, text := message.DeniedCall, "Denied, nothing was done: "
	if fault.Is(why, fault.Unavailable) {
		status, text = message.Unavailable, "Not done: "
	}
	return SystemResult(message.Ref{}, "", status, text+why.Error()+"\nerror_code: "+fault.Of(why).Code)
}

// InterruptedResult returns the result of a call that was stopped before it was made.
func InterruptedResult() *message.ToolResult {
	return SystemResult(message.Ref{}, "", message.Interrupted, "Stopped before it was done.")
}

// progress converts a step of a tool call for the loop and its watchers.
func progress(p effect.Progress) agent.Progress {
	out := agent.Progress{Status: string(p.Status), Args: p.Args, Message: strings.Join(strings.Fields(p.Message), " "), Fraction: p.Fraction}
	if p.Status == effect.Awaiting {
		out.Approval = ViewApproval(p.Question)
	}
	return out
}
