package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

const (
	maxDepth   = 8              // levels of asking below a turn from outside
	askTimeout = 24 * time.Hour // of a call that asks: who is asked has limits of its own
	askEnds    = time.Second    // how long a call that is stopped waits for the end of whom it asked
)

// askSchema is the schema of NAME.ask for agents that declare none.
const askSchema = `{"type":"object","properties":{"request":{"type":"string","minLength":1,` +
	`"description":"What it is to do or to tell, with all that it has to know: it sees nothing of this conversation."}},` +
	`"required":["request"],"additionalProperties":false}`

// askTool is an agent as the level above has it: one tool, by which it is
// asked. The agent answers in a conversation of its own, which belongs to the
// call: making the call again, after a crash, finds the same one.
type askTool struct {
	node *Node
	path string
	spec tool.Spec
}

// askTool makes the tool by which an agent is asked.
func (n *Node) askTool(a *catalog.Agent) tool.Tool {
	sp := tool.Spec{Name: a.Name + ".ask", Effect: tool.Query, Timeout: askTimeout, Reach: tool.ReachHere, Origin: "agent:" + a.Path, Input: a.Parameters,
		Description: "Asks the agent " + a.Name + ", which works on it by itself and answers.\n" + strings.TrimSpace(a.Description)}
	if len(sp.Input) == 0 {
		sp.Input = []byte(askSchema)
		sp.Log = tool.LogSpec{Summary: "Ask " + a.Name + ": {request}"}
	}
	return &askTool{node: n, path: a.Path, spec: sp}
}

// Spec implements tool.Tool.
func (t *askTool) Spec() tool.Spec { return t.spec }

// asking is the turn from which an agent is asked.
type asking struct {
	chat  *chat
	run   *record.Run
	inter id.ID
	live  *liveRun
	call  agent.Call
}

type askingKey struct{}

// askedRequest is the id of the request that a call makes, and of the
// interaction in which it is answered.
func askedRequest(call message.Ref) id.ID { return id.Derive("asked", call.String()) }

// Call asks the agent and waits for its answer.
func (t *askTool) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	a, ok := ctx.Value(askingKey{}).(*asking)
	rc, there := request.From(ctx)
	if !ok || !there {
		return tool.Result{}, fault.New(fault.Unsupported, "ask_outside", "agents are asked in conversations only").
			WithHint("talk to it: steward chat --agent %s", t.path)
	}
	if rc.Depth >= maxDepth {
		return tool.Result{}, fault.New(fault.Exhausted, "agent_too_deep", "the agent %s cannot be asked: %d levels of agents are asking each other already", t.path, rc.Depth).
			WithHint("do without it")
	}
	res, err := t.node.ask(ctx, a, rc, t.path, in)
	if errors.Is(err, request.ErrSuspend) {
		return res, err
	}
	m := t.node.seen(ctx, a.chat.user, record.AskedConversation(in.Call))
	res.Labels, res.Sources, res.Denied = m.labels, m.sources, m.denied
	return res, err
}

// seen returns the labels of all that was said and shown in the conversation
// of an agent that was asked, and what was denied in it. Whoever asked it has them from then on, also
// where it answered nothing, failed or was stopped: that it did may tell of
// what it read. Where they cannot be read, the worst is assumed.
func (n *Node) seen(ctx context.Context, user string, conv id.ID) gist {
	m, err := sumUp(context.WithoutCancel(ctx), n.opt.Store, store.ForUser(user), record.ConversationURI(conv))
	if err != nil {
		n.log.ErrorContext(ctx, "what an agent had read cannot be told", "conversation", conv.String(), "error", err)
		m.labels = message.Private | message.Untrusted
	}
	return m
}

