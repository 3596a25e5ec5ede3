package turn

import (
	"context"
	"sync"

	"steward/internal/fault"

	"steward/internal/record"
	"steward/internal/requests"

	"steward/internal/conversation"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// Account records what a turn's model calls used that are in none of its messages: those for routing, judging,
// summaries and what tools ask, and answers that were lost, empty or refused. Each is a record below the turn's
// interaction, so that it counts for the turn, its request, and the user's day.
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
	// The caller may have been stopped, and has used it nevertheless.
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
	if !e.requests.Noted(record.IDOf(inter, record.TypeInteraction)) {
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

// AskOnce asks a model outside any conversation, on behalf of the request's user,
// and returns the text of its answer.
func (e *Engine) AskOnce(ctx context.Context, m llm.Resolved, req *llm.Request, text string) (string, error) {
	req.Transcript = llm.Saying(&message.Text{Common: message.Common{Origin: "system"}, Text: text})
	r, err := e.reply(ctx, m, req)
	if err != nil {
		return "", err
	}
	if r.Stop == message.StopLength {
		return "", fault.New(fault.TooLarge, "answer_too_long", "the answer was cut off by its length limit").WithHint("ask for less")
	}
	return r.Text(), nil
}

// reply asks a model outside any conversation, on behalf of the request's user,
// and records what it used: for the turn for which it is asked, if there is one.
func (e *Engine) reply(ctx context.Context, m llm.Resolved, req *llm.Request) (*llm.Reply, error) {
	r, err := llm.Answer(ctx, m.Model, req)
	if err != nil {
		return nil, err
	}
	return r, e.RecordUsage(ctx, req, r)
}

// RecordUsage records what a reply used that is in no message.
func (e *Engine) RecordUsage(ctx context.Context, req *llm.Request, r *llm.Reply) error {
	ok, err := req.Meter.Record(r.Model, r.Usage)
	if !ok {
		err = e.conversations.Record(context.WithoutCancel(ctx), store.ForUser(req.User), resource.URI{}, r.Model, r.Usage)
	}
	return err
}
