package runtime

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
)

// Send begins a turn. It returns once the user's message is durable; the turn
// goes on by itself, whatever becomes of ctx, and is seen through Watch. While
// another turn of the conversation runs, it waits for it, or with t.Steer
// reaches it at its next safe point.
//
// Error codes: message_empty, message_invalid, agent_not_found,
// model_not_found, conversation_not_found, closing, and those of the store;
// then nothing has been recorded.
func (n *Node) Send(ctx context.Context, user string, t Turn) (Accepted, error) {
	m, err := userMessage(user, &t)
	if err != nil {
		return Accepted{}, err
	}
	if acc, ok, err := n.duplicate(ctx, user, t, m.ID); ok || err != nil {
		return acc, err
	}
	c := n.enter(user, t.Conversation)
	defer n.exit(c)
	if t.Steer {
		if acc, ok, err := c.steerInto(ctx, m); ok {
			return acc, err
		}
	}
	for {
		if err := c.await(ctx, n.life); err != nil {
			return Accepted{}, err
		}
		acc, launched, err := n.begin(ctx, c, t, m)
		if !launched {
			c.release()
		}
		if !errors.Is(err, errResumed) {
			return acc, err
		}
	}
}

// errResumed says that an earlier run of the conversation was taken up first.
var errResumed = errors.New("an interrupted run goes on first")

// duplicate finds out whether the message has been accepted before.
func (n *Node) duplicate(ctx context.Context, user string, t Turn, msg id.ID) (Accepted, bool, error) {
	if t.ClientID == "" {
		return Accepted{}, false, nil
	}
	e, err := n.conversations.FindMessage(ctx, store.ForUser(user), t.Conversation, msg)
	if fault.Is(err, fault.NotFound) {
		return Accepted{}, false, nil
	}
	if err != nil {
		return Accepted{}, false, err
	}
	return Accepted{Conversation: t.Conversation, Interaction: e.Interaction, Message: msg, Seq: e.Seq, Duplicate: true}, true, nil
}

// userMessage makes the message of a turn, and gives the turn its
// conversation where it has none.
func userMessage(user string, t *Turn) (*message.Message, error) {
	m := &message.Message{Role: message.User, Blocks: t.Content}
	if len(t.Content) == 0 {
		return nil, fault.New(fault.Invalid, "message_empty", "the message is empty").With("write something")
	}
	for _, b := range t.Content {
		b.Base().Origin = conversation.OriginUser
		if x, ok := b.(*message.Text); ok && !utf8.ValidString(x.Text) {
			return nil, fault.New(fault.Invalid, "message_invalid", "the message is not valid UTF-8").With("send UTF-8 text")
		}
	}
	if t.ClientID == "" {
		m.ID = id.New()
		if t.Conversation.Zero() {
			t.Conversation, t.fresh = id.New(), true
		}
	} else {
		if t.Conversation.Zero() {
			t.Conversation, t.derived = id.Derive("conversation", user, t.ClientID), true
		}
		m.ID = id.Derive("message", t.Conversation.String(), t.ClientID)
	}
	return m, message.Validate(m)
}

// await waits for the conversation's turn.
func (c *chat) await(ctx, life context.Context) error {
	if life.Err() != nil {
		return errClosed
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Of(ctx.Err())
	case <-life.Done():
		return errClosed
	}
}

func (c *chat) release() { <-c.turn }

// open returns the chat's session. Where a run of it had been interrupted and
// is not running, that is taken up first: errResumed.
func (n *Node) open(ctx context.Context, c *chat, t *Turn) (*conversation.Session, bool, error) {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil {
		return s, false, nil
	}
	sc := store.ForUser(c.user)
	if !t.fresh {
		s, err := n.conversations.Open(ctx, sc, c.id)
		if err == nil {
			c.feed.settle(s.Seq())
			return n.unfinished(ctx, c, s)
		}
		if !t.derived || !fault.Is(err, fault.NotFound) {
			return nil, false, err
		}
	}
	c.feed.settle(0)
	return n.conversations.Create(sc, conversation.Conversation{ID: c.id, Owner: c.user,
		Agent: t.Agent, Model: t.Model, Metadata: t.Metadata}), false, nil
}

