package turn

import (
	"context"
	"fmt"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/routing"
	"steward/internal/taint"
)

// route chooses the agent of a turn that names none, and returns what that has cost. For a
// turn whose agent a person names, it returns the record from which routing learns. It
// returns no record if neither applies.
func (e *Engine) route(ctx context.Context, c *Conversation, s *conversation.Session, t *Input, m *message.Message, inter id.ID, used *Account) (string, *record.Route, llm.Spend) {
	conv := s.Conversation()
	if e.routing.Mode() == routing.Off || t.Origin != "" || !conv.Asked.Zero() || !t.AskedBy.Zero() {
		return "", nil, llm.Spend{}
	}
	if t.Agent != "" {
		return "", e.routing.Named(ctx, c.User, s, t.Agent, m, inter), llm.Spend{}
	}
	given := conv.Agent != "" && !conv.Routed
	if m == nil || given || t.Plan || t.Model == record.RepeatModel || len(conv.Tools) > 0 {
		return "", nil, llm.Spend{}
	}
	q := routing.Question{User: c.User, Meter: e.opt.Models.NewMeter(), Agent: conv.Agent, Ongoing: !s.Head().Zero() && e.kits.Small[conv.Agent] == nil}
	if q.Text, q.Labels = taint.Words([]*message.Message{m}); q.Text == "" {
		q.Text, q.Labels = m.Text(), message.LabelsOf(m.Blocks)
	}
	if last := routing.LastSaid(s); last != nil {
		var labels message.Labels
		q.Before, labels = taint.Words([]*message.Message{last})
		q.Labels |= labels
	}
	q.Allowed = func(path string) bool { return s.Head().Zero() || e.kits.TakesOver(path, conv.Agent) == nil }
	q.Meter.Account(used.Record)
	d := e.routing.Decide(ctx, &q)
	if d == nil {
		return "", nil, llm.Spend{}
	}
	t.offerPlan = d.Steps && d.Agent == kits.DefaultAgent && t.Attended && t.Origin == ""
	return d.Agent, &d.Route, q.Meter.Spent()
}

// offerPlan makes the job notify the person, after the answer, that the request could be planned.
func (c *Conversation) offerPlan(job *agent.Job) {
	next := job.Emit
	job.Emit = func(ev agent.Event) {
		if ev.Kind == agent.Finished && ev.Outcome == agent.Answered {
			c.Feed.notice("This request has several steps. With /plan and your request, you see a plan before anything is done.", false)
		}
		next(ev)
	}
}

// announceAgent notifies watchers that another agent answers than before.
func (e *Engine) announceAgent(c *Conversation, run *record.Run, before string) {
	if e.routing.Mode() == routing.Auto && !e.routing.HasCatalogAgents() {
		return // a small agent does what the assistant would do
	}
	if run.Route != nil && run.Route.Path != record.RouteNamed && run.Agent != before {
		c.Feed.notice(fmt.Sprintf("The agent %s answers. To have another one, name it.", run.Agent), false)
	}
}
