package runtime

import (
	"context"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/record"
)

// How often a model that a turn waits for is asked again.
const (
	firstPoll = time.Second
	lastPoll  = 30 * time.Second
)

// awaitModel returns what has a turn wait for its models: the run is recorded
// as waiting, with what is missing, and it is told to who watches. It waits for
// a moment, so that its caller asks the models again; where their providers are
// not set up in this process, until the run is stopped or put aside.
func (n *Node) awaitModel(c *chat, s *conversation.Session, chain []string) func(context.Context, error) error {
	wait := firstPoll
	return func(ctx context.Context, why error) error {
		text := fault.Of(why).Error()
		if s.Run().Waits != text {
			if err := s.Note(context.WithoutCancel(ctx), func(r *record.Run) { r.Waits = text }); err != nil {
				return err
			}
			n.log.Info("a turn waits for its model", "conversation", c.id.String(), "models", chain, "error", why)
			c.feed.notice("Waiting for the model: "+text, true)
			wait = firstPoll
		}
		pause := max(wait, fault.Of(why).After)
		wait = min(2*wait, lastPoll)
		var again <-chan time.Time
		if !n.opt.Models.Missing(chain) {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			again = timer.C
		}
		select {
		case <-again:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
