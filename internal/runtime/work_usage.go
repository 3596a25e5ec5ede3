package runtime

import (
	"context"

	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// usedBelow returns the usage so far of the agents and tasks that a turn asked.
// It reads nothing if there are none.
func (n *Node) usedBelow(ctx context.Context, c *chat, inter resource.URI) message.Usage {
	if !n.requests.Noted(record.IDOf(inter, record.TypeInteraction)) {
		return message.Usage{}
	}
	sc, sum := store.ForUser(c.user), requests.Tally{}
	below, err := requests.Find(ctx, n.opt.Store, sc, store.Query{Under: inter})
	for i := range below {
		switch b := &below[i]; {
		case err != nil || b.Kind == record.RequestTurn:
		case b.Usage != (message.Usage{}):
			sum.Usage = sum.Usage.Add(b.Usage)
		default: // it is not closed yet, so its record has no sum
			err = sum.All(ctx, n.opt.Store, sc, b)
		}
	}
	if err != nil {
		n.log.Warn("what a turn has used cannot be added up", "error", err)
	}
	return sum.Usage
}
