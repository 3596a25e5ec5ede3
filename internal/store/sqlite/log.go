package sqlite

import (
	"context"
	"math"
	"slices"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/chain"
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
	// Everything committed so far is visible below. So when all of it has been
	// returned, the next page can start after it.
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
	var page store.LogPage
	err = s.read(ctx, func(c *conn) error {
		page, err = s.logPage(c, sc, r)
		return err
	})
	if err != nil {
		return store.LogPage{}, err
	}
	return page, nil
}

// logRange is the requested part of the log: over < seq < below.
type logRange struct {
	q           *store.LogQuery
	over, below uint64
	head        uint64
	cut         bool // it was narrowed to a scan window
}

func (s *Store) logPage(c *conn, sc store.Scope, r logRange) (page store.LogPage, err error) {
	size := store.PageSize(r.q.Limit)
	seqs, listed, err := s.candidates(c, r)
	if err != nil {
		return page, err
	}
	var full bool
	if listed {
		page.Entries, full, err = s.entriesOf(c, sc, seqs, size+1)
	} else {
		page.Entries, full, err = s.scan(c, sc, &r, size+1)
	}
	if err != nil {
		return page, err
	}
	if len(page.Entries) > size {
		page.Entries, full = page.Entries[:size], true
	}
	page.More = full || r.cut
	page.Next = r.q.Cursor(r.next(page.Entries, full))
	return page, nil
}

// next returns the position to continue from: after the last entry of a full
// page, otherwise after everything that was scanned.
func (r *logRange) next(entries []resource.Entry, full bool) uint64 {
	last := uint64(0)
	if n := len(entries); n > 0 {
		last = entries[n-1].Seq
	}
	switch {
	case full:
		return last
	case r.q.Reverse:
		return r.over + 1
	case r.cut:
		return r.below - 1
	}
	return max(last, r.over, r.head)
}

// window narrows the range to its first size entries, if there are more.
func (r *logRange) window(size uint64) {
	top := min(r.below, r.head+1)
	if r.cut = top > r.over+size+1; !r.cut {
		return
	}
	if r.q.Reverse {
		r.over = top - size - 1
	} else {
		r.below = r.over + size + 1
	}
}

// scanWindow is the maximum number of log entries scanned for one page: about ten
// milliseconds of work. It is larger than any page, so it only shortens pages
// with few matches.
const scanWindow = 16384

// scan reads the log sequentially, up to the end of a window.
func (s *Store) scan(c *conn, sc store.Scope, r *logRange, limit int) (out []resource.Entry, full bool, err error) {
	b := builder{s: s, c: c}
	b.add(entryColumns + "WHERE l.seq > ? AND l.seq < ?")
	b.args = make([]any, 2)
	if r.q.Type != "" {
		if err := b.word(" AND l.type = ?", typeName, r.q.Type); err != nil {
			return nil, false, err
		}
	}
	b.under("l.key", r.q.Under)
	if err := b.spaces("l.space", sc); err != nil || b.empty {
		return nil, false, err
	}
	r.window(s.window)
	b.args[0], b.args[1] = int64(r.over), int64(r.below)
	direction := ""
	if r.q.Reverse {
		direction = " DESC"
	}
	b.add(" ORDER BY l.seq"+direction+" LIMIT ?", int64(limit))
	return s.entries(c.prepare(b.sql.String()).args(b.args))
}

// candidates lists the entries that may match by following each resource's
// versions back, if that is cheaper than scanning the log: always for one
// resource, and for a subtree if it is small compared to the range.
func (s *Store) candidates(c *conn, r logRange) (seqs []int64, listed bool, err error) {
	from, to := r.q.Of.Key(), append(r.q.Of.Key(), 0)
	if r.q.Of.Zero() {
		if r.q.Under.Zero() {
			return nil, false, nil
		}
		from, to = r.q.Under.Key(), append(r.q.Under.Key(), 0xff)
		small, err := s.fewResources(c, from, to, r)
		if err != nil || !small {
			return nil, false, err
		}
	} else if !r.q.Of.Under(r.q.Under) {
		return nil, true, nil
	}
	typ := int64(0)
	if r.q.Type != "" {
		if typ, err = s.names.id(c, typeName, r.q.Type); err != nil {
			return nil, false, err
		}
	}
	st := c.prepare(`WITH RECURSIVE v(seq) AS (
			SELECT seq FROM tree WHERE key >= ? AND key < ? AND (? = 0 OR type = ?)
			UNION ALL
			SELECT l.prev FROM v CROSS JOIN log l ON l.seq = v.seq WHERE l.prev > ?)
		SELECT seq FROM v WHERE seq > ? AND seq < ? LIMIT ?`)
	limit := int64(-1)
	if r.q.Reverse && !r.q.Of.Zero() {
		// The versions of one resource are already listed newest first.
		limit = int64(store.PageSize(r.q.Limit) + 1)
	}
	over := int64(r.over)
	if seqs, err = st.argBlob(from).argBlob(to).argInt(typ, typ, over, over, int64(r.below), limit).numbers(nil); err != nil {
		return nil, false, err
	}
	slices.Sort(seqs)
	if r.q.Reverse {
		slices.Reverse(seqs)
	}
	return seqs, true, nil
}

// perResource is how many log entries can be scanned in the time that it takes to
// find one through the tree. maxResources bounds the resources looked up this
// way.
const (
	perResource  = 64
	maxResources = 8192
)

// fewResources reports whether a range of keys has few resources compared to the part of
// the log that would otherwise be scanned.
func (s *Store) fewResources(c *conn, from, to []byte, r logRange) (bool, error) {
	span := int64(min(r.below, r.head+1)) - int64(r.over)
	if span < perResource {
		return false, nil
	}
	limit := min(span/perResource, maxResources)
	n, err := c.prepare("SELECT count(*) FROM (SELECT 1 FROM tree WHERE key >= ? AND key < ? LIMIT ?)").
		argBlob(from).argBlob(to).argInt(limit).number()
	return n < limit, err
}

// pageBytes bounds the bytes of bodies in a page of the log, since a page is in
// memory as a whole. A single larger body is still returned.
const pageBytes = 16 << 20

// entriesOf reads entries by their sequence numbers, up to limit or pageBytes.
func (s *Store) entriesOf(c *conn, sc store.Scope, seqs []int64, limit int) (out []resource.Entry, full bool, err error) {
	size := 0
	for _, seq := range seqs {
		found, _, err := s.entries(c.prepare(entryColumns + "WHERE l.seq = ?").argInt(seq))
		if err != nil {
			return nil, false, err
		}
		for _, e := range found {
			if sc.Sees(e.Space) {
				out, size = append(out, e), size+len(e.Body)
			}
		}
		if len(out) == limit || size >= pageBytes {
			break
		}
	}
	return out, size >= pageBytes, nil
}

// entries reads the rows of a statement that begins with entryColumns, until
// pageBytes is reached.
func (s *Store) entries(st *stmt) (out []resource.Entry, full bool, err error) {
	r, size := rows{s: s, st: st}, 0
	err = st.each(func() error {
		out = append(out, resource.Entry{})
		e := &out[len(out)-1]
		err := r.entry(e)
		if size += len(e.Body); err == nil && size >= pageBytes {
			return chain.ErrEnough
		}
		return err
	})
	if err == chain.ErrEnough {
		return out, true, nil
	}
	return out, false, err
}
