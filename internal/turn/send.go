package turn

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
func (e *Engine) Send(ctx context.Context, user string, t Input) (Accepted, error) {
	if err := e.ReadAttached(ctx, user, t.Model, t.Content); err != nil {
		return Accepted{}, err
	}
	hidden := e.HideSecrets(&t)
	acc, err := e.send(ctx, user, t)
	acc.Hidden = hidden
	return acc, err
}

func (e *Engine) send(ctx context.Context, user string, t Input) (Accepted, error) {
	m, err := UserMessage(user, &t)
	if err != nil {
		return Accepted{}, err
	}
	c := e.Enter(user, t.Conversation)
	defer e.Exit(c)
	leave, err := c.deduplicate(ctx, e.life, t.key(m))
	if err != nil {
		return Accepted{}, err
	}
	defer leave()
	if len(c.turnLock) > 0 { // otherwise the check is made once the turn lock is held
		if acc, ok, err := e.duplicate(ctx, c, t, m); ok || err != nil {
			return acc, err
		}
	}
	if t.Steer {
		if acc, ok, err := c.steerInto(ctx, m); ok {
			return acc, err
		}
		t.Steer = false // no run takes it: from here on it is an ordinary message
		leave, err := c.deduplicate(ctx, e.life, t.key(m))
		if err != nil {
			return Accepted{}, err
		}
		defer leave()
	}
	for {
		if e.life.Err() != nil {
			return Accepted{}, ErrClosed
		}
		if !c.TryLock() { // the holder may run this very turn, and wait for its sender
			if acc, ok, err := e.duplicate(ctx, c, t, m); ok || err != nil {
				return acc, err
			}
			if err := c.Lock(ctx, e.life); err != nil {
				return Accepted{}, err
			}
		}
		acc, launched, err := e.accept(ctx, c, t, m)
		if !launched {
			c.Unlock()
		}
		if !errors.Is(err, ErrResumed) {
			return acc, err
		}
	}
}

// ErrResumed reports that an interrupted run of the conversation was resumed
// first.
var ErrResumed = errors.New("an interrupted run is resumed first")

// accept begins a turn whose sender holds the turn lock, unless the turn was
// accepted before, perhaps while this sender waited.
func (e *Engine) accept(ctx context.Context, c *Conversation, t Input, m *message.Message) (Accepted, bool, error) {
	if acc, ok, err := e.duplicate(ctx, c, t, m); ok || err != nil {
		return acc, false, err
	}
	if c.blocksTurns() {
		return Accepted{}, false, errWithdrawn
	}
	return e.begin(ctx, c, t, m)
}

// duplicate looks up whether a turn has been accepted before.
func (e *Engine) duplicate(ctx context.Context, c *Conversation, t Input, m *message.Message) (Accepted, bool, error) {
	if t.ClientID == "" {
		return Accepted{}, false, nil
	}
	sc := store.ForUser(c.User)
	acc := Accepted{Conversation: c.ID, Duplicate: true}
	var err error
	if m == nil {
		var r resource.Resource
		acc.Interaction = t.interaction()
		r, err = e.opt.Store.Get(ctx, sc, record.InteractionURI(c.ID, acc.Interaction))
		acc.Seq = r.Seq
	} else {
		var entry conversation.Entry
		entry, err = e.conversations.FindMessage(ctx, sc, c.ID, m.ID)
		acc.Interaction, acc.Message, acc.Seq = entry.Interaction, m.ID, entry.Seq
	}
	if fault.Is(err, fault.NotFound) {
		return Accepted{}, false, nil
	}
	return acc, err == nil, err
}

// interaction returns the id of the interaction that the turn opens. A turn that
// regenerates an answer has no message, so it is recognized by this id, which is
// derived from the client id.
func (t *Input) interaction() id.ID {
	if !t.Opens.Zero() {
		return t.Opens
	}
	if t.ClientID == "" || t.Regenerate.Zero() {
		return id.New()
	}
	return id.Derive("regenerate", t.Conversation.String(), t.ClientID)
}

// UserMessage builds the message of a turn. It sets the turn's conversation if it
// has none.
func UserMessage(user string, t *Input) (*message.Message, error) {
	m := &message.Message{Role: message.User, Blocks: t.Content, At: t.At}
	if !t.Regenerate.Zero() {
		if len(t.Content) > 0 || t.Steer || !t.Replace.Zero() {
			return nil, fault.New(fault.Invalid, "turn_invalid", "a turn that regenerates an answer has no message").
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
		b.Base().Origin = t.origin()
		b.Base().Labels |= t.Labels
		b.Base().Sources = t.Sources
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
			t.Conversation, t.Derived = id.Derive("conversation", user, t.ClientID), true
		}
		kind := "message"
		if t.Origin != "" {
			kind = "woken" // never collides with a client's own id
		}
		m.ID = id.Derive(kind, t.Conversation.String(), t.ClientID)
	}
	return m, message.Validate(m)
}

