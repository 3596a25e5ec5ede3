package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"steward/internal/resource"
	"steward/internal/store"
)

// scanWindow is the maximum number of log entries scanned for one page: some ten
// milliseconds of work. It is larger than any page, so it only shortens pages
// with few matches.
const scanWindow = 16384

// pageBytes bounds the bytes of bodies in a page of the log, since a page is in
// memory as a whole. A single larger body is still returned.
const pageBytes = 16 << 20

// Log implements store.Store.
func (s *Store) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	if err := sc.CanRead(); err != nil {
		return store.LogPage{}, err
	}
	after, more, err := q.Position()
	if err != nil {
		return store.LogPage{}, err
	}
	r := logRange{q: &q, over: min(q.Since, math.MaxInt64), below: math.MaxInt64}
	switch {
	case more && q.Reverse:
		r.below = min(after, math.MaxInt64)
	case more:
		r.over = min(max(r.over, after), math.MaxInt64)
	}
	// Everything committed so far is visible below. So when all of it has been
	// returned, the next page can start after it.
	if r.head, err = s.head(ctx); err != nil {
		return store.LogPage{}, err
	}
	var page store.LogPage
	err = s.read(ctx, sc, func(req *request) error {
		page, err = s.logPage(req, r)
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

func (s *Store) logPage(req *request, r logRange) (page store.LogPage, err error) {
	if r.q.Type != "" && !isText(r.q.Type) || !r.q.Of.Zero() && !r.q.Of.Under(r.q.Under) {
		page.Next = r.q.Cursor(r.next(nil, false)) // nothing is called that, or lies there
		return page, nil
	}
	size := store.PageSize(r.q.Limit)
	listed, err := r.listed(req)
	if err != nil {
		return page, err
	}
	if !listed {
		r.window(s.window)
	}
	var b builder
	b.logPage(&r, req.scope, listed, size+1)
	bytes := 0
	err = req.each(b.sql.String(), b.args, func(row pgx.Rows) error {
		var e resource.Entry
		err := scan(row, &e, nil)
		page.Entries, bytes = append(page.Entries, e), bytes+len(e.Body)
		return err
	})
	if err != nil {
		return page, err
	}
	full := bytes >= pageBytes
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

// perResource is how many log entries can be scanned in the time that it takes to
// find one through the tree. maxResources bounds the resources looked up this
// way.
const (
	perResource  = 64
	maxResources = 8192
)

// listed reports whether the entries that may match are found by following each
// resource's versions back, as that is cheaper than scanning the log: always for
// one resource, and for a subtree if it is small compared to the range.
func (r *logRange) listed(req *request) (bool, error) {
	if !r.q.Of.Zero() || r.q.Under.Zero() {
		return !r.q.Of.Zero(), nil
	}
	span := int64(min(r.below, r.head+1)) - int64(r.over)
	if span < perResource {
		return false, nil
	}
	limit, n := min(span/perResource, maxResources), int64(0)
	_, err := req.first("SELECT count(*) FROM (SELECT 1 FROM tree WHERE key >= $1 AND key < $2 LIMIT $3) t",
		[]any{r.q.Under.Key(), append(r.q.Under.Key(), 0xff), limit}, func(row pgx.Rows) error { return row.Scan(&n) })
	return n < limit, err
}

// logPage builds the query of a page: entries from the range, or, if they are
// listed, the versions of resources that are in it.
func (b *builder) logPage(r *logRange, sc store.Scope, listed bool, limit int) {
	order := ""
	if r.q.Reverse {
		order = " DESC"
	}
	b.bounded(order, func() {
		if listed {
			b.versions(r, limit)
		} else {
			b.add(" FROM log l WHERE l.seq > ", int64(r.over))
			b.add(" AND l.seq < ", int64(r.below))
			b.under("l.key", r.q.Under)
		}
		if r.q.Type != "" {
			b.add(" AND l.type = ", r.q.Type)
		}
		b.spaces("l.space", sc)
		b.add(" ORDER BY l.seq"+order+" LIMIT ", int64(limit))
	})
}

// bounded wraps a query over the log l, from its FROM to its LIMIT, so that it
// ends with the entry with which the page's bodies reach pageBytes. The length of
// a body is known without reading it.
func (b *builder) bounded(order string, inner func()) {
	b.add("SELECT " + columns("l.body") + ", 0::bigint FROM (SELECT w.*, sum(w.size) OVER (ORDER BY w.seq" + order + ") - w.size AS before" +
		" FROM (SELECT l.*, COALESCE(octet_length(l.body), 0) AS size")
	inner()
	b.add(") w) l WHERE l.before < ", int64(pageBytes))
	b.add(" ORDER BY l.seq" + order)
}

// versions are the entries of the range that belong to one resource or to those of
// a subtree, found from the newest back.
func (b *builder) versions(r *logRange, limit int) {
	from, to := r.q.Of.Key(), append(r.q.Of.Key(), 0)
	if r.q.Of.Zero() {
		from, to = r.q.Under.Key(), append(r.q.Under.Key(), 0xff)
	}
	b.add(" FROM (WITH RECURSIVE v(seq) AS (SELECT seq FROM tree WHERE key >= ", from)
	b.add(" AND key < ", to)
	b.add(" UNION ALL SELECT l.prev FROM v JOIN log l ON l.seq = v.seq WHERE l.prev > ", int64(r.over))
	b.add(") SELECT seq FROM v WHERE seq > ", int64(r.over))
	b.add(" AND seq < ", int64(r.below))
	if r.q.Reverse && !r.q.Of.Zero() {
		b.add(" LIMIT ", int64(limit)) // the versions of one resource are already listed newest first
	}
	b.add(") v JOIN log l ON l.seq = v.seq WHERE true")
}
