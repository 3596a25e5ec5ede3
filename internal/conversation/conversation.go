// Package conversation keeps conversations in the store and makes the model's view of
// them.
//
// A conversation holds interactions: one for each turn, with everything that the turn
// caused. An interaction has messages and runs. A message never moves or changes. Its
// place is a position in a branch's list, and positions grow over the whole conversation.
//
// A branch is a rope: spans of the lists of other branches, and its own list, which is
// open at the end. Editing, answering again, rewinding, inserting and removing create a
// branch with another rope, and the conversation's preferred branch is the one that
// continues. So nothing is copied, and every earlier course of the conversation remains.
//
// What became of a message is recorded beside it, in its mark: a list of changes
// (invalidated by a tool's call, or superseded, archived or deleted by a person), each
// with its cause, and each can be undone. A change by a call applies to the branches that
// hold the call; a change by a person applies to all. Pins and decisions to trust a message
// are recorded beside messages, too.
//
// The view of a branch is what the model is shown of it: the messages from a start on,
// those that are pinned, and a summary in place of the rest. A view has numbered
// revisions, and a mark counts in the view from a revision on. So the beginning of the
// view stays the same from request to request, and the providers' prompt caches hold.
//
// A Session runs turns: it has the view in memory, and writes each step before the next
// one relies on it. An Engine does everything else. Deleted conversations, branches and
// messages can be restored until Purge erases them with everything that was derived from
// them.
package conversation

import (
	"context"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// putConversation returns the change that writes c.
func putConversation(c *record.Conversation, cond store.If) store.Change {
	ch := store.Change{URI: record.ConversationURI(c.ID), Body: record.Encode(c), If: cond}
	if !c.Deleted.IsZero() {
		ch.State = record.StateDeleted
	}
	switch {
	case !c.Asked.Zero(): // listed only under the conversation that asked for it, deleted or not
		ch.Terms = []store.Term{{Name: record.TermChildren, Value: record.IDOf(c.Asked, record.TypeConversation).String()}}
	case c.Deleted.IsZero():
		ch.Terms = []store.Term{{Name: record.TermRecent}}
	}
	return ch
}

// count adds a message to the conversation's counts.
func count(c *record.Conversation, m *message.Message) {
	c.Tokens = c.Tokens.Add(m.Usage)
	switch m.Role {
	case message.User:
		if len(m.Blocks) > 0 && m.Blocks[0].Base().Origin == record.OriginUser {
			c.Messages++
		}
	case message.Assistant:
		if m.Final {
			c.Messages++
		}
		for _, b := range m.Blocks {
			if _, ok := b.(*message.ToolCall); ok {
				c.ToolCalls++
			}
		}
	}
}

// titleOf makes a title from the first user message: its first line, cut at a
// word, at most 60 characters.
func titleOf(m *message.Message) string {
	line, _, _ := strings.Cut(strings.TrimSpace(m.Text()), "\n")
	runes := []rune(strings.Join(strings.Fields(line), " "))
	const most = 60
	if len(runes) <= most {
		return string(runes)
	}
	cut := string(runes[:most])
	if i := strings.LastIndexByte(cut, ' '); i > most/2 {
		cut = cut[:i]
	}
	return cut + "…"
}

func notFound(conv id.ID) error {
	return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation %s", conv).
		WithHint("steward conversations list shows your conversations")
}

// maxTries is how often a change is retried after conflicts.
const maxTries = 100

// commit writes the changes that prepare returns, if any. After a conflict with
// another writer it calls prepare again.
func (e *Engine) commit(ctx context.Context, sc store.Scope, prepare func() ([]store.Change, error)) error {
	for try := 1; ; try++ {
		changes, err := prepare()
		if err != nil || len(changes) == 0 {
			return err
		}
		_, err = e.store.Commit(ctx, sc, store.Batch{Changes: changes})
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return err
		}
		if err := backOff(ctx, try); err != nil {
			return err
		}
	}
}

// backOff waits after a conflict, at random and longer with each try, up to
// maxYield. Without it a slow writer loses to faster ones every time.
func backOff(ctx context.Context, try int) error {
	const maxYield = 20 * time.Millisecond
	select {
	case <-time.After(rand.N(min(time.Duration(try)*500*time.Microsecond, maxYield))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// batch collects independent changes and commits them in groups.
type batch struct {
	engine  *Engine
	ctx     context.Context
	sc      store.Scope
	changes []store.Change
	bytes   int
	done    int // changes that were committed
}

// Bounds of one commit of a batch.
const (
	maxBatch = 500
	maxBytes = 4 << 20
)

func (b *batch) add(ch store.Change) error {
	b.changes = append(b.changes, ch)
	b.bytes += len(ch.Body)
	if len(b.changes) < maxBatch && b.bytes < maxBytes {
		return nil
	}
	return b.flush()
}

func (b *batch) flush() error {
	if len(b.changes) == 0 {
		return nil
	}
	_, err := b.engine.store.Commit(b.ctx, b.sc, store.Batch{Changes: b.changes})
	b.done += len(b.changes)
	b.changes, b.bytes = b.changes[:0], 0
	return err
}

// found is a record that a query found.
type found[T any] struct {
	store.Item
	Record T
}

// records decodes the records that a query finds.
func records[T any](ctx context.Context, e *Engine, sc store.Scope, q store.Query) iter.Seq2[found[T], error] {
	return func(yield func(found[T], error) bool) {
		for it, err := range store.Items(ctx, e.store, sc, q) {
			f := found[T]{Item: it}
			if err == nil {
				err = record.Decode(it.URI, it.Body, &f.Record)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}