// ask sends the request, unless that was done before, and waits for the end.
func (n *Node) ask(ctx context.Context, a *asking, rc request.Context, path string, in tool.Invocation) (tool.Result, error) {
	own, conv := askedRequest(in.Call), record.AskedConversation(in.Call)
	at := record.RequestURI(a.chat.id, a.inter, own)
	child := rc.ChildAs(own, "")
	child.Lineage = append(slices.Clip(rc.Lineage), a.run.Agent)
	a.live.asked.Store(true)
	if err := n.openRequest(ctx, a.chat.user, at, record.Request{ID: own, Parent: rc.ID, Root: child.Root, Kind: record.RequestAgent,
		Agent: path, Tool: a.call.Name, Call: in.Call, CallID: a.call.CallID, Attended: rc.Attended, Labels: uint8(a.call.Labels), Lineage: child.Lineage,
		Conversation: conv, Interaction: own}); err != nil {
		return tool.Result{}, err
	}
	t := Turn{Conversation: conv, ClientID: "ask", Agent: path, Attended: rc.Attended, Content: []message.Block{&message.Text{Text: readable(in.Args)}},
		origin: actor(a.run), labels: a.call.Labels, sources: a.call.Sources, opens: own, asked: child, above: at, under: a.live.meter, derived: true}
	if n.ownModel(path) == "" {
		t.Model = a.run.Model // it stays with the one that was chosen
	}
	c := n.enter(a.chat.user, conv)
	defer n.exit(c)
	if _, err := n.Send(ctx, c.user, t); err != nil {
		switch {
		case n.life.Err() != nil: // which ctx may learn of a moment later
			return tool.Result{}, request.ErrSuspend
		case ctx.Err() != nil:
			return tool.Result{}, err
		}
		return tool.Result{}, n.unasked(ctx, c, at, err)
	}
	if err := n.waitFor(ctx, c, own, a); err != nil {
		return tool.Result{}, err
	}
	return n.answer(ctx, c, at, path)
}

// unasked records that a request came to nothing: whom it was for could not
// even begin.
func (n *Node) unasked(ctx context.Context, c *chat, at resource.URI, err error) error {
	if lost := n.answerRequest(ctx, c.user, at, string(agent.Failure), fault.Of(err).Code); lost != nil {
		return lost
	}
	return err
}

// waitFor waits until the run of an interaction is over, tells the asking call
// how it goes, and stops it when that is stopped.
func (n *Node) waitFor(ctx context.Context, c *chat, inter id.ID, a *asking) error {
	w := c.feed.join()
	defer c.feed.leave(w)
	r := relay{tell: a.call.Progress}
	return n.awaitRun(ctx, c, inter, func(live *liveRun) error {
		live.meter.Under(a.live.meter)
		r.agent = live.agent
		return n.relay(ctx, c, w, live, &r)
	})
}

// relay tells of a run until it is over.
func (n *Node) relay(ctx context.Context, c *chat, w *watcher, live *liveRun, r *relay) error {
	for {
		r.say(c.feed.calls(w))
		select {
		case <-w.wake:
		case <-live.done:
			return nil
		case <-ctx.Done():
			return n.halt(ctx, c, live)
		}
	}
}

// halt ends the wait of a call that is stopped: whom it asked is stopped too,
// unless the node is only closing.
func (n *Node) halt(ctx context.Context, c *chat, live *liveRun) error {
	if context.Cause(ctx) == request.ErrSuspend {
		return request.ErrSuspend
	}
	c.stop(live, request.ErrStop)
	select {
	case <-live.done:
	case <-time.After(askEnds):
	case <-n.life.Done():
	}
	return context.Cause(ctx)
}

// goOn takes up the run of an interaction that was interrupted and does not
// run, unless somebody else is at it, for whom it waits with wait. False where
// the run is over.
func (n *Node) goOn(ctx context.Context, c *chat, inter id.ID, wait bool) (bool, error) {
	moved := c.moved()
	if c.running(inter) != nil {
		return true, nil
	}
	open := func() ([]conversation.OpenRun, error) {
		return n.conversations.OpenRuns(ctx, store.ForUser(c.user), record.InteractionURI(c.id, inter))
	}
	if runs, err := open(); err != nil || len(runs) == 0 {
		return false, err
	}
	if !c.tryLock() {
		if wait {
			return true, n.until(ctx, moved)
		}
		return true, nil
	}
	launched := false
	runs, err := open()                                                  // it may have been taken up, and ended, meanwhile
	if err == nil && len(runs) > 0 && wait && !runs[0].Parked.IsZero() { // who asks for it has been taken up
		runs[0].Run, err = n.unpark(ctx, c, runs[0])
	}
	if err == nil && len(runs) > 0 {
		launched, err = n.reopen(ctx, c, runs[0])
	}
	if !launched {
		c.unlock()
	}
	return len(runs) > 0, err
}

