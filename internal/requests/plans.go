package requests

import (
	"context"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// The record of a plan that was carried out stands below the turn that asked for
// it, and has the id of the plan's first task. It is found by its id, and among all
// by the order of their ends.
const (
	TypePlan  = "plan.Plan"
	TermPlan  = "plan"
	TermPlans = "plans"
)

// Plans returns the user's plans that were carried out, the newest first, at most
// limit of them, without what stands in them.
func (e *Engine) Plans(ctx context.Context, user string, limit int) ([]client.Plan, error) {
	var out []client.Plan
	err := e.eachPlan(ctx, store.ForUser(user), store.Term{Name: TermPlans}, func(p client.Plan) bool {
		p.Plan, p.Tasks = nil, nil
		out = append(out, p)
		return len(out) < limit
	})
	return out, err
}

// Plan returns a plan that was carried out. which is its id, or at least the first
// 8 characters of it. Error codes: plan_not_found, plan_ambiguous.
func (e *Engine) Plan(ctx context.Context, user, which string) (client.Plan, error) {
	sc := store.ForUser(user)
	missing := fault.New(fault.NotFound, "plan_not_found", "there is no plan %.80q", which).WithHint("steward plans list shows those that were carried out")
	own, err := ResolvePrefix(which, "plan", "plans", missing, func(yield func(id.ID, error) bool) {
		for it, err := range store.Items(ctx, e.store, sc, store.Query{Term: store.Term{Name: TermPlans}, Type: TypePlan, Reverse: true, NoBody: true, Limit: 1000}) {
			if !yield(record.IDOf(it.URI, TypePlan), err) {
				return
			}
		}
	})
	if err != nil {
		return client.Plan{}, err
	}
	out, err := e.FindPlan(ctx, sc, own.String())
	if err == nil && out == nil {
		err = missing
	}
	if err != nil {
		return client.Plan{}, err
	}
	return *out, nil
}

// FindPlan returns the plan with an id, or nil if there is none.
func (e *Engine) FindPlan(ctx context.Context, sc store.Scope, own string) (out *client.Plan, err error) {
	err = e.eachPlan(ctx, sc, store.Term{Name: TermPlan, Value: own}, func(p client.Plan) bool { out = &p; return false })
	return out, err
}

// eachPlan calls see with the plans that carry a term, the newest first, until it
// returns false. Those of deleted conversations are left out.
func (e *Engine) eachPlan(ctx context.Context, sc store.Scope, term store.Term, see func(client.Plan) bool) error {
	for it, err := range store.Items(ctx, e.store, sc, store.Query{Term: term, Type: TypePlan, Reverse: true}) {
		if err != nil {
			return err
		}
		p, err := DecodePlan(it)
		if err != nil {
			return err
		}
		if _, there, err := Conversation(ctx, e.store, sc, record.IDOf(it.URI, record.TypeConversation)); err != nil {
			return err
		} else if there && !see(p) {
			return nil
		}
	}
	return nil
}

// DecodePlan decodes the record of a plan.
func DecodePlan(it store.Item) (client.Plan, error) {
	var p client.Plan
	err := record.Decode(it.URI, it.Body, &p)
	p.ID, p.Conversation, p.Interaction = it.URI.ID(), record.IDOf(it.URI, record.TypeConversation).String(), IDText(record.IDOf(it.URI, record.TypeInteraction))
	return p, err
}
