package follow

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
)

// Projection is something kept that is derived from the log, with a position
// of its own.
type Projection struct {
	Name string
	// Catch brings it up to the log as it is now.
	Catch func(context.Context) error
	// Quiet is how long the log must have rested before, so that those who
	// write do not pay.
	Quiet time.Duration
	// Backlog is how many entries it may be behind before the log need not rest.
	Backlog uint64
	// Hurry has a token when somebody needs it up to date.
	Hurry <-chan struct{}
	Log   *slog.Logger
}

// Project keeps a projection near the log, in quiet moments, until ctx ends or
// the store or the projection is closed. It wakes when there is news and then
// looks once in a while whether the log rests; nothing happens while nothing
// is written.
func Project(ctx context.Context, st store.Store, p Projection) {
	var seen uint64
	for ctx.Err() == nil {
		head, err := st.Wait(ctx, seen)
		if err == nil {
			if head, err = p.rest(ctx, st, head); err == nil {
				err = p.Catch(ctx)
			}
		}
		switch {
		case ctx.Err() != nil, fault.HasCode(err, "store_closed"), fault.HasCode(err, "search_closed"):
			return
		case err != nil:
			p.Log.Warn(p.Name+" falls behind", "error", err)
			if !Pause(ctx, p.Quiet) {
				return
			}
		default:
			seen = head
		}
	}
}

// rest waits until the log rests, has grown a lot, or somebody is in a hurry,
// and returns its head.
func (p *Projection) rest(ctx context.Context, st store.Store, head uint64) (uint64, error) {
	for from := head; ; {
		t := time.NewTimer(p.Quiet)
		select {
		case <-t.C:
		case <-p.Hurry:
			t.Stop()
			return head, nil
		case <-ctx.Done():
			t.Stop()
			return 0, ctx.Err()
		}
		now, err := Head(ctx, st)
		if err != nil {
			return 0, err
		}
		if now == head || now-from > p.Backlog {
			return head, nil
		}
		head = now
	}
}

// Pause waits; false when ctx was done before.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
