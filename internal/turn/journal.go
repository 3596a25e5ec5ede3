package turn

import (
	"context"

	"steward/internal/conversation"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
)

// Journal is the session of a run. The commit that ends the run also answers the
// request that the run works on, if there is one.
type Journal struct {
	*conversation.Session
	engine       *Engine
	conversation *Conversation
}

// Journal returns the journal of a run.
func (e *Engine) Journal(c *Conversation, s *conversation.Session) Journal { return Journal{s, e, c} }

// Finish implements agent.Journal.
func (j Journal) Finish(ctx context.Context, final *message.Message, outcome, code string) (uint64, error) {
	sc := store.ForUser(j.conversation.User)
	return j.Session.Finish(ctx, final, outcome, code, func() ([]store.Change, error) {
		at := j.engine.requests.RequestOf(j.Session)
		if at.Zero() {
			return nil, nil
		}
		r, err := requests.Load(ctx, j.engine.opt.Store, sc, at)
		if err != nil || r.State != record.RequestOpen {
			return nil, requests.IgnoreNotFound(err)
		}
		if err := j.engine.requests.AnswerTo(ctx, sc, &r, outcome, code, final); err != nil {
			return nil, err
		}
		return []store.Change{requests.Put(at, &r.Request, r.State, store.If{Version: r.Version})}, nil
	})
}
