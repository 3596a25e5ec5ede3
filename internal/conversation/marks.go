package conversation

import (
	"context"
	"errors"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/tidy"
	"steward/internal/tool"
)

// Verdict is what is to become of messages.
type Verdict struct {
	State  record.Validity
	Reason string
	By     id.ID // Superseded: the message that stands for them
}

// Mark records what became of messages of a conversation, by a person's
// decision: it holds on all branches, and at once. Marking them Active takes
// back what holds now. Error codes: message_not_found, validity_unknown.
func (e *Engine) Mark(ctx context.Context, sc store.Scope, conv id.ID, v Verdict, msgs ...id.ID) error {
	switch v.State {
	case record.Active, record.Invalidated, record.Superseded, record.Archived, record.Deleted:
	default:
		return fault.New(fault.Invalid, "validity_unknown", "a message cannot be %.40q", v.State).
			With("use active, invalidated, superseded, archived or deleted")
	}
	if v.State == record.Superseded {
		if _, err := e.Find(ctx, sc, conv, v.By); err != nil {
			return err
		}
	}
	return e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		group, err := e.group(ctx, sc, conv, b, msgs, v.State)
		if err != nil {
			return nil, err
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		var out []store.Change
		for _, m := range group {
			k, err := e.mark(ctx, sc, conv, &m)
			if err != nil {
				return nil, err
			}
			if k.On(b, false).State == v.State {
				continue
			}
			if v.State == record.Active {
				k.undo(b, now, sc.Actor)
			} else {
				k.Changes = append(k.Changes, record.Change{State: v.State, At: now, Actor: sc.Actor, Reason: v.Reason, By: v.By})
			}
			out = append(out, k.put(conv))
		}
		return orUnchanged(out)
	})
}

// undo takes back changes, from the newest on, until the message is active on
// the branch.
func (k *marked) undo(b *record.Branch, now time.Time, by string) {
	for i := len(k.Changes) - 1; i >= 0 && k.On(b, false).State != record.Active; i-- {
		if c := &k.Changes[i]; c.Undone.IsZero() && (c.Pos == 0 || b.Holds(c.Branch, c.Pos)) {
			c.Undone, c.UndoneBy = now, by
		}
	}
}

// mark reads the mark of a message, or begins it.
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

// group finds messages, and, where the state hides them, what lives and falls
// together with them: a call and its results.
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
		together, err := e.together(ctx, sc, conv, b, m)
		if err != nil {
			return nil, err
		}
		for _, m := range together {
			add(m)
		}
	}
	return out, nil
}

// together returns the message, the calls that it answers or makes, and their
// other results, in order.
func (e *Engine) together(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, m Entry) ([]Entry, error) {
	if r := m.Result(); r != nil {
		var err error
		if m, err = e.Find(ctx, sc, conv, r.Call.Message); err != nil {
			return nil, err
		}
	}
	out := []Entry{m}
	open := len(m.Calls())
	for after := store.Cursor(""); open > 0; {
		page, more, err := e.following(ctx, sc, conv, b, m, after)
		if err != nil {
			return nil, err
		}
		for _, next := range page {
			r := next.Result()
			if r == nil || r.Call.Message != m.ID {
				return out, nil
			}
			out = append(out, next)
			open--
		}
		if after = more; after == "" {
			break
		}
	}
	return out, nil
}

// following reads some messages after one on a branch; of one that is not on
// it, what follows it in its own list.
func (e *Engine) following(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch, m Entry, after store.Cursor) ([]Entry, store.Cursor, error) {
	rest := record.Branch{ID: m.Branch, Open: m.Pos + 1}
	if place := b.PlaceOf(m.Branch, m.Pos); place.Span >= 0 {
		spans := b.Spans()[place.Span:]
		spans[0].From = m.Pos + 1
		last := len(spans) - 1
		rest = record.Branch{ID: b.ID, Rope: spans[:last], Open: spans[last].From}
	}
	return e.page(ctx, sc, conv, &rest, after, 32, false)
}

// Pin keeps messages in view whatever the window, or lets go of them.
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

// change makes changes to a conversation and raises the revision of its
// branch's view, so that they are shown at once. It is repeated when somebody
// else was quicker. With errUnchanged nothing is written.
func (e *Engine) change(ctx context.Context, sc store.Scope, conv id.ID, do func(*record.Branch) ([]store.Change, error)) error {
	for try := 1; ; try++ {
		c, r, err := e.get(ctx, sc, conv)
		if err != nil {
			return err
		}
		b, version, err := e.branch(ctx, sc, conv, c.BranchID())
		if err != nil {
			return err
		}
		changes, err := do(&b)
		if errors.Is(err, errUnchanged) {
			return nil
		}
		if err != nil {
			return err
		}
		b.View.Revision++
		changes = append(changes, putBranch(conv, &b, store.If{Version: version}),
			store.Change{Op: store.Check, URI: r.URI, If: store.If{Version: r.Version}})
		_, err = e.store.Commit(ctx, sc, store.Batch{Changes: changes})
		if !fault.Is(err, fault.Conflict) || try == maxTries {
			return err
		}
	}
}

// errUnchanged says that there is nothing to change.
var errUnchanged = errors.New("unchanged")

