package planning

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
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/plan"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/store/lease"
	"steward/internal/taint"
	"steward/internal/tool"
)

// maxAsked bounds the request in a plan's record, in bytes.
const maxAsked = 4 << 10

// recordOutcome records the outcome of a plan whose tasks have ended, in one batch with their last
// changes and the end of the lease.
func (w *treeWorker) recordOutcome(ctx context.Context, tasks []*plan.Task, changes []store.Change) error {
	root := tasks[0]
	wrote, _ := tool.Canonical(w.Call().Args) // what is no JSON has not become a plan
	started, err := tool.Canonical(w.args)
	if err != nil {
		return err
	}
	edited := !bytes.Equal(wrote, started)
	planned, err := plan.Parse(started)
	if err != nil {
		return err
	}
	if planned.Purpose == "" { // then it was given the request's; see readPlan
		planned.Purpose = root.Purpose
	}
	if w.Call().Origin != originFallback {
		plan.Check(planned, plan.World{}) // normalizes names, as before the tasks were made
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
		Fallback: w.Call().Origin == originFallback, Labels: w.Call().Labels.Names(), Ended: time.Now().UTC().Truncate(time.Millisecond)}
	turn, err := w.Messages(ctx)
	if err != nil {
		return err
	}
	requestText, _ := taint.Words(turn)
	p.Request = cmp.Or(requestText, p.Request)
	if i := slices.IndexFunc(turn, func(m *message.Message) bool { return m.ID == w.Call().Message }); i >= 0 {
		p.Started = turn[i].At
	}
	p.Request = strings.ToValidUTF8(p.Request[:min(len(p.Request), maxAsked)], "")
	below, err := requests.Find(ctx, w.engine.store, store.ForUser(w.Conversation.User), store.Query{Under: w.at.Parent()})
	if err != nil {
		return err
	}
	used, err := w.turnUsage(ctx, below)
	if err != nil {
		return err
	}
	p.Tokens, p.Cost = used.Usage.Input+used.Usage.Output, used.Cost
	for _, t := range tasks {
		p.Corrections += t.Rounds
		if t.Supervised() {
			continue
		}
		x := client.PlanTask{Name: t.Name, Agent: t.Assistant, State: string(t.State), Error: t.Error, Verdict: t.Verdict}
		if err := w.addTaskUsage(ctx, t, below, &x, &p); err != nil {
			return err
		}
		p.Tasks = append(p.Tasks, x)
	}
	at := w.at.Parent().ChildID(requests.TypePlan, root.ID)
	kept := store.Change{URI: at, Body: record.Encode(&p), If: store.If{Absent: true}, Terms: []store.Term{{Name: requests.TermPlan, Value: root.ID.String()}, {Name: requests.TermPlans}}}
	if err := lease.From(ctx).End(ctx, append(changes, kept)...); err != nil {
		return err
	}
	p.ID = root.ID.String()
	w.engine.Examples.add(w.Conversation.User, &p)
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

// turnUsage adds up what the turn has used, from what is stored: the memory of a process that was killed
// is gone. below are the requests of the turn.
func (w *treeWorker) turnUsage(ctx context.Context, below []requests.Stored) (requests.Tally, error) {
	st, sc := w.engine.store, store.ForUser(w.Conversation.User)
	sum := w.engine.requests.Tally()
	for m, err := range requests.MessagesUnder(ctx, st, sc, w.at.Parent()) {
		if err != nil {
			return sum, err
		}
		sum.Message(m)
	}
	if err := sum.Apart(ctx, st, sc, w.at.Parent()); err != nil {
		return sum, err
	}
	for i := range below {
		switch b := &below[i]; {
		case b.Kind == record.RequestTurn:
		case b.Usage != (message.Usage{}):
			sum.Usage, sum.Cost = sum.Usage.Add(b.Usage), sum.Cost+b.Cost
		default: // it is not closed yet, so its record has no sum
			if err := sum.All(ctx, st, sc, b); err != nil {
				return sum, err
			}
		}
	}
	return sum, nil
}

// addTaskUsage adds what the agents did that a task was given to. below are the requests of the turn.
func (w *treeWorker) addTaskUsage(ctx context.Context, t *plan.Task, below []requests.Stored, x *client.PlanTask, p *client.Plan) error {
	st, sc := w.engine.store, store.ForUser(w.Conversation.User)
	for _, r := range below {
		if r.Call.Message != t.ID {
			continue
		}
		if !strings.HasPrefix(r.Agent, kits.DesignedPrefix) {
			x.Agent = r.Agent
		}
		conv := record.ConversationURI(r.Conversation)
		gist, err := requests.SumUp(ctx, st, sc, conv)
		if err != nil {
			return err
		}
		x.Iterations, x.Tools = x.Iterations+gist.Replies, message.JoinSources(x.Tools, gist.Called)
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