// until waits for a channel to be closed.
func (n *Node) until(ctx context.Context, ch <-chan struct{}) error {
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.life.Done():
		return context.Cause(n.life)
	}
}

// answer reads what an agent has answered. That it did not is a result too.
func (n *Node) answer(ctx context.Context, c *chat, at resource.URI, path string) (tool.Result, error) {
	end, err := n.conversations.End(ctx, store.ForUser(c.user), c.id, record.IDOf(at, record.TypeRequest))
	if err == nil {
		err = n.answerRequest(ctx, c.user, at, end.Run.Outcome, end.Run.Error) // if a crash came between
	}
	if err != nil {
		return tool.Result{}, err
	}
	var res tool.Result
	if why := failure(path, end.Run, c.feed.why(end.Interaction)); why != nil {
		res = tool.Text("error_code: " + why.Code + "\n" + why.Error())
		res.Failed = true
	}
	if end.Final != nil {
		if res.Failed {
			res.Content = append(res.Content, &message.Text{Text: "Its last words:"})
		}
		res.Content = append(res.Content, shown(end.Final)...)
	}
	return res, nil
}

// failure tells why a run has no answer, in words for who asked; nil where it
// has one.
func failure(path string, r record.Run, why *fault.Error) *fault.Error {
	switch agent.Outcome(r.Outcome) {
	case agent.Answered:
		return nil
	case agent.Stopped:
		return fault.New(fault.Cancelled, first(r.Error, "agent_stopped"), "the agent %s was stopped before it had an answer", path)
	case agent.Bounded:
		return fault.New(fault.Exhausted, first(r.Error, "agent_bound"), "the agent %s has stopped at a limit, without an answer", path).
			WithHint("ask for less at once")
	}
	text := ""
	if why != nil {
		text = ": " + why.Error()
	}
	return fault.New(fault.Unavailable, first(r.Error, "agent_failed"), "the agent %s could not answer%s", path, text)
}

// shown returns the content of a message that another agent is shown.
func shown(m *message.Message) []message.Block {
	var out []message.Block
	for _, b := range m.Blocks {
		switch b := b.(type) {
		case *message.Text:
			c := *b
			out = append(out, &c)
		case *message.Image:
			c := *b
			out = append(out, &c)
		case *message.File:
			c := *b
			out = append(out, &c)
		}
	}
	return out
}

// readable writes the arguments of NAME.ask as what the agent is told: the
// request itself, where it is all that there is, else a member per line.
func readable(args []byte) string {
	dec := json.NewDecoder(bytes.NewReader(args))
	var members []string
	only := ""
	if _, err := dec.Token(); err != nil {
		return string(args)
	}
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err == nil {
			err = dec.Decode(&value)
		}
		if err != nil {
			return string(args)
		}
		text := string(value)
		var s string
		if json.Unmarshal(value, &s) == nil {
			text = s
		}
		if name == "request" {
			only = text
		}
		members = append(members, fmt.Sprint(name)+": "+text)
	}
	if len(members) == 1 && only != "" {
		return only
	}
	return strings.Join(members, "\n")
}

// liveRun is a run that is on.
type liveRun struct {
	interaction id.ID
	agent       string
	meter       *llm.Meter
	answers     resource.URI  // the request that it answers; zero: none
	asked       atomic.Bool   // agents were asked in it
	queued      atomic.Bool   // actions were queued in it
	done        chan struct{} // closed when it is over
	err         error         // once done: it could not go on, and is not recorded as over
}

// newLive tells of a run that is to be launched.
func newLive(s *conversation.Session, run *record.Run, inter id.ID, meter *llm.Meter) *liveRun {
	live := &liveRun{interaction: inter, agent: run.Agent, meter: meter, done: make(chan struct{})}
	if asked := s.Conversation().Asked; record.IDOf(asked, record.TypeRequest) == inter {
		live.answers = asked
	}
	return live
}

