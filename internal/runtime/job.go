package runtime

import (
	"context"
	"strings"
	"time"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/store"
)

// job prepares a run's work; it fills in what the run pins. rc is the turn's
// request: its id, and its lineage if it has one.
func (n *Node) job(ctx context.Context, c *chat, s *conversation.Session, run *record.Run, rc request.Context) (agent.Job, error) {
	kit, err := n.kitOf(run.Agent)
	if err == nil {
		kit, err = n.narrowed(kit, s.Conversation().Tools, !s.Head().Zero())
	}
	if err != nil {
		return agent.Job{}, err
	}
	run.Version = kit.Version
	model, err := n.modelFor(kit, run)
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
	job := agent.Job{
		Journal: s, Model: model.Model, System: system, Tools: kit.without(model.Models),
		Sampling: sampling,
		Limits:   kit.Limits, User: c.user, Agent: kit.Name, Lineage: rc.Lineage, Approach: "direct", Started: began,
		Call:  n.caller(c, s, kit, run, rc),
		Steer: c.takeSteering, Emit: c.emit,
		Meter: meter, Spent: n.spent,
		Fitter: n.fitter(c, s, kit, rc.Lineage, model.Models, system, sampling, meter),
	}
	job.Below = func(ctx context.Context) message.Usage { return n.usedBelow(ctx, c, s.Interaction()) }
	job.Await = n.awaitModel(c, s, model.Models)
	job.Begun = !run.Started.IsZero()
	n.hooking(kit, rc, c.user).around(&job, s)
	return job, nil
}

// meter returns the meter of a run: the agent's own budget, else the
// configured one of a request. The budget of an agent of the catalog only
// narrows the node's.
func (n *Node) meter(kit *agentKit) *llm.Meter {
	if kit.own && kit.Limits.Budget != (llm.Budget{}) {
		m := llm.NewMeter(kit.Limits.Budget)
		m.Under(n.meter(n.agents[DefaultAgent]))
		return m
	}
	if kit.own {
		return n.meter(n.agents[DefaultAgent])
	}
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
func (n *Node) caller(c *chat, s *conversation.Session, kit *agentKit, run *record.Run, rc request.Context) func(context.Context, agent.Call) (*message.ToolResult, error) {
	rc.User, rc.Actor, rc.Attended = c.user, actor(run), run.Attended
	rc.Conversation = record.ConversationURI(c.id)
	sc := store.ForUser(c.user)
	sc.Actor = rc.Actor
	own := make(slots, n.opt.Parallel)
	return func(ctx context.Context, call agent.Call) (*message.ToolResult, error) {
		ec := effect.Call{
			Name: call.Name, Args: call.Args, Ref: call.Ref, Message: s.MessageURI(call.Message),
			Scope: sc, Request: rc, Agent: kit.Name, Lineage: rc.Lineage, Labels: call.Labels, Left: c.left(rc.ID), Attended: run.Attended,
			Notify: func(p effect.Progress) { call.Progress(progress(p)) },
		}
		if kit.has(call.Name) {
			var err error
			if ec.Tool, err = n.usable(kit, call.Name); err != nil { // it may have begun before a crash all the same
				return n.effects.Strand(ctx, ec, refused(err), fault.Of(err).Message)
			}
		} else {
			ec.Near = kit.names
		}
		if ec.Tool != nil {
			var err error
			spec := ec.Tool.Spec()
			if ec.Flow, err = n.flowOf(ctx, c, rc.ID, kit.Name, call, spec); err != nil {
				return nil, err
			}
			if asksToRead(spec, call.Labels, ec.Flow) {
				if leave, ok := c.readAlone(ctx, spec.Source()); ok {
					defer leave()
					if ec.Flow, err = n.flowOf(ctx, c, rc.ID, kit.Name, call, spec); err != nil {
						return nil, err
					}
					if !asksToRead(spec, call.Labels, ec.Flow) { // it was answered meanwhile
						leave()
					}
				}
			}
			if ctx, err = n.around(ctx, c, kit, run, rc, call); err != nil {
				return nil, err
			}
		}
		if !kit.asks[call.Name] {
			p := &place{of: []slots{own, n.slots}}
			defer p.end()
			ec.Room = p.take
		}
		return n.callTool(ctx, c, rc, ec)
	}
}

// refused is the answer to a call that is not made.
func refused(why error) *message.ToolResult {
	own := message.Common{Origin: "system"}
	status, text := message.DeniedCall, "Denied, nothing was done: "
	if fault.Is(why, fault.Unavailable) {
		status, text = message.Unavailable, "Not done: "
	}
	text += why.Error() + "\nerror_code: " + fault.Of(why).Code
	return &message.ToolResult{Common: own, Status: status, Content: []message.Block{&message.Text{Common: own, Text: text}}}
}

// actor is on whose behalf a run's tools are called.
func actor(run *record.Run) string { return "agent:" + run.Agent }

// pin keeps a request's own sampling settings with its run.
func pin(s llm.Sampling) record.SamplingPin {
	return record.SamplingPin{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: string(s.Effort),
		TopP: s.TopP, Seed: s.Seed, FrequencyPenalty: s.FrequencyPenalty, PresencePenalty: s.PresencePenalty}
}

func unpin(s record.SamplingPin) llm.Sampling {
	return llm.Sampling{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: llm.Effort(s.Effort),
		TopP: s.TopP, Seed: s.Seed, FrequencyPenalty: s.FrequencyPenalty, PresencePenalty: s.PresencePenalty}
}

// first returns the first of the values that is not the zero value.
func first[T comparable](values ...T) T {
	var zero T
	for _, v := range values {
		if v != zero {
			return v
		}
	}
	return zero
}

// progress translates a step of a tool call for the loop and its onlookers.
func progress(p effect.Progress) agent.Progress {
	out := agent.Progress{Status: string(p.Status), Args: p.Args, Message: strings.Join(strings.Fields(p.Message), " "), Fraction: p.Fraction}
	if p.Status == effect.Awaiting {
		out.Approval = approvalView(p.Question)
	}
	return out
}
