package sqlite

import (
	"errors"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// fetch runs the query and reads its items: the columns of builder.columns,
// then the position.
func (b *builder) fetch() ([]store.Item, error) {
	st := b.c.prepare(b.sql.String())
	r := rows{s: b.s, st: st}
	return r.items(make([]store.Item, 0, min(store.PageSize(b.q.Limit)+1, 256)), b.args)
}

// rows reads the rows of one statement.
type rows struct {
	s  *Store
	st *stmt
}

// items runs the statement and appends its rows.
func (r *rows) items(items []store.Item, args []any) ([]store.Item, error) {
	err := r.st.args(args).each(func() error {
		items = append(items, store.Item{})
		return r.item(&items[len(items)-1])
	})
	return items, err
}

func (r *rows) item(it *store.Item) (err error) {
	if it.URI, err = r.uri(6); err != nil {
		return err
	}
	if it.Body, err = r.body(7, r.st.int(5)); err != nil {
		return err
	}
	it.Pos = r.st.int(8)
	return r.head(&it.Resource)
}

// head reads the columns seq, at, space, version and state.
func (r *rows) head(to *resource.Resource) error {
	space, err := r.text(r.st.int(2))
	if err != nil {
		return err
	}
	to.State, err = r.text(r.st.int(4))
	to.Space, to.Seq, to.At, to.Version = resource.Space(space), uint64(r.st.int(0)), when(r.st.int(1)), uint64(r.st.int(3))
	return err
}

// entry reads the columns of entryColumns.
func (r *rows) entry(e *resource.Entry) (err error) {
	var head resource.Resource
	if err := r.head(&head); err != nil {
		return err
	}
	e.Space, e.Seq, e.At, e.Version, e.State = head.Space, head.Seq, head.At, head.Version, head.State
	op := r.st.int(5)
	e.Op = resource.Op(op & opMask)
	if e.URI, err = r.uri(6); err != nil {
		return err
	}
	if e.Body, err = r.body(7, op); err != nil {
		return err
	}
	if e.Actor, err = r.text(r.st.int(8)); err != nil {
		return err
	}
	if q := r.st.view(9); len(q) == len(id.ID{}) {
		e.Request = id.ID(q)
	}
	return nil
}

// text returns the word with a number.
func (r *rows) text(id int64) (string, error) { return r.s.names.text(r.st.c, id) }

func (r *rows) uri(col int) (resource.URI, error) {
	u, err := resource.FromKey(r.st.view(col))
	if err != nil {
		return u, broken(r.s.path, err)
	}
	return u, nil
}

// body returns the body in a column. op is the operation of the row, with its
// flags.
func (r *rows) body(col int, op int64) ([]byte, error) {
	switch {
	case op&packed == 0:
		return r.st.bytes(col), nil
	case op&apart != 0 && !r.st.null(col):
		return r.apart(r.st.int(col))
	}
	return r.unpack(r.st.view(col))
}

// apart reads a body from the table pack. Both statements see the same snapshot
// of the database as long as the first one is open.
func (r *rows) apart(id int64) ([]byte, error) {
	var body []byte
	st := r.st.c.prepare("SELECT body FROM pack WHERE id = ?").argInt(id)
	found, err := st.first(func() (err error) {
		body, err = r.unpack(st.view(0))
		return err
	})
	if err == nil && !found {
		err = errPack
	}
	return body, err
}

var errPack = errors.New("a packed body is missing")

func (r *rows) unpack(frame []byte) ([]byte, error) {
	if frame == nil {
		return nil, nil
	}
	c, err := r.s.codec()
	if err != nil {
		return nil, err
	}
	return c.unpack(frame)
}

func when(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