func (n *Node) unfinished(ctx context.Context, c *chat, s *conversation.Session) (*conversation.Session, bool, error) {
	runs, err := n.conversations.OpenRuns(ctx, store.ForUser(c.user), conversation.URI(c.id))
	if err != nil || len(runs) == 0 {
		return s, false, err
	}
	launched, err := n.resume(ctx, c, s, runs[0])
	if err == nil {
		err = errResumed
	}
	return nil, launched, err
}

// begin records a turn's first message while its run already asks the model.
// Once it has launched a run, the chat's turn is the run's to give back.
func (n *Node) begin(ctx context.Context, c *chat, t Turn, m *message.Message) (acc Accepted, launched bool, err error) {
	s, launched, err := n.open(ctx, c, &t)
	if err != nil {
		return Accepted{}, launched, err
	}
	conv := s.Conversation()
	run := conversation.Run{ID: id.New(), Attended: t.Attended,
		Agent: first(t.Agent, conv.Agent, DefaultAgent), Model: first(t.Model, conv.Model),
		Sampling: pin(t.Sampling)}
	reqID := id.New()
	job, err := n.job(ctx, c, s, &run, reqID)
	if err != nil {
		return Accepted{}, false, err
	}
	inter := id.New()
	commit := s.Begin(conversation.Opening{Request: reqID, Interaction: inter,
		Origin: conversation.OriginUser, Message: m, Run: run})
	ready := make(chan error, 1)
	job.Ready = func() error {
		if err := <-ready; err != nil {
			return unrecorded{err}
		}
		return nil
	}
	if !n.launch(c, s, job) {
		return Accepted{}, false, errClosed
	}
	seq, err := commit(context.WithoutCancel(ctx))
	if err == nil {
		c.feed.began(m, inter, seq, t.ClientID)
	}
	ready <- err
	return Accepted{Conversation: c.id, Interaction: inter, Message: m.ID, Seq: seq}, true, err
}

// unrecorded is the error of a turn whose first message could not be stored:
// its sender is told, and for everybody else there was no turn.
type unrecorded struct{ error }

func (u unrecorded) Unwrap() error { return u.error }

// launch starts the run of a prepared turn, which gives the chat's turn back
// when it is over; false when the node is closing.
func (n *Node) launch(c *chat, s *conversation.Session, job agent.Job) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return false
	}
	n.runs.Add(1)
	c.users++
	ctx, cancel := context.WithCancelCause(n.life)
	c.mu.Lock()
	c.session, c.cancel = s, cancel
	c.mu.Unlock()
	n.spawn(func() { n.run(ctx, c, s, job) })
	return true
}

// run runs a turn to its end.
func (n *Node) run(ctx context.Context, c *chat, s *conversation.Session, job agent.Job) {
	defer n.runs.Done()
	defer n.exit(c)
	_, err := agent.Run(ctx, job)
	if err != nil && !errors.Is(err, request.ErrSuspend) && !errors.As(err, new(unrecorded)) {
		n.log.Error("a run could not go on", "conversation", c.id.String(), "error", err)
		c.feed.fail(err)
	}
	c.mu.Lock()
	c.cancel(nil)
	c.cancel = nil
	if err != nil {
		c.session = nil // what is in memory may not be what is durable
	}
	left := c.steer
	c.steer = nil
	c.mu.Unlock()
	for _, st := range left {
		close(st.done) // its sender begins a turn of its own
	}
	c.release()
}

