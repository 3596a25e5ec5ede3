package sqlite

import (
	"bytes"
	"context"
	"strings"
	"time"

	"steward/internal/resource"
	"steward/internal/store"
)

const selectOne = `SELECT l.space, l.seq, l.at, l.version, l.state, l.body
	FROM tree t CROSS JOIN log l ON l.seq = t.seq WHERE t.key = ? AND t.gone = 0`

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, sc store.Scope, uri resource.URI) (resource.Resource, error) {
	if err := sc.CanRead(); err != nil {
		return resource.Resource{}, err
	}
	c, err := s.readers.get(ctx)
	if err != nil {
		return resource.Resource{}, coded(s.path, err)
	}
	defer s.readers.put(c)
	r, ok, err := s.get(c, sc, uri)
	if err != nil {
		return resource.Resource{}, coded(s.path, err)
	}
	if !ok {
		return resource.Resource{}, notFound(uri)
	}
	return r, nil
}

func (s *Store) get(c *conn, sc store.Scope, uri resource.URI) (r resource.Resource, ok bool, err error) {
	st, err := c.prepare(selectOne)
	if err != nil {
		return r, false, err
	}
	defer st.reset()
	if ok, err = st.argBlob(uri.Key()).step(); err != nil || !ok {
		return r, false, err
	}
	space, err := s.names.text(c, st.int(0))
	if err != nil || !sc.Sees(resource.Space(space)) {
		return r, false, err
	}
	state, err := s.names.text(c, st.int(4))
	return resource.Resource{
		URI: uri, Space: resource.Space(space), Seq: uint64(st.int(1)), At: when(st.int(2)),
		Version: uint64(st.int(3)), State: state, Body: bytes.Clone(st.view(5)),
	}, err == nil, err
}

func when(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// Query implements store.Store.
func (s *Store) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if err := sc.CanRead(); err != nil {
		return store.Page{}, err
	}
	if _, err := q.Order(); err != nil {
		return store.Page{}, err
	}
	after, more, err := q.Position()
	if err != nil {
		return store.Page{}, err
	}
	c, err := s.readers.get(ctx)
	if err != nil {
		return store.Page{}, coded(s.path, err)
	}
	defer s.readers.put(c)
	defer c.interruptOn(ctx)()
	page, err := s.query(c, sc, &q, after, more)
	if err != nil {
		return store.Page{}, s.readError(ctx, err)
	}
	return page, nil
}

// readError prefers the context's error to what its interrupt made of it.
func (s *Store) readError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return coded(s.path, err)
}

// row is a result before its numbers are made words again.
type row struct {
	seq, at, space, version, state, pos int64
	key, body                           []byte
}

func (s *Store) query(c *conn, sc store.Scope, q *store.Query, after store.Position, more bool) (store.Page, error) {
	b := builder{s: s, c: c, q: q, after: after, more: more}
	if err := b.build(sc); err != nil || b.empty {
		return store.Page{}, err
	}
	rows, err := b.fetch()
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	if size := store.PageSize(q.Limit); len(rows) > size {
		rows = rows[:size]
		page.Next = q.Cursor(b.position(rows[size-1]))
	}
	page.Items = make([]store.Item, len(rows))
	for i := range rows {
		if err := s.fill(c, &page.Items[i], &rows[i]); err != nil {
			return store.Page{}, err
		}
	}
	return page, nil
}

func (s *Store) fill(c *conn, it *store.Item, r *row) (err error) {
	if it.URI, err = resource.FromKey(r.key); err != nil {
		return broken(s.path, err)
	}
	space, err := s.names.text(c, r.space)
	if err != nil {
		return err
	}
	if it.State, err = s.names.text(c, r.state); err != nil {
		return err
	}
	it.Space, it.Seq, it.At, it.Version = resource.Space(space), uint64(r.seq), when(r.at), uint64(r.version)
	it.Body, it.Pos = r.body, r.pos
	return nil
}

// builder writes the SQL of one query and gathers its arguments.
type builder struct {
	s     *Store
	c     *conn
	q     *store.Query
	order store.Order
	after store.Position
	more  bool // after counts

	sql   strings.Builder
	args  []any // int64, []byte or string
	empty bool  // nothing can match
}

func (b *builder) add(sql string, args ...any) {
	b.sql.WriteString(sql)
	b.args = append(b.args, args...)
}

// word adds a condition on a word's number; an unknown word matches nothing.
func (b *builder) word(sql string, kind int64, text string) error {
	id, err := b.s.names.id(b.c, kind, text)
	b.empty = b.empty || id == nobody
	b.add(sql, id)
	return err
}

// spaces adds the condition that rows lie in a space that the scope reads.
func (b *builder) spaces(column string, sc store.Scope) error {
	if sc.All() {
		return nil
	}
	ids, err := b.s.spaceIDs(b.c, sc)
	if len(ids) == 0 {
		b.empty = true
		return err
	}
	b.add(" AND " + column + " IN (?")
	b.args = append(b.args, ids[0])
	for _, id := range ids[1:] {
		b.add(", ?", id)
	}
	b.add(")")
	return err
}

