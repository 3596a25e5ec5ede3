package conversation

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"steward/internal/conversation/window"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// Verdict is a person's decision about messages.
type Verdict struct {
	State  record.Validity
	Reason string
	By     id.ID // if State is Superseded: the message that replaces them
}

// Mark records a person's decision about messages of a conversation. It takes
// effect immediately on all branches, except that a superseded message is hidden
// only on branches that hold the message that replaces it. The state Active
// reverts the decision in effect. While a message that replaces others is hidden,
// the others are shown again. Mark returns how many messages changed, including
// those that belong to the same group as a named one. Error codes:
// message_not_found, validity_unknown, supersedes_itself, superseded_by_hidden.
func (e *Engine) Mark(ctx context.Context, sc store.Scope, conv id.ID, v Verdict, msgs ...id.ID) (int, error) {
	switch v.State {
	case record.Active, record.Invalidated, record.Superseded, record.Archived, record.Deleted:
	default:
		return 0, fault.New(fault.Invalid, "validity_unknown", "unknown state of a message %.40q", v.State).
			WithHint("use active, invalidated, superseded, archived or deleted")
	}
	n := 0
	err := e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		n = 0
		group, err := e.group(ctx, sc, conv, b, msgs, v.State)
		c := record.Change{State: v.State, At: time.Now().UTC().Truncate(time.Microsecond), Actor: sc.Actor, Reason: v.Reason, By: v.By}
		if err == nil && v.State == record.Superseded {
			var by Entry
			by, err = e.replacement(ctx, sc, conv, b, v.By, group)
			c.Branch, c.Pos = by.Branch, by.Pos
		}
		if err != nil {
			return nil, err
		}
		changed := map[id.ID]*marked{}
		for _, m := range group {
			k, err := e.mark(ctx, sc, conv, &m)
			if err != nil {
				return nil, err
			}
			if was := changed[m.ID]; was != nil {
				k = was
			}
			if !k.decide(b, &m, c) {
				continue
			}
			changed[m.ID] = k
			n++
			if err := e.updateReplaced(ctx, sc, conv, &m, k, c, changed); err != nil {
				return nil, err
			}
		}
		var out []store.Change
		for _, k := range slices.SortedFunc(maps.Values(changed), func(x, y *marked) int { return cmp.Compare(x.Pos, y.Pos) }) {
			out = append(out, k.put(conv))
		}
		return orUnchanged(out)
	})
	return n, err
}

// decide adds a person's decision about a message. It returns false if that state
// is already in effect. Active reverts only the decision in effect: a message
// that was both deleted and left out to make room is still left out when its
// deletion is reverted.
func (k *marked) decide(b *record.Branch, m *Entry, c record.Change) bool {
	was := k.On(b, false).State
	_, room := b.LeftOut(m.Message, m.Pos, &k.Mark)
	room = room && was == record.Active
	switch {
	case was == c.State && !room:
		return false
	case c.State == record.Active && !room:
		k.undo(b, c.At, c.Actor)
	default:
		k.Changes = append(k.Changes, c)
	}
	return true
}

// updateReplaced updates the messages that a message replaces: if a decision hides it, they
// are shown again, and if that decision is reverted, they are hidden again.
func (e *Engine) updateReplaced(ctx context.Context, sc store.Scope, conv id.ID, m *Entry, by *marked, now record.Change, changed map[id.ID]*marked) error {
	since := map[time.Time]bool{} // when the decisions that are now reverted had hidden it
	for _, c := range by.Changes {
		if c.Undone.Equal(now.At) && isHidden(c.State, m.Role) {
			since[c.At] = true
		}
	}
	if len(since) == 0 && !isHidden(now.State, m.Role) {
		return nil
	}
	q := store.Query{Under: record.ConversationURI(conv), Term: store.Term{Name: record.TermStands, Value: m.ID.String()}}
	for it, err := range records[record.Mark](ctx, e, sc, q) {
		if err != nil {
			return err
		}
		k := markOf(it)
		if was := changed[k.Message]; was != nil {
			k = was
		}
		for i := range k.Changes {
			switch c := &k.Changes[i]; {
			case c.State != record.Superseded || c.By != m.ID:
			case since[c.Undone]:
				c.Undone, c.UndoneBy, changed[k.Message] = time.Time{}, "", k
			case c.Undone.IsZero() && isHidden(now.State, m.Role):
				c.Undone, c.UndoneBy, changed[k.Message] = now.At, now.Actor, k
			}
		}
	}
	return nil
}

// isHidden reports whether a message in this state is not shown at all and not
// replaced by another message.
func isHidden(v record.Validity, r message.Role) bool {
	return v == record.Deleted || v == record.Archived || v == record.Invalidated && r != message.Tool
}

