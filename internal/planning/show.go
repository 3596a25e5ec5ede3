package planning

import (
	"context"

	"steward/internal/agent"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/turn"
	"steward/internal/work"
)

// designed stands for the path of an agent that is made for a task.
const designed = "designed"

// show tells the conversation's watchers how tasks stand. The root is not told if it only
// holds the others together. The caller holds w.mu.
func (w *treeWorker) show(ctx context.Context, tasks []*plan.Task) {
	root := work.AskedRequest(w.Call().Ref)
	st, sc := w.plans.store, store.ForUser(w.Conversation.User)
	for _, t := range tasks {
		if t.ID == root && t.Supervised() {
			continue
		}
		var worked []requests.Stored
		for i := range t.Attempt + 1 {
			r, err := requests.Load(ctx, st, sc, record.RequestURI(w.Conversation.ID, w.Request.ID, work.AskedRequest(taskCall(t, i))))
			if err == nil {
				worked = append(worked, r)
			}
		}
		v := turn.PlannedView{Call: requests.CallID(w.Call().Ref), Order: t.Order, At: w.of(t).at}
		var err error
		if v.Task, err = requests.ViewTask(ctx, st, sc, requests.PlannedTask{Task: t, At: w.of(t).at}, worked); err != nil {
			w.plans.log.Warn("a task of a plan cannot be shown", "task", t.ID.String(), "error", err)
			continue
		}
		if v.Task.Agent == "" && !t.Supervised() {
			v.Task.Agent = designed
		}
		if v.Task.Parent = requests.IDText(t.Parent); t.Parent == root {
			v.Task.Parent = ""
		}
		w.tell(w.of(t), v)
	}
}

// says tells the watchers what the agent of a task is doing, or what it has to ask.
func (w *treeWorker) says(k *knownTask, p agent.Progress) {
	if k.shown == nil {
		return
	}
	v := *k.shown
	v.Approval, v.Task.Status, v.Task.Message = "", string(k.State), p.Message
	if q, asks := p.Approval.(*turn.ApprovalView); asks && p.Status == turn.CallAwaiting {
		v.Approval, v.Task.Status = q.ID, turn.CallAwaiting
	}
	w.tell(k, v)
}

func (w *treeWorker) tell(k *knownTask, v turn.PlannedView) {
	k.shown = &v
	w.Conversation.Feed.ShowPlanTask(turn.Frame{Kind: turn.FramePlanned, Interaction: w.Request.ID, Planned: &v})
}
