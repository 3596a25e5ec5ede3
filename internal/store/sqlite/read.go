package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"steward/internal/resource"
	"steward/internal/store"
)

// Ready reports whether the database can be read, and, if the last write found
// the disk full, whether there is space again. It has its own connection, so it
// does not wait for other readers.
func (s *Store) Ready(ctx context.Context) error {
	if s.full.Load() {
		if err := tryToWrite(s.path); err != nil {
			return byCause(s.path, err, err)
		}
		s.full.Store(false)
	}
	return s.withConn(ctx, s.probe, func(c *conn) error {
		_, err := c.number("SELECT seq FROM log LIMIT 1")
		return err
	})
}

// Writable returns why nothing can be written beside the database at path, which need not exist; nil: something can.
func Writable(path string) error {
	if err := tryToWrite(path); err != nil {
		return byCause(path, err, err)
	}
	return nil
}

// Head returns the sequence number of the newest entry of the log that this process knows.
func (s *Store) Head() uint64 {
	s.news.mu.Lock()
	defer s.news.mu.Unlock()
	return s.news.head
}

// Size returns how many bytes the database and its write-ahead log have.
func (s *Store) Size(context.Context) (n int64, err error) {
	for _, name := range []string{s.path, s.path + "-wal"} {
		st, err := os.Stat(name)
		if err == nil {
			n += st.Size()
		} else if !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	return n, nil
}

// Queued returns how many batches wait to be committed.
func (s *Store) Queued() int {
	if s.writer == nil {
		return 0
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.queue)
}

// withConn calls do with a connection of a pool.
func (s *Store) withConn(ctx context.Context, p *pool, do func(*conn) error) error {
	c, err := p.get(ctx)
	if err != nil {
		return coded(s.path, err)
	}
	defer p.put(c)
	return coded(s.path, do(c))
}

// read is like lend, for calls that may take long: it is interrupted when ctx is
// done, and then returns the error of ctx.
func (s *Store) read(ctx context.Context, do func(*conn) error) error {
	err := s.withConn(ctx, s.readers, func(c *conn) error {
		defer c.interruptOn(ctx)()
		return do(c)
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

const selectOne = `SELECT l.seq, l.at, l.space, l.version, l.state, l.op, l.body
	FROM tree t CROSS JOIN log l ON l.seq = t.seq WHERE t.key = ? AND t.gone = 0`

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, sc store.Scope, uri resource.URI) (resource.Resource, error) {
	if err := sc.CanRead(); err != nil {
		return resource.Resource{}, err
	}
	r := resource.Resource{URI: uri}
	err := s.withConn(ctx, s.readers, func(c *conn) error {
		st := c.prepare(selectOne).argBlob(uri.Key())
		found, err := st.first(func() error {
			row := rows{s: s, st: st}
			if err := row.head(&r); err != nil {
				return err
			}
			if !sc.Sees(r.Space) {
				return notFound(uri)
			}
			var err error
			r.Body, err = row.body(6, st.int(5))
			return err
		})
		if err == nil && !found {
			err = notFound(uri)
		}
		return err
	})
	if err != nil {
		return resource.Resource{}, err
	}
	return r, nil
}

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
	var page store.Page
	err = s.read(ctx, func(c *conn) error {
		page, err = s.query(c, sc, &q, after, more)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

func (s *Store) query(c *conn, sc store.Scope, q *store.Query, after store.Position, more bool) (page store.Page, err error) {
	b := builder{s: s, c: c, q: q, after: after, more: more}
	if q.Count != nil {
		page.Count, err = b.count(sc)
		return page, err
	}
	if err := b.build(sc); err != nil || b.empty {
		return page, err
	}
	if len(b.merged) > 0 {
		page.Items, err = b.merge()
	} else {
		page.Items, err = b.fetch()
	}
	if size := store.PageSize(q.Limit); len(page.Items) > size {
		page.Items = page.Items[:size]
		page.Next = q.Cursor(b.position(&page.Items[size-1]))
	}
	return page, err
}

// builder builds the SQL of one query and collects its arguments.
type builder struct {
	s     *Store
	c     *conn
	q     *store.Query
	order store.Order
	after store.Position
	more  bool // after is set

	sql   strings.Builder
	args  []any // int64, []byte or string
	empty bool  // nothing can match

	merged []any // spaces whose results must be merged
}

func (b *builder) add(sql string, args ...any) {
	b.sql.WriteString(sql)
	b.args = append(b.args, args...)
}

// word adds a condition on the number of an interned word. An unknown word
// matches nothing.
func (b *builder) word(sql string, kind int64, text string) error {
	id, err := b.s.names.id(b.c, kind, text)
	b.empty = b.empty || id == noNumber
	b.add(sql, id)
	return err
}

// spaces restricts rows to the spaces that the scope reads.
func (b *builder) spaces(column string, sc store.Scope) error {
	if sc.All() {
		return nil
	}
	ids, err := b.s.spaceIDs(b.c, sc)
	if len(ids) == 0 {
		b.empty = true
		return err
	}
	b.add(" AND "+column+" IN (?"+strings.Repeat(", ?", len(ids)-1)+")", ids...)
	return err
}

// spaceIDs returns the numbers of the scope's spaces. Spaces without data have
// none.
func (s *Store) spaceIDs(c *conn, sc store.Scope) ([]any, error) {
	if sc.All() {
		return s.allSpaces(c)
	}
	var ids []any
	for _, sp := range sc.Read {
		id, err := s.names.id(c, spaceName, string(sp))
		if err != nil {
			return nil, err
		}
		if id != noNumber && !slices.Contains(ids, any(id)) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// under restricts a key to u and its descendants. Elements begin with bytes below
// 0xff, so all descendants are in one range.
func (b *builder) under(column string, u resource.URI) {
	if !u.Zero() {
		b.add(" AND "+column+" >= ? AND "+column+" < ?", u.Key(), append(u.Key(), 0xff))
	}
}

func (b *builder) build(sc store.Scope) (err error) {
	b.order, _ = b.q.Order()
	if b.order != store.ByTerm {
		b.columns()
	}
	switch b.order {
	case store.ByList:
		err = b.byList(sc)
	case store.ByTerm:
		return b.byTerm(sc)
	default:
		err = b.byTree(sc)
	}
	b.add(" LIMIT ?", int64(store.PageSize(b.q.Limit)+1))
	return err
}

// columns begins the text with the columns that fetch reads, except the position.
func (b *builder) columns() {
	b.add("SELECT l.seq, l.at, l.space, l.version, l.state, l.op, l.key, ")
	if b.q.NoBody {
		b.add("NULL")
	} else {
		b.add("l.body")
	}
}

// filter adds the restrictions that apply to every order, on the given table.
func (b *builder) filter(table string) error {
	b.under(table+".key", b.q.Under)
	if b.q.Type == "" {
		return nil
	}
	return b.word(" AND "+table+".type = ?", typeName, b.q.Type)
}

func (b *builder) byList(sc store.Scope) error {
	b.add(`, p.pos FROM place p CROSS JOIN log l ON l.seq = p.seq
		WHERE p.list = (SELECT id FROM list WHERE key = ?)`, b.q.List.Key())
	beyond, from, direction := ">", ">=", ""
	if b.q.Reverse {
		beyond, from, direction = "<", "<=", " DESC"
	}
	if b.more {
		// Each space can hold a position once; the space breaks ties.
		space, err := b.s.names.id(b.c, spaceName, string(b.after.Key))
		if err != nil {
			return err
		}
		b.add(" AND (p.pos, p.space) "+beyond+" (?, ?)", b.after.Num, space)
	}
	if b.q.From != 0 {
		b.add(" AND p.pos "+from+" ?", b.q.From)
	}
	err := errors.Join(b.spaces("p.space", sc), b.filter("l"))
	b.add(" ORDER BY p.pos" + direction + ", p.space" + direction)
	return err
}

// count counts the members of a list. It reads only the index of places.
func (b *builder) count(sc store.Scope) (int, error) {
	b.add("SELECT count(*) FROM place p WHERE p.list = (SELECT id FROM list WHERE key = ?) AND p.pos BETWEEN ? AND ?",
		b.q.List.Key(), b.q.Count.From, b.q.Count.To)
	if err := b.spaces("p.space", sc); err != nil || b.empty {
		return 0, err
	}
	n, err := b.c.prepare(b.sql.String()).args(b.args).number()
	return int(n), err
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
	err := errors.Join(b.filter("t"), b.spaces("t.space", sc))
	b.add(" ORDER BY t.key" + direction)
	return err
}

// position returns the position after an item.
func (b *builder) position(it *store.Item) store.Position {
	switch b.order {
	case store.ByList:
		return store.Position{Num: it.Pos, Key: []byte(it.Space)}
	case store.ByTerm:
		return store.Position{Num: int64(it.Seq)}
	}
	return store.Position{Key: it.URI.Key()}
}
