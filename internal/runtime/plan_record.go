package runtime

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/internal/taint"
	"steward/internal/tool"
)

// The record of a plan that was carried out stands below the turn that asked for
// it, and has the id of the plan's first task. It is found by its id, and among all
// by the order of their ends.
const (
	typePlan  = "plan.Plan"
	termPlan  = "plan"
	termPlans = "plans"
)

// maxAsked bounds the request in a plan's record, in bytes.
const maxAsked = 4 << 10

// record records what became of a plan whose tasks are over, in one batch with their last
// changes and the end of the lease.
func (w *treeWorker) record(ctx context.Context, tasks []*plan.Task, changes []store.Change) error {
	root := tasks[0]
	wrote, _ := tool.Canonical(w.call.Args) // what is no JSON has not become a plan
	begun, err := tool.Canonical(w.args)
	if err != nil {
		return err
	}
	edited := !bytes.Equal(wrote, begun)
	planned, err := plan.Parse(begun)
	if err != nil {
		return err
	}
	if planned.Purpose == "" { // then it was given the request's; see read
		planned.Purpose = root.Purpose
	}
	if w.call.Origin != originFallback {
		plan.Check(planned, plan.World{}) // brings names into their form, as before the tasks were made
	}
	before, err := draftOf(plan.Tree(root.ID, planned, 0))
	if err != nil {
		return err
	}
	carried, err := draftOf(tasks)
	if err != nil {
		return err
	}
	edited = edited || !bytes.Equal(before, carried)
	p := client.Plan{Request: root.Purpose, Plan: carried, Edited: edited, Outcome: string(root.State), Error: root.Error,
		Fallback: w.call.Origin == originFallback, Labels: w.call.Labels.Names(), Ended: time.Now().UTC().Truncate(time.Millisecond)}
	turn, err := w.turn(ctx)
	if err != nil {
		return err
	}
	said, _ := taint.Words(turn)
	p.Request = cmp.Or(said, p.Request)
	if i := slices.IndexFunc(turn, func(m *message.Message) bool { return m.ID == w.call.Message }); i >= 0 {
		p.Started = turn[i].At
	}
	p.Request = strings.ToValidUTF8(p.Request[:min(len(p.Request), maxAsked)], "")
	below, err := findRequests(ctx, w.node.opt.Store, store.ForUser(w.chat.user), store.Query{Under: w.at.Parent()})
	if err != nil {
		return err
	}
	used, err := w.usedSoFar(ctx, below)
	if err != nil {
		return err
	}
	p.Tokens, p.Cost = used.usage.Input+used.usage.Output, used.cost
	for _, t := range tasks {
		p.Corrections += t.Rounds
		if t.Supervised() {
			continue
		}
		x := client.PlanTask{Name: t.Name, Agent: t.Assistant, State: string(t.State), Error: t.Error, Verdict: t.Verdict}
		if err := w.used(ctx, t, below, &x, &p); err != nil {
			return err
		}
		p.Tasks = append(p.Tasks, x)
	}
	at := w.at.Parent().ChildID(typePlan, root.ID)
	kept := store.Change{URI: at, Body: record.Encode(&p), If: store.If{Absent: true}, Terms: []store.Term{{Name: termPlan, Value: root.ID.String()}, {Name: termPlans}}}
	if err := lease.From(ctx).End(ctx, append(changes, kept)...); err != nil {
		return err
	}
	p.ID = root.ID.String()
	w.node.examples.learn(w.chat.user, &p)
	return nil
}

// draftOf returns the plan that tasks carry out, as a planner would write it.
func draftOf(tasks []*plan.Task) ([]byte, error) {
	text, err := json.Marshal(plan.Carried(tasks))
	if err != nil {
		return nil, err
	}
	return tool.Canonical(text)
}

