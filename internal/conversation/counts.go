package conversation

import (
	"context"
	"sync"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// counts remember how many messages stand before places of lists, so that a
// long list is counted once, and then only what was added. They hold until
// messages of the conversation are erased.
type counts struct {
	mu     sync.Mutex
	known  map[id.ID]map[record.Point]int // by conversation: the messages of the branch's list up to a position
	erased int                            // how often something was erased
}

// mostCounts is how many places are remembered, of a conversation and of how
// many conversations.
const mostCounts = 1000

// nearest returns the place of a list that is nearest to a position, among
// those whose count is known.
func (c *counts) nearest(conv id.ID, p record.Point) (at record.Point, n, erased int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at.Branch = p.Branch
	for q, count := range c.known[conv] {
		if q.Branch == p.Branch && max(q.Pos, p.Pos)-min(q.Pos, p.Pos) < max(at.Pos, p.Pos)-min(at.Pos, p.Pos) {
			at, n = q, count
		}
	}
	return at, n, c.erased
}

// keep remembers a count, unless something was erased since it was begun.
func (c *counts) keep(conv id.ID, p record.Point, n, erased int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.erased != erased {
		return
	}
	if c.known == nil || c.known[conv] == nil && len(c.known) >= mostCounts {
		c.known = map[id.ID]map[record.Point]int{}
	}
	if len(c.known[conv]) >= mostCounts || c.known[conv] == nil {
		c.known[conv] = map[record.Point]int{}
	}
	c.known[conv][p] = n
}

// forget is called when messages of a conversation were erased.
func (c *counts) forget(conv id.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erased++
	delete(c.known, conv)
}

// Count returns how many messages stand on a branch, and how many of them were
// written on it.
func (e *Engine) Count(ctx context.Context, sc store.Scope, conv id.ID, b *record.Branch) (all, own int, err error) {
	for _, s := range b.Spans() {
		if s.To == 0 {
			if s.To, err = e.lastOf(ctx, sc, conv, []record.Span{s}); err != nil {
				return 0, 0, err
			}
		}
		if s.To < s.From || s.To == 0 {
			continue
		}
		before, err := e.upTo(ctx, sc, conv, record.Point{Branch: s.Branch, Pos: max(s.From, 1) - 1})
		if err != nil {
			return 0, 0, err
		}
		n, err := e.upTo(ctx, sc, conv, record.Point{Branch: s.Branch, Pos: s.To})
		if err != nil {
			return 0, 0, err
		}
		if all += n - before; s.Branch == b.ID {
			own += n - before
		}
	}
	return all, own, nil
}

// upTo returns how many messages stand in a branch's list up to a position,
// which is counted from the nearest place that is known.
func (e *Engine) upTo(ctx context.Context, sc store.Scope, conv id.ID, p record.Point) (int, error) {
	at, n, erased := e.counts.nearest(conv, p)
	if at == p {
		return n, nil
	}
	between := store.Count{From: min(at.Pos, p.Pos) + 1, To: max(at.Pos, p.Pos)}
	page, err := e.store.Query(ctx, sc, store.Query{List: record.BranchURI(conv, p.Branch), Count: &between})
	if err != nil {
		return 0, err
	}
	if at.Pos > p.Pos {
		n -= page.Count
	} else {
		n += page.Count
	}
	e.counts.keep(conv, p, n, erased)
	return n, nil
}
