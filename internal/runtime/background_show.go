package runtime

import (
	"slices"

	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/record"
)

// TaskView is a background call as it is shown to a person.
type TaskView struct {
	ID       id.ID
	Call     string // "MESSAGE/BLOCK": the call that began it
	Tool     string
	Status   string  // record.TaskAcknowledged, … or callAwaiting
	Message  string  // in the tool's own words
	Fraction float64 // above 0 to 1; 0: unknown
	Approval *ApprovalView
}

// showTask shows the progress of a background call to the conversation's
// watchers.
func (n *Node) showTask(t *backgroundCall, status string) {
	t.mu.Lock()
	p := t.progress
	t.mu.Unlock()
	v := taskView(t.id, p)
	v.Call, v.Tool = t.callID(), t.spec.Name
	if v.Status == "" {
		v.Status = status
	}
	t.chat.feed.task(v, record.IDOf(t.at, record.TypeInteraction))
}

// callID returns the id of the call that began the task, or "" if none did.
func (t *backgroundCall) callID() string {
	if t.call.Ref.Message.Zero() {
		return ""
	}
	return callID(t.call.Ref)
}

// taskView returns the view of a step of a background call. Its status is empty
// unless a person is asked.
func taskView(task id.ID, p effect.Progress) TaskView {
	v := TaskView{ID: task, Call: callID(p.Call), Tool: p.Tool, Message: p.Message, Fraction: max(p.Fraction, 0)}
	if p.Status == effect.Awaiting {
		v.Status = callAwaiting
		v.Approval = approvalView(p.Question)
		v.Approval.Tool, v.Approval.Args = p.Tool, string(p.Args)
	}
	return v
}

// showEnd shows the watchers that a background call has ended.
func (n *Node) showEnd(t *backgroundCall, r *storedRequest) {
	t.chat.feed.untask(t.id, &Frame{Kind: FrameTask, Interaction: record.IDOf(t.at, record.TypeInteraction),
		Task: &TaskView{ID: t.id, Call: t.callID(), Tool: t.spec.Name, Status: first(r.Status, record.TaskError), Message: r.Message, Fraction: r.Progress}})
}

// task pushes the progress of a background call, and keeps it for later watchers.
func (f *feed) task(v TaskView, inter id.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fr := Frame{Kind: FrameTask, Interaction: inter, Task: &v}
	if i := slices.IndexFunc(f.tasks, func(x Frame) bool { return x.Task.ID == v.ID }); i >= 0 {
		if *f.tasks[i].Task == v {
			return
		}
		f.tasks[i] = fr
	} else {
		f.tasks = append(f.tasks, fr)
	}
	f.push(fr)
}

// untask removes a task, and pushes how it has ended, unless end is nil.
func (f *feed) untask(task id.ID, end *Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tasks = slices.DeleteFunc(f.tasks, func(x Frame) bool { return x.Task.ID == task })
	if end != nil {
		f.push(*end)
	}
}
