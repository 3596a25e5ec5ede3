package planning

import (
	"cmp"
	"context"
	"slices"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/policy"
	"steward/internal/requests"
	"steward/internal/routing"
	"steward/internal/taint"
	"steward/internal/tool"
)

func designedPath(t *plan.Task) string { return kits.DesignedPrefix + t.ID.String() }

// assign completes the call by which a task is given to an agent: the one that the
// plan names, one of the level that it is certainly for and that the user may ask,
// or one that is designed for it.
func (w *treeWorker) assign(ctx context.Context, t *plan.Task, ec effect.Call) (effect.Call, error) {
	give := func(path string) effect.Call {
		ec.Name = t.Name + ".ask"
		ec.Tool = w.engine.work.TaskTool(path, tool.Spec{Name: ec.Name, Effect: tool.Query, Reach: tool.ReachHere, Origin: kits.AskedOrigin + path,
			Description: "Works on the task " + t.Name, Log: tool.LogSpec{Summary: "Work on " + t.Name}})
		return ec
	}
	if t.Assistant != "" {
		return give(t.Assistant), nil
	}
	path, err := w.catalogAgent(ctx, t, ec.Labels)
	if err != nil {
		return ec, err
	}
	if path != "" {
		given := give(path)
		if d, err := w.engine.effects.Authorize(ctx, policy.PointTool, given); err == nil && d.Verdict == policy.Allow {
			return given, nil
		}
	}
	_, err = w.engine.design(t)
	return give(designedPath(t)), err
}

// Redesign makes the agent again that was designed for a task, from the task's record, since what it
// has begun may outlive its tree and this process. Error code: agent_not_found.
func (e *Engine) Redesign(path string) (*kits.Kit, error) {
	t, err := requests.DesignedFor(context.WithoutCancel(e.life), e.store, path)
	if err != nil {
		return nil, err
	}
	return e.design(t.Task)
}

// design makes the agent for a task. It has the tools that the plan selected, none
// that the assistant lacks, and asks the agents among them.
func (e *Engine) design(t *plan.Task) (*kits.Kit, error) {
	level, err := e.kits.Of(kits.DefaultAgent)
	if err != nil {
		return nil, err
	}
	kit := &kits.Kit{Registry: &tool.Registry{}, Similar: level.Similar, Tree: level.Tree, Own: true, Asks: map[string]bool{}, Definition: agent.Definition{
		Name: designedPath(t), Version: "1", Prompt: t.SystemPrompt(), Limits: kits.NarrowLimits(catalog.Limits{Iterations: cmp.Or(t.Iterations, plan.IterationsPlanned)}, e.opt.Limits)}}
	for _, name := range append([]string{effect.ReadToolName}, t.Tools...) {
		if !level.Has(name) || name == requests.StartTool || kit.Has(name) {
			continue // taken away since it was planned
		}
		if err := kit.Registry.AddFrom(level.Registry, name); err != nil {
			return nil, err
		}
		kit.Asks[name] = level.Asks[name]
	}
	own := []tool.Tool{askPerson{}}
	if !t.Parent.Zero() {
		own = append(own, askPlan{e}, readTask{e})
	}
	for _, x := range own {
		if err := kit.Registry.Add(x); err != nil {
			return nil, err
		}
		kit.Asks[x.Spec().Name] = x.Spec().Effect == tool.Query
	}
	if err := (taint.Needs{}).AddTools(kit.Registry, e.opt.Tools, nil); err != nil {
		return nil, err
	}
	kit.Seal()
	e.kits.KeepDesigned(kit)
	return kit, nil
}

// catalogAgent returns the path of the agent of the catalog that a task is for; "" if there is none
// that this is sure enough of. An agent that lacks a tool that the plan selected does not count.
func (w *treeWorker) catalogAgent(ctx context.Context, t *plan.Task, labels message.Labels) (string, error) {
	e := w.engine
	path, _, err := e.routing.AgentFor(ctx, routing.Task{User: w.Conversation.User, About: t.Metadata(), Labels: labels, Fits: func(path string) bool {
		kit, err := e.kits.Of(path)
		return err == nil && !slices.ContainsFunc(t.Tools, func(name string) bool { return !kit.Has(name) })
	}})
	return path, err
}
