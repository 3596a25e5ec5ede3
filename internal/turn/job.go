package turn

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/policy"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/tool"
)

// Job prepares the job of a run and fills in what the run pins. rc is the turn's
// request: its id, and its lineage if it has one. What the turn uses beside its messages
// is accounted to used.
func (e *Engine) Job(ctx context.Context, c *Conversation, s *conversation.Session, run *record.Run, rc request.Context, used *Account) (agent.Job, error) {
	kit, err := e.kits.Of(run.Agent)
	if err == nil {
		kit, err = e.kits.Narrow(kit, s.Conversation().Tools, !s.Head().Zero())
	}
	if err != nil {
		return agent.Job{}, err
	}
	run.Version = kit.Version
	model, err := e.kits.ModelFor(kit, run)
	if err != nil {
		return agent.Job{}, err
	}
	system := kit.Prompt
	var plannable *llm.Toolset
	if kit.Name == kits.PlannerAgent {
		var list string
		list, plannable = e.plans.PlannableTools()
		system += list
	}
	if e.opt.Profile != nil {
		speaks := kit.Name // with the user
		if len(rc.Lineage) > 0 {
			speaks = ""
		}
		about, err := e.opt.Profile(ctx, c.User, speaks)
		if err != nil {
			return agent.Job{}, err
		}
		if about != "" {
			system += "\n\n" + about
		}
	}
	if e.opt.Skills != nil && kit.Has("skills.read") {
		list, err := e.opt.Skills(c.User)
		if err != nil {
			e.log.Warn("cannot list the skills for the model", "error", err)
		}
		system = strings.TrimSpace(system + "\n\n" + list)
	}
	began := time.Now()
	if !run.Started.IsZero() {
		began = run.Started
	}
	sampling, meter := unpin(run.Sampling).Over(kit.Sampling), e.newMeter(kit)
	meter.Account(used.Record)
	x := e.newCalls(c, s, kit, run, rc)
	fit := e.newFitter(c, s, kit, rc.Lineage, model.Models, system, sampling, meter)
	job := agent.Job{
		Journal: e.Journal(c, s), Model: model.Model, System: system, Tools: kit.ToolsFor(model.Models), Plannable: plannable,
		Sampling: sampling,
		Limits:   kit.Limits, User: c.User, Agent: kit.Name, Lineage: rc.Lineage, Approach: "direct", Started: began,
		Call:  x.call,
		Steer: c.takeSteering, Emit: c.Emit,
		Meter: meter, Spent: e.opt.Models.Spent,
		Fitter: fit, Shown: func() *llm.Toolset { return fit.tools },
	}
	if !llm.Offline(model.Models) {
		job.View = e.timeNotes(c.User)
	}
	if kit.Name == kits.PlannerAgent {
		job.Write = func(ctx context.Context, failed error) (*message.Message, error) {
			return e.plans.AfterPlan(ctx, x, failed)
		}
	}
	if kit.Meta.Evaluation != "" {
		job.Review = func(ctx context.Context, answer *message.Message) string { return e.plans.Review(ctx, x, answer) }
	}
	job.Below = func(ctx context.Context) message.Usage {
		return e.usageBelow(ctx, c, s.Interaction()).Add(used.usage())
	}
	job.Await = e.awaitModel(c, s, model.Models)
	job.Begun = !run.Started.IsZero()
	e.Hooks(kit, rc, c.User).install(&job, s)
	return job, nil
}

// newMeter returns the meter of a run: the agent's own budget, otherwise the
// configured budget of a request. A catalog agent's budget can only narrow the
// node's.
func (e *Engine) newMeter(kit *kits.Kit) *llm.Meter {
	if kit.Own && kit.Limits.Budget != (llm.Budget{}) {
		m := llm.NewMeter(kit.Limits.Budget)
		m.Under(e.newMeter(e.kits.Fixed[kits.DefaultAgent]))
		return m
	}
	if kit.Own {
		return e.newMeter(e.kits.Fixed[kits.DefaultAgent])
	}
	if kit.Limits.Budget != (llm.Budget{}) {
		return llm.NewMeter(kit.Limits.Budget)
	}
	return e.opt.Models.NewMeter()
}

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
	n, c := x.engine, x.Conversation
	ec := effect.Call{
		Name: call.Name, Args: call.Args, Ref: call.Ref, Message: x.Session.MessageURI(call.Message),
		Scope: x.Scope, Request: x.Request, Agent: x.Kit.Name, Lineage: x.Request.Lineage, Labels: call.Labels, Left: c.Remaining(x.Request.ID),
		Attended: x.Run.Attended, Notify: func(p effect.Progress) { call.Progress(progress(p)) },
		Generate: x.Inner(call, nil).generate,
	}
	if !x.Kit.Has(call.Name) {
		ec.Near, ec.Waits = x.Kit.Names, n.kits.PendingSource(call.Name)
		return n.work.CallTool(ctx, c, x.Request, ec)
	}
	var err error
	if ec.Tool, err = n.kits.Usable(x.Kit, call.Name); err != nil { // the call may have begun before a crash nevertheless
		return n.effects.SettleOrphaned(ctx, ec, refusedResult(err), fault.Of(err).Message)
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
		ec.Tool = n.plans.StartTool(ctx, x.Inner(call, nil))
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
		p := &callSlot{pools: []slots{x.slots, n.slots}}
		defer p.close()
		ec.Room = p.acquire
	}
	return n.work.CallTool(ctx, c, x.Request, ec)
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

