package follow

import (
	"context"
	"log/slog"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/telemetry"
	"steward/internal/store"
)

// Projection is stored data derived from the log. It keeps its own position in
// the log.
type Projection struct {
	Name string
	// CatchUp updates it to the present end of the log.
	CatchUp func(context.Context) error
	// Quiet is how long the log must have been idle before an update, so that
	// updates do not slow down writers.
	Quiet time.Duration
	// Backlog is how many entries it may be behind before it is updated without
	// waiting for an idle log.
	Backlog uint64
	// Hurry holds a token if somebody needs it up to date now.
	Hurry <-chan struct{}
	// Lag is told how far it has come. May be nil.
	Lag *telemetry.Follower
	Log *slog.Logger
}

// Project keeps a projection close to the end of the log, updating it while the
// log is idle, and after maxWaits at the latest: the log of a team may never be.
// It returns when ctx is done, or the store or the projection is closed. It wakes
// on new entries and then polls until the log is idle; without writes it does
// nothing.
func Project(ctx context.Context, st store.Store, p Projection) {
	var seen uint64
	for ctx.Err() == nil {
		head, err := st.Wait(ctx, seen)
		if err == nil {
			if head, err = p.waitIdle(ctx, st, head); err == nil {
				err = p.CatchUp(ctx)
			}
		}
		switch {
		case ctx.Err() != nil, fault.HasCode(err, "store_closed"), fault.HasCode(err, "search_closed"):
			return
		case err != nil:
			p.Log.Warn(p.Name+" falls behind", "error", err)
			p.Lag.Failed()
			if !fault.Pause(ctx, p.Quiet) {
				return
			}
		default:
			seen = head
			p.Lag.At(head)
		}
	}
}

// maxWaits is how many times Quiet an update waits for an idle log.
const maxWaits = 12

// waitIdle waits until the log is idle, has grown by more than Backlog, Hurry has a
// token, or it has waited for long enough. It returns the log's head.
func (p *Projection) waitIdle(ctx context.Context, st store.Store, head uint64) (uint64, error) {
	from := head
	for waits := 1; ; waits++ {
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
		if now == head || now-from > p.Backlog || waits == maxWaits {
			return now, nil
		}
		head = now
	}
}