// replacement finds the message that is to replace others. It returns an error if none
// of them would be shown in the end: if it is one of them, is itself hidden, or
// is replaced by one of them.
func (e *Engine) replacement(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, by id.ID, group []Entry) (Entry, error) {
	first, err := e.Find(ctx, sc, conv, by)
	m := first
	for seen := map[id.ID]bool{}; err == nil; m, err = e.Find(ctx, sc, conv, by) {
		k, err := e.mark(ctx, sc, conv, &m)
		if err != nil {
			return first, err
		}
		now := k.On(b, false)
		if seen[by] || slices.ContainsFunc(group, func(x Entry) bool { return x.ID == by }) {
			return first, fault.New(fault.Invalid, "supersedes_itself", "message %s would replace itself", by).
				WithHint("name a message that is shown and is none of these")
		}
		switch now.State {
		case record.Active:
			return first, nil
		case record.Superseded:
			seen[by], by = true, now.By
		default:
			return first, fault.New(fault.Conflict, "superseded_by_hidden", "message %s cannot replace others: it is %s", by, now.State).
				WithHint("make it active first, or name another one")
		}
	}
	return first, err
}

// undo reverts changes, newest first, until the message is active on the branch.
func (k *marked) undo(b *record.Branch, now time.Time, by string) {
	for i := len(k.Changes) - 1; i >= 0 && k.On(b, false).State != record.Active; i-- {
		if c := &k.Changes[i]; c.Undone.IsZero() && (c.Pos == 0 || b.Holds(c.Branch, c.Pos)) {
			c.Undone, c.UndoneBy, c.Kept = now, by, true
		}
	}
}

// mark reads the mark of a message, or returns a new one.
func (e *Engine) mark(ctx context.Context, sc store.Scope, conv id.ID, m *Entry) (*marked, error) {
	k := &marked{Mark: record.Mark{Message: m.ID, Pos: m.Pos, Branch: m.Branch}}
	r, err := e.store.Get(ctx, sc, record.MarkURI(conv, m.ID))
	if fault.Is(err, fault.NotFound) {
		return k, nil
	}
	if err != nil {
		return nil, err
	}
	k.version = r.Version
	return k, record.Decode(r.URI, r.Body, &k.Mark)
}

// group returns messages and, if the state hides them, also the other members of
// their groups: a call and its results are hidden together.
func (e *Engine) group(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, msgs []id.ID, state record.Validity) ([]Entry, error) {
	var out []Entry
	seen := map[id.ID]bool{}
	add := func(m Entry) {
		if !seen[m.ID] {
			seen[m.ID] = true
			out = append(out, m)
		}
	}
	for _, x := range msgs {
		m, err := e.Find(ctx, sc, conv, x)
		if err != nil {
			return nil, err
		}
		if m.Role == message.Tool && state == record.Invalidated {
			add(m)
			continue
		}
		together, err := e.callGroup(ctx, sc, conv, b, m)
		if err != nil {
			return nil, err
		}
		for _, m := range together {
			add(m)
		}
	}
	return out, nil
}

// callGroup returns the message that makes the calls of m, or the calls that m
// answers, followed by their results in order.
func (e *Engine) callGroup(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, m Entry) ([]Entry, error) {
	if r := m.Result(); r != nil {
		var err error
		if m, err = e.Find(ctx, sc, conv, r.Call.Message); err != nil {
			return nil, err
		}
	}
	out := []Entry{m}
	open := len(m.Calls())
	if open == 0 {
		return out, nil
	}
	for next, err := range e.following(ctx, sc, conv, b, m) {
		if err != nil {
			return nil, err
		}
		if r := next.Result(); r == nil || r.Call.Message != m.ID {
			break
		}
		if out = append(out, next); len(out) > open {
			break
		}
	}
	return out, nil
}

// following yields the messages after m on a branch. If m is not on the branch, it
// yields those after it in its own list.
func (e *Engine) following(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, m Entry) iter.Seq2[Entry, error] {
	rest := record.Branch{ID: m.Branch, Open: m.Pos + 1}
	if place := b.PlaceOf(m.Branch, m.Pos); place.Span >= 0 {
		spans := b.Spans()[place.Span:]
		spans[0].From = m.Pos + 1
		last := len(spans) - 1
		rest = record.Branch{ID: b.ID, Rope: spans[:last], Open: spans[last].From}
	}
	return e.walk(ctx, sc, conv, &rest, 32, false)
}

