package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
)

// CopyBranch copies a branch to a new conversation: its messages with their ids
// and interactions, their states and pins. Deleted messages are not copied. The
// copy shows everything, as of the newest revision. It is written like an import:
// hidden until it is complete.
func (e *Engine) CopyBranch(ctx context.Context, sc store.Scope, conv id.ID, branch string) (id.ID, error) {
	c, _, err := e.get(ctx, sc, conv)
	if err != nil {
		return id.ID{}, err
	}
	b, _, err := e.branch(ctx, sc, conv, branch)
	if err != nil {
		return id.ID{}, err
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	c.Branch, c.Last, c.Created, c.Updated = "", 0, now, now
	c.Messages, c.ToolCalls, c.Tokens = 0, 0, message.Usage{} // the copied messages are counted as they are stored
	cp := &copying{importer: e.importer(ctx, sc), from: conv, by: sc.Actor, known: map[id.ID]bool{}}
	cp.trust, cp.sc.Actor = true, actorImport+sc.Actor // the original's usage counts, the copy's does not
	if err := cp.begin(c, now); err != nil {
		return id.ID{}, err
	}
	main := record.Branch{ID: record.MainBranch, Created: now, View: record.View{Room: slices.Clone(b.View.Room)}}
	for m, err := range e.Walk(ctx, sc, conv, &b, false) {
		if err != nil {
			return id.ID{}, err
		}
		_, out := b.LeftOut(m.Message, m.Pos, nil)
		if err := cp.copy(&m, out); err != nil {
			return id.ID{}, err
		}
		for i := range main.View.Room { // positions are assigned again
			if m.Pos <= b.View.Room[i].Upto {
				main.View.Room[i].Upto = cp.c.Last
			}
		}
	}
	if err := cp.branch(&main); err != nil {
		return id.ID{}, err
	}
	return cp.conv, cp.end()
}

// copying is a copy that is being made.
type copying struct {
	*importer
	from  id.ID
	by    string         // who copies
	known map[id.ID]bool // interactions
}

// copy copies a message, and its interaction with the first of its messages. If a
// Room covers an active message, a person has made it active.
func (c *copying) copy(m *Entry, room bool) error {
	if !c.known[m.Interaction] {
		c.known[m.Interaction] = true
		in, _, err := c.engine.interaction(c.ctx, c.sc, c.from, m.Interaction)
		if err == nil {
			err = c.interaction(m.Interaction, in)
		}
		if err != nil {
			return err
		}
	}
	pos := c.c.Last + 1
	count(&c.c, m.Message)
	if _, err := c.message(m.Interaction, m.Message, record.Point{Branch: record.MainBranch, Pos: pos}); err != nil {
		return err
	}
	if m.Shown && m.Change.Strategy != record.StrategySequence && (room || m.Change.State != record.Active) {
		ch := m.Change
		ch.Branch, ch.Pos, ch.Revision = "", 0, 0
		if ch.At.IsZero() { // active
			ch.At, ch.Actor = c.c.Created, c.by
		}
		k := marked{Mark: record.Mark{Message: m.ID, Pos: pos, Branch: record.MainBranch, Changes: []record.Change{ch}}}
		if err := c.put(k.put(c.conv)); err != nil {
			return err
		}
	}
	if m.Pinned {
		return c.put(putPin(c.conv, record.Pin{Message: m.ID, Branch: record.MainBranch, Pos: pos, By: c.by, At: c.c.Created}))
	}
	return nil
}
