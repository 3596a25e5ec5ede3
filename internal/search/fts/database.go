package fts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/store"
)

// version is the version of the tables and their content. It changes when search.Tokens,
// search.StemWords or search.Read change the words of a message.
const version = 3

// IndexVersion returns the version of the file that this package writes, which is its user_version. A file of
// another version is built anew.
func IndexVersion() int { return version }

// schema creates the tables that all owners share. They hold nothing of a message.
const schema = `
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), cursor TEXT NOT NULL DEFAULT '',
	seq INTEGER NOT NULL DEFAULT 0, at INTEGER NOT NULL DEFAULT 0, key BLOB NOT NULL DEFAULT x'', erase INTEGER NOT NULL DEFAULT 0);
INSERT INTO state (id) VALUES (1);
CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, docs INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL DEFAULT 0);
`

// spaceSchema creates the tables of one space. A search opens those of its own spaces and
// no others.
//
// A doc is a message. Its number grows with the message's time, so the lists of words are
// already in the order of time. A doc is gone if a person has deleted the message, and cut
// if only deleted branches hold it. It asks if it is a person's question. Its size is the
// number of its words, and stems has the hash of each of its stems (appendStem), so that a
// search can weigh a frequent word without its list. A conversation has cut set if one of
// its docs is cut.
//
// The list of words has no text. Its column body has the words as they are written, and
// stem their stems without function words. The column facets holds filters as words, too
// (c1: the conversation with number 1, t: a tool, r: the role), so that FTS5 skips
// documents that cannot match.
const spaceSchema = `
CREATE TABLE tool_%[1]d (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE conv_%[1]d (id INTEGER PRIMARY KEY, uid BLOB NOT NULL UNIQUE, agent TEXT NOT NULL DEFAULT '',
	gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0);
CREATE TABLE doc_%[1]d (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL, conv INTEGER NOT NULL,
	inter BLOB NOT NULL, msg BLOB NOT NULL, prev BLOB NOT NULL, key BLOB NOT NULL, labels INTEGER NOT NULL DEFAULT 0,
	size INTEGER NOT NULL DEFAULT 0, asks INTEGER NOT NULL DEFAULT 0, gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0,
	stems BLOB NOT NULL DEFAULT x'');
CREATE UNIQUE INDEX doc_msg_%[1]d ON doc_%[1]d (msg, conv);
CREATE INDEX doc_prev_%[1]d ON doc_%[1]d (conv, prev);
CREATE VIRTUAL TABLE fts_%[1]d USING fts5 (facets, body, stem, content='', contentless_delete=1, tokenize='ascii');
`

// wordTable returns the name of the table with the words of a space.
func wordTable(space int64) string { return fmt.Sprintf("fts_%d", space) }

func makeTables(c *sqlite.Conn, space int64) error {
	for text := range strings.SplitSeq(fmt.Sprintf(spaceSchema, space), ";\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := sqlitex.ExecuteTransient(c, text, nil); err != nil {
			return err
		}
	}
	return nil
}

// spaces returns the numbers of all spaces.
func spaces(c *sqlite.Conn) (all []int64, err error) {
	err = sqlitex.Execute(c, "SELECT id FROM space ORDER BY id", &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
		all = append(all, st.ColumnInt64(0))
		return nil
	}})
	return all, err
}

// database is an open file.
type database struct {
	path  string
	file  fs.FileInfo // as it was opened
	conns *sqlitex.Pool
}

const (
	maxConns    = 3
	busyTimeout = 10 * time.Second
)

// settings are set on every connection and read back, since SQLite ignores unknown ones.
var settings = []struct{ name, set, want string }{
	{"journal_mode", "WAL", "wal"},
	{"synchronous", "NORMAL", "1"},
	{"secure_delete", "1", "1"}, // overwrite what is erased
	{"temp_store", "MEMORY", "2"},
	{"cache_size", "-2048", "-2048"}, // KiB
	{"journal_size_limit", "16777216", "16777216"},
}

func openDatabase(ctx context.Context, path string, watch func(*sqlite.Conn) error) (*database, error) {
	if err := makeFile(path); err != nil {
		return nil, err
	}
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	d := &database{path: path, file: file}
	d.conns, err = sqlitex.NewPool(path, sqlitex.PoolOptions{Flags: sqlite.OpenReadWrite, PoolSize: maxConns, PrepareConn: func(c *sqlite.Conn) error {
		if err := configure(c); err != nil || watch == nil {
			return err
		}
		return watch(c)
	}})
	if err != nil {
		return nil, err
	}
	if err = d.use(ctx, prepare); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// configure applies the settings to a connection.
func configure(c *sqlite.Conn) error {
	c.SetBusyTimeout(busyTimeout)
	for _, s := range settings {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+s.name+"="+s.set, nil); err != nil {
			return err
		}
		got := ""
		err := sqlitex.ExecuteTransient(c, "PRAGMA "+s.name, &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
			got = st.ColumnText(0)
			return nil
		}})
		if err != nil {
			return err
		}
		if got != s.want {
			return fault.New(fault.Internal, "search_unavailable", "the search index has %s=%s instead of %s", s.name, got, s.want)
		}
	}
	return nil
}

