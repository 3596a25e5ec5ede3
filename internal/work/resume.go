package work

import (
	"context"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// ResumeUnfinished implements turn.Work: it resumes a run of the conversation that was interrupted and is not
// running, and returns ErrResumed. If there is none, it returns the session.
func (e *Engine) ResumeUnfinished(ctx context.Context, c *turn.Conversation, s *conversation.Session) (*conversation.Session, bool, error) {
	runs, err := e.conversations.OpenRuns(ctx, store.ForUser(c.User), record.ConversationURI(c.ID))
	if err != nil || len(runs) == 0 {
		return s, false, err
	}
	launched, err := e.resume(ctx, c, s, runs[0])
	if err == nil {
		err = turn.ErrResumed
	}
	return nil, launched, err
}

// resume continues a run that had not ended. It reports whether the run was
// launched. If it was not, the run was recorded as ended, the node is closing, or
// there is an error.
func (e *Engine) resume(ctx context.Context, c *turn.Conversation, s *conversation.Session, r conversation.OpenRun) (bool, error) {
	rc, _, err := requests.Lineage(ctx, e.store, store.ForUser(c.User), s.Conversation(), r.Interaction)
	if err != nil {
		return false, err
	}
	s.Resume(r, rc.ID, turn.Actor(&r.Run))
	asking, err := e.asking(ctx, c, r)
	switch {
	case err != nil:
		return false, err
	case asking.ended: // the asking turn was stopped
		return false, e.endRun(ctx, c, s, r, agent.Stopped, requests.CodeOrphaned)
	case !r.Parked.IsZero():
		return false, errParked(r)
	case asking.found && !asking.run.Parked.IsZero():
		return false, errParked(asking.run)
	}
	turn.HandOver(s, &r.Run)
	used := e.turns.NewAccount(c.User, record.InteractionURI(c.ID, r.Interaction))
	job, err := e.turns.Job(ctx, c, s, &r.Run, rc, used)
	if err != nil {
		e.log.Warn("cannot resume an interrupted run", "conversation", c.ID.String(), "error", err)
		switch {
		case !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Invalid): // this may have changed at the next start
			return false, err
		case fault.HasCode(err, "agent_not_found"):
			err = fault.New(fault.Denied, "agent_not_approved", "the agent %s no longer exists, or may no longer be used", r.Agent)
		}
		return false, e.endRun(ctx, c, s, r, agent.Failure, fault.Of(err).Code)
	}
	if asking.live != nil {
		job.Meter.Under(asking.live.Meter)
	}
	live := turn.NewRun(&r.Run, r.Interaction, job.Meter, rc)
	live.Info.Conversation = c.ID
	if err := used.Load(ctx, job.Meter); err != nil {
		return false, err
	}
	if err := e.addUsageBelow(ctx, c, live); err != nil {
		return false, err
	}
	c.Feed.Resumed(r.Interaction, message.Dangling(s.Transcript().Messages()))
	return e.turns.Launch(ctx, c, s, job, live), nil
}

// endRun records the end of an interrupted run that cannot continue.
func (e *Engine) endRun(ctx context.Context, c *turn.Conversation, s *conversation.Session, r conversation.OpenRun, out agent.Outcome, code string) error {
	if err := e.answerOpenCalls(ctx, c, s, r); err != nil {
		return err
	}
	e.requests.MarkRequests(c.User, r.Interaction) // there may be requests below it
	if _, err := e.turns.Journal(c, s).Finish(ctx, nil, string(out), code); err != nil {
		return err
	}
	e.RunEnded(c, s, turn.NewRun(&r.Run, r.Interaction, nil, request.Context{}))
	e.Settle(c.User, record.InteractionURI(c.ID, r.Interaction), out == agent.Stopped)
	return nil
}

// answerOpenCalls answers the open calls of a run that cannot continue, and settles
// the effects that they had begun. Otherwise a later turn would take these calls
// for its own and make them again.
func (e *Engine) answerOpenCalls(ctx context.Context, c *turn.Conversation, s *conversation.Session, r conversation.OpenRun) error {
	sc := store.ForUser(c.User)
	sc.Actor = turn.Actor(&r.Run)
	var out []*message.Message
	for _, call := range message.Dangling(s.Transcript().Messages()) {
		ec := effect.Call{Name: call.Name, Args: call.Args, Ref: call.Ref, Message: s.MessageURI(call.Message), Scope: sc, Agent: r.Agent,
			Request: request.Context{ID: r.Interaction, User: c.User, Conversation: record.ConversationURI(c.ID)}}
		t := newBackgroundCall(c, ec, tool.Spec{Name: call.Name})
		res := t.acceptedResult()
		_, err := e.store.Get(ctx, sc, t.at)
		if fault.Is(err, fault.NotFound) { // otherwise it is a task, and continues independently
			ec.Tool, _ = e.kits.Callee(r.Agent, call.Name)
			res, err = e.effects.SettleOrphaned(ctx, ec, turn.InterruptedResult(), "its turn could not go on")
		}
		if err != nil {
			return err
		}
		res.Call, res.CallID, res.Name = call.Ref, call.CallID, call.Name
		out = append(out, &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}})
	}
	if len(out) == 0 {
		return nil
	}
	seqs, err := s.Append(ctx, out...)
	for i, seq := range seqs {
		c.Emit(agent.Event{Kind: agent.Stored, ID: out[i].ID, Message: out[i], Seq: seq})
	}
	return err
}

