package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Children returns the conversations that agents hold on behalf of a
// conversation, at all levels, including deleted ones. Each comes after its
// parent.
func (e *Engine) Children(ctx context.Context, sc store.Scope, conv id.ID) ([]id.ID, error) {
	var out []id.ID
	err := e.eachBelow(ctx, sc, conv, func(it store.Item) error {
		out = append(out, record.IDOf(it.URI, record.TypeConversation))
		return nil
	})
	return out, err
}

// eachBelow calls do for the conversations below a conversation, each after its
// parent.
func (e *Engine) eachBelow(ctx context.Context, sc store.Scope, conv id.ID, do func(store.Item) error) error {
	q := store.Query{Term: store.Term{Name: record.TermChildren, Value: conv.String()}, Type: record.TypeConversation}
	for it, err := range store.Items(ctx, e.store, sc, q) {
		if err != nil {
			return err
		}
		if err := do(it); err != nil {
			return err
		}
		if err := e.eachBelow(ctx, sc, record.IDOf(it.URI, record.TypeConversation), do); err != nil {
			return err
		}
	}
	return nil
}

// hide sets or clears the deletion time of a conversation and all below it, in
// one commit.
func (e *Engine) hide(ctx context.Context, sc store.Scope, conv id.ID, deleted time.Time) error {
	return e.commit(ctx, sc, func() ([]store.Change, error) {
		r, err := e.store.Get(ctx, sc, record.ConversationURI(conv))
		if fault.Is(err, fault.NotFound) {
			return nil, notFound(conv)
		}
		if err != nil {
			return nil, err
		}
		return e.hideChanges(ctx, sc, r, deleted)
	})
}

// hideChanges returns the changes that hide or restore a conversation and those below
// it; none if it is in that state already.
func (e *Engine) hideChanges(ctx context.Context, sc store.Scope, r resource.Resource, deleted time.Time) ([]store.Change, error) {
	c, err := record.DecodeConversation(r.URI, r.Body)
	switch {
	case err != nil:
		return nil, err
	case !c.Asked.Zero():
		above := record.IDOf(c.Asked, record.TypeConversation)
		return nil, fault.New(fault.Conflict, "conversation_asked", "this conversation is a part of conversation %s", above).
			WithHint("delete or restore that one: this one follows")
	case c.Deleted.IsZero() == deleted.IsZero():
		if !deleted.IsZero() {
			return nil, notFound(c.ID)
		}
		return nil, nil
	}
	c.Deleted = deleted
	changes := []store.Change{putConversation(&c, store.If{Version: r.Version})}
	err = e.eachBelow(ctx, sc, c.ID, func(it store.Item) error {
		below, err := record.DecodeConversation(it.URI, it.Body)
		below.Deleted = deleted
		changes = append(changes, putConversation(&below, store.If{Version: it.Version}))
		return err
	})
	return changes, err
}

// eraseBelow erases the conversations below one, the lowest first.
func (e *Engine) eraseBelow(ctx context.Context, sc store.Scope, conv id.ID) error {
	below, err := e.Children(ctx, sc, conv)
	for i := len(below) - 1; i >= 0 && err == nil; i-- {
		err = e.erase(ctx, sc, record.ConversationURI(below[i]))
	}
	return err
}

// eraseAsked erases the conversations of the agents that were asked by the calls of
// a message, or by the call that it answers, and the records of these requests.
func (e *Engine) eraseAsked(ctx context.Context, sc store.Scope, m *Entry, conv id.ID) error {
	var calls []message.Ref
	for _, c := range m.Calls() {
		calls = append(calls, c.Ref)
	}
	if r := m.Result(); r != nil {
		calls = append(calls, r.Call)
	}
	if err := e.eraseTasks(ctx, sc, record.InteractionURI(conv, m.Interaction), calls); err != nil {
		return err
	}
	for _, ref := range calls {
		u := record.ConversationURI(record.AskedConversation(ref))
		r, err := e.store.Get(ctx, sc, u)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return err
		}
		c, err := record.DecodeConversation(u, r.Body)
		if err != nil {
			return err
		}
		if record.IDOf(c.Asked, record.TypeConversation) != conv {
			continue // a copy of the call
		}
		if err := e.eraseBelow(ctx, sc, c.ID); err != nil {
			return err
		}
		if err := e.erase(ctx, sc, u); err != nil {
			return err
		}
		if err := e.erase(ctx, sc, c.Asked); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}

// eraseTasks erases the requests of an interaction that calls have made and that are closed: they repeat the calls'
// arguments and results.
func (e *Engine) eraseTasks(ctx context.Context, sc store.Scope, inter resource.URI, calls []message.Ref) error {
	if len(calls) == 0 {
		return nil
	}
	var gone []resource.URI
	for it, err := range store.Items(ctx, e.store, sc, store.Query{Under: inter, Type: record.TypeRequest}) {
		if err != nil {
			return err
		}
		var r record.Request
		if err := record.Decode(it.URI, it.Body, &r); err != nil {
			return err
		}
		if slices.Contains(calls, r.Call) && !r.Closed.IsZero() {
			gone = append(gone, it.URI)
		}
	}
	for _, u := range gone {
		if err := e.erase(ctx, sc, u); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}
