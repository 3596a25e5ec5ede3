package runtime

import (
	"context"
	"iter"
	"slices"

	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// tally sums up what requests have used.
type tally struct {
	price func(model string, u message.Usage) float64
	usage message.Usage
	cost  float64
}

// all adds the usage of a request itself and of the requests below it.
func (t *tally) all(ctx context.Context, st store.Store, sc store.Scope, r *storedRequest) error {
	at, err := places(ctx, st, sc, r)
	if err != nil {
		return err
	}
	for _, inter := range at {
		below, err := findRequests(ctx, st, sc, store.Query{Under: inter})
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(below, func(b storedRequest) bool { return b.Kind == record.RequestTurn && b.at != r.at }); i >= 0 {
			below = below[i : i+1] // the turn's record already sums up the whole turn
		} else {
			for m, err := range messagesUnder(ctx, st, sc, inter) {
				if err != nil {
					return err
				}
				t.message(m)
			}
		}
		for _, b := range below {
			if b.at != r.at {
				t.usage, t.cost = t.usage.Add(b.Usage), t.cost+b.Cost
			}
		}
	}
	return nil
}

// usedBelow returns the usage so far of the agents and tasks that a turn asked.
// It reads nothing if there are none.
func (n *Node) usedBelow(ctx context.Context, c *chat, inter resource.URI) message.Usage {
	if !n.leases.noted(record.IDOf(inter, record.TypeInteraction)) {
		return message.Usage{}
	}
	sc, sum := store.ForUser(c.user), tally{}
	below, err := findRequests(ctx, n.opt.Store, sc, store.Query{Under: inter})
	for i := range below {
		switch b := &below[i]; {
		case err != nil || b.Kind == record.RequestTurn:
		case b.Usage != (message.Usage{}):
			sum.usage = sum.usage.Add(b.Usage)
		default: // it is not closed yet, so its record has no sum
			err = sum.all(ctx, n.opt.Store, sc, b)
		}
	}
	if err != nil {
		n.log.Warn("what a turn has used cannot be added up", "error", err)
	}
	return sum.usage
}

// findRequests returns the requests that match a query.
func findRequests(ctx context.Context, st store.Store, sc store.Scope, q store.Query) ([]storedRequest, error) {
	var out []storedRequest
	for r, err := range requestsIn(ctx, st, sc, q) {
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// requestsIn yields the requests that match a query.
func requestsIn(ctx context.Context, st store.Store, sc store.Scope, q store.Query) iter.Seq2[storedRequest, error] {
	q.Type = record.TypeRequest
	return func(yield func(storedRequest, error) bool) {
		for it, err := range store.Items(ctx, st, sc, q) {
			var r storedRequest
			if err == nil {
				r, err = decodeRequest(it.Resource)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// openRequests returns the requests that are not closed. A request that is
// answered in between is found both as open and as answered; the later record
// wins.
func openRequests(ctx context.Context, st store.Store, sc store.Scope) ([]storedRequest, error) {
	var out []storedRequest
	at := map[resource.URI]int{}
	for _, state := range []string{record.RequestOpen, record.RequestAnswered} {
		list, err := findRequests(ctx, st, sc, store.Query{State: state})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if i, twice := at[r.at]; twice {
				out[i] = r
				continue
			}
			at[r.at] = len(out)
			out = append(out, r)
		}
	}
	return out, nil
}

func (t *tally) message(m *message.Message) {
	t.usage = t.usage.Add(m.Usage)
	if t.price != nil && m.Model != "" && m.Usage != (message.Usage{}) {
		t.cost += t.price(m.Model, m.Usage)
	}
}

// codeOrphaned is the code of requests whose work was lost in a crash and that
// nobody continues.
const codeOrphaned = "orphaned"
