package conversation

import (
	"context"

	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
)

// Pack stores the messages of a conversation's preferred branch that are out of
// view compactly; with all, for a conversation that is not in use, it packs the
// whole branch. Reads are unaffected. It returns how many messages it packed.
func (e *Engine) Pack(ctx context.Context, sc store.Scope, conv id.ID, all bool) (int, error) {
	_, b, err := e.current(ctx, sc, conv)
	if err != nil {
		return 0, err
	}
	done, end := b.PlaceOf(b.Packed.Branch, b.Packed.Pos-1), b.Start() // the last message that is packed
	var last record.Point
	packing := &batch{engine: e, ctx: ctx, sc: sc}
	for i, s := range b.Spans() {
		if i < done.Span || !all && i > end.Span {
			continue
		}
		if i == done.Span {
			s.From = done.Pos + 1
		}
		q := store.Query{List: record.BranchURI(conv, s.Branch), From: s.From, NoBody: true, Limit: 1000}
		for it, err := range store.Items(ctx, e.store, sc, q) {
			if err != nil {
				return packing.done, err
			}
			if !s.Holds(s.Branch, it.Pos) || !all && i == end.Span && it.Pos >= end.Pos {
				break
			}
			last = record.Point{Branch: s.Branch, Pos: it.Pos + 1}
			if err := packing.add(store.Change{Op: store.Pack, URI: it.URI}); err != nil {
				return packing.done, err
			}
		}
	}
	if err := packing.flush(); err != nil || packing.done == 0 {
		return packing.done, err
	}
	return packing.done, e.packed(ctx, sc, conv, b.ID, last)
}

// packed records how far a branch is packed.
func (e *Engine) packed(ctx context.Context, sc store.Scope, conv id.ID, branch string, to record.Point) error {
	return e.rewrite(ctx, sc, conv, branch, func(b *record.Branch) (bool, error) {
		b.Packed = to
		return true, there(b)
	})
}