// usedSoFar adds up what the turn has used, from what is stored: the memory of a process that was killed
// is gone. below are the requests of the turn.
func (w *treeWorker) usedSoFar(ctx context.Context, below []storedRequest) (tally, error) {
	st, sc := w.node.opt.Store, store.ForUser(w.chat.user)
	sum := tally{price: w.node.parts.Price}
	for m, err := range messagesUnder(ctx, st, sc, w.at.Parent()) {
		if err != nil {
			return sum, err
		}
		sum.message(m)
	}
	if err := sum.apart(ctx, st, sc, w.at.Parent()); err != nil {
		return sum, err
	}
	for i := range below {
		switch b := &below[i]; {
		case b.Kind == record.RequestTurn:
		case b.Usage != (message.Usage{}):
			sum.usage, sum.cost = sum.usage.Add(b.Usage), sum.cost+b.Cost
		default: // it is not closed yet, so its record has no sum
			if err := sum.all(ctx, st, sc, b); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// used adds what the agents did that a task was given to. below are the requests of the turn.
func (w *treeWorker) used(ctx context.Context, t *plan.Task, below []storedRequest, x *client.PlanTask, p *client.Plan) error {
	st, sc := w.node.opt.Store, store.ForUser(w.chat.user)
	for _, r := range below {
		if r.Call.Message != t.ID {
			continue
		}
		if !strings.HasPrefix(r.Agent, kits.DesignedPrefix) {
			x.Agent = r.Agent
		}
		conv := record.ConversationURI(r.Conversation)
		did, err := sumUp(ctx, st, sc, conv)
		if err != nil {
			return err
		}
		x.Iterations, x.Tools = x.Iterations+did.replies, message.JoinSources(x.Tools, did.called)
		for _, err := range store.Items(ctx, st, sc, store.Query{Under: conv, Type: effect.TypeIntent, NoBody: true}) {
			if err != nil {
				return err
			}
			p.Intents++
		}
	}
	p.Iterations += x.Iterations
	return nil
}

// Plans returns the user's plans that were carried out, the newest first, at most
// limit of them, without what stands in them.
func (k *Records) Plans(ctx context.Context, user string, limit int) ([]client.Plan, error) {
	var out []client.Plan
	err := k.plans(ctx, store.ForUser(user), store.Term{Name: termPlans}, func(p client.Plan) bool {
		p.Plan, p.Tasks = nil, nil
		out = append(out, p)
		return len(out) < limit
	})
	return out, err
}

// Plan returns a plan that was carried out. which is its id, or at least the first
// 8 characters of it. Error codes: plan_not_found, plan_ambiguous.
func (k *Records) Plan(ctx context.Context, user, which string) (client.Plan, error) {
	sc := store.ForUser(user)
	missing := fault.New(fault.NotFound, "plan_not_found", "there is no plan %.80q", which).WithHint("steward plans list shows those that were carried out")
	own, err := named(which, "plan", "plans", missing, func(yield func(id.ID, error) bool) {
		for it, err := range store.Items(ctx, k.store, sc, store.Query{Term: store.Term{Name: termPlans}, Type: typePlan, Reverse: true, NoBody: true, Limit: 1000}) {
			if !yield(record.IDOf(it.URI, typePlan), err) {
				return
			}
		}
	})
	if err != nil {
		return client.Plan{}, err
	}
	out, err := k.planOf(ctx, sc, own.String())
	if err == nil && out == nil {
		err = missing
	}
	if err != nil {
		return client.Plan{}, err
	}
	return *out, nil
}

// planOf returns the plan with an id, or nil if there is none.
func (k *Records) planOf(ctx context.Context, sc store.Scope, own string) (out *client.Plan, err error) {
	err = k.plans(ctx, sc, store.Term{Name: termPlan, Value: own}, func(p client.Plan) bool { out = &p; return false })
	return out, err
}

// plans calls see with the plans that carry a term, the newest first, until it
// returns false. Those of deleted conversations are left out.
func (k *Records) plans(ctx context.Context, sc store.Scope, term store.Term, see func(client.Plan) bool) error {
	for it, err := range store.Items(ctx, k.store, sc, store.Query{Term: term, Type: typePlan, Reverse: true}) {
		if err != nil {
			return err
		}
		p, err := decodePlan(it)
		if err != nil {
			return err
		}
		if _, there, err := getConversation(ctx, k.store, sc, record.IDOf(it.URI, record.TypeConversation)); err != nil {
			return err
		} else if there && !see(p) {
			return nil
		}
	}
	return nil
}

func decodePlan(it store.Item) (client.Plan, error) {
	var p client.Plan
	err := record.Decode(it.URI, it.Body, &p)
	p.ID, p.Conversation, p.Interaction = it.URI.ID(), record.IDOf(it.URI, record.TypeConversation).String(), idText(record.IDOf(it.URI, record.TypeInteraction))
	return p, err
}
