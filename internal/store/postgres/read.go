package postgres

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// everything is the scope of the store's own reads of what belongs to no space.
var everything = store.ForNode(resource.System)

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// request is one call that reads, with a connection and the scope that the
// policies enforce.
type request struct {
	ctx   context.Context
	conn  *pgxpool.Conn
	scope store.Scope
}

// setScope sets the scope of a transaction. The spaces are an array in
// PostgreSQL's own text form.
const setScope = "SELECT set_config('steward.reads', $1::text[]::text, true), set_config('steward.all', $2, true)"

// scopeArgs are the arguments of setScope.
func scopeArgs(sc store.Scope) []any {
	spaces := make([]string, len(sc.Read))
	for i, sp := range sc.Read {
		spaces[i] = string(sp)
	}
	all := "off"
	if sc.All() {
		all = "on"
	}
	return []any{spaces, all}
}

// read calls do until it works or patience is at its end: a server that is away
// comes back. do may be called several times.
func (s *Store) read(ctx context.Context, sc store.Scope, do func(*request) error) error {
	deadline := time.Now().Add(s.patience)
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		err := s.readOnce(ctx, sc, do)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case s.isClosed():
			return closed()
		case !away(err) || time.Now().Add(delay).After(deadline):
			return coded(err)
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		case <-s.news.done:
			return closed()
		}
	}
}

