package planning

import (
	"context"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/plan"
	"steward/internal/requests"
)

// liveTree is a tree of tasks that is being worked on.
type liveTree struct {
	worker *treeWorker
	run    *plan.Run
}

// liveTask returns the only task of a user's live trees that which names: its id, or at
// least the first 8 characters of it.
func (e *Engine) liveTask(user, which string) (live *liveTree, own id.ID, ok bool) {
	which = strings.ToLower(strings.TrimSpace(which))
	if len(which) < requests.MinPrefix {
		return nil, own, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	found := 0
	for t := range e.trees {
		if t.worker.Conversation.User != user {
			continue
		}
		for _, x := range t.worker.tasksInOrder() {
			if strings.HasPrefix(x.ID.String(), which) {
				live, own = t, x.ID
				found++
			}
		}
	}
	return live, own, found == 1
}

// OrderTask carries out a person's command about a task of a plan that is being
// worked on. which is its id, or at least the first 8 characters of it. edited is
// what an edited task is about from now on. Error codes: task_not_found,
// task_transition_illegal, plan_invalid, and those of the store.
func (e *Engine) OrderTask(ctx context.Context, user, which string, c plan.Command, edited *plan.Draft) error {
	t, own, ok := e.liveTask(user, which)
	if !ok {
		return fault.New(fault.NotFound, "task_not_found", "no plan in progress has a task %.60q", which).
			WithHint("steward requests show last lists the tasks of a plan; when its turn has ended, ask again")
	}
	if c == plan.Edit {
		if bad := plan.Check(edited, t.worker.world(ctx)); bad != nil {
			return fault.New(fault.Invalid, "plan_invalid", "the edited task is not valid:\n%s", plan.Describe(bad)).WithHint("correct these points")
		}
		if len(edited.Subtasks) > 0 {
			return fault.New(fault.Invalid, "plan_invalid", "an edited task cannot get subtasks").WithHint("describe what it is to do, and which tools it needs")
		}
	}
	return t.run.Order(ctx, c, own, edited)
}

// CancelRequest cancels a task of a plan, or what another request of a user's still
// does; see work.Engine.Cancel.
func (e *Engine) CancelRequest(ctx context.Context, user, which string) error {
	if _, _, ok := e.liveTask(user, which); ok {
		return e.OrderTask(ctx, user, which, plan.Cancel, nil)
	}
	return e.work.Cancel(ctx, user, which)
}

// ResumeRequest resumes a paused task of a plan, or a parked turn; see
// work.Engine.ResumeParked.
func (e *Engine) ResumeRequest(ctx context.Context, user, which string) error {
	if _, _, ok := e.liveTask(user, which); ok {
		return e.OrderTask(ctx, user, which, plan.Resume, nil)
	}
	return e.work.ResumeParked(ctx, user, which)
}