// Pin keeps messages in view however small the window is, or unpins them.
func (e *Engine) Pin(ctx context.Context, sc store.Scope, conv id.ID, pinned bool, msgs ...id.ID) error {
	return e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		group, err := e.group(ctx, sc, conv, b, msgs, record.Archived)
		if err != nil {
			return nil, err
		}
		var out []store.Change
		for _, m := range group {
			if pinned {
				out = append(out, putPin(conv, record.Pin{Message: m.ID, Branch: m.Branch, Pos: m.Pos, By: sc.Actor, At: time.Now().UTC()}))
				continue
			}
			_, err := e.store.Get(ctx, sc, record.PinURI(conv, m.ID))
			if err == nil {
				out = append(out, store.Change{Op: store.Delete, URI: record.PinURI(conv, m.ID)})
			} else if !fault.Is(err, fault.NotFound) {
				return nil, err
			}
		}
		return orUnchanged(out)
	})
}

// change changes a conversation and increments the revision of its branch's view,
// so that the change is visible at once. It retries after a conflict. If do
// returns errUnchanged, it writes nothing.
func (e *Engine) change(ctx context.Context, sc store.Scope, conv id.ID, do func(*record.Branch) ([]store.Change, error)) error {
	return e.commit(ctx, sc, func() ([]store.Change, error) {
		c, r, err := e.get(ctx, sc, conv)
		if err != nil {
			return nil, err
		}
		b, version, err := e.branch(ctx, sc, conv, c.BranchID())
		if err != nil {
			return nil, err
		}
		changes, err := do(&b)
		if errors.Is(err, errUnchanged) {
			return nil, nil
		}
		b.View.Revision++
		return append(changes, putBranch(conv, &b, store.If{Version: version}),
			store.Change{Op: store.Check, URI: r.URI, If: store.If{Version: r.Version}}), err
	})
}

// errUnchanged reports that there is nothing to change.
var errUnchanged = errors.New("unchanged")

// orUnchanged returns the changes, or errUnchanged if there are none.
func orUnchanged(changes []store.Change) ([]store.Change, error) {
	if len(changes) == 0 {
		return nil, errUnchanged
	}
	return changes, nil
}

// maxRoom is the number of decisions to make room that a branch remembers.
const maxRoom = 32

// on returns the change that decides a message's state on a branch, given its
// mark (nil: none) and what was left out to make room.
func (k *marked) on(b *record.Branch, e *Entry, shown bool) record.Change {
	c := record.Change{State: record.Active}
	var mark *record.Mark
	if k != nil {
		mark, c = &k.Mark, k.On(b, shown)
	}
	if c.State == record.Active && !e.Pinned {
		if room, ok := b.LeftOut(e.Message, e.Pos, mark); ok {
			return room
		}
	}
	return c
}

// accepts reports whether a mark records that its message became obsolete. It
// does not if the message is already marked, or if the same call's verdict was
// recorded before, since a person may have reverted that one.
func (k *marked) accepts(o invalidation, b *record.Branch) bool {
	same := func(c record.Change) bool { return c.Tool == o.By && c.Call == o.Call.String() }
	return k.On(b, false).State == record.Active && !slices.ContainsFunc(k.Changes, same)
}

// undone reports whether a person has reverted the invalidation of a result by a
// call: this one, all of the call's interaction (by the same tool or altogether),
// or a different one with a later decision that the result is valid.
func (k *marked) undone(o window.Obsolete, e *Entry) bool {
	for _, c := range k.Changes {
		if c.Tool == o.By && c.Call == o.Call.String() {
			return !c.Undone.IsZero()
		}
	}
	return slices.ContainsFunc(k.Changes, func(c record.Change) bool {
		together := c.Interaction == e.Interaction && (c.Tool == o.By || c.Whole)
		return !c.Undone.IsZero() && c.Tool != "" && (together || c.Kept && c.Undone.After(e.At))
	})
}

// put returns the change that stores a mark.
func (k *marked) put(conv id.ID) store.Change {
	ch := store.Change{URI: record.MarkURI(conv, k.Message), Body: record.Encode(k.Mark), If: store.If{Version: k.version}}
	if k.version == 0 {
		ch.If = store.If{Absent: true}
		ch.Place = &store.Place{List: record.MarksURI(conv), Pos: k.Pos}
	}
	if k.gone() {
		ch.State = record.StateDeleted
	}
	for _, c := range k.Changes {
		if t := (store.Term{Name: record.TermStands, Value: c.By.String()}); c.State == record.Superseded && !slices.Contains(ch.Terms, t) {
			ch.Terms = append(ch.Terms, t)
		}
	}
	return ch
}

// gone reports whether the message is deleted by a person's decision.
func (k *marked) gone() bool {
	return slices.ContainsFunc(k.Changes, func(c record.Change) bool { return c.State == record.Deleted && c.Undone.IsZero() })
}