// origin returns the origin of the turn's content.
func (t *Input) origin() string {
	if t.Origin == "" {
		return record.OriginUser
	}
	return t.Origin
}

// open returns the conversation's session. If a run of the conversation was interrupted
// and is not running, open resumes it first and returns ErrResumed.
func (e *Engine) open(ctx context.Context, c *Conversation, t *Input) (*conversation.Session, bool, error) {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s != nil {
		return s, false, nil
	}
	sc := store.ForUser(c.User)
	if !t.fresh {
		s, err := e.conversations.Open(ctx, sc, c.ID)
		if err == nil {
			c.Feed.SetSeq(s.Seq())
			return e.work.ResumeUnfinished(ctx, c, s)
		}
		if !t.Derived || !fault.Is(err, fault.NotFound) {
			return nil, false, err
		}
	}
	c.Feed.SetSeq(0)
	model := t.Model
	if model == record.RepeatModel { // of this turn alone
		model = ""
	}
	return e.conversations.Create(sc, record.Conversation{ID: c.ID, Owner: c.User,
		Agent: t.Agent, Model: model, Tools: t.Tools, Metadata: t.Metadata, Asked: t.AskedBy}), false, nil
}

// begin commits a turn's first message while its run already asks the model. Once
// it has launched a run, the run owns the turn lock and releases it.
func (e *Engine) begin(ctx context.Context, c *Conversation, t Input, m *message.Message) (acc Accepted, launched bool, err error) {
	s, launched, err := e.open(ctx, c, &t)
	if err == nil {
		s, err = e.fork(ctx, c, s, &t)
	}
	if err != nil {
		return Accepted{}, launched, err
	}
	conv, inter := s.Conversation(), t.interaction()
	used := e.NewAccount(c.User, record.InteractionURI(c.ID, inter))
	agent, chosen, spent := e.route(ctx, c, s, &t, m, inter, used)
	planned := t.Plan && t.Agent == "" // for this turn; the conversation keeps its agent
	if planned {
		agent = kits.PlannerAgent
	}
	run := record.Run{ID: id.New(), Attended: t.Attended, Plan: t.Plan, Route: chosen,
		Agent: cmp.Or(t.Agent, agent, conv.Agent, kits.DefaultAgent), Model: cmp.Or(t.Model, conv.Model),
		Sampling: pin(t.Sampling)}
	if err := e.admit(s, &t, run.Agent); err != nil {
		return Accepted{}, false, err
	}
	rc := t.RequestContext
	rc.ID = inter
	job, err := e.Job(ctx, c, s, &run, rc, used)
	if err != nil {
		return Accepted{}, false, err
	}
	if m != nil && run.Agent == kits.PlannerAgent {
		history, err := e.plans.HistoryPrompt(ctx, c.User, m.Text())
		if err != nil {
			return Accepted{}, false, err
		}
		job.System += history
	}
	if t.offerPlan {
		c.offerPlan(&job)
	}
	job.Begun = t.Origin != ""
	if t.ParentMeter != nil {
		job.Meter.Under(t.ParentMeter)
	}
	job.Meter.Add(spent)
	if !planned {
		HandOver(s, &run)
	}
	origin := t.origin()
	if m == nil {
		origin = "regenerate"
	}
	rows, err := e.openingChanges(ctx, c, s, &t, &run, inter)
	if err != nil {
		return Accepted{}, false, err
	}
	commit := s.Begin(conversation.Opening{Request: rc.ID, Actor: Actor(&run), Interaction: inter,
		Origin: origin, Message: m, Run: run, Also: rows})
	ready := make(chan error, 1)
	job.Ready = func() error {
		if err := <-ready; err != nil {
			return unrecorded{err}
		}
		return nil
	}
	acc = Accepted{Conversation: c.ID, Interaction: inter, Branch: s.Branch().ID}
	if m != nil {
		acc.Message = m.ID
	}
	c.setFirstMessage(m)
	if !e.Launch(ctx, c, s, job, NewRun(&run, inter, job.Meter)) {
		return Accepted{}, false, ErrClosed
	}
	seq, err := commit(context.WithoutCancel(ctx))
	if err == nil {
		if run.Agent == kits.PlannerAgent {
			e.requests.Note(inter)
		}
		c.Feed.beginTurn(m, inter, seq, t.ClientID)
		e.announceAgent(c, &run, cmp.Or(conv.Agent, kits.DefaultAgent))
		e.routing.Learn(c.User, &run)
	}
	acc.Seq = seq
	ready <- err // from here on the run owns the session
	return acc, true, err
}

// openingChanges returns the requests that are recorded with the beginning of a turn: that of
// another agent, or the turn itself if a plan is to come of it.
func (e *Engine) openingChanges(ctx context.Context, c *Conversation, s *conversation.Session, t *Input, run *record.Run, inter id.ID) ([]store.Change, error) {
	switch sc := store.ForUser(c.User); {
	case t.Request.Kind != "":
		return e.requests.Opening(ctx, sc, t.AskedBy, t.Request)
	case run.Agent == kits.PlannerAgent:
		return e.requests.TurnRow(ctx, sc, s.Conversation(), record.InteractionURI(c.ID, inter), run.Attended)
	}
	return nil, nil
}

