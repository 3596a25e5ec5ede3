package requests

import (
	"context"
	"iter"
	"strconv"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Opened returns the interaction that delivers the result of a background call:
// on level 0 in the conversation that made the call, on higher levels in those of
// the agents above it, up to the user's conversation.
func Opened(task id.ID, level int) id.ID {
	return id.Derive("opened", task.String(), strconv.Itoa(level))
}

// CodeUndelivered is the code of a background call whose result could not be
// delivered.
const CodeUndelivered = "untold"

// passage returns the interactions that deliver the result of a background call
// and the answers to it, as far as their conversations exist.
func passage(ctx context.Context, st store.Store, sc store.Scope, r *Stored) ([]resource.URI, error) {
	var out []resource.URI
	for c, err := range ancestors(ctx, st, sc, record.IDOf(r.At, record.TypeConversation)) {
		if err != nil {
			return nil, err
		}
		out = append(out, record.InteractionURI(c.ID, Opened(r.ID, len(out))))
	}
	return out, nil
}

// ancestors yields a conversation, the one whose turn asked for it, and so on up to
// the user's. It ends early at one that was erased or deleted.
func ancestors(ctx context.Context, st store.Store, sc store.Scope, conv id.ID) iter.Seq2[record.Conversation, error] {
	return func(yield func(record.Conversation, error) bool) {
		for range MaxLevels {
			c, found, err := Conversation(ctx, st, sc, conv)
			if err == nil && !found || !yield(c, err) || err != nil || c.Asked.Zero() {
				return
			}
			conv = record.IDOf(c.Asked, record.TypeConversation)
		}
	}
}

// Conversation reads a conversation. It is not found if it was erased or
// deleted.
func Conversation(ctx context.Context, st store.Store, sc store.Scope, conv id.ID) (c record.Conversation, found bool, err error) {
	r, err := st.Get(ctx, sc, record.ConversationURI(conv))
	if err != nil {
		return c, false, IgnoreNotFound(err)
	}
	c, err = record.DecodeConversation(r.URI, r.Body)
	return c, err == nil && c.Deleted.IsZero(), err
}

// delivered reports whether the result of a background call was delivered and
// each answer to it passed on.
func (e *Engine) delivered(ctx context.Context, sc store.Scope, r *Stored) (bool, error) {
	if !r.Told {
		return false, nil
	}
	at, err := passage(ctx, e.store, sc, r)
	if err != nil {
		return false, err
	}
	for _, inter := range at {
		run, found, err := LastRun(ctx, e.store, sc, inter)
		if err != nil || !found || run.Ended.IsZero() {
			return false, err
		}
	}
	return true, nil
}

// Quiet reports whether an action's outcome need not be told to anybody.
func (r *Stored) Quiet() bool {
	return r.Intent != "" && !r.Answered.IsZero() && !r.Told && len(r.Result) == 0
}
