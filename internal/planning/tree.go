package planning

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/turn"
)

// treeWorker carries out what a tree of tasks decides. Its tasks stand below the
// message that called plan.start.
type treeWorker struct {
	*turn.InnerCall
	engine *Engine
	at     resource.URI
	args   []byte // the plan

	mu           sync.Mutex
	tasks        map[id.ID]*trackedTask
	lastProgress agent.Progress
}

// trackedTask is what the worker of a tree knows of a task.
type trackedTask struct {
	*plan.Task // as it was saved last
	at         resource.URI
	version    uint64            // zero: it is not saved yet
	meter      *llm.Meter        // what it may use, with everything below it; nil: nothing bounds it
	view       *turn.PlannedView // to the conversation's watchers
	progress   *agent.Progress   // by its agent; nil: no agent works on it
}

// track returns what is known of a task, which stands below its parent. The caller holds
// w.mu, or is alone.
func (w *treeWorker) track(t *plan.Task) *trackedTask {
	k := w.tasks[t.ID]
	if k == nil {
		above, meter := w.at, w.TaskMeter
		if p := w.tasks[t.Parent]; p != nil {
			above, meter = p.at, p.meter
		}
		c := *t
		k = &trackedTask{Task: &c, at: above.ChildID(requests.TypeTask, t.ID), meter: meter}
		if l := (llm.Budget{MaxTokens: t.Tokens, MaxCost: t.Cost}); l != (llm.Budget{}) {
			if k.meter = llm.NewMeter(l); meter != nil {
				k.meter.Under(meter)
			}
		}
		w.tasks[t.ID] = k
	}
	return k
}

// setSaved notes a task as it was saved. The caller holds w.mu.
func (w *treeWorker) setSaved(t *plan.Task, version uint64) {
	c, k := *t, w.track(t)
	k.Task, k.version = &c, version
}

// loadTasks reads the tasks of the tree, in the order in which they were made.
func (w *treeWorker) loadTasks(ctx context.Context) ([]*plan.Task, error) {
	stored, err := requests.TasksBelow(ctx, w.engine.store, store.ForUser(w.Conversation.User), w.at)
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*plan.Task
	for _, t := range stored {
		w.setSaved(t.Task, t.Version)
		out = append(out, t.Task)
	}
	return out, err
}

// Save implements plan.Worker. A version that somebody else has written since
// refuses the whole change. The outcome of the plan, and the end of the lease, are
// recorded with the last change.
func (w *treeWorker) Save(ctx context.Context, tasks, final []*plan.Task) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var changes []store.Change
	for _, t := range tasks {
		k := w.track(t)
		cond := store.If{Version: k.version}
		if cond.Version == 0 {
			cond = store.If{Absent: true}
		}
		state := string(t.State)
		if t.State.Over() {
			state = ""
		}
		changes = append(changes, store.Change{URI: k.at, Body: record.Encode(t), State: state, If: cond, Terms: []store.Term{{Name: requests.TermTask, Value: t.ID.String()}}})
	}
	var err error
	rec := store.Receipt{Versions: make([]uint64, len(changes))} // those of a tree that has ended are not needed
	if final == nil {
		rec, err = w.engine.store.Commit(ctx, store.ForUser(w.Conversation.User), store.Batch{Request: w.Request.ID, Changes: changes})
	} else {
		err = w.recordOutcome(ctx, final, changes)
	}
	if err != nil {
		return suspended(ctx, err)
	}
	for i, t := range tasks {
		w.setSaved(t, rec.Versions[i])
	}
	w.show(ctx, tasks)
	return nil
}

