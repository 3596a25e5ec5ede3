package work

import (
	"context"

	"steward/internal/agent"
	"steward/internal/conversation"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// RunEnded implements turn.Work: it records the consequences of a run's end. It closes what waited for the run's
// request (which is open still if it was recorded as the run ended), and stops the
// agents that the run asked and that still work. It reports whether the run led to
// requests that are not closed, among them perhaps queued actions: the caller has
// them settled once it has released the turn lock.
func (e *Engine) RunEnded(c *turn.Conversation, s *conversation.Session, live *turn.Run) (hasRequests bool) {
	ctx := context.WithoutCancel(e.life) // the end is recorded even if the node closes now
	closed := false
	if at, run := e.requests.RequestOf(s), s.Run(); !at.Zero() {
		answer := func() (bool, error) { return e.requests.Answer(ctx, c.User, at, run.Outcome, run.Error) }
		var err error
		if closed, err = answer(); err != nil {
			e.life.Of(c.User).Go(func() {
				e.turns.Retry(c.User, "cannot record the end of a run yet", func() error { _, err := answer(); return err }, nil, "request", at.String())
			})
		}
	}
	if hasRequests = e.requests.UnmarkRequests(live.Interaction) && !closed; hasRequests {
		if err := e.stopBelow(ctx, c.User, record.InteractionURI(c.ID, live.Interaction)); err != nil {
			e.log.Error("cannot stop the agents that a turn has asked", "conversation", c.ID.String(), "error", err)
		}
	}
	return hasRequests
}

// stopBelow stops the agents that were asked in a turn that has ended, since nothing
// waits for them any more. It answers for those that had not begun.
func (e *Engine) stopBelow(ctx context.Context, user string, inter resource.URI) error {
	open, err := requests.Find(ctx, e.store, store.ForUser(user), store.Query{Under: inter, State: record.RequestOpen})
	if err != nil {
		return err
	}
	for i := range open {
		if open[i].Kind != record.RequestAgent {
			continue
		}
		if err := e.stopAsked(ctx, user, &open[i]); err != nil {
			return err
		}
	}
	return nil
}

// stopAsked stops an asked agent, or answers for it if its conversation is gone.
func (e *Engine) stopAsked(ctx context.Context, user string, r *requests.Stored) error {
	inter := record.InteractionURI(r.Conversation, r.Interaction)
	if e.stopRun(user, inter) {
		return nil
	}
	c := e.turns.Enter(user, r.Conversation)
	defer e.turns.Exit(c)
	open, err := e.resumeRun(ctx, c, r.Interaction, false) // it was never resumed: resume ends it
	if open || err != nil {
		return err
	}
	_, err = e.requests.Answer(ctx, user, r.At, string(agent.Stopped), "agent_stopped")
	return err
}
