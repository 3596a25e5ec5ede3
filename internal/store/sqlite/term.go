package sqlite

import (
	"slices"

	"steward/internal/store"
)

// byTerm reads the bearers of a term in the order of its index, which has
// those of each space apart: so what a page costs depends on its size, not on
// how many bear the term. Answers of several spaces are merged.
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

// merge takes as much of each space's answer as the page may need, and then
// reads what comes first among all. What it sees is one state of the database:
// the transaction ends when the connection goes back to the pool.
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