// spaceIDs returns the numbers of the scope's spaces, as far as they have any.
func (s *Store) spaceIDs(c *conn, sc store.Scope) ([]int64, error) {
	var ids []int64
	for _, sp := range sc.Read {
		id, err := s.names.id(c, spaceName, string(sp))
		if err != nil {
			return nil, err
		}
		if id != nobody {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// under adds the condition that a key is u's or lies below it. Elements begin
// with bytes below 0xff, so that all descendants lie in one range.
func (b *builder) under(column string, u resource.URI) {
	if !u.Zero() {
		b.add(" AND "+column+" >= ? AND "+column+" < ?", u.Key(), append(u.Key(), 0xff))
	}
}

func (b *builder) build(sc store.Scope) (err error) {
	b.order, _ = b.q.Order()
	b.add("SELECT l.seq, l.at, l.space, l.version, l.state, l.key, ")
	if b.q.NoBody {
		b.add("NULL")
	} else {
		b.add("l.body")
	}
	switch b.order {
	case store.ByList:
		err = b.byList(sc)
	case store.ByTerm:
		err = b.byTerm(sc)
	default:
		err = b.byTree(sc)
	}
	b.add(" LIMIT ?", int64(store.PageSize(b.q.Limit)+1))
	return err
}

// filter adds what restricts every order, on the table that bears it.
func (b *builder) filter(table string, sc store.Scope) error {
	b.under(table+".key", b.q.Under)
	if b.q.Type != "" {
		if err := b.word(" AND "+table+".type = ?", typeName, b.q.Type); err != nil {
			return err
		}
	}
	return b.spaces(table+".space", sc)
}

func (b *builder) byList(sc store.Scope) error {
	b.add(`, p.pos FROM place p CROSS JOIN log l ON l.seq = p.seq
		WHERE p.list = (SELECT id FROM list WHERE key = ?)`, b.q.List.Key())
	beyond, from, direction := ">", ">=", ""
	if b.q.Reverse {
		beyond, from, direction = "<", "<=", " DESC"
	}
	if b.more {
		// A position is held once in each space; the space breaks the tie.
		space, err := b.s.names.id(b.c, spaceName, string(b.after.Key))
		if err != nil {
			return err
		}
		b.add(" AND (p.pos, p.space) "+beyond+" (?, ?)", b.after.Num, space)
	}
	if b.q.From != 0 {
		b.add(" AND p.pos "+from+" ?", b.q.From)
	}
	err := b.filter("l", sc)
	b.add(" ORDER BY p.pos" + direction + ", p.space" + direction)
	return err
}

// byTerm finds the sequence numbers first, so that where several spaces have
// to be sorted together, no bodies are.
func (b *builder) byTerm(sc store.Scope) error {
	b.add(`, 0 FROM (SELECT t.seq AS s FROM term t CROSS JOIN log k ON k.seq = t.seq
		WHERE t.value = ?`, b.q.Term.Value)
	if err := b.word(" AND t.name = ?", termName, b.q.Term.Name); err != nil {
		return err
	}
	if sc.All() {
		b.add(" AND t.space IN (SELECT id FROM name WHERE kind = ?)", spaceName)
	} else if err := b.spaces("t.space", sc); err != nil {
		return err
	}
	beyond, direction := ">", ""
	if b.q.Reverse {
		beyond, direction = "<", " DESC"
	}
	if b.more {
		b.add(" AND t.seq "+beyond+" ?", b.after.Num)
	}
	b.under("k.key", b.q.Under)
	if b.q.Type != "" {
		if err := b.word(" AND k.type = ?", typeName, b.q.Type); err != nil {
			return err
		}
	}
	b.add(" ORDER BY t.seq"+direction+" LIMIT ?", int64(store.PageSize(b.q.Limit)+1))
	b.add(") CROSS JOIN log l ON l.seq = s ORDER BY s" + direction)
	return nil
}

func (b *builder) byTree(sc store.Scope) error {
	b.add(", 0 FROM tree t")
	if b.order == store.ByState {
		b.add(" INDEXED BY tree_state CROSS JOIN log l ON l.seq = t.seq WHERE 1")
		if err := b.word(" AND t.state = ?", stateName, b.q.State); err != nil {
			return err
		}
	} else {
		b.add(" CROSS JOIN log l ON l.seq = t.seq WHERE t.gone = 0")
	}
	beyond, direction := ">", ""
	if b.q.Reverse {
		beyond, direction = "<", " DESC"
	}
	if b.more {
		b.add(" AND t.key "+beyond+" ?", b.after.Key)
	}
	err := b.filter("t", sc)
	b.add(" ORDER BY t.key" + direction)
	return err
}

// fetch runs the query.
func (b *builder) fetch() ([]row, error) {
	st, err := b.c.prepare(b.sql.String())
	if err != nil {
		return nil, err
	}
	defer st.reset()
	st.args(b.args)
	rows := make([]row, 0, min(store.PageSize(b.q.Limit)+1, 256))
	for {
		ok, err := st.step()
		if err != nil || !ok {
			return rows, err
		}
		rows = append(rows, row{
			seq: st.int(0), at: st.int(1), space: st.int(2), version: st.int(3), state: st.int(4),
			key: bytes.Clone(st.view(5)), body: bytes.Clone(st.view(6)), pos: st.int(7),
		})
	}
}

// args gives arguments of any of the kinds in use.
func (s *stmt) args(args []any) {
	for _, a := range args {
		switch v := a.(type) {
		case int64:
			s.argInt(v)
		case []byte:
			s.argBlob(v)
		case string:
			s.argText(v)
		}
	}
}

// position says where the answer goes on after a row.
func (b *builder) position(r row) store.Position {
	switch b.order {
	case store.ByList:
		space, _ := b.s.names.text(b.c, r.space) // fill tells of a missing word
		return store.Position{Num: r.pos, Key: []byte(space)}
	case store.ByTerm:
		return store.Position{Num: r.seq}
	}
	return store.Position{Key: r.key}
}
