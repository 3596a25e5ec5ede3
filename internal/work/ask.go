package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/taint"
	"steward/internal/tool"
	"steward/internal/turn"
)

const (
	maxDepth    = 8              // levels of agents asking agents, below a turn from outside
	AskTimeout  = 24 * time.Hour // of a call that asks; the asked agent has limits of its own
	stopTimeout = time.Second    // how long a stopped call waits for the asked agent to end
)

// askSchema is the schema of NAME.ask for agents that declare none.
const askSchema = `{"type":"object","properties":{"request":{"type":"string","minLength":1,` +
	`"description":"What it is to do or to tell, with all that it has to know: it sees nothing of this conversation."}},` +
	`"required":["request"],"additionalProperties":false}`

// askTool is an agent as the level above it sees it: a tool that asks it. The
// agent answers in a conversation of its own whose id derives from the call, so
// that the same call after a crash finds the same conversation.
type askTool struct {
	engine *Engine
	path   string
	spec   tool.Spec
	task   bool // it works on a task of a plan
}

// AskTool returns the tool that asks an agent.
func (e *Engine) AskTool(a *catalog.Agent) tool.Tool {
	sp := tool.Spec{Name: a.Name + ".ask", Effect: tool.Query, Timeout: AskTimeout, Reach: tool.ReachHere, Origin: "agent:" + a.Path, Input: a.Parameters,
		Description: "Asks the agent " + a.Name + ", which works on it by itself and answers.\n" + strings.TrimSpace(a.Description)}
	if len(sp.Input) == 0 {
		sp.Input = []byte(askSchema)
		sp.Log = tool.LogSpec{Summary: "Ask " + a.Name + ": {request}"}
	}
	return &askTool{engine: e, path: a.Path, spec: sp}
}

// TaskTool returns the tool that gives a task of a plan to an agent. It fails if the
// agent leaves actions undone.
func (e *Engine) TaskTool(path string, sp tool.Spec) tool.Tool {
	sp.Timeout, sp.Input = AskTimeout, []byte(askSchema)
	return &askTool{engine: e, path: path, task: true, spec: sp}
}

// Spec implements tool.Tool.
func (t *askTool) Spec() tool.Spec { return t.spec }

// AskedRequest returns the id of the request that a call makes, which is also the
// id of the interaction that answers it.
func AskedRequest(call message.Ref) id.ID { return id.Derive("asked", call.String()) }

// Call asks the agent and waits for its answer.
func (t *askTool) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	inner, _ := taint.From(ctx)
	a, ok := inner.(*turn.InnerCall)
	if !ok {
		return tool.Result{}, fault.New(fault.Unsupported, "ask_outside", "agents can be asked only in conversations").
			WithHint("talk to it: steward chat --agent %s", t.path)
	}
	if a.Request.Depth >= maxDepth {
		return tool.Result{}, fault.New(fault.Exhausted, "agent_too_deep", "the agent %s cannot be asked: %d levels of agents are asking each other already", t.path, a.Request.Depth).
			WithHint("answer without it")
	}
	res, err := t.engine.ask(ctx, a, t.path, in)
	if errors.Is(err, request.ErrSuspend) {
		return res, err
	}
	m := t.engine.GistOf(ctx, a.Conversation.User, record.AskedConversation(in.Call))
	res.Labels, res.Sources, res.Denied = m.Labels, m.Sources, m.Denied
	if t.task && m.Offline && (m.Failed || len(m.Called) == 0) { // this model answers alike whether its calls fail or not
		res.Failed = true
	}
	if t.task && err == nil {
		undone, lookErr := t.engine.undoneActions(context.WithoutCancel(ctx), a.Conversation.User, record.AskedConversation(in.Call))
		if lookErr != nil {
			return res, lookErr
		}
		if len(undone) > 0 { // whatever the agent claims
			res.Failed = true
			res.Content = append([]message.Block{&message.Text{Common: message.Common{Origin: "system"}, Text: "Not done: " + strings.Join(undone, ", ") + ".\n"}}, res.Content...)
		}
	}
	return res, err
}

// GistOf returns the labels of everything that was said and shown in the
// conversation of an asked agent, and what was denied in it. The asking turn
// takes these labels even if the agent did not answer, failed or was stopped,
// since that alone may reveal what it read. If the labels cannot be read, GistOf
// assumes the worst.
func (e *Engine) GistOf(ctx context.Context, user string, conv id.ID) requests.Outcome {
	m, err := requests.SumUp(context.WithoutCancel(ctx), e.store, store.ForUser(user), record.ConversationURI(conv))
	if err != nil {
		e.log.ErrorContext(ctx, "cannot find out what an agent has read: its answer counts as private and untrusted", "conversation", conv.String(), "error", err)
		m.Labels = message.Private | message.Untrusted
	}
	return m
}

