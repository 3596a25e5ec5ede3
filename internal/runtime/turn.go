package runtime

import (
	"cmp"
	"context"
	"errors"
	"unicode/utf8"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/lease"
)

// Send begins a turn. It returns once the user's message is durable. The turn
// continues independently of ctx and is observed through Watch. If another turn
// of the conversation is running, Send waits for its end, or, if t.Steer is set,
// delivers the message to it at its next safe point.
//
// Error codes: message_empty, message_invalid, agent_not_found,
// too_much_attached, model_not_found, conversation_not_found, turn_withdrawn (Conflict: while it
// waited, the conversation was deleted or rewound), closing, and those of the
// store; then nothing has been recorded.
func (n *turnEngine) Send(ctx context.Context, user string, t Turn) (Accepted, error) {
	if err := n.ReadAttached(ctx, user, t.Model, t.Content); err != nil {
		return Accepted{}, err
	}
	hidden := n.hideSecrets(&t)
	acc, err := n.send(ctx, user, t)
	acc.Hidden = hidden
	return acc, err
}

func (n *turnEngine) send(ctx context.Context, user string, t Turn) (Accepted, error) {
	m, err := userMessage(user, &t)
	if err != nil {
		return Accepted{}, err
	}
	c := n.enter(user, t.Conversation)
	defer n.exit(c)
	leave, err := c.deduplicate(ctx, n.life, t.key(m))
	if err != nil {
		return Accepted{}, err
	}
	defer leave()
	if len(c.turn) > 0 { // otherwise the check is made once the turn lock is held
		if acc, ok, err := n.duplicate(ctx, c, t, m); ok || err != nil {
			return acc, err
		}
	}
	if t.Steer {
		if acc, ok, err := c.steerInto(ctx, m); ok {
			return acc, err
		}
		t.Steer = false // no run takes it: from here on it is an ordinary message
		leave, err := c.deduplicate(ctx, n.life, t.key(m))
		if err != nil {
			return Accepted{}, err
		}
		defer leave()
	}
	for {
		if n.life.Err() != nil {
			return Accepted{}, errClosed
		}
		if !c.tryLock() { // the holder may run this very turn, and wait for its sender
			if acc, ok, err := n.duplicate(ctx, c, t, m); ok || err != nil {
				return acc, err
			}
			if err := c.lock(ctx, n.life); err != nil {
				return Accepted{}, err
			}
		}
		acc, launched, err := n.accept(ctx, c, t, m)
		if !launched {
			c.unlock()
		}
		if !errors.Is(err, errResumed) {
			return acc, err
		}
	}
}

// errResumed reports that an interrupted run of the conversation was resumed
// first.
var errResumed = errors.New("an interrupted run goes on first")

// accept begins a turn whose sender holds the turn lock, unless the turn was
// accepted before, perhaps while this sender waited.
func (n *turnEngine) accept(ctx context.Context, c *chat, t Turn, m *message.Message) (Accepted, bool, error) {
	if acc, ok, err := n.duplicate(ctx, c, t, m); ok || err != nil {
		return acc, false, err
	}
	if c.isLeft() {
		return Accepted{}, false, errLeft
	}
	return n.begin(ctx, c, t, m)
}

// duplicate looks up whether a turn has been accepted before.
func (n *turnEngine) duplicate(ctx context.Context, c *chat, t Turn, m *message.Message) (Accepted, bool, error) {
	if t.ClientID == "" {
		return Accepted{}, false, nil
	}
	sc := store.ForUser(c.user)
	acc := Accepted{Conversation: c.id, Duplicate: true}
	var err error
	if m == nil {
		var r resource.Resource
		acc.Interaction = t.interaction()
		r, err = n.opt.Store.Get(ctx, sc, record.InteractionURI(c.id, acc.Interaction))
		acc.Seq = r.Seq
	} else {
		var e conversation.Entry
		e, err = n.conversations.FindMessage(ctx, sc, c.id, m.ID)
		acc.Interaction, acc.Message, acc.Seq = e.Interaction, m.ID, e.Seq
	}
	if fault.Is(err, fault.NotFound) {
		return Accepted{}, false, nil
	}
	return acc, err == nil, err
}

