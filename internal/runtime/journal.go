package runtime

import (
	"context"
	"slices"
	"time"

	"steward/internal/conversation"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/store"
)

// journal is the session of a run. The commit that ends the run also answers the
// request that the run works on, if there is one.
type journal struct {
	*conversation.Session
	node *turnEngine
	chat *chat
}

// journal returns the journal of a run.
func (n *turnEngine) journal(c *chat, s *conversation.Session) journal { return journal{s, n, c} }

// Finish implements agent.Journal.
func (j journal) Finish(ctx context.Context, final *message.Message, outcome, code string) (uint64, error) {
	sc := store.ForUser(j.chat.user)
	return j.Session.Finish(ctx, final, outcome, code, func() ([]store.Change, error) {
		at := j.node.requests.WorksOn(j.Session)
		if at.Zero() {
			return nil, nil
		}
		r, err := requests.Load(ctx, j.node.opt.Store, sc, at)
		if err != nil || r.State != record.RequestOpen {
			return nil, requests.NotThere(err)
		}
		if err := j.node.requests.AnswerTo(ctx, sc, &r, outcome, code, final); err != nil {
			return nil, err
		}
		return []store.Change{requests.Put(at, &r.Request, r.State, store.If{Version: r.Version})}, nil
	})
}

// retry runs do until it succeeds, fails with a final error (nil: no error is
// final), or the node closes. It logs each failure and waits after it: one second
// first, then twice as long each time, up to one minute.
func (n *turnEngine) retry(what string, do func() error, final func(error) bool, about ...any) error {
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		err := do()
		if err == nil || n.life.Err() != nil || final != nil && final(err) {
			return err
		}
		n.log.Warn(what, append(slices.Clip(about), "error", err)...)
		select {
		case <-time.After(pause):
		case <-n.life.Done():
			return request.ErrSuspend
		}
	}
}
