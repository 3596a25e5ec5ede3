package runtime

import (
	"context"
	"iter"

	"steward/internal/events"
	"steward/internal/id"
	"steward/internal/store"
)

// openEvents opens the engine that publishes what happens to resources.
func (n *Node) openEvents() (err error) {
	var mask func([]byte) []byte
	if n.opt.Secrets != nil {
		mask = n.opt.Secrets.MaskBytes
	}
	n.events, err = events.New(events.Options{Follow: n.entries, Authorizer: n.opt.Authorizer, Directory: n.opt.People,
		Audit: n.opt.AuditReads, Mask: mask, Log: n.log})
	return err
}

// Publish appends an event to the log under the user's own source; see
// events.Engine.Publish for the errors.
func (n *Node) Publish(ctx context.Context, user string, x events.Publication) (events.Published, error) {
	return n.events.Publish(ctx, events.Caller{User: user}, x)
}

// EraseEvent erases for good an event that a user published.
func (n *Node) EraseEvent(ctx context.Context, by, user string, which id.ID) error {
	return n.events.Erase(ctx, by, user, which)
}

// Subscribe yields the events after a cursor that match the filter and that the
// user may read, until ctx is done or the loop is left. See
// events.Engine.Subscribe for guarantees and errors.
func (n *Node) Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return n.events.Subscribe(ctx, events.Caller{User: user}, f, from)
}

// Observe yields the changes in the user's conversations after a cursor that
// match the filter, until ctx is done or the loop is left. See
// events.Engine.Observe for guarantees and errors.
func (n *Node) Observe(ctx context.Context, user string, f events.ChangeFilter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return n.events.Observe(ctx, store.ForUser(user), f, from)
}