// interaction returns the id of the interaction that the turn opens. A turn that
// regenerates an answer has no message, so it is recognized by this id, which is
// derived from the client id.
func (t *Turn) interaction() id.ID {
	if !t.Opens.Zero() {
		return t.Opens
	}
	if t.ClientID == "" || t.Regenerate.Zero() {
		return id.New()
	}
	return id.Derive("regenerate", t.Conversation.String(), t.ClientID)
}

// userMessage builds the message of a turn. It sets the turn's conversation if it
// has none.
func userMessage(user string, t *Turn) (*message.Message, error) {
	m := &message.Message{Role: message.User, Blocks: t.Content, At: t.at}
	if !t.Regenerate.Zero() {
		if len(t.Content) > 0 || t.Steer || !t.Replace.Zero() {
			return nil, fault.New(fault.Invalid, "turn_invalid", "an answer is regenerated without a message").
				WithHint("send a message, or ask for another answer, not both")
		}
		return nil, nil
	}
	if t.Steer && !t.Replace.Zero() {
		return nil, fault.New(fault.Invalid, "turn_invalid", "a message that replaces another one begins a turn of its own").WithHint("leave steer out")
	}
	if len(t.Content) == 0 {
		return nil, fault.New(fault.Invalid, "message_empty", "the message is empty").WithHint("write something")
	}
	for _, b := range t.Content {
		b.Base().Origin = t.from()
		b.Base().Labels |= t.labels
		b.Base().Sources = t.sources
		if _, words := b.(*message.Text); !words { // nobody knows who wrote an attachment
			b.Base().Labels |= message.Private | message.Untrusted
		}
		if x, ok := b.(*message.Text); ok && !utf8.ValidString(x.Text) {
			return nil, fault.New(fault.Invalid, "message_invalid", "the message is not valid UTF-8").WithHint("send UTF-8 text")
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
		kind := "message"
		if t.origin != "" {
			kind = "woken" // never collides with a client's own id
		}
		m.ID = id.Derive(kind, t.Conversation.String(), t.ClientID)
	}
	return m, message.Validate(m)
}

// from returns the origin of the turn's content.
func (t *Turn) from() string {
	if t.origin == "" {
		return record.OriginUser
	}
	return t.origin
}

// open returns the chat's session. If a run of the conversation was interrupted
// and is not running, open resumes it first and returns errResumed.
func (n *turnEngine) open(ctx context.Context, c *chat, t *Turn) (*conversation.Session, bool, error) {
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
			return n.worker.Unfinished(ctx, c, s)
		}
		if !t.derived || !fault.Is(err, fault.NotFound) {
			return nil, false, err
		}
	}
	c.feed.settle(0)
	model := t.Model
	if model == record.RepeatModel { // of this turn alone
		model = ""
	}
	return n.conversations.Create(sc, record.Conversation{ID: c.id, Owner: c.user,
		Agent: t.Agent, Model: model, Tools: t.Tools, Metadata: t.Metadata, Asked: t.above}), false, nil
}

