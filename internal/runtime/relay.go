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
	open  []CallView // calls that run or wait, in the order in which they began to
	told  agent.Progress
	about string // the question that was told last; empty: none
}

// begin takes the calls that are open now.
func (r *relay) begin(open []CallView) {
	r.open = nil
	for i := range open {
		r.put(&open[i])
	}
}

func (r *relay) see(f *Frame) {
	switch f.Kind {
	case FrameCall:
		r.put(f.Call)
	case FrameResult:
		r.drop(f.Call.ID)
	}
}

func (r *relay) put(v *CallView) {
	if v.Status == string(CallWriting) {
		return
	}
	for i := range r.open {
		if r.open[i].ID == v.ID {
			r.open[i] = *v
			return
		}
	}
	r.open = append(r.open, *v)
}

func (r *relay) drop(call string) {
	for i := range r.open {
		if r.open[i].ID == call {
			r.open = append(r.open[:i:i], r.open[i+1:]...)
			return
		}
	}
}

// say tells how it stands, if that is new. A question that was told stays the
// one that is asked until it is answered.
func (r *relay) say() {
	q, about := r.question()
	p := agent.Progress{Status: string(CallRunning)}
	switch {
	case q != nil && r.about != "" && about != r.about: // nobody is to take the one for the other
		r.tell(p)
		fallthrough
	case q != nil:
		p.Status, p.Approval = string(CallAwaiting), q
	case len(r.open) > 0:
		v := r.open[len(r.open)-1]
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
func (r *relay) question() (q *ApprovalView, about string) {
	for i := range r.open {
		v := &r.open[i]
		if v.Approval == nil || v.Status != string(CallAwaiting) {
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