// orUnchanged returns changes, if there are any.
func orUnchanged(changes []store.Change) ([]store.Change, error) {
	if len(changes) == 0 {
		return nil, errUnchanged
	}
	return changes, nil
}

// Refresh shows what has been recorded as obsolete, without waiting for the
// window to fill.
func (e *Engine) Refresh(ctx context.Context, sc store.Scope, conv id.ID) error {
	return e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		all, err := e.branches(ctx, sc, conv, true)
		for i := range all { // what was recorded on another branch counts by that one's revisions
			b.View.Revision = max(b.View.Revision, all[i].View.Revision)
		}
		return nil, err
	})
}

// Optimization is one recorded change of a message's validity.
type Optimization struct {
	record.Change
	Message id.ID
	Pos     int64
}

// Audit returns what was changed in the validity of a conversation's
// messages, oldest first: all of it, or what an interaction caused, and of
// that what a tool caused. What was rolled back is part of it.
func (e *Engine) Audit(ctx context.Context, sc store.Scope, conv, interaction id.ID, toolName string) ([]Optimization, error) {
	if _, _, err := e.get(ctx, sc, conv); err != nil {
		return nil, err
	}
	marks, err := e.marks(ctx, sc, conv, 0, 0)
	if err != nil {
		return nil, err
	}
	var out []Optimization
	for _, k := range marks {
		for _, c := range k.Changes {
			if (interaction.Zero() || c.Interaction == interaction) && (toolName == "" || c.Tool == toolName) {
				out = append(out, Optimization{c, k.Message, k.Pos})
			}
		}
	}
	slices.SortFunc(out, func(a, b Optimization) int {
		if n := a.At.Compare(b.At); n != 0 {
			return n
		}
		return int(a.Pos - b.Pos)
	})
	return out, nil
}

// Rollback takes back what an interaction's calls of a tool (of all tools, if
// it is empty) made obsolete: what was shown before is shown again, at once.
// It returns how many messages it restored.
func (e *Engine) Rollback(ctx context.Context, sc store.Scope, conv, interaction id.ID, toolName string) (int, error) {
	n := 0
	err := e.change(ctx, sc, conv, func(*record.Branch) ([]store.Change, error) {
		n = 0
		marks, err := e.marks(ctx, sc, conv, 0, 0)
		if err != nil {
			return nil, err
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		var out []store.Change
		for _, k := range marks {
			undone := false
			for i := range k.Changes {
				c := &k.Changes[i]
				if c.Undone.IsZero() && c.Tool != "" && c.Interaction == interaction && (toolName == "" || c.Tool == toolName) {
					c.Undone, c.UndoneBy, undone = now, sc.Actor, true
				}
			}
			if undone {
				n++
				out = append(out, k.put(conv))
			}
		}
		return orUnchanged(out)
	})
	return n, err
}

// Optimize prepares a conversation for the tools that are about to be used:
// results of other tools, which these do not build on, leave the view, and
// what was recorded as obsolete does too. It is recorded as a change of its
// own, which Restore takes back. It returns how many results left.
func (e *Engine) Optimize(ctx context.Context, sc store.Scope, conv id.ID, tools []string) (int, error) {
	c, _, err := e.get(ctx, sc, conv)
	if err != nil {
		return 0, err
	}
	keep := tidy.Related(func(name string) (tool.Tool, bool) { return e.opt.Tools(c.Agent, name) }, tools, e.opt.Names(c.Agent)...)
	n := 0
	err = e.change(ctx, sc, conv, func(b *record.Branch) ([]store.Change, error) {
		n = 0
		entries, marks, err := e.shown(ctx, sc, conv, b)
		if err != nil {
			return nil, err
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		var out []store.Change
		for i := range entries {
			m := &entries[i]
			r := m.Result()
			if r == nil || r.Status != message.OK || keep[r.Name] || m.Pinned || m.Change.State != record.Active {
				continue
			}
			k := marks[m.Pos]
			if k == nil {
				k = &marked{Mark: record.Mark{Message: m.ID, Pos: m.Pos, Branch: m.Branch}}
			}
			k.Changes = append(k.Changes, record.Change{State: record.Invalidated, At: now, Actor: sc.Actor, Strategy: StrategySequence,
				Reason: "left out to make room: call " + r.Name + " again if it is needed"})
			out = append(out, k.put(conv))
			n++
		}
		return out, nil
	})
	return n, err
}

// StrategySequence marks changes that Optimize made.
const StrategySequence = "sequence"

// Restore takes back what Optimize left out, on the preferred branch.
func (e *Engine) Restore(ctx context.Context, sc store.Scope, conv id.ID) (int, error) {
	n := 0
	err := e.change(ctx, sc, conv, func(*record.Branch) ([]store.Change, error) {
		n = 0
		marks, err := e.marks(ctx, sc, conv, 0, 0)
		if err != nil {
			return nil, err
		}
		var out []store.Change
		for _, k := range marks {
			if i := slices.IndexFunc(k.Changes, func(c record.Change) bool {
				return c.Strategy == StrategySequence && c.Undone.IsZero()
			}); i >= 0 {
				k.Changes[i].Undone, k.Changes[i].UndoneBy = time.Now().UTC().Truncate(time.Millisecond), sc.Actor
				out = append(out, k.put(conv))
				n++
			}
		}
		return orUnchanged(out)
	})
	return n, err
}