// use runs do with a connection, which is interrupted when ctx ends.
func (d *database) use(ctx context.Context, do func(*sqlite.Conn) error) error {
	c, err := d.conns.Take(ctx)
	if err != nil {
		return err
	}
	defer d.conns.Put(c)
	return do(c)
}

// read runs do in a transaction. It sees one state of the file, and a statement need not
// lock the file by itself, which takes longer than to find a message.
func (d *database) read(ctx context.Context, do func(*sqlite.Conn) error) error {
	return d.use(ctx, func(c *sqlite.Conn) (err error) {
		defer sqlitex.Transaction(c)(&err)
		return do(c)
	})
}

// number reads one number. found is false if there is no row.
func number(c *sqlite.Conn, query string, args ...any) (n int64, found bool, err error) {
	err = sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(st *sqlite.Stmt) error {
		n, found = st.ColumnInt64(0), true
		return nil
	}})
	return n, found, err
}

func text(c *sqlite.Conn, query string) (s string, err error) {
	err = sqlitex.Execute(c, query, &sqlitex.ExecOptions{ResultFunc: func(st *sqlite.Stmt) error {
		s = st.ColumnText(0)
		return nil
	}})
	return s, err
}

// blob returns a copy of a column.
func blob(st *sqlite.Stmt, col int) []byte {
	b := make([]byte, st.ColumnLen(col))
	st.ColumnBytes(col, b)
	return b
}

func exec(c *sqlite.Conn, query string, args ...any) error {
	return sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args})
}

// makeFile creates the file, readable by its owner only. It removes the write-ahead log of
// an earlier file, which must not get into the new one.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), removeJournals(path))
}

func removeDatabase(path string) error {
	return errors.Join(remove(path), removeJournals(path))
}

func removeJournals(path string) error { return errors.Join(remove(path+"-wal"), remove(path+"-shm")) }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// checkReplaced returns an error if the file has been removed or replaced since it was opened:
// changes to it would be lost.
func (d *database) checkReplaced() error {
	if now, err := os.Stat(d.path); err != nil || !os.SameFile(d.file, now) {
		return broken("the file was removed")
	}
	return nil
}

func (d *database) close() error { return d.conns.Close() }

// prepare creates the tables in an empty file, and checks the version of other files.
func prepare(c *sqlite.Conn) (err error) {
	end, err := sqlitex.ImmediateTransaction(c)
	if err != nil {
		return err
	}
	defer end(&err)
	have, _, err := number(c, "PRAGMA user_version")
	if err != nil || have == version {
		return err
	}
	tables, _, err := number(c, "SELECT count(*) FROM sqlite_schema")
	switch {
	case err != nil:
		return err
	case have == oldVersion:
		return errOld
	case have != 0 || tables != 0:
		return broken("it has version %d, but this Steward writes version %d", have, version)
	}
	return sqlitex.ExecuteScript(c, schema+fmt.Sprintf("PRAGMA user_version = %d", version), nil)
}

// checkOrigin checks that the file was built from the store's log: the newest entry that it
// includes must be in the log.
func (d *database) checkOrigin(ctx context.Context, st store.Store) error {
	var seq uint64
	var at int64
	var key []byte
	err := d.use(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, "SELECT seq, at, key FROM state", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
			seq, at, key = uint64(s.ColumnInt64(0)), s.ColumnInt64(1), blob(s, 2)
			return nil
		}})
	})
	if err != nil {
		return err
	}
	if seq == 0 {
		return nil
	}
	page, err := st.Log(ctx, nodeScope(), store.LogQuery{Since: seq - 1, Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Entries) == 0 || page.Entries[0].Seq != seq || page.Entries[0].At.UnixMicro() != at ||
		string(page.Entries[0].URI.Key()) != string(key) {
		return broken("it was built from another log")
	}
	return nil
}

// errBroken marks errors after which the file must be rebuilt.
var errBroken = errors.New("invalid search index")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errBroken}, args...)...)
}

// damaged reports whether an error means that the file must be rebuilt.
func damaged(err error) bool {
	var other *fault.Error // the store's errors may wrap SQLite's, too
	if errors.Is(err, errBroken) || err == nil || errors.As(err, &other) {
		return errors.Is(err, errBroken)
	}
	switch code := sqlite.ErrCode(err); code.ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return true
	case sqlite.ResultError:
		return strings.Contains(err.Error(), "no such table") || strings.Contains(err.Error(), "no such column")
	case sqlite.ResultReadOnly, sqlite.ResultIOErr: // it was removed or truncated while open
		return code == sqlite.ResultReadOnlyDBMoved || code == sqlite.ResultIOErrShortRead
	}
	return false
}

// coded converts an error of the file to a coded error with a hint.
func coded(path string, err error) error {
	var own *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fault.New(fault.Unavailable, "search_unavailable", "cannot use the search index %s: %w", path, err).
		WithHint("check whether the disk is full or the folder is read-only; you can delete the file; it is then rebuilt")
}