// Work implements plan.Worker: a task is given to an agent as if the planner had
// called that agent's tool, so that policy decides about it and what it reads is
// labelled.
func (w *treeWorker) Work(ctx context.Context, t *plan.Task, before []*plan.Task) (plan.Output, error) {
	above, inherited := w.ancestors(t)
	before = append(before, inherited...)
	attempted, labels, err := w.earlierAttempt(ctx, t)
	if err != nil {
		return plan.Output{}, err
	}
	labels |= plan.LabelsOf(append(before, t)...)
	for _, x := range above {
		labels |= x.Labels
	}
	args, err := json.Marshal(map[string]string{"request": assignment(t, above, before) + attempted})
	if err != nil {
		return plan.Output{}, err
	}
	w.mu.Lock()
	tracked := w.track(t)
	w.mu.Unlock()
	ec, err := w.assign(ctx, t, effect.Call{Args: args, Ref: taskCall(t, t.Attempt), Message: tracked.at, Scope: w.Scope, Request: w.Request, Agent: w.Kit.Name, Lineage: w.Request.Lineage,
		Labels: labels, Flow: policy.Flow{Fixed: !labels.Has(message.Untrusted)}, Attended: w.Run.Attended, Left: w.Conversation.Remaining(w.Request.ID)})
	if err != nil {
		return plan.Output{}, err
	}
	call := agent.Call{Call: message.Call{Ref: ec.Ref, ToolCall: &message.ToolCall{Name: ec.Name, Args: args}},
		Labels: labels, Progress: func(p agent.Progress) { w.progress(t, p) }}
	defer w.progress(t, agent.Progress{})
	res, err := w.engine.effects.Run(taint.With(request.With(ctx, w.Request), w.Inner(call, tracked.meter)), ec)
	out := plan.Output{Conversation: record.AskedConversation(call.Ref)}
	if err != nil {
		out.Labels = w.engine.work.GistOf(ctx, w.Conversation.User, out.Conversation).Labels
		return out, suspended(ctx, err)
	}
	if out.Labels, out.Summary = res.Labels, res.Text(); res.Status != message.OK {
		return out, fault.New(fault.Unavailable, "task_failed", "%s", strings.TrimSpace(out.Summary))
	}
	return out, nil
}

// taskCall identifies the call by which a task is given to its agent.
func taskCall(t *plan.Task, attempt int) message.Ref {
	return message.Ref{Message: t.ID, Block: attempt}
}

// tasksInOrder returns the tasks of the tree, in the order in which they were made.
func (w *treeWorker) tasksInOrder() []*plan.Task {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*plan.Task
	for _, k := range w.tasks {
		out = append(out, k.Task)
	}
	slices.SortFunc(out, func(a, b *plan.Task) int { return cmp.Compare(a.Order, b.Order) })
	return out
}

// progress passes on what happens in one of the tasks: a question to a person
// before anything else.
func (w *treeWorker) progress(t *plan.Task, p agent.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.track(t)
	if k.progress = nil; p.Status != "" {
		w.showProgress(k, p)
		p.Message = strings.TrimSuffix(t.Name+": "+p.Message, ": ")
		k.progress = &p
	}
	next := agent.Progress{Status: turn.CallRunning, Message: p.Message}
	for _, x := range w.tasks {
		if x := x.progress; x != nil && x.Status == turn.CallAwaiting && (next.Status != turn.CallAwaiting || x.Approval == w.lastProgress.Approval) {
			next = *x
		}
	}
	if next.Approval != w.lastProgress.Approval || next.Status != w.lastProgress.Status || next.Message != w.lastProgress.Message {
		w.lastProgress = next
		w.Call().Progress(next)
	}
}

// workThrough works through the tasks of the tree, which are fresh if they are not saved
// yet. While it does, a person can give orders.
func (w *treeWorker) workThrough(ctx context.Context, tasks []*plan.Task, fresh bool) error {
	if !fresh {
		w.mu.Lock()
		w.show(ctx, tasks)
		w.mu.Unlock()
	}
	check := func(d []plan.Draft) []plan.Problem {
		return plan.Check(&plan.Draft{Purpose: "corrections", Subtasks: d}, w.world(ctx))
	}
	e, live := w.engine, &liveTree{w, plan.New(w, tasks, plan.Options{Check: check, Fresh: fresh})}
	e.mu.Lock()
	e.trees[live] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.trees, live)
		e.mu.Unlock()
	}()
	return live.run.Work(ctx)
}
