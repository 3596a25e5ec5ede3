package taint

import (
	"context"
	"slices"
	"strings"
	"sync"

	"steward/internal/agent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/tool"
)

// Plans reports whether a tool is one of the planning tools, which need access to their turn.
func Plans(name string) bool { return name == PlanTool || name == ExtractTool }

// Record is what the flow of a call is computed from: what stands in the store.
type Record interface {
	// Before returns the messages of the turn as they were when the calls of the message of this call began.
	Before(ctx context.Context, call agent.Call) ([]*message.Message, error)
	// Spec returns the spec of a tool that the agent has, or had.
	Spec(name string) (tool.Spec, bool)
	// Answered reports whether a person has allowed, or refused, a query of the turn that same selects.
	Answered(ctx context.Context, call agent.Call, same func(name string, args []byte) bool) (cleared, refused bool, err error)
}

// FlowOf computes the information flow of a call. It reads nothing if nothing untrusted was shown, or if
// the answer makes no difference: a query that stays here.
func FlowOf(ctx context.Context, r Record, call agent.Call, spec tool.Spec) (policy.Flow, error) {
	if f, ok := Plain(call.Labels, spec); ok {
		return f, nil
	}
	args, err := tool.Canonical(call.Arguments())
	if err != nil {
		return policy.Flow{Open: []string{""}, Why: "its arguments cannot be read"}, nil // refused where arguments are checked
	}
	turn, err := r.Before(ctx, call)
	if err != nil {
		return policy.Flow{}, err
	}
	if spec.Effect != tool.Query || !call.Labels.Has(message.Private) {
		return Of(turn, call.Ref, spec, args), nil
	}
	f := OfQuery(turn, call.Ref, spec, args, call.Sources, r.Spec)
	if f.Fixed {
		return f, nil
	}
	f.Cleared, f.Refused, err = r.Answered(ctx, call, func(name string, args []byte) bool {
		s, ok := r.Spec(name)
		return ok && s.Effect == tool.Query && s.Out() && Destination(s, args) == f.To
	})
	return f, err
}

// Plain returns the flow of a call if it is known without reading the turn. It returns false if the
// turn has to be read.
func Plain(l message.Labels, spec tool.Spec) (policy.Flow, bool) {
	if !l.Has(message.Untrusted) {
		return policy.Flow{Fixed: true}, true
	}
	return policy.Flow{Open: []string{""}, Why: "it was decided after something of others had been read"}, spec.Effect == tool.Query && !spec.Out()
}

// AsksToRead reports whether a call is a query that may need an approval for the data it would carry.
func AsksToRead(spec tool.Spec, l message.Labels, f policy.Flow) bool {
	return spec.Effect == tool.Query && spec.Out() && l.Has(message.Private|message.Untrusted) && !f.Fixed && !f.Cleared && !f.Refused
}

// AskedWith returns the labels of what an agent is asked. What the turn's plan had fixed literally is as
// clean as the plan.
func AskedWith(ctx context.Context, r Record, call agent.Call) (message.Labels, error) {
	args, err := tool.Canonical(call.Arguments())
	if err != nil || !call.Labels.Has(message.Untrusted) {
		return call.Labels, nil // invalid arguments are refused where they are checked
	}
	turn, err := r.Before(ctx, call)
	if err == nil && Literal(turn, call.Ref, call.Name, args) {
		return call.Labels &^ message.Untrusted, nil
	}
	return call.Labels, err
}

// Gates lets one query at a time ask for an approval to go to a place, so that one answer counts for
// all. The zero value is ready for use. Safe for concurrent use.
type Gates struct {
	mu    sync.Mutex
	gates map[string]chan struct{} // by place: holds a token while one of its queries may be asked about
}

// Enter waits until no other query that goes to the same place may need an approval. It returns false if
// ctx has ended.
func (g *Gates) Enter(ctx context.Context, to string) (leave func(), ok bool) {
	g.mu.Lock()
	if g.gates == nil {
		g.gates = map[string]chan struct{}{}
	}
	gate := g.gates[to]
	if gate == nil {
		gate = make(chan struct{}, 1)
		g.gates[to] = gate
	}
	g.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return sync.OnceFunc(func() { <-gate }), true
	case <-ctx.Done():
		return nil, false
	}
}

// Words returns what the user said in messages, and its labels: only text typed by a person, in a turn
// that a person began, without anything attached.
func Words(turn []*message.Message) (text string, labels message.Labels) {
	var words []string
	for _, m := range turn {
		if m.Role != message.User {
			continue
		}
		for _, b := range m.Blocks {
			if t, ok := b.(*message.Text); ok && t.Origin == record.OriginUser && !t.Labels.Has(message.Untrusted) {
				words, labels = append(words, t.Text), labels|t.Labels
			}
		}
	}
	return strings.Join(words, "\n"), labels
}

// Needs says whether a level has tools that bring in untrusted text, and tools
// that act.
type Needs struct{ reads, acts bool }

// See adds the needs that come from a tool.
func (w *Needs) See(s tool.Spec) {
	if Plans(s.Name) || strings.HasPrefix(s.Origin, "agent:") {
		return
	}
	w.reads = w.reads || s.Yields.Has(message.Untrusted)
	w.acts = w.acts || s.Effect == tool.Action
}

// AddTools gives a level the planning tools if they are useful or if it names them, and removes other
// tools of these names. from has the planning tools.
func (w Needs) AddTools(level, from *tool.Registry, named []string) error {
	for _, s := range level.Specs() {
		w.See(s)
	}
	for _, name := range []string{PlanTool, ExtractTool} {
		level.Remove(name)
		if _, there := from.Get(name); !there || !(w.reads && w.acts) && !slices.Contains(named, name) {
			continue
		}
		if err := level.AddFrom(from, name); err != nil {
			return err
		}
	}
	return nil
}
