package runtime

import (
	"context"
	"time"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/store"
)

// job prepares a run's work; it fills in what the run pins.
func (n *Node) job(ctx context.Context, c *chat, s *conversation.Session, run *record.Run, reqID id.ID) (agent.Job, error) {
	kit := n.agents[run.Agent]
	if kit == nil {
		return agent.Job{}, fault.New(fault.NotFound, "agent_not_found", "there is no agent %q", run.Agent)
	}
	kit, err := n.narrowed(kit, s.Conversation().Tools)
	if err != nil {
		return agent.Job{}, err
	}
	run.Version = kit.Version
	run.Model = first(run.Model, kit.Model, "default")
	model, err := n.opt.Models.Resolve(run.Model)
	if err != nil {
		return agent.Job{}, err
	}
	system := kit.Prompt
	if n.opt.Profile != nil {
		about, err := n.opt.Profile(ctx, c.user)
		if err != nil {
			return agent.Job{}, err
		}
		if about != "" {
			system += "\n\n" + about
		}
	}
	began := time.Now()
	if !run.Started.IsZero() {
		began = run.Started
	}
	sampling, meter := unpin(run.Sampling).Over(kit.Sampling), n.meter(kit)
	return agent.Job{
		Journal: s, Model: model.Model, System: system, Tools: kit.tools,
		Sampling: sampling,
		Limits:   kit.Limits, User: c.user, Approach: "direct", Started: began,
		Call:  n.caller(c, s, kit, run, reqID),
		Steer: c.takeSteering, Emit: c.emit,
		Meter: meter, Spent: n.spent,
		Fitter: n.fitter(c, s, model.Models, system, kit.tools, sampling, meter),
	}, nil
}

// meter returns the meter of a run: the agent's own budget, else the
// configured one of a request.
func (n *Node) meter(kit *agentKit) *llm.Meter {
	if kit.Limits.Budget != (llm.Budget{}) {
		return llm.NewMeter(kit.Limits.Budget)
	}
	return n.opt.Models.NewMeter()
}

// spent prices a model call.
func (n *Node) spent(model string, u message.Usage) llm.Spend {
	price, _ := n.opt.Models.Price(model)
	return llm.Spend{Tokens: u.Input + u.Output, Cost: price.Cost(u)}
}

// caller returns what runs the tool calls of a run.
func (n *Node) caller(c *chat, s *conversation.Session, kit *agentKit, run *record.Run, reqID id.ID) func(context.Context, agent.Call) (*message.ToolResult, error) {
	rc := request.Context{ID: reqID, User: c.user, Actor: actor(run),
		Conversation: record.ConversationURI(c.id), Attended: run.Attended}
	sc := store.ForUser(c.user)
	sc.Actor = rc.Actor
	return func(ctx context.Context, call agent.Call) (*message.ToolResult, error) {
		ec := effect.Call{
			Name: call.Name, Args: call.Args, Ref: call.Ref, Message: s.MessageURI(call.Message),
			Scope: sc, Request: rc, Agent: kit.Name, Labels: call.Labels, Attended: run.Attended,
			Notify: func(p effect.Progress) { call.Progress(progress(p)) },
		}
		if kit.has(call.Name) {
			ec.Tool, _ = n.opt.Tools.Get(call.Name)
		} else {
			ec.Near = kit.names
		}
		return n.effects.Run(request.With(ctx, rc), ec)
	}
}

// actor is on whose behalf a run's tools are called.
func actor(run *record.Run) string { return "agent:" + run.Agent }

// pin keeps a request's own sampling settings with its run.
func pin(s llm.Sampling) record.SamplingPin {
	return record.SamplingPin{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: string(s.Effort)}
}

func unpin(s record.SamplingPin) llm.Sampling {
	return llm.Sampling{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: llm.Effort(s.Effort)}
}

// first returns the first of the words that is not empty.
func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// progress translates a step of a tool call for the loop and its onlookers.
func progress(p effect.Progress) agent.Progress {
	out := agent.Progress{Status: string(p.Status), Args: p.Args}
	if p.Status == effect.Awaiting {
		out.Approval = &ApprovalView{ID: p.ID, ArgsHash: p.ArgsHash, Reason: p.Reason, Expires: p.Expires}
	}
	return out
}
