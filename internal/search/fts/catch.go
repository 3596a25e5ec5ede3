package fts

import (
	"context"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/store/follow"
)

// nodeScope reads the whole log. Each search checks access.
func nodeScope() store.Scope { return store.ForNode(resource.System) }

// batch is the number of entries that are indexed in one transaction.
const batch = 512

// CatchUp implements search.Index.
func (x *Index) CatchUp(ctx context.Context) error { return x.catchUp(ctx, 0) }

// catchUp is like Catch, but pauses after each batch: for the duration of the batch
// times rest.
func (x *Index) catchUp(ctx context.Context, rest time.Duration) error {
	return x.with(ctx, func(d *database) error {
		for more := true; more; {
			began := time.Now()
			var err error
			if more, err = x.step(ctx, d); err != nil {
				return err
			}
			if more && rest > 0 && !fault.Pause(ctx, rest*time.Since(began)) {
				return ctx.Err()
			}
		}
		if err := d.use(ctx, expunge); err != nil {
			return err
		}
		return x.dropOld()
	})
}

// searchSteps is the number of batches that a search reads itself while Follow runs. Follow
// reads the rest, so that no search waits for long.
const searchSteps = 4

// advance reads the log to its end, or a few batches if Follow runs. It returns the number
// of entries that are left.
func (x *Index) advance(ctx context.Context, d *database) (behind uint64, err error) {
	for n := 0; !x.followed.Load() || n < searchSteps; n++ {
		more, err := x.step(ctx, d)
		if err != nil || !more {
			return 0, err
		}
	}
	defer func() { // after the count, so that Follow does not change what is counted
		select {
		case x.hurry <- struct{}{}:
		default: // Follow has been woken already
		}
	}()
	var seq int64
	err = d.use(ctx, func(c *sqlite.Conn) error {
		seq, _, err = number(c, "SELECT seq FROM state")
		return err
	})
	if err != nil {
		return 0, err
	}
	head, err := follow.Head(ctx, x.opt.Store)
	return head - min(uint64(seq), head), err
}

// step reads one batch. It returns false after the last one.
func (x *Index) step(ctx context.Context, d *database) (more bool, err error) {
	select {
	case x.turn <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-x.turn }()
	err = d.use(ctx, func(c *sqlite.Conn) error {
		at, err := text(c, "SELECT cursor FROM state")
		if err != nil {
			return err
		}
		page, err := x.opt.Store.Log(ctx, nodeScope(), store.LogQuery{After: store.Cursor(at), Limit: batch})
		if fault.HasCode(err, "cursor_invalid") {
			return broken("%w", err)
		}
		if err != nil || len(page.Entries) == 0 {
			return err
		}
		again, err := x.apply(ctx, c, at, page)
		more = page.More || again
		if err == nil && !again {
			x.opt.Lag.At(page.Entries[len(page.Entries)-1].Seq) // so that the reading of a large log is progress
		}
		return err
	})
	return more, err
}

// apply writes a batch and its position in one transaction. If another process has written
// it meanwhile, apply writes nothing and returns again.
func (x *Index) apply(ctx context.Context, c *sqlite.Conn, at string, page store.LogPage) (again bool, err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return false, err
	}
	defer end(&err)
	if now, err := text(c, "SELECT cursor FROM state"); err != nil || now != at {
		return err == nil, err
	}
	w := newBatch(ctx, c, x.opt.Store, x.log)
	for i := range page.Entries {
		if err := w.entry(&page.Entries[i]); err != nil {
			return false, err
		}
	}
	for uid, conv := range w.cuts {
		if err := w.cut(x.opt.Store, uid, conv); err != nil {
			return false, err
		}
	}
	if err := w.count(); err != nil {
		return false, err
	}
	last := page.Entries[len(page.Entries)-1]
	return false, w.exec("UPDATE state SET cursor = ?, seq = ?, at = ?, key = ?, erase = erase + ?",
		string(page.Next), last.Seq, last.At.UnixMicro(), last.URI.Key(), w.erased)
}

// expunge rewrites the lists of words without erased ones, in small steps so that searches
// can run, and truncates the write-ahead log. Freed pages are overwritten (secure_delete).
func expunge(c *sqlite.Conn) error {
	due, _, err := number(c, "SELECT erase FROM state")
	if err != nil || due == 0 {
		return err
	}
	all, err := spaces(c)
	if err != nil {
		return err
	}
	for _, space := range all {
		for pages, more := -mergePages, true; more; pages = mergePages { // a negative number starts merging all segments
			if more, err = merge(c, wordTable(space), pages); err != nil {
				return err
			}
		}
	}
	busy, _, err := number(c, "PRAGMA wal_checkpoint(TRUNCATE)")
	if err != nil {
		return err
	}
	if busy != 0 {
		return fault.New(fault.Unavailable, "search_busy", "cannot erase from the search index: it is being read for too long").
			Retrying(fault.RetryBackoff, time.Second)
	}
	// Anything erased meanwhile is expunged next time.
	return exec(c, "UPDATE state SET erase = 0 WHERE erase = ?", due)
}

// mergePages is the number of pages that are rewritten in one transaction.
const mergePages = 500

// merge continues to merge all segments into one without deleted words. It returns false
// when that is done.
func merge(c *sqlite.Conn, table string, pages int) (more bool, err error) {
	before, _, err := number(c, "SELECT total_changes()")
	if err != nil {
		return false, err
	}
	if err := exec(c, "INSERT INTO "+table+" ("+table+", rank) VALUES ('merge', ?)", pages); err != nil {
		return false, err
	}
	after, _, err := number(c, "SELECT total_changes()")
	return after-before >= 2, err // according to FTS5's documentation
}

// Follow implements search.Index.
func (x *Index) Follow(ctx context.Context) {
	x.followed.Store(true)
	defer x.followed.Store(false)
	follow.Project(ctx, x.opt.Store, follow.Projection{Name: "the search index", Quiet: x.opt.Quiet, Backlog: x.opt.Backlog, Hurry: x.hurry, Lag: x.opt.Lag, Log: x.log,
		CatchUp: func(ctx context.Context) error { return x.catchUp(ctx, 1) }})
}
