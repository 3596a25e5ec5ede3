package runtime

import (
	"context"
	"slices"
	"strings"
	"sync"

	"steward/internal/agent"
	"steward/internal/effect"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/tool"
)

// plans reports whether a tool needs access to its turn.
func plans(name string) bool { return name == taint.PlanTool || name == taint.ExtractTool }

// flowOf computes the information flow of a call. It reads nothing if nothing
// untrusted was shown, or if nobody needs the answer: a query that stays here.
func (x *calls) flowOf(ctx context.Context, call agent.Call, spec tool.Spec) (policy.Flow, error) {
	if f, ok := plainFlow(call.Labels, spec); ok {
		return f, nil
	}
	args, err := tool.Canonical(orEmptyObject(call.Args))
	if err != nil {
		return policy.Flow{Open: []string{""}, Why: "its arguments cannot be read"}, nil // refused where arguments are checked
	}
	turn, err := x.turnBefore(ctx, call)
	if err != nil {
		return policy.Flow{}, err
	}
	if spec.Effect != tool.Query || !call.Labels.Has(message.Private) {
		return taint.Of(turn, call.Ref, spec, args), nil
	}
	lookup := func(name string) (tool.Spec, bool) {
		t, ok := x.node.kits.toolOf(x.kit.Name, name)
		if !ok {
			return tool.Spec{}, false
		}
		return t.Spec(), true
	}
	f := taint.OfQuery(turn, call.Ref, spec, args, call.Sources, lookup)
	if f.Fixed {
		return f, nil
	}
	at := record.InteractionURI(x.chat.id, x.request.ID)
	own := effect.IntentURI(at.ChildID(record.TypeMessage, call.Message), call.Block)
	f.Cleared, f.Refused, err = x.node.effects.Answered(context.WithoutCancel(ctx), store.ForUser(x.chat.user), at, own, func(name string, args []byte) bool {
		s, ok := lookup(name)
		return ok && s.Effect == tool.Query && s.Out() && taint.Destination(s, args) == f.To
	})
	return f, err
}

// plainFlow returns the flow of a call if it is known without reading the turn.
// It returns false if the turn has to be read.
func plainFlow(l message.Labels, spec tool.Spec) (policy.Flow, bool) {
	if !l.Has(message.Untrusted) {
		return policy.Flow{Fixed: true}, true
	}
	return policy.Flow{Open: []string{""}, Why: "it was decided after something of others had been read"}, spec.Effect == tool.Query && !spec.Out()
}

// asksToRead reports whether a call is a query that may need an approval for the
// data it would carry.
func asksToRead(spec tool.Spec, l message.Labels, f policy.Flow) bool {
	return spec.Effect == tool.Query && spec.Out() && l.Has(message.Private|message.Untrusted) && !f.Fixed && !f.Cleared && !f.Refused
}

// readAlone waits until no other query in the conversation that goes to the same
// place may need an approval, so that one answer counts for all. It returns false
// if ctx has ended.
func (c *chat) readAlone(ctx context.Context, to string) (leave func(), ok bool) {
	c.mu.Lock()
	if c.reads == nil {
		c.reads = map[string]chan struct{}{}
	}
	gate := c.reads[to]
	if gate == nil {
		gate = make(chan struct{}, 1)
		c.reads[to] = gate
	}
	c.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return sync.OnceFunc(func() { <-gate }), true
	case <-ctx.Done():
		return nil, false
	}
}

// turn reads the recorded messages of the turn.
func (x *calls) turn(ctx context.Context) ([]*message.Message, error) {
	return x.node.conversations.Turn(context.WithoutCancel(ctx), store.ForUser(x.chat.user), x.chat.id, x.request.ID)
}

// turnBefore returns the turn as it was when the calls of a message began. They
// share one read of it.
func (x *calls) turnBefore(ctx context.Context, call agent.Call) ([]*message.Message, error) {
	x.reading.Lock()
	defer x.reading.Unlock()
	if x.readFor != call.Message {
		turn, err := x.turn(ctx)
		if err != nil {
			return nil, err
		}
		x.readFor, x.read = call.Message, turn
	}
	return x.read, nil
}

// askedWith returns the labels of what an agent is asked. What the turn's plan
// had fixed literally is as clean as the plan.
func (x *calls) askedWith(ctx context.Context, call agent.Call) (message.Labels, error) {
	args, err := tool.Canonical(orEmptyObject(call.Args))
	if err != nil || !call.Labels.Has(message.Untrusted) {
		return call.Labels, nil // invalid arguments are refused where they are checked
	}
	turn, err := x.turnBefore(ctx, call)
	if err == nil && taint.Literal(turn, call.Ref, call.Name, args) {
		return call.Labels &^ message.Untrusted, nil
	}
	return call.Labels, err
}

// addPlanning adds the tools with which a model plans in advance and has
// untrusted text read separately.
func (n *Node) addPlanning() error {
	for _, t := range []tool.Tool{planTool{}, extractTool{}} {
		if err := n.opt.Tools.Add(t); err != nil {
			return err
		}
	}
	return nil
}

// needs says whether a level has tools that bring in untrusted text, and tools
// that act.
type needs struct{ reads, acts bool }

func (w *needs) see(s tool.Spec) {
	if plans(s.Name) || strings.HasPrefix(s.Origin, "agent:") {
		return
	}
	w.reads = w.reads || s.Yields.Has(message.Untrusted)
	w.acts = w.acts || s.Effect == tool.Action
}

// plan gives a level the planning tools if they are useful or if it names them, and removes other
// tools of these names. from has the planning tools.
func (w needs) plan(level, from *tool.Registry, named []string) error {
	for _, s := range level.Specs() {
		w.see(s)
	}
	for _, name := range []string{taint.PlanTool, taint.ExtractTool} {
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