// ask sends the request, unless it was sent before, and waits for its end.
func (e *Engine) ask(ctx context.Context, a *turn.InnerCall, path string, in tool.Invocation) (tool.Result, error) {
	own, conv, rc := AskedRequest(in.Call), record.AskedConversation(in.Call), a.Request
	at := record.RequestURI(a.Conversation.ID, rc.ID, own)
	child := rc.ChildAs(own, "")
	child.Lineage = append(slices.Clip(rc.Lineage), a.Run.Agent)
	if err := e.requests.OpenTurn(ctx, a.Conversation.User, at.Parent(), rc.Attended); err != nil {
		return tool.Result{}, err
	}
	t := turn.Input{Conversation: conv, ClientID: "ask", Agent: path, Attended: rc.Attended, Content: []message.Block{&message.Text{Text: askedText(in.Args)}},
		Origin: turn.Actor(a.Run), Labels: a.Call().Labels, Sources: a.Call().Sources, Opens: own, RequestContext: child, AskedBy: at, ParentMeter: a.Meter(), Derived: true,
		Request: record.Request{ID: own, Parent: rc.ID, Root: child.Root, Kind: record.RequestAgent, Agent: path, Tool: a.Call().Name, Call: in.Call,
			CallID: a.Call().CallID, Attended: rc.Attended, Labels: uint8(a.Call().Labels), Lineage: child.Lineage, Conversation: conv, Interaction: own}}
	if e.kits.OwnModel(path) == "" {
		t.Model = a.Run.Model // it inherits the chosen model
	}
	c := e.turns.Enter(a.Conversation.User, conv)
	defer e.turns.Exit(c)
	if _, err := e.turns.Send(ctx, c.User, t); err != nil {
		if e.life.Of(c.User).Err() != nil { // ctx may learn of it a moment later
			err = request.ErrSuspend
		}
		return tool.Result{}, err
	}
	if err := e.awaitAsked(ctx, c, own, a); err != nil {
		return tool.Result{}, err
	}
	return e.readAnswer(ctx, c, own, path)
}

// awaitAsked waits until the run of an interaction is over. It reports the run's
// progress to the asking call, and stops the run when the call is stopped.
func (e *Engine) awaitAsked(ctx context.Context, c *turn.Conversation, inter id.ID, a *turn.InnerCall) error {
	w := c.Feed.Join()
	defer c.Feed.Leave(w)
	r := relay{report: a.Call().Progress}
	return e.awaitRun(ctx, c, inter, func(live *turn.Run) error {
		live.Meter.Under(a.Meter())
		r.agent = live.Agent
		for {
			r.update(c.Feed.Calls(w))
			select {
			case <-w.Wake:
			case <-live.Done:
				return nil
			case <-ctx.Done():
				return e.stopWaiting(ctx, c, live)
			}
		}
	})
}

// stopWaiting ends the wait of a stopped call. It stops the asked agent too, unless the
// node is only closing.
func (e *Engine) stopWaiting(ctx context.Context, c *turn.Conversation, live *turn.Run) error {
	if context.Cause(ctx) == request.ErrSuspend {
		return request.ErrSuspend
	}
	c.Stop(live, request.ErrStop)
	select {
	case <-live.Done:
	case <-time.After(stopTimeout):
	case <-e.life.Of(c.User).Done():
	}
	return context.Cause(ctx)
}

// awaitClosed waits for a channel to be closed, on behalf of a user.
func (e *Engine) awaitClosed(ctx context.Context, user string, ch <-chan struct{}) error {
	life := e.life.Of(user)
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-life.Done():
		return context.Cause(life)
	}
}

// readAnswer reads an agent's answer. If there is none, the result explains why.
func (e *Engine) readAnswer(ctx context.Context, c *turn.Conversation, inter id.ID, path string) (tool.Result, error) {
	end, err := e.conversations.End(ctx, store.ForUser(c.User), c.ID, inter)
	if err != nil {
		return tool.Result{}, err
	}
	var res tool.Result
	if why := noAnswerError(path, end.Run, c.Feed.Failure(end.Interaction)); why != nil {
		res = tool.Text("error_code: " + why.Code + "\n" + why.Error())
		res.Failed = true
	}
	if end.Final != nil {
		if res.Failed {
			res.Content = append(res.Content, &message.Text{Text: "Its last words:"})
		}
		res.Content = append(res.Content, SharedContent(end.Final)...)
	}
	return res, nil
}

// noAnswerError explains to the asking agent why a run has no answer. It returns nil if the
// run has one.
func noAnswerError(path string, r record.Run, why *fault.Error) *fault.Error {
	if strings.HasPrefix(path, kits.DesignedPrefix) {
		path = "of this task" // its name is an id, which means nothing to a reader
	}
	switch agent.Outcome(r.Outcome) {
	case agent.Answered:
		return nil
	case agent.Stopped:
		return fault.New(fault.Cancelled, cmp.Or(r.Error, "agent_stopped"), "the agent %s was stopped before it had an answer", path)
	case agent.Bounded:
		return fault.New(fault.Exhausted, cmp.Or(r.Error, "agent_bound"), "the agent %s has reached a limit before it had an answer", path).
			WithHint("ask for less at once")
	}
	text := ""
	if why != nil {
		text = ": " + why.Error()
	}
	return fault.New(fault.Unavailable, cmp.Or(r.Error, "agent_failed"), "the agent %s could not answer%s", path, text)
}

// SharedContent returns the content of a message as it is shown to another agent.
func SharedContent(m *message.Message) []message.Block {
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

// askedText converts the arguments of NAME.ask into the text that the agent
// receives: the request itself if it is the only member, otherwise one member per
// line.
func askedText(args []byte) string {
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
