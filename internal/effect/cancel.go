package effect

import (
	"context"

	"steward/internal/intent"
	"steward/internal/resource"
	"steward/internal/store"
)

// Open returns the intents at or below a resource that have not begun and are not settled.
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

// Cancel cancels an intent that has not begun. It reports whether the intent is cancelled
// now. If it has begun, or is settled in another way, nothing changes.
func (e *Engine) Cancel(ctx context.Context, sc store.Scope, uri resource.URI, reason string) (cancelled bool, err error) {
	var asked *intentRecord // set if the intent waited for an answer
	err = e.amend(ctx, sc, uri, func(r *intentRecord) ([]store.Change, error) {
		from := r.in.State
		asked, cancelled = nil, from == intent.Cancelled
		if cancelled || from == intent.Executing || intent.Advance(from, intent.Cancelled) != nil {
			return nil, errAsItIs
		}
		r.in.State, r.in.Reason, cancelled = intent.Cancelled, reason, true
		if from == intent.Awaiting {
			asked = r
		}
		return nil, nil
	})
	if err != nil {
		return false, err
	}
	if asked != nil {
		e.answered(ctx, asked)
	}
	e.wake(uri)
	return cancelled, nil
}
