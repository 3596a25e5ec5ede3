package work

import (
	"cmp"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/turn"
)

// showTask shows the progress of a background call to the conversation's
// watchers.
func (e *Engine) showTask(t *backgroundCall, status string) {
	t.mu.Lock()
	p := t.progress
	t.mu.Unlock()
	v := taskView(t.id, p)
	v.Call, v.Tool = t.callID(), t.spec.Name
	if v.Status == "" {
		v.Status = status
	}
	t.conversation.Feed.ShowTask(v, record.IDOf(t.at, record.TypeInteraction))
}

// callID returns the id of the call that began the task, or "" if none did.
func (t *backgroundCall) callID() string {
	if t.call.Ref.Message.Zero() {
		return ""
	}
	return requests.CallID(t.call.Ref)
}

// taskView returns the view of a step of a background call. Its status is empty
// unless a person is asked.
func taskView(task id.ID, p effect.Progress) turn.TaskView {
	v := turn.TaskView{ID: task, Call: requests.CallID(p.Call), Tool: p.Tool, Message: p.Message, Fraction: max(p.Fraction, 0)}
	if p.Status == effect.Awaiting {
		v.Status = turn.CallAwaiting
		v.Approval = turn.ViewApproval(p.Question)
		v.Approval.Tool, v.Approval.Args = p.Tool, string(p.Args)
	}
	return v
}

// showEnd shows the watchers that a background call has ended.
func (e *Engine) showEnd(t *backgroundCall, r *requests.Stored) {
	t.conversation.Feed.EndTask(t.id, &turn.Frame{Kind: turn.FrameTask, Interaction: record.IDOf(t.at, record.TypeInteraction),
		Task: &turn.TaskView{ID: t.id, Call: t.callID(), Tool: t.spec.Name, Status: cmp.Or(r.Status, record.TaskError), Message: r.Message, Fraction: r.Progress}})
}
