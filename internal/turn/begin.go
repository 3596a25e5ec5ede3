package turn

import (
	"cmp"
	"context"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

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
	run := record.Run{ID: id.New(), Attended: t.Attended, Spoken: t.Spoken, Plan: t.Plan, Route: chosen,
		Agent: cmp.Or(t.Agent, agent, conv.Agent, kits.DefaultAgent), Model: cmp.Or(t.Model, conv.Model),
		Sampling: pinSampling(t.Sampling)}
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
	live := NewRun(&run, inter, job.Meter, rc)
	live.Info.Conversation, live.Info.Origin, live.request = c.ID, t.Origin, t.request
	if !e.Launch(ctx, c, s, job, live) {
		return Accepted{}, false, ErrClosed
	}
	seq, err := commit(context.WithoutCancel(ctx))
	if err == nil {
		if run.Agent == kits.PlannerAgent {
			e.requests.MarkRequests(c.User, inter)
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
		return e.requests.OpenChanges(ctx, sc, t.AskedBy, t.Request)
	case run.Agent == kits.PlannerAgent:
		return e.requests.TurnChanges(ctx, sc, s.Conversation(), record.InteractionURI(c.ID, inter), run.Attended)
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
