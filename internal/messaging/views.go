package messaging

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/store"
)

// maxListed bounds the answers for people.
const maxListed = 200

// Channels describes all accounts. running is false in a process that does not receive.
func (e *Engine) Channels(ctx context.Context) ([]client.Channel, error) {
	people, err := e.people(ctx)
	if err != nil {
		return nil, err
	}
	out := []client.Channel{}
	for _, a := range e.accounts {
		c := client.Channel{Account: a.Name, Kind: a.Kind}
		c.Running = e.Connects()
		a.mu.Lock()
		c.Connected = a.connected
		if a.failure != nil {
			c.Error = fault.Of(a.failure).Message
		}
		a.mu.Unlock()
		for _, p := range people {
			if p.Account == a.Name {
				c.People++
			}
		}
		for state, n := range map[string]*int{received: &c.Received, unanswered: &c.Unsettled} {
			if err := e.count(ctx, typeUpdate, state, a.Name, n); err != nil {
				return nil, err
			}
		}
		for state, n := range map[string]*int{pending: &c.Unsent, sending: &c.Unsent, uncertain: &c.Unsettled, failed: &c.Unsettled} {
			if err := e.count(ctx, typePost, state, a.Name, n); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b client.Channel) int { return strings.Compare(a.Account, b.Account) })
	return out, nil
}

// count adds how many records of an account are in a state.
func (e *Engine) count(ctx context.Context, typ, state, account string, n *int) error {
	for it, err := range store.Items(ctx, e.opt.Store, scopeOf(""), store.Query{Type: typ, State: state, NoBody: true}) {
		if err != nil {
			return err
		}
		if it.URI.Parent().ID() == account {
			*n++
		}
	}
	return nil
}

// Inbox returns a user's updates that wait or are unanswered; all: the newest ones in any state.
func (e *Engine) Inbox(ctx context.Context, user string, whole bool) ([]client.ChannelUpdate, error) {
	list, err := newestOf[*update](ctx, e, user, typeUpdate, whole, unanswered, received)
	slices.SortFunc(list, func(a, b *update) int { return cmp.Compare(b.Order, a.Order) })
	out := []client.ChannelUpdate{}
	for _, u := range list {
		out = append(out, client.ChannelUpdate{ID: u.ID, Account: u.Account, Chat: cmp.Or(u.Title, u.Address.Chat), From: cmp.Or(u.From.Name, u.From.ID), At: u.Arrived, State: u.State, Reason: u.Reason, Text: u.Text})
	}
	return out, err
}

// Outbox returns a user's posts that are not known to be sent; all: the newest ones in any state.
func (e *Engine) Outbox(ctx context.Context, user string, whole bool) ([]client.ChannelPost, error) {
	list, err := newestOf[*post](ctx, e, user, typePost, whole, uncertain, failed, sending, pending)
	slices.SortFunc(list, func(a, b *post) int { return cmp.Compare(b.Order, a.Order) })
	out := []client.ChannelPost{}
	for _, p := range list {
		state := p.State
		if state == asking {
			state = sent
		}
		out = append(out, client.ChannelPost{ID: p.ID.String(), Account: p.Account, Chat: p.At.Chat, At: p.Created, State: state, Reason: p.Reason, Text: p.Text})
	}
	return out, err
}

// newestOf reads the records of a user in some states, or the newest ones.
func newestOf[T any](ctx context.Context, e *Engine, user, typ string, whole bool, states ...string) (list []T, err error) {
	queries := []store.Query{{Type: typ, Term: store.Term{Name: termNewest, Value: typ}, Reverse: true}}
	if !whole {
		queries = nil
		for _, s := range states {
			queries = append(queries, store.Query{Type: typ, State: s})
		}
	}
	for _, q := range queries {
		for v, err := range records[T](ctx, e, store.ForUser(user), q) {
			if err != nil {
				return nil, err
			}
			if list = append(list, v); len(list) >= maxListed {
				return list, nil
			}
		}
	}
	return list, nil
}
