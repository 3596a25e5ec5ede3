package effect

import (
	"context"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/resource"
	"steward/internal/store"
)

// Open returns the intents at or below a place that are decided and have not
// begun.
func (e *Engine) Open(ctx context.Context, sc store.Scope, under resource.URI) ([]resource.URI, error) {
	var out []resource.URI
	for _, st := range intent.States() {
		if !st.InFlight() || st == intent.Executing || st == intent.Unknown {
			continue
		}
		for it, err := range store.Items(ctx, e.opt.Store, sc, store.Query{Under: under, Type: "effect.Intent", State: string(st), NoBody: true}) {
			if err != nil {
				return nil, err
			}
			out = append(out, it.URI)
		}
	}
	return out, nil
}

// Withdraw cancels an intent that has not begun, and reports whether it is
// cancelled now; if it has begun or is settled otherwise, nothing is changed.
func (e *Engine) Withdraw(ctx context.Context, sc store.Scope, uri resource.URI, reason string) (bool, error) {
	for {
		r, err := e.load(ctx, sc, uri)
		if err != nil {
			return false, err
		}
		from := r.in.State
		if from == intent.Cancelled {
			return true, nil
		}
		if from == intent.Executing || intent.Advance(from, intent.Cancelled) != nil {
			return false, nil
		}
		r.in.State, r.in.Reason = intent.Cancelled, reason
		put, err := r.put(store.If{Version: r.version})
		if err != nil {
			return false, err
		}
		if _, err = e.opt.Store.Commit(ctx, sc, store.Batch{Request: requestOf(ctx), Changes: []store.Change{put}}); !fault.Is(err, fault.Conflict) {
			if err == nil && from == intent.Awaiting {
				e.answered(ctx, &r)
			}
			e.wake(uri)
			return err == nil, err
		}
	}
}