// begin commits a turn's first message while its run already asks the model. Once
// it has launched a run, the run owns the turn lock and releases it.
func (n *turnEngine) begin(ctx context.Context, c *chat, t Turn, m *message.Message) (acc Accepted, launched bool, err error) {
	s, launched, err := n.open(ctx, c, &t)
	if err == nil {
		s, err = n.fork(ctx, c, s, &t)
	}
	if err != nil {
		return Accepted{}, launched, err
	}
	conv, inter := s.Conversation(), t.interaction()
	used := n.newAccount(c.user, record.InteractionURI(c.id, inter))
	agent, chosen, spent := n.route(ctx, c, s, &t, m, inter, used)
	planned := t.Plan && t.Agent == "" // for this turn; the conversation keeps its agent
	if planned {
		agent = kits.PlannerAgent
	}
	run := record.Run{ID: id.New(), Attended: t.Attended, Plan: t.Plan, Route: chosen,
		Agent: cmp.Or(t.Agent, agent, conv.Agent, kits.DefaultAgent), Model: cmp.Or(t.Model, conv.Model),
		Sampling: pin(t.Sampling)}
	if err := n.admit(s, &t, run.Agent); err != nil {
		return Accepted{}, false, err
	}
	rc := t.asked
	rc.ID = inter
	job, err := n.job(ctx, c, s, &run, rc, used)
	if err != nil {
		return Accepted{}, false, err
	}
	if m != nil && run.Agent == kits.PlannerAgent {
		earlier, err := n.planner.Earlier(ctx, c.user, m.Text())
		if err != nil {
			return Accepted{}, false, err
		}
		job.System += earlier
	}
	if t.offer {
		c.offersPlan(&job)
	}
	job.Begun = t.origin != ""
	if t.under != nil {
		job.Meter.Under(t.under)
	}
	job.Meter.Add(spent)
	if !planned {
		handTo(s, &run)
	}
	origin := t.from()
	if m == nil {
		origin = "regenerate"
	}
	rows, err := n.begins(ctx, c, s, &t, &run, inter)
	if err != nil {
		return Accepted{}, false, err
	}
	commit := s.Begin(conversation.Opening{Request: rc.ID, Actor: actor(&run), Interaction: inter,
		Origin: origin, Message: m, Run: run, Also: rows})
	ready := make(chan error, 1)
	job.Ready = func() error {
		if err := <-ready; err != nil {
			return unrecorded{err}
		}
		return nil
	}
	acc = Accepted{Conversation: c.id, Interaction: inter, Branch: s.Branch().ID}
	if m != nil {
		acc.Message = m.ID
	}
	c.own(m)
	if !n.launch(ctx, c, s, job, newLive(&run, inter, job.Meter)) {
		return Accepted{}, false, errClosed
	}
	seq, err := commit(context.WithoutCancel(ctx))
	if err == nil {
		if run.Agent == kits.PlannerAgent {
			n.requests.Note(inter)
		}
		c.feed.began(m, inter, seq, t.ClientID)
		n.routed(c, &run, cmp.Or(conv.Agent, kits.DefaultAgent))
		n.routing.Learn(c.user, &run)
	}
	acc.Seq = seq
	ready <- err // from here on the run owns the session
	return acc, true, err
}

// begins returns the requests that are recorded with the beginning of a turn: that of
// another agent, or the turn itself if a plan is to come of it.
func (n *turnEngine) begins(ctx context.Context, c *chat, s *conversation.Session, t *Turn, run *record.Run, inter id.ID) ([]store.Change, error) {
	switch sc := store.ForUser(c.user); {
	case t.request.Kind != "":
		return n.requests.Opening(ctx, sc, t.above, t.request)
	case run.Agent == kits.PlannerAgent:
		return n.requests.TurnRow(ctx, sc, s.Conversation(), record.InteractionURI(c.id, inter), run.Attended)
	}
	return nil, nil
}

// admit refuses a turn that the conversation does not accept.
func (n *turnEngine) admit(s *conversation.Session, t *Turn, path string) error {
	conv := s.Conversation()
	if !conv.Asked.Zero() && t.origin == "" {
		return fault.New(fault.Conflict, "conversation_asked", "in this conversation the agent %s answers another one; nobody else can speak in it", conv.Agent).
			WithHint("talk to the agent in a conversation of its own: steward chat --agent %s", conv.Agent)
	}
	if t.origin == "" {
		if _, err := n.kits.Named(path); err != nil {
			return err
		}
	}
	if s.Head().Zero() {
		return nil
	}
	return n.kits.TakesOver(path, conv.Agent)
}

// handTo makes the run's agent the conversation's from now on, if another agent
// was. An agent that a person names keeps the conversation; one that routing has
// chosen may be followed by another one.
func handTo(s *conversation.Session, run *record.Run) {
	conv := s.Conversation()
	routed := conv.Routed
	if run.Route != nil {
		routed = run.Route.Path != record.RouteNamed
	}
	if cmp.Or(conv.Agent, kits.DefaultAgent) != run.Agent || conv.Agent != "" && conv.Routed != routed {
		s.HandTo(run.Agent, routed)
	}
}

