package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Remove creates a branch without the given messages and the calls or results
// that belong to them, and makes it the preferred one. The messages stay stored
// and on the old branch.
func (e *Engine) Remove(ctx context.Context, sc store.Scope, conv id.ID, msgs ...id.ID) (record.Branch, error) {
	return e.rebuild(ctx, sc, conv, func(_ *record.Conversation, b *record.Branch, _ string, rope []record.Span) ([]record.Span, []store.Change, error) {
		group, err := e.group(ctx, sc, conv, b, msgs, record.Archived)
		if err != nil {
			return nil, nil, err
		}
		for _, m := range group {
			rope = without(rope, m.Branch, m.Pos)
		}
		return rope, nil, nil
	})
}

// without returns a rope without one position.
func without(rope []record.Span, branch string, pos int64) []record.Span {
	var out []record.Span
	for _, s := range rope {
		if !s.Holds(branch, pos) {
			out = append(out, s)
			continue
		}
		if pos > max(s.From, 1) { // a span with To 0 would extend to the end
			out = append(out, record.Span{Branch: s.Branch, From: s.From, To: pos - 1})
		}
		if pos < s.To {
			out = append(out, record.Span{Branch: s.Branch, From: pos + 1, To: s.To})
		}
	}
	return out
}

// Insert creates a branch with an additional message and makes it the preferred
// one. The message comes after another one (zero: at the beginning) and belongs
// to the same interaction. It must not separate a call from its results, and must
// not contain calls or results. Error codes: insert_call, splits_call,
// conversation_empty, message_not_found.
func (e *Engine) Insert(ctx context.Context, sc store.Scope, conv, after id.ID, m *message.Message) (record.Branch, error) {
	if err := message.Validate(m); err != nil {
		return record.Branch{}, err
	}
	if m.Role == message.Tool || len(m.Calls()) > 0 {
		return record.Branch{}, fault.New(fault.Invalid, "insert_call", "only a message without tool calls and results can be inserted")
	}
	return e.rebuild(ctx, sc, conv, func(c *record.Conversation, b *record.Branch, made string, rope []record.Span) ([]record.Span, []store.Change, error) {
		at, head, tail, err := e.gap(ctx, sc, conv, b, rope, after)
		if err != nil {
			return nil, nil, err
		}
		c.Last++
		put := *m
		put.Prev = after
		if put.At.IsZero() {
			put.At = time.Now().UTC().Truncate(time.Microsecond)
		}
		list := record.BranchURI(conv, made)
		own := record.Span{Branch: made, From: c.Last, To: c.Last}
		u := record.InteractionURI(conv, at.Interaction).ChildID(record.TypeMessage, m.ID)
		return joined(slices.Concat(head, []record.Span{own}, tail)),
			[]store.Change{putMessage(u, &put, &store.Place{List: list, Pos: c.Last})}, nil
	})
}

// gap finds the place after a message. It returns the message (or the first one,
// if after is zero), and the rope before and after that place.
func (e *Engine) gap(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, rope []record.Span, after id.ID) (at Entry, head, tail []record.Span, err error) {
	if !after.Zero() {
		if at, err = e.forkAt(ctx, sc, conv, b, Fork{Message: after}); err != nil {
			return at, nil, nil, err
		}
		head, tail, ok := split(rope, at.Branch, at.Pos)
		if !ok {
			err = fault.New(fault.NotFound, "message_not_found", "message %s is not on this branch", after).
				WithHint("switch to a branch that holds it")
		}
		return at, head, tail, err
	}
	start, err := first(e.walk(ctx, sc, conv, b, 1, false))
	if err == nil && start == nil {
		err = fault.New(fault.Invalid, "conversation_empty", "the conversation has no messages yet").WithHint("send the message instead")
	}
	if err != nil {
		return at, nil, nil, err
	}
	return *start, nil, rope, nil
}

// split cuts a rope after a position.
func split(rope []record.Span, branch string, pos int64) (head, tail []record.Span, ok bool) {
	for i, s := range rope {
		if !s.Holds(branch, pos) {
			continue
		}
		head = append(slices.Clone(rope[:i]), record.Span{Branch: s.Branch, From: s.From, To: pos})
		if pos < s.To {
			tail = append(tail, record.Span{Branch: s.Branch, From: pos + 1, To: s.To})
		}
		return head, append(tail, rope[i+1:]...), true
	}
	return nil, nil, false
}

// joined merges adjacent spans of the same list.
func joined(rope []record.Span) []record.Span {
	var out []record.Span
	for _, s := range rope {
		if n := len(out); n > 0 && out[n-1].Branch == s.Branch && out[n-1].To+1 == s.From {
			out[n-1].To = s.To
			continue
		}
		out = append(out, s)
	}
	return out
}

// rebuild creates a branch with a modified rope of the preferred branch, and
// makes it the preferred one.
func (e *Engine) rebuild(ctx context.Context, sc store.Scope, conv id.ID,
	do func(c *record.Conversation, b *record.Branch, made string, rope []record.Span) ([]record.Span, []store.Change, error)) (record.Branch, error) {
	var made record.Branch
	err := e.move(ctx, sc, conv, func(c *record.Conversation, b record.Branch) ([]store.Change, error) {
		rope := b.Spans()
		if last := &rope[len(rope)-1]; c.Last >= max(last.From, 1) {
			last.To = c.Last
		} else {
			rope = rope[:len(rope)-1]
		}
		made = e.newBranch(&b)
		rope, changes, err := do(c, &b, made.ID, rope)
		if err != nil {
			return nil, err
		}
		made.Rope, made.Open = rope, c.Last+1
		if b.Start().Span >= 0 && made.Start().Span < 0 { // the first message in view was removed
			if err := e.advanceViewStart(ctx, sc, conv, &made); err != nil {
				return nil, err
			}
		}
		c.Branch = made.ID
		return append(changes, putBranch(conv, &made, store.If{Absent: true})), nil
	})
	return made, err
}

// newBranch returns a new branch with another one as its parent.
func (e *Engine) newBranch(from *record.Branch) record.Branch {
	now := time.Now().UTC().Truncate(time.Millisecond)
	return record.Branch{ID: id.New().String(), Created: now, Used: now, Parent: from.ID, View: from.View}
}

// advanceViewStart moves the start of the view to the next message of its list that is
// still on the branch. If there is none, the view shows everything.
func (e *Engine) advanceViewStart(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch) error {
	q := store.Query{List: record.BranchURI(conv, b.View.Start.Branch), From: b.View.Start.Pos, NoBody: true}
	for it, err := range store.Items(ctx, e.store, sc, q) {
		if err != nil {
			return err
		}
		if b.Holds(b.View.Start.Branch, it.Pos) {
			b.View.Start.Pos = it.Pos
			return nil
		}
	}
	b.View = record.View{Revision: b.View.Revision, Clip: b.View.Clip, Room: b.View.Room}
	return nil
}
