package turn

import (
	"context"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/record"
)

// How often a turn polls a model that it waits for.
const (
	firstPoll = time.Second
	lastPoll  = 30 * time.Second
)

// awaitModel returns a function that makes a turn wait for its models. It records
// the run as waiting, together with what is missing, and notifies watchers. It
// returns after a pause, so that its caller tries the models again. If their
// providers are not set up in this process, it blocks until the run is stopped or
// suspended.
func (e *Engine) awaitModel(c *Conversation, s *conversation.Session, chain []string) func(context.Context, error) error {
	wait := firstPoll
	return func(ctx context.Context, why error) error {
		text := fault.Of(why).Error()
		if s.Run().Waits != text {
			if err := s.Note(context.WithoutCancel(ctx), func(r *record.Run) { r.Waits = text }); err != nil {
				return err
			}
			e.log.Info("a turn waits for its model", "conversation", c.ID.String(), "models", chain, "error", why)
			c.Feed.notice("Waiting for the model: "+text, true)
			wait = firstPoll
		}
		pause := max(wait, fault.Of(why).After)
		wait = min(2*wait, lastPoll)
		var retry <-chan time.Time
		if !e.opt.Models.Missing(chain) {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			retry = timer.C
		}
		select {
		case <-retry:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
