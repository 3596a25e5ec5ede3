package work

import (
	"steward/internal/agent"
	"steward/internal/turn"
)

// relay turns what happens in an asked agent's conversation into progress of the
// asking call: the questions to a person, one at a time, and a line about what is
// running.
type relay struct {
	agent   string
	report  func(agent.Progress)
	last    agent.Progress
	lastKey string // key of the question that was reported last; empty: none
}

// update reports the state of the open calls, if it has changed. A question that was
// reported stays the current one until it is answered.
func (r *relay) update(open []turn.CallView) {
	q, key := r.question(open)
	p := agent.Progress{Status: turn.CallRunning}
	switch {
	case q != nil && r.lastKey != "" && key != r.lastKey: // so that the two are not taken for one
		r.report(p)
		fallthrough
	case q != nil:
		p.Status, p.Approval = turn.CallAwaiting, q
	case len(open) > 0:
		v := open[len(open)-1]
		if p.Message = v.Name; v.Message != "" {
			p.Message += ": " + v.Message
		}
	}
	if key != r.lastKey || p.Status != r.last.Status || p.Message != r.last.Message {
		r.last, r.lastKey = p, key
		r.report(p)
	}
}

// question returns the question that a person is to be asked now, if there is
// one, and its key.
func (r *relay) question(open []turn.CallView) (q *turn.ApprovalView, key string) {
	for i := range open {
		v := &open[i]
		if v.Approval == nil || v.Status != turn.CallAwaiting {
			continue
		}
		if k := v.Approval.ID + " " + v.Approval.Expires.String(); q == nil || k == r.lastKey {
			c := *v.Approval
			if c.Agent == "" {
				c.Agent, c.Tool, c.Args = r.agent, v.Name, v.Args
			}
			q, key = &c, k
		}
	}
	return q, key
}