// job prepares a run's work; it fills in what the run pins.
func (n *Node) job(ctx context.Context, c *chat, s *conversation.Session, run *conversation.Run, reqID id.ID) (agent.Job, error) {
	kit := n.agents[run.Agent]
	if kit == nil {
		return agent.Job{}, fault.New(fault.NotFound, "agent_not_found", "there is no agent %q", run.Agent)
	}
	run.Version = kit.Version
	run.Model = first(run.Model, kit.Model, "default")
	model, err := n.opt.Models.Resolve(run.Model)
	if err != nil {
		return agent.Job{}, err
	}
	system := kit.Prompt
	if n.opt.Profile != nil {
		about, err := n.opt.Profile(ctx, c.user)
		if err != nil {
			return agent.Job{}, err
		}
		if about != "" {
			system += "\n\n" + about
		}
	}
	began := time.Now()
	if !run.Started.IsZero() {
		began = run.Started
	}
	return agent.Job{
		Journal: s, Model: model.Model, System: system, Tools: kit.tools,
		Sampling: unpin(run.Sampling).Over(kit.Sampling),
		Limits:   kit.Limits, User: c.user, Approach: "direct", Started: began,
		Call:  n.caller(c, s, kit, run, reqID),
		Steer: c.takeSteering, Emit: c.emit,
		Meter: n.meter(kit), Spent: n.spent,
	}, nil
}

// meter returns the meter of a run: the agent's own budget, else the
// configured one of a request.
func (n *Node) meter(kit *agentKit) *llm.Meter {
	if kit.Limits.Budget != (llm.Budget{}) {
		return llm.NewMeter(kit.Limits.Budget)
	}
	return n.opt.Models.NewMeter()
}

// spent prices a model call.
func (n *Node) spent(model string, u message.Usage) llm.Spend {
	price, _ := n.opt.Models.Price(model)
	return llm.Spend{Tokens: u.Input + u.Output, Cost: price.Cost(u)}
}

// caller returns what runs the tool calls of a run.
func (n *Node) caller(c *chat, s *conversation.Session, kit *agentKit, run *conversation.Run, reqID id.ID) func(context.Context, agent.Call) (*message.ToolResult, error) {
	rc := request.Context{ID: reqID, User: c.user, Actor: "agent:" + kit.Name,
		Conversation: conversation.URI(c.id), Attended: run.Attended}
	sc := store.ForUser(c.user)
	sc.Actor = rc.Actor
	return func(ctx context.Context, call agent.Call) (*message.ToolResult, error) {
		ec := effect.Call{
			Name: call.Name, Args: call.Args, Ref: call.Ref, Message: s.MessageURI(call.Message),
			Scope: sc, Request: rc, Agent: kit.Name, Labels: call.Labels, Attended: run.Attended,
			Notify: func(p effect.Progress) { call.Progress(progress(p)) },
		}
		if kit.has(call.Name) {
			ec.Tool, _ = n.opt.Tools.Get(call.Name)
		} else {
			ec.Near = kit.names
		}
		return n.effects.Run(request.With(ctx, rc), ec)
	}
}

// resume goes on with a run that had not ended. It reports whether the run
// was launched; if not, the run was recorded as failed, or the node is
// closing, or there is an error.
func (n *Node) resume(ctx context.Context, c *chat, s *conversation.Session, r conversation.OpenRun) (bool, error) {
	reqID := id.New()
	s.Resume(r, reqID)
	job, err := n.job(ctx, c, s, &r.Run, reqID)
	if err != nil {
		n.log.Warn("an interrupted run cannot go on", "conversation", c.id.String(), "error", err)
		_, err := s.Finish(ctx, nil, string(agent.Failure), fault.Of(err).Code)
		return false, err
	}
	c.feed.resumed(r.Interaction, message.Dangling(s.Transcript().Messages()))
	return n.launch(c, s, job), nil
}