// admit refuses a turn that the conversation does not accept.
func (e *Engine) admit(s *conversation.Session, t *Input, path string) error {
	conv := s.Conversation()
	if !conv.Asked.Zero() && t.Origin == "" {
		return fault.New(fault.Conflict, "conversation_asked", "in this conversation the agent %s answers another agent; nobody else can write in it", conv.Agent).
			WithHint("talk to the agent in a conversation of its own: steward chat --agent %s", conv.Agent)
	}
	if t.Origin == "" {
		if _, err := e.kits.Named(path); err != nil {
			return err
		}
	}
	if s.Head().Zero() {
		return nil
	}
	return e.kits.TakesOver(path, conv.Agent)
}

// HandOver makes the run's agent the conversation's from now on, if another agent
// was. An agent that a person names keeps the conversation; one that routing has
// chosen may be followed by another one.
func HandOver(s *conversation.Session, run *record.Run) {
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
func (e *Engine) fork(ctx context.Context, c *Conversation, s *conversation.Session, t *Input) (*conversation.Session, error) {
	sc := store.ForUser(c.User)
	switch {
	case !t.Replace.Zero():
		m, err := e.conversations.Find(ctx, sc, c.ID, t.Replace)
		if err == nil && !isFromUser(m.Message) {
			err = fault.New(fault.Invalid, "not_your_message", "message %s was not written by you", t.Replace).
				WithHint("replace one of your own messages, or regenerate an answer")
		}
		if err != nil {
			return nil, err
		}
		return e.conversations.OpenFork(ctx, sc, c.ID, conversation.Fork{Message: t.Replace, Before: true})
	case !t.Regenerate.Zero():
		return e.conversations.OpenAgain(ctx, sc, c.ID, t.Regenerate)
	}
	return s, nil
}

// unrecorded is the error of a turn whose first message could not be stored. Only
// its sender sees the error; for everybody else there was no turn.
type unrecorded struct{ error }

func (u unrecorded) Unwrap() error { return u.error }

// Launch starts the run of a prepared turn, under the lease that ctx carries. The
// run releases the turn lock when it ends. Launch returns false if the node is
// closing.
func (e *Engine) Launch(ctx context.Context, c *Conversation, s *conversation.Session, job agent.Job, live *Run) bool {
	release, ok := e.life.Hold()
	if !ok {
		return false
	}
	e.Hold(c)
	ctx, cancel := lease.Carry(e.life, ctx)
	c.mu.Lock()
	c.session, c.cancel, c.live = s, cancel, live
	if c.blocking > 0 {
		cancel(request.ErrStop)
	}
	c.announceRunChange()
	c.mu.Unlock()
	e.spawn(func() {
		defer release()
		e.run(ctx, c, s, job, live)
	})
	return true
}

// run executes a turn to its end.
func (e *Engine) run(ctx context.Context, c *Conversation, s *conversation.Session, job agent.Job, live *Run) {
	defer e.Exit(c)
	ended := false
	defer func() {
		if !ended { // the goroutine is exiting early (runtime.Goexit or a panic): nobody may wait for it
			close(live.Done)
		}
	}()
	out, err := agent.Run(ctx, job)
	if err != nil && !errors.Is(err, request.ErrSuspend) && !errors.As(err, new(unrecorded)) {
		e.log.Error("a run could not continue", "conversation", c.ID.String(), "error", err)
		c.Feed.fail(err)
	}
	hasRequests := err == nil && e.work.RunEnded(c, s, live)
	c.mu.Lock()
	c.cancel(nil)
	c.cancel, c.live = nil, nil
	if err != nil {
		c.session = nil // memory may differ from what is durable
	}
	left := c.steering
	c.steering, c.messageIDs = nil, nil
	c.mu.Unlock()
	for _, st := range left {
		close(st.done) // its sender begins a turn of its own
	}
	live.Err, ended = err, true
	close(live.Done)
	c.Unlock()
	if hasRequests {
		e.work.Settle(c.User, record.InteractionURI(c.ID, live.Interaction), out == agent.Stopped)
	}
}

// Stop stops the conversation's turn: it cancels the provider's request and keeps
// what has arrived. It does nothing if no turn is running.
func (e *Engine) Stop(ctx context.Context, user string, conv id.ID) error {
	c, leave, err := e.enterExisting(ctx, user, conv)
	if err != nil {
		return err
	}
	defer leave()
	c.Stop(nil, request.ErrStop)
	return nil
}

// Stop cancels the given run, or the current run if live is nil.
func (c *Conversation) Stop(live *Run, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancel != nil && (live == nil || live == c.live) {
		c.cancel(cause)
	}
}
