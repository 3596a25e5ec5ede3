package work

import (
	"steward/internal/agent"
	"steward/internal/turn"
)

// relay turns what happens in an asked agent's conversation into progress of the
// asking call: the questions to a person, one at a time, and a line about what is
// running.
type relay struct {
	agent string
	tell  func(agent.Progress)
	told  agent.Progress
	about string // key of the question that was reported last; empty: none
}

// say reports the state of the open calls, if it has changed. A question that was
// reported stays the current one until it is answered.
func (r *relay) say(open []turn.CallView) {
	q, about := r.question(open)
	p := agent.Progress{Status: turn.CallRunning}
	switch {
	case q != nil && r.about != "" && about != r.about: // so that nobody takes the one for the other
		r.tell(p)
		fallthrough
	case q != nil:
		p.Status, p.Approval = turn.CallAwaiting, q
	case len(open) > 0:
		v := open[len(open)-1]
		if p.Message = v.Name; v.Message != "" {
			p.Message += ": " + v.Message
		}
	}
	if about != r.about || p.Status != r.told.Status || p.Message != r.told.Message {
		r.told, r.about = p, about
		r.tell(p)
	}
}

// question returns the question that a person is to be asked now, if there is
// one, and its key.
func (r *relay) question(open []turn.CallView) (q *turn.ApprovalView, about string) {
	for i := range open {
		v := &open[i]
		if v.Approval == nil || v.Status != turn.CallAwaiting {
			continue
		}
		if known := v.Approval.ID + " " + v.Approval.Expires.String(); q == nil || known == r.about {
			c := *v.Approval
			if c.Agent == "" {
				c.Agent, c.Tool, c.Args = r.agent, v.Name, v.Args
			}
			q, about = &c, known
		}
	}
	return q, about
}
