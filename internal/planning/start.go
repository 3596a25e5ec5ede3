package planning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/policy"
	"steward/internal/requests"
	"steward/internal/taint"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/internal/work"
)

// startTool is plan.start: it carries out a plan as a tree of tasks. Called again
// after a crash, it continues with the tasks that it had made.
type startTool struct {
	engine *Engine
	asks   bool // a person is asked about the plan
}

// Spec implements tool.Tool.
func (p startTool) Spec() tool.Spec {
	return tool.Spec{Name: requests.StartTool, Effect: tool.Query, Asks: p.asks, Version: "1", Reach: tool.ReachHere, Input: []byte(plan.Schema), Timeout: work.AskTimeout,
		ResultCap: 256 << 10, Description: "Carries out a plan: its tasks are given to agents, and their outputs come back when all are over.",
		Log: tool.LogSpec{Summary: "Carry out a plan: {plan}", Does: "begins with the tasks of the plan", Parameters: []string{"plan"}, Previewed: planShown}}
}

// planShown are the arguments of plan.start that its preview shows: all but how sure the planner is.
var planShown = slices.DeleteFunc(tool.Spec{Input: []byte(plan.Schema)}.Arguments(), func(name string) bool { return name == "confidence" })

// Preview implements tool.Previewer: the plan as a person reads it.
func (startTool) Preview(_ context.Context, in tool.Invocation) (string, error) {
	d, err := plan.Parse(in.Args)
	if err != nil {
		return "", err
	}
	return d.Text(), nil
}

// Call implements tool.Tool.
func (p startTool) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	a, err := turn.InTurn(ctx, requests.StartTool, nil, nil)
	if err != nil {
		return tool.Result{}, err
	}
	w := &treeWorker{engine: p.engine, InnerCall: a.Inner(a.Call(), reserveForAnswer(a.Meter())), at: a.Session.MessageURI(in.Call.Message), args: in.Args, tasks: map[id.ID]*trackedTask{}}
	tasks, err := w.loadTasks(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	var newTasks []*plan.Task
	if len(tasks) == 0 {
		draft, problem := w.readPlan(ctx, in.Args)
		if problem != "" {
			return tool.Failure(problem), nil
		}
		newTasks = plan.Tree(work.AskedRequest(in.Call), draft, a.Call().Labels)
	}
	if len(tasks) == 0 || !tasks[0].State.Over() {
		if err := w.holdLease(ctx, newTasks); err != nil {
			return tool.Result{}, err
		}
	}
	return w.result(), nil
}

// reserveForAnswer returns a meter below that of the turn that leaves a tenth of what
// the turn may still use, with which the answer is written in the end.
func reserveForAnswer(turn *llm.Meter) *llm.Meter {
	if turn == nil {
		return nil
	}
	left := turn.Left()
	m := llm.NewMeter(llm.Budget{MaxTokens: left.MaxTokens - left.MaxTokens/10, MaxCost: left.MaxCost * 0.9})
	m.Under(turn)
	return m
}

// readPlan parses and checks a plan. problem describes what the model has to correct.
func (w *treeWorker) readPlan(ctx context.Context, args []byte) (d *plan.Draft, problem string) {
	d, err := plan.Parse(args)
	if err != nil {
		return nil, err.Error()
	}
	if turn, err := w.Messages(ctx); err == nil && d.Purpose == "" { // without it the task would lack the request itself
		d.Purpose, _ = taint.Words(turn)
	}
	if w.Call().Origin == originFallback {
		return d, ""
	}
	if to := w.engine.fallbackAgent(w.Calls); to != "" && d.Confidence < minSure {
		return nil, "The plan was not begun, since you are not sure of it. The agent " + to + " gets the request."
	}
	if bad := plan.Check(d, w.world(ctx)); bad != nil {
		return nil, "The plan was not begun. Correct these points and call " + requests.StartTool + " again:\n" + plan.Describe(bad)
	}
	return d, ""
}

// world is what plans are held against: what the assistant itself could do, and policy
// does not deny to the user whatever the arguments and whatever was read before.
func (w *treeWorker) world(ctx context.Context) plan.World {
	kit, err := w.engine.kits.Of(kits.DefaultAgent)
	if err != nil {
		return plan.World{}
	}
	can := func(name string, unknown plan.Code) plan.Code {
		t, ok := kit.Registry.Get(name)
		switch {
		case !ok && w.engine.kits.PendingSource(name) != "":
			return plan.NotApproved
		case !ok || name == requests.StartTool || unknown == plan.UnknownAgent && !kit.Asks[name]:
			return unknown
		}
		d, err := w.engine.effects.Authorize(ctx, policy.PointTool, effect.Call{Name: name, Tool: t, Message: w.at, Scope: w.Scope, Request: w.Request,
			Agent: w.Kit.Name, Lineage: w.Request.Lineage, Flow: policy.Flow{Fixed: true}, Attended: true})
		if err == nil && d.Always {
			return plan.PermissionDenied
		}
		return ""
	}
	return plan.World{
		Tool:  func(name string) plan.Code { return can(name, plan.UnknownTool) },
		Near:  func(name string) []string { return tool.SimilarNames(name, kit.Names, 2) },
		Agent: func(path string) plan.Code { return can(path+".ask", plan.UnknownAgent) },
	}
}

// result returns the outputs of the tasks, from which the planner writes its answer.
func (w *treeWorker) result() tool.Result {
	tasks := w.tasksInOrder()
	root := tasks[0]
	res := tool.Result{Labels: plan.LabelsOf(tasks...), Failed: root.State != plan.Done}
	var b strings.Builder
	fmt.Fprintf(&b, "The plan has ended: %s.\n", outcomeOf(root))
	for _, t := range tasks {
		if t.Supervised() { // its output is that of its subtasks
			continue
		}
		fmt.Fprintf(&b, "\n%s: %s\n%s\n", t.Name, outcomeOf(t), llm.Fenced("its output", t.Output.Summary))
	}
	res.Content = []message.Block{&message.Text{Text: b.String()}}
	return res
}

// outcomeOf describes how a task ended.
func outcomeOf(t *plan.Task) string {
	s := string(t.State)
	if t.Error != "" {
		s += " (" + t.Error + ")"
	}
	if t.Verdict != "" {
		s += ", judged: " + t.Verdict
	}
	if t.Told != "" {
		s += ", note from the task above: " + t.Told
	}
	return s
}

// StartTool implements turn.Plans: it returns plan.start for a call after which a person is asked about
// the plan, unless the plan does not hold: then the model corrects it first.
func (e *Engine) StartTool(ctx context.Context, t *turn.InnerCall) tool.Tool {
	w := &treeWorker{engine: e, InnerCall: t}
	_, problem := w.readPlan(ctx, t.Call().Args)
	return startTool{engine: e, asks: problem == ""}
}