// The delays between attempts to reach a server that is away.
const (
	firstRetry = 10 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

func (s *Store) readOnce(ctx context.Context, sc store.Scope, do func(*request) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isClosed() {
		return closed()
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(&request{ctx: ctx, conn: conn, scope: sc})
}

// each runs one query within the scope, in one round trip and one transaction,
// and calls do for each of its rows.
func (q *request) each(sql string, args []any, do func(pgx.Rows) error) (err error) {
	var b pgx.Batch
	b.Queue(setScope, scopeArgs(q.scope)...)
	b.Queue(sql, args...)
	res := q.conn.SendBatch(q.ctx, &b)
	defer func() { err = errors.Join(err, res.Close()) }()
	if _, err := res.Exec(); err != nil {
		return err
	}
	rows, err := res.Query()
	if err != nil {
		return err
	}
	return eachRow(rows, do)
}

// eachRow calls do for each row.
func eachRow(rows pgx.Rows, do func(pgx.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// first is each for the first row. It reports whether there is one.
func (q *request) first(sql string, args []any, do func(pgx.Rows) error) (found bool, err error) {
	err = q.each(sql, args, func(r pgx.Rows) error {
		if found {
			return nil
		}
		found = true
		return do(r)
	})
	return found, err
}

// row is the first row of a query without arguments, as one to scan.
func (q *request) row(sql string) pgx.Row { return oneRow{q, sql} }

type oneRow struct {
	q   *request
	sql string
}

// Scan implements pgx.Row.
func (o oneRow) Scan(to ...any) error {
	found, err := o.q.first(o.sql, nil, func(r pgx.Rows) error { return r.Scan(to...) })
	if err == nil && !found {
		err = pgx.ErrNoRows
	}
	return err
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, sc store.Scope, uri resource.URI) (resource.Resource, error) {
	if err := sc.CanRead(); err != nil {
		return resource.Resource{}, err
	}
	var e resource.Entry
	found := false
	err := s.read(ctx, sc, func(q *request) (err error) {
		b := builder{}
		b.add("SELECT "+columns("l.body")+", 0::bigint FROM tree t JOIN log l ON l.seq = t.seq WHERE t.key = ", uri.Key())
		b.add(" AND NOT t.gone")
		b.spaces("t.space", sc)
		found, err = q.first(b.sql.String(), b.args, func(r pgx.Rows) error { return scan(r, &e, nil) })
		return err
	})
	if err == nil && !found {
		err = notFound(uri)
	}
	if err != nil {
		return resource.Resource{}, err
	}
	return resourceOf(&e), nil
}

// columns are those that scan reads, except the last.
func columns(body string) string {
	return "l.seq, l.at, l.space, l.version, l.state, l.op, l.key, " + body + ", l.actor, l.request"
}

// scan reads the columns of columns, and a position if there is one.
func scan(r pgx.Rows, e *resource.Entry, pos *int64) error {
	var at, op int64
	var state *string
	var key, request []byte
	var none int64
	if pos == nil {
		pos = &none
	}
	if err := r.Scan(&e.Seq, &at, (*string)(&e.Space), &e.Version, &state, &op, &key, &e.Body, &e.Actor, &request, pos); err != nil {
		return err
	}
	return fill(e, at, op, state, key, request)
}

// fill sets the fields of an entry that are stored in another form.
func fill(e *resource.Entry, at, op int64, state *string, key, request []byte) (err error) {
	e.At, e.Op, e.State, e.Request = when(at), resource.Op(op), "", id.ID{}
	if state != nil {
		e.State = *state
	}
	if len(e.Body) == 0 {
		e.Body = nil
	}
	if len(request) == len(id.ID{}) {
		e.Request = id.ID(request)
	}
	if e.URI, err = resource.FromKey(key); err != nil {
		return broken(err)
	}
	return nil
}

// resourceOf returns the version of a resource that an entry has written.
func resourceOf(e *resource.Entry) resource.Resource {
	return resource.Resource{URI: e.URI, Space: e.Space, Version: e.Version, Seq: e.Seq, State: e.State, At: e.At, Body: e.Body}
}

func when(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// Query implements store.Store.
func (s *Store) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if err := sc.CanRead(); err != nil {
		return store.Page{}, err
	}
	order, err := q.Order()
	if err != nil {
		return store.Page{}, err
	}
	after, more, err := q.Position()
	if err != nil {
		return store.Page{}, err
	}
	var page store.Page
	if !isText(q.Type) || !isText(q.State) || !isText(q.Term.Name) {
		return page, ctx.Err() // nothing is called that
	}
	err = s.read(ctx, sc, func(r *request) error {
		page = store.Page{}
		b := builder{q: &q, order: order, after: after, more: more}
		if q.Count != nil {
			b.count(sc)
			_, err := r.first(b.sql.String(), b.args, func(row pgx.Rows) error { return row.Scan(&page.Count) })
			return err
		}
		b.build(sc)
		return r.each(b.sql.String(), b.args, func(row pgx.Rows) error {
			var e resource.Entry
			var pos int64
			err := scan(row, &e, &pos)
			page.Items = append(page.Items, store.Item{Resource: resourceOf(&e), Pos: pos})
			return err
		})
	})
	if err != nil {
		return store.Page{}, err
	}
	if size := store.PageSize(q.Limit); len(page.Items) > size {
		page.Items = page.Items[:size]
		page.Next = q.Cursor(position(order, &page.Items[size-1]))
	}
	return page, nil
}

// position returns the position after an item.
func position(o store.Order, it *store.Item) store.Position {
	switch o {
	case store.ByList:
		return store.Position{Num: it.Pos, Key: []byte(it.Space)}
	case store.ByTerm:
		return store.Position{Num: int64(it.Seq)}
	}
	return store.Position{Key: it.URI.Key()}
}

// builder builds the SQL of one query and collects its arguments.
type builder struct {
	q     *store.Query
	order store.Order
	after store.Position
	more  bool // after is set

	sql  strings.Builder
	args []any
}

// add appends SQL, and behind it arguments, separated by commas.
func (b *builder) add(sql string, args ...any) {
	b.sql.WriteString(sql)
	for i, a := range args {
		if i > 0 {
			b.sql.WriteString(", ")
		}
		b.args = append(b.args, a)
		b.sql.WriteString("$" + strconv.Itoa(len(b.args)))
	}
}

// spaces restricts rows to the spaces that the scope reads.
func (b *builder) spaces(column string, sc store.Scope) {
	if sc.All() {
		return
	}
	b.add(" AND "+column+" = ANY (", scopeArgs(sc)[0])
	b.add(")")
}

// under restricts a key to u and its descendants. Elements begin with bytes below
// 0xff, so all descendants are in one range.
func (b *builder) under(column string, u resource.URI) {
	if !u.Zero() {
		b.add(" AND "+column+" >= ", u.Key())
		b.add(" AND "+column+" < ", append(u.Key(), 0xff))
	}
}

// filter adds the restrictions that apply to every order, on the given table.
func (b *builder) filter(table string) {
	b.under(table+".key", b.q.Under)
	if b.q.Type != "" {
		b.add(" AND "+table+".type = ", b.q.Type)
	}
}

func (b *builder) limit() { b.add(" LIMIT ", int64(store.PageSize(b.q.Limit)+1)) }

// direction returns the comparison with a cursor, and the word of the order.
func (b *builder) direction() (beyond, order string) {
	if b.q.Reverse {
		return "<", " DESC"
	}
	return ">", ""
}

func (b *builder) build(sc store.Scope) {
	body := "l.body"
	if b.q.NoBody {
		body = "NULL::bytea"
	}
	b.add("SELECT " + columns(body))
	switch b.order {
	case store.ByList:
		b.byList(sc)
	case store.ByTerm:
		b.byTerm(sc)
	default:
		b.byTree(sc)
	}
}

func (b *builder) byList(sc store.Scope) {
	b.add(", p.pos FROM place p JOIN log l ON l.seq = p.seq WHERE p.list = ", b.q.List.Key())
	beyond, order := b.direction()
	if b.more {
		// Each space can hold a position once; the space breaks ties.
		b.add(" AND (p.pos, p.space) "+beyond+" (", b.after.Num, string(b.after.Key))
		b.add(")")
	}
	if b.q.From != 0 {
		b.add(" AND p.pos "+beyond+"= ", b.q.From)
	}
	b.spaces("p.space", sc)
	b.filter("l")
	b.add(" ORDER BY p.pos" + order + ", p.space" + order)
	b.limit()
}

// count counts the members of a list. It reads only the index of places.
func (b *builder) count(sc store.Scope) {
	b.add("SELECT count(*) FROM place p WHERE p.list = ", b.q.List.Key())
	b.add(" AND p.pos >= ", b.q.Count.From)
	b.add(" AND p.pos <= ", b.q.Count.To)
	b.spaces("p.space", sc)
}

func (b *builder) byTree(sc store.Scope) {
	b.add(", 0::bigint FROM tree t JOIN log l ON l.seq = t.seq WHERE NOT t.gone")
	if b.order == store.ByState {
		b.add(" AND t.state = ", b.q.State)
	}
	beyond, order := b.direction()
	if b.more {
		b.add(" AND t.key "+beyond+" ", b.after.Key)
	}
	b.spaces("t.space", sc)
	b.filter("t")
	b.add(" ORDER BY t.key" + order)
	b.limit()
}

// byTerm reads the resources with a term in the order of its index, which is
// separate for each space. So the cost of a page depends on its size and the
// number of spaces, not on the number of resources with the term. The results of
// several spaces are merged.
func (b *builder) byTerm(sc store.Scope) {
	beyond, order := b.direction()
	b.add(", 0::bigint FROM (SELECT x.seq FROM space s CROSS JOIN LATERAL (SELECT m.seq FROM term m")
	if !b.q.Under.Zero() || b.q.Type != "" {
		b.add(" JOIN log l ON l.seq = m.seq")
	}
	b.add(" WHERE m.space = s.name AND m.name = ", b.q.Term.Name)
	b.add(" AND m.value = ", termKey(b.q.Term.Value))
	if b.more {
		b.add(" AND m.seq "+beyond+" ", b.after.Num)
	}
	b.filter("l")
	b.add(" ORDER BY m.seq" + order)
	b.limit()
	b.add(") x WHERE true")
	b.spaces("s.name", sc)
	b.add(" ORDER BY x.seq" + order)
	b.limit()
	b.add(") t JOIN log l ON l.seq = t.seq ORDER BY t.seq" + order)
}
