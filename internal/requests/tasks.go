package requests

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
	Version uint64
}

// TasksBelow returns the tasks below a message, in the order in which they were
// made.
func TasksBelow(ctx context.Context, st store.Store, sc store.Scope, msg resource.URI) ([]PlannedTask, error) {
	var out []PlannedTask
	for it, err := range store.Items(ctx, st, sc, store.Query{Under: msg, Type: TypeTask, Limit: store.MaxLimit}) {
		if err != nil {
			return nil, err
		}
		t, err := DecodeTask(it)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	slices.SortFunc(out, byOrder)
	return out, nil
}

func byOrder(a, b PlannedTask) int { return cmp.Compare(a.Order, b.Order) }

// DecodeTask decodes the record of a task.
func DecodeTask(it store.Item) (PlannedTask, error) {
	t := &plan.Task{}
	err := record.Decode(it.URI, it.Body, t)
	t.ID = record.IDOf(it.URI, TypeTask)
	return PlannedTask{t, it.URI, it.Version}, err
}

// Tasks returns a page of a user's tasks of plans below a resource, parents before their
// subtasks. A tree may go on in the next page.
func (e *Engine) Tasks(ctx context.Context, user string, under resource.URI, after store.Cursor, limit int) ([]PlannedTask, store.Cursor, error) {
	page, err := e.store.Query(ctx, store.ForUser(user), store.Query{Under: under, Type: TypeTask, After: after, Limit: limit})
	var out []PlannedTask
	for _, it := range page.Items {
		t, err := DecodeTask(it)
		if err != nil {
			return nil, "", err
		}
		out = append(out, t)
	}
	slices.SortStableFunc(out, byOrder)
	return out, page.Next, err
}

// tasks adds the tasks of a plan to the view of the call that carries it out.
func (d *drawer) tasks(v *client.Request, msg resource.URI, below []Stored, depth int) error {
	tasks, err := TasksBelow(d.ctx, d.st, d.sc, msg)
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
func (d *drawer) task(t PlannedTask, below []Stored, depth int) (client.Request, error) {
	v := client.Request{ID: t.ID.String(), Kind: requestTask, Title: t.Name, Agent: t.Assistant, State: Closed, Status: string(t.State), Error: t.Error,
		Started: t.StartedAt, Ended: t.CompletedAt, Verdict: llm.Line(t.Verdict), Rounds: t.Rounds, Round: t.Round}
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
			if worked, err = d.ledTo(worked, b, depth); err != nil {
				return v, err
			}
		}
		if !strings.HasPrefix(b.Agent, kits.DesignedPrefix) {
			v.Agent = b.Agent
		}
		v.WorkedIn = worked.WorkedIn
		v.Below = append(v.Below, worked.Below...)
		addUp(&v, &worked)
	}
	return v, nil
}

// StartTool is the name of the tool that carries out a plan.
const StartTool = "plan.start"

// typeTask is the type of a task's resource, and termTask the term by which it is
// found by its id.
const (
	TypeTask = "plan.Task"
	TermTask = "task"
)

// AskPersonTool is the name of the tool by which an agent that was designed for a task asks the user.
const AskPersonTool = "person.ask"

// ViewTask returns the view of a task itself, without what is below it. worked are the requests that
// gave it to agents.
func ViewTask(ctx context.Context, st store.Store, sc store.Scope, t PlannedTask, worked []Stored) (client.Request, error) {
	d := drawer{ctx: ctx, st: st, sc: sc}
	return d.task(t, worked, maxDrawn)
}

// DesignedFor returns the task that an agent was designed for. Error code: agent_not_found.
func DesignedFor(ctx context.Context, st store.Store, path string) (PlannedTask, error) {
	q := store.Query{Term: store.Term{Name: TermTask, Value: strings.TrimPrefix(path, kits.DesignedPrefix)}, Type: TypeTask, Limit: 1}
	page, err := st.Query(ctx, store.ForNode(resource.System), q)
	if err != nil || len(page.Items) == 0 {
		return PlannedTask{}, cmp.Or(err, kits.UnknownAgent(path))
	}
	return DecodeTask(page.Items[0])
}

// Called returns a function that says in words what an agent was designed for; of others,
// it says nothing.
func Called(st store.Store) func(ctx context.Context, path string) string {
	return func(ctx context.Context, path string) string {
		if !strings.HasPrefix(path, kits.DesignedPrefix) {
			return ""
		}
		t, err := DesignedFor(ctx, st, path)
		if err != nil {
			return ""
		}
		return llm.Line("an agent for the task " + t.Name + ": " + t.Purpose)
	}
}
