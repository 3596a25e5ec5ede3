package fts

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/store"
)

// When Steward finds an index of the version before its own, it sets the file aside and
// builds a new one from the log. Until that has caught up, a search also looks into the
// old file, by exact words, and says how much is missing. Then the old file is removed.

// oldVersion is the version of the tables that can still be searched. They have the words
// of all spaces in the table fts.
const oldVersion = 1

var errOld = errors.New("the search index has the version before this one")

func (x *Index) oldPath() string { return x.opt.Path + ".old" }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// setAside renames an old file. Another process may do the same at the same time.
func (x *Index) setAside() error {
	x.log.Info("the search index is built anew, in the background", "path", x.opt.Path, "version", version)
	if err := foldJournal(x.opt.Path); err != nil {
		return err
	}
	if err := os.Rename(x.opt.Path, x.oldPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return removeJournals(x.opt.Path)
}

// foldJournal moves what the write-ahead log of an old file holds into the file.
func foldJournal(path string) error {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	c.SetBusyTimeout(busyTimeout)
	return errors.Join(sqlitex.ExecuteTransient(c, "PRAGMA wal_checkpoint(TRUNCATE)", nil), c.Close())
}

// dropOld removes the old file.
func (x *Index) dropOld() error {
	if !x.old.Load() {
		return nil
	}
	if err := removeDatabase(x.oldPath()); err != nil {
		return err
	}
	x.old.Store(false)
	return nil
}

// addOld adds what only the old file has to the first page, or removes the old file if the
// new one is complete. A damaged old file finds nothing.
func (x *Index) addOld(ctx context.Context, sc store.Scope, q *search.Query, r reading, found []doc, behind uint64) ([]doc, error) {
	if behind == 0 {
		return found, x.dropOld()
	}
	if r.place != nil || len(found) >= q.PageSize() || q.Agent != "" || q.Labels != 0 || q.Without != 0 || !q.Message.Zero() {
		return found, nil
	}
	more, err := x.searchOld(ctx, sc, q, r.exact)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		x.log.Warn("the old search index cannot be read", "path", x.oldPath(), "error", err)
		return found, nil
	}
	for _, d := range more {
		if len(found) >= q.PageSize() {
			break
		}
		if slices.ContainsFunc(found, func(f doc) bool { return string(f.key) == string(d.key) }) {
			continue
		}
		if gone, err := r.deletedSince(&d); err != nil || gone {
			if err != nil {
				return nil, err
			}
			continue
		}
		found = append(found, d)
	}
	if q.Ordered() == search.Newest {
		slices.SortStableFunc(found, func(a, b doc) int { return b.at.Compare(a.at) })
	}
	return found, nil
}

// searchOld searches the old file, newest first.
func (x *Index) searchOld(ctx context.Context, sc store.Scope, q *search.Query, terms search.Terms) (out []doc, err error) {
	c, err := sqlite.OpenConn(x.oldPath(), sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	c.SetInterrupt(ctx.Done())
	plain := *q
	plain.Order, plain.Around = search.Newest, 0
	s := searchRun{c: c, sc: sc, q: &plain, terms: terms, old: true}
	out, _, err = s.find(nil)
	return out, err
}

// deletedSince reports whether a person has deleted the message of a doc of the old file,
// which does not learn of it.
func (r *reading) deletedSince(d *doc) (bool, error) {
	u, m, ok, err := r.message(d.key)
	if err != nil || !ok {
		return !ok, err
	}
	conv := record.IDOf(u, record.TypeConversation)
	res, err := r.st.Get(r.ctx, r.sc, record.MarkURI(conv, m.ID))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var mark record.Mark
	if err := record.Decode(res.URI, res.Body, &mark); err != nil {
		return false, err
	}
	return deleted(&mark) || id.ID(d.msg) != m.ID, nil
}
