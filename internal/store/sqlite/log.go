package sqlite

import (
	"context"
	"math"
	"slices"

	"steward/internal/resource"
	"steward/internal/store"
)

const entryColumns = `SELECT l.seq, l.at, l.space, l.version, l.state, l.op, l.key, l.body, l.actor, l.request
	FROM log l `

// Log implements store.Store.
func (s *Store) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	if err := sc.CanRead(); err != nil {
		return store.LogPage{}, err
	}
	after, more, err := q.Position()
	if err != nil {
		return store.LogPage{}, err
	}
	// What is committed by now is surely seen below; so when all was given,
	// the next page can begin behind it.
	head, err := s.head(ctx)
	if err != nil {
		return store.LogPage{}, err
	}
	r := logRange{q: &q, over: min(q.Since, math.MaxInt64), below: math.MaxInt64, head: head}
	switch {
	case more && q.Reverse:
		r.below = min(after, math.MaxInt64)
	case more:
		r.over = min(max(r.over, after), math.MaxInt64)
	}
	c, err := s.readers.get(ctx)
	if err != nil {
		return store.LogPage{}, coded(s.path, err)
	}
	defer s.readers.put(c)
	defer c.interruptOn(ctx)()
	page, err := s.logPage(c, sc, r)
	if err != nil {
		return store.LogPage{}, s.readError(ctx, err)
	}
	return page, nil
}

// logRange is the part of the log that is asked for: over < seq < below.
type logRange struct {
	q           *store.LogQuery
	over, below uint64
	head        uint64
}

func (s *Store) logPage(c *conn, sc store.Scope, r logRange) (page store.LogPage, err error) {
	size := store.PageSize(r.q.Limit)
	seqs, listed, err := s.candidates(c, r)
	if err != nil {
		return page, err
	}
	if listed {
		page.Entries, err = s.entriesOf(c, sc, seqs, size+1)
	} else {
		page.Entries, err = s.scan(c, sc, r, size+1)
	}
	if err != nil {
		return page, err
	}
	if page.More = len(page.Entries) > size; page.More {
		page.Entries = page.Entries[:size]
	}
	page.Next = r.q.Cursor(r.next(page))
	return page, nil
}

// next is where to go on: behind the last entry, and behind all that was
// looked through when there is no more.
func (r logRange) next(page store.LogPage) uint64 {
	last := uint64(0)
	if n := len(page.Entries); n > 0 {
		last = page.Entries[n-1].Seq
	}
	switch {
	case page.More:
		return last
	case r.q.Reverse:
		return r.over + 1
	}
	return max(last, r.over, r.head)
}

// scan reads the log itself, from a window on.
func (s *Store) scan(c *conn, sc store.Scope, r logRange, limit int) ([]resource.Entry, error) {
	b := builder{s: s, c: c}
	b.add(entryColumns+"WHERE l.seq > ? AND l.seq < ?", int64(r.over), int64(r.below))
	if r.q.Type != "" {
		if err := b.word(" AND l.type = ?", typeName, r.q.Type); err != nil {
			return nil, err
		}
	}
	b.under("l.key", r.q.Under)
	if err := b.spaces("l.space", sc); err != nil || b.empty {
		return nil, err
	}
	direction := ""
	if r.q.Reverse {
		direction = " DESC"
	}
	b.add(" ORDER BY l.seq"+direction+" LIMIT ?", int64(limit))
	st, err := c.prepare(b.sql.String())
	if err != nil {
		return nil, err
	}
	return s.entries(c, st.args(b.args))
}

// candidates lists the entries that may be in the answer by following each
// resource's versions back, where that is less work than reading the log:
// for one resource always, for a subtree if it is small beside the range.
func (s *Store) candidates(c *conn, r logRange) (seqs []int64, listed bool, err error) {
	from, to := r.q.Of.Key(), append(r.q.Of.Key(), 0)
	if r.q.Of.Zero() {
		if r.q.Under.Zero() {
			return nil, false, nil
		}
		from, to = r.q.Under.Key(), append(r.q.Under.Key(), 0xff)
		small, err := s.small(c, from, to, r)
		if err != nil || !small {
			return nil, false, err
		}
	} else if !r.q.Of.Under(r.q.Under) {
		return nil, true, nil
	}
	st, err := c.prepare(`WITH RECURSIVE v(seq) AS (
			SELECT seq FROM tree WHERE key >= ? AND key < ?
			UNION ALL
			SELECT l.prev FROM v CROSS JOIN log l ON l.seq = v.seq WHERE l.prev > ?)
		SELECT seq FROM v WHERE seq > ? AND seq < ?`)
	if err != nil {
		return nil, false, err
	}
	defer st.reset()
	st.argBlob(from).argBlob(to).argInt(int64(r.over)).argInt(int64(r.over)).argInt(int64(r.below))
	for {
		ok, err := st.step()
		if err != nil {
			return nil, false, err
		}
		if !ok {
			break
		}
		seqs = append(seqs, st.int(0))
	}
	slices.Sort(seqs)
	if r.q.Reverse {
		slices.Reverse(seqs)
	}
	return seqs, true, nil
}

// perResource is how many entries of the log can be looked over in the time
// that it takes to find one through the tree.
const perResource = 64

// small reports whether few resources lie in a range of keys, as measured by
// the part of the log that would have to be read otherwise.
func (s *Store) small(c *conn, from, to []byte, r logRange) (bool, error) {
	span := int64(min(r.below, r.head+1)) - int64(r.over)
	if span < perResource {
		return false, nil
	}
	st, err := c.prepare("SELECT count(*) FROM (SELECT 1 FROM tree WHERE key >= ? AND key < ? LIMIT ?)")
	if err != nil {
		return false, err
	}
	defer st.reset()
	limit := span / perResource
	if _, err := st.argBlob(from).argBlob(to).argInt(limit).step(); err != nil {
		return false, err
	}
	return st.int(0) < limit, nil
}

// entriesOf reads entries by their sequence numbers, up to limit.
func (s *Store) entriesOf(c *conn, sc store.Scope, seqs []int64, limit int) ([]resource.Entry, error) {
	var out []resource.Entry
	for _, seq := range seqs {
		st, err := c.prepare(entryColumns + "WHERE l.seq = ?")
		if err != nil {
			return nil, err
		}
		found, err := s.entries(c, st.argInt(seq))
		if err != nil {
			return nil, err
		}
		for _, e := range found {
			if sc.Sees(e.Space) {
				out = append(out, e)
			}
		}
		if len(out) == limit {
			break
		}
	}
	return out, nil
}

// entries reads all rows of a statement that begins with entryColumns.
func (s *Store) entries(c *conn, st *stmt) ([]resource.Entry, error) {
	defer st.reset()
	r := rows{s: s, st: st}
	var out []resource.Entry
	for {
		ok, err := st.step()
		if err != nil || !ok {
			return out, err
		}
		out = append(out, resource.Entry{})
		if err := r.entry(&out[len(out)-1]); err != nil {
			return nil, err
		}
	}
}
