package conversation

import (
	"context"
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// CopyBranch copies a branch to a conversation of its own: its messages with
// their ids and interactions, what became of them, and what is pinned. What
// was deleted is left behind; all of it is shown, as of the newest revision.
// The conversation itself is written last, so that none is there half copied.
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
	c.ID, c.Branch, c.Last, c.Created, c.Updated = id.New(), "", 0, now, now
	c.Asked = resource.URI{}                                  // the copy is a person's
	c.Messages, c.ToolCalls, c.Tokens = 0, 0, message.Usage{} // counted anew
	cp := &copying{engine: e, scope: sc, from: conv, to: &c, seen: map[id.ID]bool{}}
	main := record.Branch{ID: record.MainBranch, Created: now, View: record.View{Room: slices.Clone(b.View.Room)}}
	for after := store.Cursor(""); ; {
		page, next, err := e.MessagesOf(ctx, sc, conv, &b, after, 0, false)
		if err != nil {
			return id.ID{}, err
		}
		for i := range page {
			_, out := b.LeftOut(page[i].Message, page[i].Pos, nil)
			if err := cp.message(ctx, &page[i], out); err != nil {
				return id.ID{}, err
			}
			for j := range main.View.Room { // positions are counted anew
				if page[i].Pos <= b.View.Room[j].Upto {
					main.View.Room[j].Upto = cp.pos
				}
			}
		}
		if after = next; after == "" {
			break
		}
	}
	cp.batch = append(cp.batch, putBranch(c.ID, &main, store.If{Absent: true}), putConversation(&c, store.If{Absent: true}))
	return c.ID, cp.flush(ctx)
}

// copying is a copy that is being made.
type copying struct {
	engine *Engine
	scope  store.Scope
	from   id.ID
	to     *record.Conversation
	seen   map[id.ID]bool // interactions
	pos    int64
	batch  []store.Change
}

const copyBatch = 500

// message copies a message, with its interaction if that is new. One that a
// Room covers, and that is active, was made so by a person.
func (c *copying) message(ctx context.Context, m *Entry, room bool) error {
	if !c.seen[m.Interaction] {
		c.seen[m.Interaction] = true
		in, _, err := c.engine.interaction(ctx, c.scope, c.from, m.Interaction)
		if err != nil {
			return err
		}
		c.batch = append(c.batch, store.Change{URI: record.InteractionURI(c.to.ID, m.Interaction), Body: record.Encode(in), If: store.If{Absent: true}})
	}
	c.pos++
	count(c.to, m.Message)
	c.batch = append(c.batch, putMessage(m.URI(c.to.ID), m.Message, &store.Place{List: record.BranchURI(c.to.ID, record.MainBranch), Pos: c.pos}))
	if m.Shown && m.Change.Strategy != record.StrategySequence && (room || m.Change.State != record.Active) {
		ch := m.Change
		ch.Branch, ch.Pos, ch.Revision = "", 0, 0
		if ch.At.IsZero() { // active
			ch.At, ch.Actor = c.to.Created, c.scope.Actor
		}
		k := marked{Mark: record.Mark{Message: m.ID, Pos: c.pos, Branch: record.MainBranch, Changes: []record.Change{ch}}}
		c.batch = append(c.batch, k.put(c.to.ID))
	}
	if m.Pinned {
		c.batch = append(c.batch, putPin(c.to.ID, record.Pin{Message: m.ID, Branch: record.MainBranch, Pos: c.pos, By: c.scope.Actor, At: c.to.Created}))
	}
	if len(c.batch) < copyBatch {
		return nil
	}
	return c.flush(ctx)
}

func (c *copying) flush(ctx context.Context) error {
	_, err := c.engine.store.Commit(ctx, c.scope, store.Batch{Changes: c.batch})
	c.batch = c.batch[:0]
	return err
}
