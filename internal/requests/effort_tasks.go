package requests

import (
	"context"
	"strings"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// EffortTasks knows the tasks of plans that belong to goals and projects.
type EffortTasks struct {
	Store store.Store
}

// maxEffortTasks is how many tasks below one are counted.
const maxEffortTasks = 1000

// Find returns the URI of a task of a plan, or of a plan that was carried out. which is its URI, its id, or, of a plan, at
// least the first 8 characters of it.
// Error code: task_not_found.
func (e EffortTasks) Find(ctx context.Context, user, which string) (resource.URI, error) {
	missing := fault.New(fault.NotFound, "task_not_found", "there is no plan and no task of a plan %.200q", which).
		WithHint("steward plans list shows the plans, steward requests list the tasks; a URI begins with cld:")
	which = strings.TrimSpace(which)
	if strings.HasPrefix(which, "cld:") {
		at, err := resource.Parse(which)
		if err != nil {
			return at, err
		}
		t, err := e.Count(ctx, user, at)
		if err == nil && t.State == missingTask {
			err = missing
		}
		return at, err
	}
	own, ok := id.Parse(which)
	if !ok {
		p, err := (&Engine{store: e.Store}).Plan(ctx, user, which)
		if fault.Is(err, fault.NotFound) {
			err = missing
		}
		if err != nil {
			return resource.URI{}, err
		}
		own, _ = id.Parse(p.ID)
	}
	for _, q := range []store.Query{{Term: store.Term{Name: TermPlan, Value: own.String()}, Type: TypePlan}, {Term: store.Term{Name: TermTask, Value: own.String()}, Type: TypeTask}} {
		q.NoBody, q.Limit = true, 1
		page, err := e.Store.Query(ctx, store.ForUser(user), q)
		if err != nil {
			return resource.URI{}, err
		}
		for _, it := range page.Items {
			return it.URI, nil
		}
	}
	return resource.URI{}, missing
}

// missingTask is the state of a task that does not exist, or no longer.
const missingTask = "missing"

// Count says what a URI leads to, and how many of the tasks at and below it are open, done and failed.
func (e EffortTasks) Count(ctx context.Context, user string, at resource.URI) (client.EffortTask, error) {
	t, sc := client.EffortTask{URI: at.String(), State: missingTask}, store.ForUser(user)
	if typ := at.Type(); typ != TypePlan && typ != TypeTask {
		return t, nil
	}
	r, err := e.Store.Get(ctx, sc, at)
	if fault.Is(err, fault.NotFound) {
		return t, nil
	}
	if err != nil {
		return t, err
	}
	if conv := record.IDOf(at, record.TypeConversation); !conv.Zero() {
		if _, there, err := Conversation(ctx, e.Store, sc, conv); err != nil || !there {
			return t, err
		}
	}
	add := func(state string) {
		switch s := plan.State(state); {
		case s == plan.Done:
			t.Done++
		case s.Over():
			t.Failed++
		default:
			t.Open++
		}
	}
	if at.Type() == TypePlan {
		p, err := DecodePlan(store.Item{Resource: r})
		t.Title, t.State = llm.Line(p.Request), p.Outcome
		for _, task := range p.Tasks {
			add(task.State)
		}
		return t, err
	}
	own, err := DecodeTask(store.Item{Resource: r})
	if err != nil {
		return t, err
	}
	t.Title, t.State = llm.Line(own.Name), string(own.State)
	page, err := e.Store.Query(ctx, sc, store.Query{Under: at, Type: TypeTask, Limit: maxEffortTasks})
	for _, it := range page.Items {
		var task PlannedTask
		if task, err = DecodeTask(it); err != nil {
			return t, err
		}
		add(string(task.State))
	}
	return t, err
}
