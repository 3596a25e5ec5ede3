package runtime

import (
	"context"
	"iter"

	"steward/internal/observe"
	"steward/internal/store"
)

// Observe yields what changes in the user's conversations behind a cursor
// and fits the filter, until ctx is done or the loop is left. See
// observe.Hub.Subscribe for what holds and for the errors.
func (n *Node) Observe(ctx context.Context, user string, f observe.Filter, from observe.Cursor) iter.Seq2[observe.Batch, error] {
	return n.hub.Subscribe(ctx, store.ForUser(user), f, from)
}
