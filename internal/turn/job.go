package turn

import (
	"context"
	"strings"
	"time"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
)

// Job prepares the job of a run and fills in what the run pins. rc is the turn's
// request: its id, and its lineage if it has one. What the turn uses beside its messages
// is accounted to used.
func (e *Engine) Job(ctx context.Context, c *Conversation, s *conversation.Session, run *record.Run, rc request.Context, used *Account) (agent.Job, error) {
	job, _, err := e.newJob(ctx, c, s, run, rc, used)
	return job, err
}

// newJob is Job. It also returns the fitter of the job.
func (e *Engine) newJob(ctx context.Context, c *Conversation, s *conversation.Session, run *record.Run, rc request.Context, used *Account) (agent.Job, *fitter, error) {
	kit, err := e.kits.Of(run.Agent)
	if err == nil {
		kit, err = e.kits.Narrow(kit, s.Conversation().Tools, !s.Head().Zero())
	}
	if err != nil {
		return agent.Job{}, nil, err
	}
	run.Version = kit.Version
	model, err := e.kits.ModelFor(kit, run)
	if err != nil {
		return agent.Job{}, nil, err
	}
	var system systemPrompt
	system.add("agent "+kit.Name, "instructions of the agent that answers", kit.Prompt)
	var plannable *llm.Toolset
	if kit.Name == kits.PlannerAgent {
		var list string
		list, plannable = e.plans.PlannableTools()
		system.add("tools for plans", "what the planner may plan with", list)
	}
	if e.opt.Profile != nil {
		speaks := kit.Name // with the user
		if len(rc.Lineage) > 0 {
			speaks = ""
		}
		about, err := e.opt.Profile(ctx, c.User, speaks)
		if err != nil {
			return agent.Job{}, nil, err
		}
		if about != "" {
			system.add("about you", "what you have said about yourself, and the persona", "\n\n"+about)
		}
	}
	if e.opt.Skills != nil && kit.Has("skills.read") {
		list, err := e.opt.Skills(c.User)
		if err != nil {
			e.log.Warn("cannot list the skills for the model", "error", err)
		}
		if list = strings.TrimSpace(list); list != "" {
			list = "\n\n" + list
		}
		system.add("skills", "the skills that the agent can read", list)
	}
	if run.Spoken {
		system.add("spoken answers", "the answer is read aloud", spokenManners)
	}
	began := time.Now()
	if !run.Started.IsZero() {
		began = run.Started
	}
	sampling, meter := unpinSampling(run.Sampling).Over(kit.Sampling), e.newMeter(kit)
	meter.Account(used.Record)
	x := e.newCalls(c, s, kit, run, rc)
	fit := e.newFitter(c, s, kit, rc.Lineage, model.Models, system.text(), sampling, meter)
	fit.spoken, fit.parts = run.Spoken, system
	job := agent.Job{
		Journal: e.Journal(c, s), Model: e.clearFirst(kit, run, model), System: fit.system, Tools: kit.ToolsFor(model.Models), Plannable: plannable,
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
	task := len(rc.Lineage) > 0 && rc.Lineage[len(rc.Lineage)-1] == kits.PlannerAgent
	if task {
		job.RecallFrom = actorPrefix + kits.PlannerAgent
	}
	if (len(rc.Lineage) == 0 || task) && !llm.Offline(model.Models) {
		e.remember(ctx, c, s, &job, fit)
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
	view := job.View
	job.Asking = func(answer id.ID, r *llm.Request) { c.noteRequest(answer, r, s.Transcript(), view) }
	e.Hooks(kit, rc, c.User).install(&job, s)
	return job, fit, nil
}

// systemPrompt is a system prompt in parts, in their order.
type systemPrompt []systemPart

type systemPart struct{ name, why, text string }

func (p *systemPrompt) add(name, why, text string) {
	if text != "" {
		*p = append(*p, systemPart{name, why, text})
	}
}

func (p systemPrompt) text() string {
	var b strings.Builder
	for _, part := range p {
		b.WriteString(part.text)
	}
	return strings.TrimSpace(b.String())
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

// Actor returns the name of the actor on whose behalf a run's tools are called.
func Actor(run *record.Run) string { return actorPrefix + run.Agent }

const actorPrefix = "agent:"

// pinSampling converts a request's own sampling settings to be stored with its run.
func pinSampling(s llm.Sampling) record.SamplingPin {
	return record.SamplingPin{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: string(s.Effort),
		TopP: s.TopP, Seed: s.Seed, FrequencyPenalty: s.FrequencyPenalty, PresencePenalty: s.PresencePenalty}
}

func unpinSampling(s record.SamplingPin) llm.Sampling {
	return llm.Sampling{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: llm.Effort(s.Effort),
		TopP: s.TopP, Seed: s.Seed, FrequencyPenalty: s.FrequencyPenalty, PresencePenalty: s.PresencePenalty}
}