// recover goes on with all runs that had not ended.
func (n *Node) recover(ctx context.Context) error {
	runs, err := n.conversations.OpenRuns(ctx, store.ForNode(resource.System), resource.URI{})
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := n.recoverRun(ctx, r); err != nil {
			n.log.Error("an interrupted run cannot go on", "run", r.URI.String(), "error", err)
		}
	}
	return nil
}

func (n *Node) recoverRun(ctx context.Context, r conversation.OpenRun) error {
	c := n.enter(strings.TrimPrefix(string(r.Space), "user:"), r.Conversation)
	defer n.exit(c)
	if err := c.await(ctx, n.life); err != nil {
		return err
	}
	s, err := n.conversations.Open(ctx, store.ForUser(c.user), c.id)
	launched := false
	if err == nil {
		c.feed.settle(s.Seq())
		launched, err = n.resume(ctx, c, s, r)
	}
	if !launched {
		c.release()
	}
	return err
}

// Stop stops the conversation's turn: the provider's request is cancelled,
// what has come is kept. Stopping when nothing runs does nothing.
func (n *Node) Stop(ctx context.Context, user string, conv id.ID) error {
	c, leave, err := n.watchable(ctx, user, conv)
	if err != nil {
		return err
	}
	defer leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil {
		c.cancel(request.ErrStop)
	}
	return nil
}

// steering is a message that is to reach a run that is on.
type steering struct {
	message *message.Message
	taken   bool
	done    chan steered // closed without a value: the run ended before
}

type steered struct {
	seq   uint64
	inter id.ID
}

// steerInto hands a message to the running turn; false when none takes it.
func (c *chat) steerInto(ctx context.Context, m *message.Message) (Accepted, bool, error) {
	st := &steering{message: m, done: make(chan steered, 1)}
	c.mu.Lock()
	if c.cancel == nil {
		c.mu.Unlock()
		return Accepted{}, false, nil
	}
	c.steer = append(c.steer, st)
	c.mu.Unlock()
	select {
	case got, ok := <-st.done:
		return Accepted{Conversation: c.id, Interaction: got.inter, Message: m.ID, Seq: got.seq}, ok, nil
	case <-ctx.Done():
		c.mu.Lock()
		c.steer = slices.DeleteFunc(c.steer, func(x *steering) bool { return x == st })
		c.mu.Unlock()
		return Accepted{}, true, fault.Of(ctx.Err())
	}
}

// takeSteering returns what is to reach the run, at a safe point.
func (c *chat) takeSteering() []*message.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*message.Message
	for _, st := range c.steer {
		if !st.taken {
			st.taken = true
			out = append(out, st.message)
		}
	}
	return out
}

// emit tells the feed, and the sender of a steering message that it is durable.
func (c *chat) emit(ev agent.Event) {
	c.feed.tell(ev)
	if ev.Kind != agent.Stored || ev.Message.Role != message.User {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, st := range c.steer {
		if st.message == ev.Message {
			st.done <- steered{ev.Seq, c.feed.interaction()}
			c.steer = slices.Delete(c.steer, i, i+1)
			return
		}
	}
}

// pin keeps a request's own sampling settings with its run.
func pin(s llm.Sampling) conversation.SamplingPin {
	return conversation.SamplingPin{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: string(s.Effort)}
}

func unpin(s conversation.SamplingPin) llm.Sampling {
	return llm.Sampling{Temperature: s.Temperature, MaxTokens: s.MaxTokens, Stop: s.Stop, Effort: llm.Effort(s.Effort)}
}

// first returns the first of the words that is not empty.
func first(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return ""
}

// progress translates a step of a tool call for the loop and its onlookers.
func progress(p effect.Progress) agent.Progress {
	out := agent.Progress{Status: string(p.Status), Args: p.Args}
	if p.Status == effect.Awaiting {
		out.Approval = &ApprovalView{ID: p.ID, ArgsHash: p.ArgsHash, Reason: p.Reason, Expires: p.Expires}
	}
	return out
}