// askingTurn is the turn that asked for a run.
type askingTurn struct {
	found bool // some turn asked for the run
	ended bool // that turn has ended
	run   conversation.OpenRun
	live  *turn.Run // nil: it is not running
}

// asking returns the turn that asked for a run, if one did.
func (e *Engine) asking(ctx context.Context, c *turn.Conversation, r conversation.OpenRun) (askingTurn, error) {
	sc := store.ForUser(c.User)
	conv, err := e.conversations.Get(ctx, sc, r.Conversation)
	if err != nil || record.IDOf(conv.Asked, record.TypeRequest) != r.Interaction {
		return askingTurn{}, err
	}
	runs, err := e.conversations.OpenRuns(ctx, sc, conv.Asked.Parent())
	if err != nil || len(runs) == 0 {
		return askingTurn{found: true, ended: err == nil}, err
	}
	up := e.turns.Enter(c.User, runs[0].Conversation)
	defer e.turns.Exit(up)
	return askingTurn{found: true, run: runs[0], live: up.Running(runs[0].Interaction)}, nil
}

// addUsageBelow adds to a resumed run's meter what the agents that it asked have used
// so far. Agents that are still running report their usage themselves.
func (e *Engine) addUsageBelow(ctx context.Context, c *turn.Conversation, live *turn.Run) error {
	sc := store.ForUser(c.User)
	below, err := requests.Find(ctx, e.store, sc, store.Query{Under: record.InteractionURI(c.ID, live.Interaction)})
	if err != nil {
		return err
	}
	if len(below) > 0 {
		e.requests.MarkRequests(c.User, live.Interaction)
	}
	for i := range below {
		r := &below[i]
		if r.Kind != record.RequestAgent || r.State == record.RequestOpen {
			continue
		}
		sum := e.requests.Tally()
		if err := sum.All(ctx, e.store, sc, r); err != nil {
			return err
		}
		live.Meter.Add(llm.Spend{Tokens: sum.Usage.Input + sum.Usage.Output, Cost: sum.Cost})
	}
	return nil
}

// resumeRun resumes the run of an interaction that was interrupted and is not running.
// If somebody else holds the turn lock, it waits for them if wait is set. It
// returns false if the run is over.
func (e *Engine) resumeRun(ctx context.Context, c *turn.Conversation, inter id.ID, wait bool) (bool, error) {
	changed := c.RunChange()
	if c.Running(inter) != nil {
		return true, nil
	}
	open := func() ([]conversation.OpenRun, error) {
		return e.conversations.OpenRuns(ctx, store.ForUser(c.User), record.InteractionURI(c.ID, inter))
	}
	if runs, err := open(); err != nil || len(runs) == 0 {
		return false, err
	}
	if !c.TryLock() {
		if wait {
			return true, e.awaitClosed(ctx, c.User, changed)
		}
		return true, nil
	}
	launched := false
	defer func() {
		if !launched { // otherwise the run releases the lock
			c.Unlock()
		}
	}()
	runs, err := open() // it may have been resumed, and have ended, meanwhile
	if err != nil || len(runs) == 0 {
		return false, err
	}
	r := runs[0]
	if wait && !r.Parked.IsZero() { // the asking turn was resumed
		if r.Run, err = e.unpark(ctx, c, r); err != nil {
			return true, err
		}
	}
	s, err := e.conversations.Open(ctx, store.ForUser(c.User), c.ID)
	if err != nil {
		return true, err
	}
	c.Feed.SetSeq(s.Seq())
	launched, err = e.resume(ctx, c, s, r)
	return true, err
}

// awaitRun waits, by means of wait, until the run of an interaction is over. It
// resumes a run that was interrupted and that nobody has resumed. Its error says
// why the run could not continue.
func (e *Engine) awaitRun(ctx context.Context, c *turn.Conversation, inter id.ID, wait func(*turn.Run) error) error {
	for {
		if live := c.Running(inter); live != nil {
			err := wait(live)
			if err != nil {
				return err
			}
			return live.Err
		}
		open, err := e.resumeRun(ctx, c, inter, true)
		if err != nil || !open {
			return err
		}
		if life := e.life.Of(c.User); life.Err() != nil {
			return context.Cause(life)
		}
	}
}
