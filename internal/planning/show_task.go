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

// designedAgent stands for the path of an agent that is made for a task.
const designedAgent = "designed"

// show shows the conversation's watchers the state of tasks. The root is left out if it only
// holds the others together. The caller holds w.mu.
func (w *treeWorker) show(ctx context.Context, tasks []*plan.Task) {
	root := work.AskedRequest(w.Call().Ref)
	st, sc := w.engine.store, store.ForUser(w.Conversation.User)
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
		v := turn.PlannedView{Call: requests.CallID(w.Call().Ref), Order: t.Order, At: w.track(t).at}
		var err error
		if v.Task, err = requests.ViewTask(ctx, st, sc, requests.PlannedTask{Task: t, At: w.track(t).at}, worked); err != nil {
			w.engine.log.Warn("cannot show a task of a plan", "task", t.ID.String(), "error", err)
			continue
		}
		if v.Task.Agent == "" && !t.Supervised() {
			v.Task.Agent = designedAgent
		}
		if v.Task.Parent = requests.IDText(t.Parent); t.Parent == root {
			v.Task.Parent = ""
		}
		w.pushView(w.track(t), v)
	}
}

// showProgress shows the watchers what the agent of a task is doing, or asks a person.
func (w *treeWorker) showProgress(k *trackedTask, p agent.Progress) {
	if k.view == nil {
		return
	}
	v := *k.view
	v.Approval, v.Task.Status, v.Task.Message = "", string(k.State), p.Message
	if q, asks := p.Approval.(*turn.ApprovalView); asks && p.Status == turn.CallAwaiting {
		v.Approval, v.Task.Status = q.ID, turn.CallAwaiting
	}
	w.pushView(k, v)
}

func (w *treeWorker) pushView(k *trackedTask, v turn.PlannedView) {
	k.view = &v
	w.Conversation.Feed.ShowPlanTask(turn.Frame{Kind: turn.FramePlanned, Interaction: w.Request.ID, Planned: &v})
}
