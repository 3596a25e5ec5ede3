package turn

import (
	"context"
	"sync"

	"steward/internal/conversation"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// Account records the usage of a turn's model calls that no message of the turn records: calls for
// routing, judging, summaries and tools, and answers that were lost, empty or refused. Each is a
// record below the turn's interaction, so that it counts for the turn, its request, and the
// user's day.
type Account struct {
	engine *Engine
	user   string
	at     resource.URI // the interaction; zero: no turn

	mu  sync.Mutex
	sum message.Usage
}

// NewAccount returns the account of a user's interaction; zero: of no turn.
func (e *Engine) NewAccount(user string, at resource.URI) *Account {
	return &Account{engine: e, user: user, at: at}
}

// Record implements llm.Account.
func (a *Account) Record(model string, u message.Usage) error {
	a.mu.Lock()
	a.sum = a.sum.Add(u)
	a.mu.Unlock()
	// The usage counts even if the caller has been stopped.
	return a.engine.conversations.Record(context.WithoutCancel(a.engine.life), store.ForUser(a.user), a.at, model, u)
}

// usage returns the sum of what was recorded.
func (a *Account) usage() message.Usage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sum
}

// Load counts what was recorded of a turn before a crash, also against its budget.
func (a *Account) Load(ctx context.Context, meter *llm.Meter) error {
	for u, err := range conversation.Recorded(ctx, a.engine.opt.Store, store.ForUser(a.user), a.at) {
		if err != nil {
			return err
		}
		a.mu.Lock()
		a.sum = a.sum.Add(u.Usage)
		a.mu.Unlock()
		meter.Add(a.engine.opt.Models.Spent(u.Model, u.Usage))
	}
	return nil
}

// usageBelow returns the usage so far of the agents and tasks that a turn asked.
// It reads nothing if there are none.
func (e *Engine) usageBelow(ctx context.Context, c *Conversation, inter resource.URI) message.Usage {
	if !e.requests.HasRequests(record.IDOf(inter, record.TypeInteraction)) {
		return message.Usage{}
	}
	sc, sum := store.ForUser(c.User), requests.Tally{}
	below, err := requests.Find(ctx, e.opt.Store, sc, store.Query{Under: inter})
	for i := range below {
		switch b := &below[i]; {
		case err != nil || b.Kind == record.RequestTurn:
		case b.Usage != (message.Usage{}):
			sum.Usage = sum.Usage.Add(b.Usage)
		default: // it is not closed yet, so its record has no sum
			err = sum.All(ctx, e.opt.Store, sc, b)
		}
	}
	if err != nil {
		e.log.Warn("cannot add up what a turn has used", "error", err)
	}
	return sum.Usage
}
