package conversation

import (
	"context"
	"iter"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Used is the usage of one model call.
type Used struct {
	User  string        `json:"-"`
	At    time.Time     `json:"-"`
	Where resource.URI  `json:"-"`     // the interaction; zero: outside of conversations
	Model string        `json:"model"` // "provider/model"
	Usage message.Usage `json:"usage"`
}

// Usage yields the usage of the model calls in a scope since a time, newest first. It
// reads the log, so deleted conversations are included.
func (e *Engine) Usage(ctx context.Context, sc store.Scope, since time.Time) iter.Seq2[Used, error] {
	return func(yield func(Used, error) bool) {
		q := store.LogQuery{Reverse: true, Limit: 1000}
		for {
			page, err := e.store.Log(ctx, sc, q)
			if err != nil {
				yield(Used{}, err)
				return
			}
			for _, en := range page.Entries {
				if en.At.Before(since) {
					return
				}
				u, ok, err := used(en)
				if (ok || err != nil) && !yield(u, err) {
					return
				}
			}
			if !page.More {
				return
			}
			q.After = page.Next
		}
	}
}

// used returns the usage of a model call that an entry records, if it records one.
// An erased entry records none.
func used(en resource.Entry) (Used, bool, error) {
	u := Used{User: strings.TrimPrefix(string(en.Space), "user:"), At: en.At, Where: en.URI.Parent()}
	if en.Op != resource.OpPut || en.Body == nil || strings.HasPrefix(en.Actor, actorImport) {
		return u, false, nil
	}
	switch en.URI.Type() {
	case record.TypeMessage:
		m, err := message.Decode(en.Body)
		if err != nil {
			return u, false, err
		}
		u.Model, u.Usage = m.Model, m.Usage
		return u, m.Usage != (message.Usage{}), nil
	case record.TypeUsage:
		err := record.Decode(en.URI, en.Body, &u)
		return u, err == nil, err
	}
	return u, false, nil
}

// Record stores the usage of a model call that is in no message, below an interaction, or outside
// of conversations if at is zero.
func (e *Engine) Record(ctx context.Context, sc store.Scope, at resource.URI, model string, u message.Usage) error {
	_, err := e.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{{
		URI: at.ChildID(record.TypeUsage, id.New()), Body: record.Encode(Used{Model: model, Usage: u})}}})
	return err
}

// Recorded yields what Record has stored below an interaction.
func Recorded(ctx context.Context, st store.Store, sc store.Scope, at resource.URI) iter.Seq2[Used, error] {
	return func(yield func(Used, error) bool) {
		for it, err := range store.Items(ctx, st, sc, store.Query{Under: at, Type: record.TypeUsage}) {
			var u Used
			if err == nil {
				err = record.Decode(it.URI, it.Body, &u)
			}
			if !yield(u, err) || err != nil {
				return
			}
		}
	}
}
