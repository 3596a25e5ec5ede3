package sqlite

import (
	"slices"

	"steward/internal/store"
)

// byTerm reads the resources with a term in the order of its index, which is
// separate for each space. So the cost of a page depends on its size, not on the
// number of resources with the term. The results of several spaces are merged.
func (b *builder) byTerm(sc store.Scope) error {
	spaces, err := b.s.spaceIDs(b.c, sc)
	if b.empty = len(spaces) == 0; b.empty || err != nil {
		return err
	}
	if len(spaces) == 1 {
		b.columns()
		b.add(", 0 ")
	} else {
		b.merged = spaces
		b.add("SELECT t.seq ")
	}
	b.add("FROM term t")
	if len(spaces) == 1 || !b.q.Under.Zero() || b.q.Type != "" {
		b.add(" CROSS JOIN log l ON l.seq = t.seq")
	}
	b.add(" WHERE t.space = ? AND t.value = ?", spaces[0], b.q.Term.Value)
	if err := b.word(" AND t.name = ?", termName, b.q.Term.Name); err != nil {
		return err
	}
	beyond, direction := ">", ""
	if b.q.Reverse {
		beyond, direction = "<", " DESC"
	}
	if b.more {
		b.add(" AND t.seq "+beyond+" ?", b.after.Num)
	}
	err = b.filter("l")
	b.add(" ORDER BY t.seq"+direction+" LIMIT ?", int64(store.PageSize(b.q.Limit)+1))
	return err
}

// merge reads from each space as much as the page may need, and then returns the
// first items of all. It reads one snapshot of the database: the transaction ends
// when the connection returns to the pool.
func (b *builder) merge() ([]store.Item, error) {
	if err := b.c.prepare("BEGIN").run(); err != nil {
		return nil, err
	}
	var seqs []int64
	var err error
	for _, space := range b.merged {
		b.args[0] = space
		if seqs, err = b.c.prepare(b.sql.String()).args(b.args).numbers(seqs); err != nil {
			return nil, err
		}
	}
	slices.Sort(seqs)
	if b.q.Reverse {
		slices.Reverse(seqs)
	}
	one := builder{s: b.s, c: b.c, q: b.q}
	one.columns()
	r := rows{s: b.s, st: b.c.prepare(one.sql.String() + ", 0 FROM log l WHERE l.seq = ?")}
	var items []store.Item
	for _, seq := range seqs[:min(len(seqs), store.PageSize(b.q.Limit)+1)] {
		if items, err = r.items(items, []any{seq}); err != nil {
			return nil, err
		}
	}
	return items, nil
}
