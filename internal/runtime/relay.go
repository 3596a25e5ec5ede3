package runtime

import (
	"steward/internal/agent"
)

// relay turns what happens in the conversation of an agent that was asked into
// the progress of the asking call: the questions to a person, one after the
// other, and a line about what runs.
type relay struct {
	agent string
	tell  func(agent.Progress)
	told  agent.Progress
	about string // the question that was told last; empty: none
}

// say tells how it stands by the calls that are open, if that is new. A question
// that was told stays the one that is asked until it is answered.
func (r *relay) say(open []CallView) {
	q, about := r.question(open)
	p := agent.Progress{Status: callRunning}
	switch {
	case q != nil && r.about != "" && about != r.about: // nobody is to take the one for the other
		r.tell(p)
		fallthrough
	case q != nil:
		p.Status, p.Approval = callAwaiting, q
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
// one, and by what it is known.
func (r *relay) question(open []CallView) (q *ApprovalView, about string) {
	for i := range open {
		v := &open[i]
		if v.Approval == nil || v.Status != callAwaiting {
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