// fork opens the conversation on the branch on which a turn replaces a message or
// regenerates an answer. For other turns it returns s.
func (n *turnEngine) fork(ctx context.Context, c *chat, s *conversation.Session, t *Turn) (*conversation.Session, error) {
	sc := store.ForUser(c.user)
	switch {
	case !t.Replace.Zero():
		m, err := n.conversations.Find(ctx, sc, c.id, t.Replace)
		if err == nil && !isUsers(m.Message) {
			err = fault.New(fault.Invalid, "not_your_message", "message %s was not written by you", t.Replace).
				WithHint("replace one of your own messages, or regenerate an answer")
		}
		if err != nil {
			return nil, err
		}
		return n.conversations.OpenFork(ctx, sc, c.id, conversation.Fork{Message: t.Replace, Before: true})
	case !t.Regenerate.Zero():
		return n.conversations.OpenAgain(ctx, sc, c.id, t.Regenerate)
	}
	return s, nil
}

// unrecorded is the error of a turn whose first message could not be stored. Only
// its sender sees the error; for everybody else there was no turn.
type unrecorded struct{ error }

func (u unrecorded) Unwrap() error { return u.error }

// launch starts the run of a prepared turn, under the lease that ctx carries. The
// run releases the turn lock when it ends. launch returns false if the node is
// closing.
func (n *turnEngine) launch(ctx context.Context, c *chat, s *conversation.Session, job agent.Job, live *liveRun) bool {
	release, ok := n.life.Hold()
	if !ok {
		return false
	}
	n.hold(c)
	ctx, cancel := lease.Carry(n.life, ctx)
	c.mu.Lock()
	c.session, c.cancel, c.live = s, cancel, live
	if c.leaving > 0 {
		cancel(request.ErrStop)
	}
	c.move()
	c.mu.Unlock()
	n.spawn(func() {
		defer release()
		n.run(ctx, c, s, job, live)
	})
	return true
}

// run executes a turn to its end.
func (n *turnEngine) run(ctx context.Context, c *chat, s *conversation.Session, job agent.Job, live *liveRun) {
	defer n.exit(c)
	ended := false
	defer func() {
		if !ended { // the goroutine is exiting early (runtime.Goexit or a panic): nobody may wait for it
			close(live.done)
		}
	}()
	out, err := agent.Run(ctx, job)
	if err != nil && !errors.Is(err, request.ErrSuspend) && !errors.As(err, new(unrecorded)) {
		n.log.Error("a run could not go on", "conversation", c.id.String(), "error", err)
		c.feed.fail(err)
	}
	led := err == nil && n.worker.Over(c, s, live)
	c.mu.Lock()
	c.cancel(nil)
	c.cancel, c.live = nil, nil
	if err != nil {
		c.session = nil // memory may differ from what is durable
	}
	left := c.steer
	c.steer, c.ids = nil, nil
	c.mu.Unlock()
	for _, st := range left {
		close(st.done) // its sender begins a turn of its own
	}
	live.err, ended = err, true
	close(live.done)
	c.unlock()
	if led {
		n.worker.Settle(c.user, record.InteractionURI(c.id, live.interaction), out == agent.Stopped)
	}
}

// Stop stops the conversation's turn: it cancels the provider's request and keeps
// what has arrived. It does nothing if no turn is running.
func (n *turnEngine) Stop(ctx context.Context, user string, conv id.ID) error {
	c, leave, err := n.watchable(ctx, user, conv)
	if err != nil {
		return err
	}
	defer leave()
	c.stop(nil, request.ErrStop)
	return nil
}

// stop cancels the given run, or the current run if live is nil.
func (c *chat) stop(live *liveRun, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil && (live == nil || live == c.live) {
		c.cancel(cause)
	}
}
