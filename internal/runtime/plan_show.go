package runtime

import (
	"cmp"
	"context"
	"slices"

	"steward/client"
	"steward/internal/agent"
	"steward/internal/agent/plan"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// requestTask is the kind of a view of a plan's task.
const requestTask = "plan_task"

// storedTask is a plan.Task with its place and version in the store.
type storedTask struct {
	*plan.Task
	at      resource.URI
	version uint64
}

// tasksBelow returns the tasks below a message, in the order in which they were
// made.
func tasksBelow(ctx context.Context, st store.Store, sc store.Scope, msg resource.URI) ([]storedTask, error) {
	var out []storedTask
	for it, err := range store.Items(ctx, st, sc, store.Query{Under: msg, Type: typeTask, Limit: store.MaxLimit}) {
		if err != nil {
			return nil, err
		}
		t := &plan.Task{}
		if err := record.Decode(it.URI, it.Body, t); err != nil {
			return nil, err
		}
		t.ID = record.IDOf(it.URI, typeTask)
		out = append(out, storedTask{t, it.URI, it.Version})
	}
	slices.SortFunc(out, func(a, b storedTask) int { return cmp.Compare(a.Order, b.Order) })
	return out, nil
}

// tasks adds the tasks of a plan to the view of the call that carries it out.
func (d *drawer) tasks(v *client.Request, msg resource.URI, below []storedRequest, depth int) error {
	tasks, err := tasksBelow(d.ctx, d.st, d.sc, msg)
	if err != nil {
		return err
	}
	under := map[id.ID][]storedTask{}
	for _, t := range tasks {
		under[t.Parent] = append(under[t.Parent], t)
	}
	var draw func(t storedTask) (client.Request, error)
	draw = func(t storedTask) (client.Request, error) {
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
func (d *drawer) task(t storedTask, below []storedRequest, depth int) (client.Request, error) {
	v := client.Request{ID: t.ID.String(), Kind: requestTask, Title: t.Name, Agent: t.Assistant, State: RequestClosed, Status: string(t.State), Error: t.Error, Ended: t.CompletedAt}
	if !t.State.Over() {
		v.State = record.RequestOpen
	}
	switch {
	case t.State == plan.Done:
		v.Outcome = string(agent.Answered)
	case t.State.Over():
		v.Outcome, v.Message = string(t.State), line(t.Verdict)
	}
	for i := range below {
		b := &below[i]
		if b.Kind != record.RequestAgent || b.Call.Message != t.ID {
			continue
		}
		worked, err := d.led(viewOf(b), b, depth)
		if err != nil {
			return v, err
		}
		if v.Started.IsZero() {
			v.Started = worked.Started
		}
		v.Below = append(v.Below, worked.Below...)
		addUp(&v, &worked)
	}
	return v, nil
}

// answerOfPlan returns the answer of a plan of one task, if that is what happened
// last: that of the agent that was designed for it. Otherwise it returns nil.
func (x *calls) answerOfPlan(ctx context.Context) (*message.Message, error) {
	msgs := x.session.Transcript().Messages()
	if len(msgs) < 2 {
		return nil, nil
	}
	asked, r := msgs[len(msgs)-2], msgs[len(msgs)-1].Result()
	if r == nil || r.Name != startTool || r.Status != message.OK || len(asked.Calls()) != 1 {
		return nil, nil
	}
	st, sc := x.node.opt.Store, store.ForUser(x.chat.user)
	tasks, err := tasksBelow(ctx, st, sc, x.session.MessageURI(asked.ID))
	if err != nil || len(tasks) != 1 || tasks[0].State != plan.Done {
		return nil, err
	}
	var final *message.Message
	for m, err := range messagesUnder(ctx, st, sc, record.ConversationURI(tasks[0].Output.Conversation)) {
		if err != nil {
			return nil, err
		}
		if m.Final {
			final = m
		}
	}
	if final == nil || len(shown(final)) == 0 {
		return nil, nil
	}
	return &message.Message{ID: id.New(), Role: message.Assistant, Stop: final.Stop, Model: final.Model, Blocks: shown(final)}, nil
}