// running returns the run of an interaction, if it is on.
func (c *chat) running(inter id.ID) *liveRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil || c.live.interaction != inter {
		return nil
	}
	return c.live
}

// moved returns a channel that is closed when a run begins or ends next.
func (c *chat) moved() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves == nil {
		c.moves = make(chan struct{})
	}
	return c.moves
}

// move tells that a run has begun or ended. The caller holds c.mu.
func (c *chat) move() {
	if c.moves != nil {
		close(c.moves)
		c.moves = nil
	}
}

// asking is what a call by which an agent is asked has to know.
func (c *chat) asking(run *record.Run, inter id.ID, call agent.Call) *asking {
	return &asking{chat: c, run: run, inter: inter, live: c.running(inter), call: call}
}

// over records what follows from the end of a run: its request is answered,
// that of who asked for it or the turn's own, and whom it had asked, and who
// still works, is stopped.
func (n *Node) over(c *chat, live *liveRun, out agent.Outcome) {
	ctx := context.WithoutCancel(n.life) // what is over is recorded, also when the node closes now
	inter, at := record.InteractionURI(c.id, live.interaction), live.answers
	if at.Zero() && n.leases.forget(live.interaction) {
		at = inter.ChildID(record.TypeRequest, live.interaction)
	}
	if !at.Zero() {
		n.insist("that a run has ended could not be recorded yet", at, func() error {
			run, _, err := lastRun(ctx, n.opt.Store, store.ForUser(c.user), inter)
			if err != nil {
				return err
			}
			return n.answerRequest(ctx, c.user, at, string(out), run.Error)
		})
	}
	if live.asked.Load() {
		if err := n.stopBelow(ctx, c.user, inter); err != nil {
			n.log.Error("what agents were asked could not be stopped", "conversation", c.id.String(), "error", err)
		}
	}
}

// stopBelow stops the agents that were asked in a turn which is over and wait
// for nobody any more, and answers for those that had not begun.
func (n *Node) stopBelow(ctx context.Context, user string, inter resource.URI) error {
	open, err := findRequests(ctx, n.opt.Store, store.ForUser(user), store.Query{Under: inter, State: record.RequestOpen})
	if err != nil {
		return err
	}
	for i := range open {
		if open[i].Kind != record.RequestAgent {
			continue
		}
		if err := n.stopAsked(ctx, user, &open[i]); err != nil {
			return err
		}
	}
	return nil
}

// stopChildren stops what agents still do on behalf of a conversation that was
// deleted, and forgets what is in memory of theirs.
func (n *Node) stopChildren(ctx context.Context, user string, conv id.ID) error {
	below, err := n.conversations.Children(ctx, store.ForUser(user), conv)
	for _, x := range below {
		n.mu.Lock()
		c := n.chats[chatKey{user, x}]
		n.mu.Unlock()
		if c == nil {
			continue
		}
		c.stop(nil, request.ErrStop)
		c.mu.Lock()
		if c.live == nil {
			c.session = nil
		}
		c.mu.Unlock()
	}
	return err
}

// stopAsked stops an agent that was asked, or answers for it where it had not
// begun.
func (n *Node) stopAsked(ctx context.Context, user string, r *storedRequest) error {
	inter := record.InteractionURI(r.Conversation, r.Interaction)
	if n.stopRun(user, inter) {
		return nil
	}
	run, found, err := lastRun(ctx, n.opt.Store, store.ForUser(user), inter)
	switch {
	case err != nil:
		return err
	case !found:
		run.Outcome, run.Error = string(agent.Stopped), "agent_stopped"
	case run.Ended.IsZero(): // it was never taken up: resume ends it
		c := n.enter(user, r.Conversation)
		defer n.exit(c)
		_, err := n.goOn(ctx, c, r.Interaction, false)
		return err
	}
	return n.answerRequest(ctx, user, r.at, run.Outcome, run.Error)
}