// InnerCall is a call of a tool that works inside its turn: one that asks an agent,
// plan.fix, text.extract or tools.find. The call's context carries it.
type InnerCall struct {
	*Calls
	call      agent.Call
	TaskMeter *llm.Meter // that of the task for which it is made; nil: the turn's
}

// Inner returns a call that works inside the turn. under is the meter of the task for
// which it is made; nil: the turn's.
func (x *Calls) Inner(call agent.Call, under *llm.Meter) *InnerCall {
	return &InnerCall{x, call, under}
}

// Meter returns the meter that binds what the call leads to.
func (p *InnerCall) Meter() *llm.Meter {
	if p.TaskMeter != nil {
		return p.TaskMeter
	}
	return p.Calls.turnMeter()
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

// turnMeter returns the turn's meter.
func (x *Calls) turnMeter() *llm.Meter {
	if live := x.Conversation.Running(x.Request.ID); live != nil {
		return live.Meter
	}
	return nil
}

// findFlow computes where a call's data comes from (its information flow). If the
// call may need an approval for the data it would carry, findFlow waits until no
// other call to the same place is in that position, so that one answer counts
// for all. leave lets the next one continue.
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

// Actor returns the name of the actor on whose behalf a run's tools are called.
func Actor(run *record.Run) string { return "agent:" + run.Agent }

// pin converts a request's own sampling settings to be stored with its run.
func pin(s llm.Sampling) record.SamplingPin {
	return record.SamplingPin{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: string(s.Effort),
		TopP: s.TopP, Seed: s.Seed, FrequencyPenalty: s.FrequencyPenalty, PresencePenalty: s.PresencePenalty}
}

func unpin(s record.SamplingPin) llm.Sampling {
	return llm.Sampling{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: llm.Effort(s.Effort),
		TopP: s.TopP, Seed: s.Seed, FrequencyPenalty: s.FrequencyPenalty, PresencePenalty: s.PresencePenalty}
}

// progress converts a step of a tool call for the loop and its watchers.
func progress(p effect.Progress) agent.Progress {
	out := agent.Progress{Status: string(p.Status), Args: p.Args, Message: strings.Join(strings.Fields(p.Message), " "), Fraction: p.Fraction}
	if p.Status == effect.Awaiting {
		out.Approval = ViewApproval(p.Question)
	}
	return out
}

// slots bounds how many tool calls run concurrently: each turn has a few slots of
// its own, and all turns share those of the node.
type slots chan struct{}

// callSlot is the slot in which a tool call runs. It is held while the tool works,
// and not while a person is asked. A call that asks another agent takes none, so
// that the agent's own calls can have it.
type callSlot struct {
	pools []slots // taken in this order

	mu    sync.Mutex
	held  bool
	ended bool // the turn no longer waits for the call, which needs no slot any more
}

// acquire waits for the slot. It returns a function that releases the slot, which
// may be called more than once.
func (p *callSlot) acquire(ctx context.Context) (leave func(), err error) {
	for i, of := range p.pools {
		select {
		case of <- struct{}{}:
		case <-ctx.Done():
			for _, of := range p.pools[:i] {
				<-of
			}
			return nil, context.Cause(ctx)
		}
	}
	p.mu.Lock()
	p.held = true
	over := p.ended
	p.mu.Unlock()
	if over {
		p.release()
	}
	return p.release, nil
}

func (p *callSlot) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		p.held = false
		for _, of := range p.pools {
			<-of
		}
	}
}

// close releases the slot for good.
func (p *callSlot) close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.release()
}

// Remaining is what the turn of an interaction may still spend.
func (c *Conversation) Remaining(inter id.ID) policy.Left {
	live := c.Running(inter)
	if live == nil || live.Meter == nil {
		return policy.Left{}
	}
	b := live.Meter.Left()
	return policy.Left{Tokens: int(b.MaxTokens), Cost: b.MaxCost}
}
