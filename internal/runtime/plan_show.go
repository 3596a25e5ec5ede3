package runtime

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"steward/client"
	"steward/internal/agent"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// requestTask is the kind of a view of a plan's task.
const requestTask = "plan_task"

// PlannedTask is a task of a plan, with its place and version in the store.
type PlannedTask struct {
	*plan.Task
	At      resource.URI
	version uint64
}

// tasksBelow returns the tasks below a message, in the order in which they were
// made.
func tasksBelow(ctx context.Context, st store.Store, sc store.Scope, msg resource.URI) ([]PlannedTask, error) {
	var out []PlannedTask
	for it, err := range store.Items(ctx, st, sc, store.Query{Under: msg, Type: typeTask, Limit: store.MaxLimit}) {
		if err != nil {
			return nil, err
		}
		t, err := decodeTask(it)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortFunc(out, byOrder)
	return out, nil
}

func byOrder(a, b PlannedTask) int { return cmp.Compare(a.Order, b.Order) }

func decodeTask(it store.Item) (PlannedTask, error) {
	t := &plan.Task{}
	err := record.Decode(it.URI, it.Body, t)
	t.ID = record.IDOf(it.URI, typeTask)
	return PlannedTask{t, it.URI, it.Version}, err
}

// Tasks returns a page of a user's tasks of plans below a resource, parents before their
// subtasks. A tree may go on in the next page.
func (n *Node) Tasks(ctx context.Context, user string, under resource.URI, after store.Cursor, limit int) ([]PlannedTask, store.Cursor, error) {
	page, err := n.opt.Store.Query(ctx, store.ForUser(user), store.Query{Under: under, Type: typeTask, After: after, Limit: limit})
	var out []PlannedTask
	for _, it := range page.Items {
		t, err := decodeTask(it)
		if err != nil {
			return nil, "", err
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, byOrder)
	return out, page.Next, err
}

// tasks adds the tasks of a plan to the view of the call that carries it out.
func (d *drawer) tasks(v *client.Request, msg resource.URI, below []storedRequest, depth int) error {
	tasks, err := tasksBelow(d.ctx, d.st, d.sc, msg)
	if err != nil {
		return err
	}
	under := map[id.ID][]PlannedTask{}
	for _, t := range tasks {
		under[t.Parent] = append(under[t.Parent], t)
	}
	var draw func(t PlannedTask) (client.Request, error)
	draw = func(t PlannedTask) (client.Request, error) {
		out, err := d.task(t, below, depth)
		for _, sub := range under[t.ID] {
			var s client.Request
			if err == nil {
				s, err = draw(sub)
			}
			out.Below = append(out.Below, s)
			addUp(&out, &s)
		}
		return out, err
	}
	for _, root := range under[id.ID{}] {
		r, err := draw(root)
		if err != nil {
			return err
		}
		v.Below = append(v.Below, r.Below...)
		if len(r.Below) == 0 || !root.Supervised() {
			v.Below = []client.Request{r}
		}
		addUp(v, &r)
	}
	return nil
}

// addUp adds what one view tells of its use of models to another.
func addUp(to, v *client.Request) {
	to.Usage = client.Usage(message.Usage(to.Usage).Add(message.Usage(v.Usage)))
	to.Cost += v.Cost
}

// task returns the view of a task itself: its state, and what the agents did
// that it was given to.
func (d *drawer) task(t PlannedTask, below []storedRequest, depth int) (client.Request, error) {
	v := client.Request{ID: t.ID.String(), Kind: requestTask, Title: t.Name, Agent: t.Assistant, State: RequestClosed, Status: string(t.State), Error: t.Error,
		Started: t.StartedAt, Ended: t.CompletedAt}
	if !t.State.Over() {
		v.State = record.RequestOpen
	}
	switch {
	case t.State == plan.Done:
		v.Outcome = string(agent.Answered)
	case t.State.Over():
		v.Outcome, v.Message = string(t.State), llm.Line(cmp.Or(t.Verdict, t.Told))
	}
	for i := range below {
		b := &below[i]
		if b.Kind != record.RequestAgent || b.Call.Message != t.ID {
			continue
		}
		worked := viewOf(b)
		if depth < maxDrawn {
			var err error
			if worked, err = d.led(worked, b, depth); err != nil {
				return v, err
			}
		}
		if !strings.HasPrefix(b.Agent, kits.DesignedPrefix) {
			v.Agent = b.Agent
		}
		v.Below = append(v.Below, worked.Below...)
		addUp(&v, &worked)
	}
	return v, nil
}

// PlannedView is how a task of a plan stands while the plan is carried out.
type PlannedView struct {
	Call     string `json:"call_id"`              // that carries out the plan: "MESSAGE/BLOCK"
	Order    int    `json:"order"`                // of its making; a task comes before its subtasks
	Approval string `json:"approval_id,omitzero"` // the question that it waits for; its status is callAwaiting

	At resource.URI `json:"-"` // the task

	// Task has, beside what every view of a request has, the agent "designed" for one that was
	// made for the task. Its tokens and cost are those of its own attempts that have ended.
	Task client.Request `json:"task"`
}

// designed stands for the path of an agent that is made for a task.
const designed = "designed"

// show tells the conversation's watchers how tasks stand. The root is not told if it only
// holds the others together. The caller holds w.mu.
func (w *treeWorker) show(ctx context.Context, tasks []*plan.Task) {
	root := askedRequest(w.call.Ref)
	d := drawer{ctx: ctx, st: w.node.opt.Store, sc: store.ForUser(w.chat.user)}
	for _, t := range tasks {
		if t.ID == root && t.Supervised() {
			continue
		}
		var worked []storedRequest
		for i := range t.Attempt + 1 {
			r, err := loadRequest(ctx, d.st, d.sc, record.RequestURI(w.chat.id, w.request.ID, askedRequest(taskCall(t, i))))
			if err == nil {
				worked = append(worked, r)
			}
		}
		v := PlannedView{Call: callID(w.call.Ref), Order: t.Order, At: w.of(t).at}
		var err error
		if v.Task, err = d.task(PlannedTask{Task: t, At: w.of(t).at}, worked, maxDrawn); err != nil {
			w.node.log.Warn("a task of a plan cannot be shown", "task", t.ID.String(), "error", err)
			continue
		}
		if v.Task.Agent == "" && !t.Supervised() {
			v.Task.Agent = designed
		}
		if v.Task.Parent = idText(t.Parent); t.Parent == root {
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
	if q, asks := p.Approval.(*ApprovalView); asks && p.Status == callAwaiting {
		v.Approval, v.Task.Status = q.ID, callAwaiting
	}
	w.tell(k, v)
}

func (w *treeWorker) tell(k *knownTask, v PlannedView) {
	k.shown = &v
	w.chat.feed.plan(Frame{Kind: FramePlanned, Interaction: w.request.ID, Planned: &v})
}

// plan pushes how a task of a plan stands, and keeps it for later watchers.
func (f *feed) plan(fr Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, known := slices.BinarySearchFunc(f.planned, fr, func(a, b Frame) int {
		return cmp.Or(cmp.Compare(a.Planned.Call, b.Planned.Call), cmp.Compare(a.Planned.Order, b.Planned.Order))
	})
	if !known {
		f.planned = slices.Insert(f.planned, i, fr)
	}
	f.planned[i] = fr
	f.push(fr)
}
