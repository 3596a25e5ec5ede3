package vector

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
	"steward/internal/resource"
	"steward/internal/store"
)

// version is the version of the tables and their content.
const version = 1

// IndexVersion returns the version of the file that this package writes, which is its user_version. A file of
// another version is built anew.
func IndexVersion() int { return version }

// schema creates the tables that all owners share. They hold no text, no vector and no
// name of a message.
//
// A part is a space's vectors of one model; upto is the last doc that was embedded for it.
// A space's active model is the one that searches use.
const schema = `
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), cursor TEXT NOT NULL DEFAULT '',
	seq INTEGER NOT NULL DEFAULT 0, at INTEGER NOT NULL DEFAULT 0, key BLOB NOT NULL DEFAULT x'', erase INTEGER NOT NULL DEFAULT 0);
INSERT INTO state (id) VALUES (1);
CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, active INTEGER NOT NULL DEFAULT 0);
CREATE TABLE model (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, dims INTEGER NOT NULL DEFAULT 0);
CREATE TABLE part (id INTEGER PRIMARY KEY, space INTEGER NOT NULL, model INTEGER NOT NULL, upto INTEGER NOT NULL DEFAULT 0,
	gen INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0, UNIQUE (space, model));
CREATE TABLE spend (day TEXT PRIMARY KEY, tokens INTEGER NOT NULL, cost REAL NOT NULL);
`

// spaceSchema creates the tables of one space. A doc is a message; see package fts for gone
// and cut.
const spaceSchema = `
CREATE TABLE conv_%[1]d (id INTEGER PRIMARY KEY, uid BLOB NOT NULL UNIQUE, gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0);
CREATE TABLE doc_%[1]d (id INTEGER PRIMARY KEY AUTOINCREMENT, seq INTEGER NOT NULL, at INTEGER NOT NULL, conv INTEGER NOT NULL,
	inter BLOB NOT NULL, msg BLOB NOT NULL, key BLOB NOT NULL, role INTEGER NOT NULL,
	gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX doc_msg_%[1]d ON doc_%[1]d (conv, msg);
`

// partSchema creates the tables of one part. The codes are read as a whole; the 8-bit
// vectors, which take far more space, are read one by one. Doc, piece and hash say what a
// vector is of.
const partSchema = `
CREATE TABLE code_%[1]d (id INTEGER PRIMARY KEY AUTOINCREMENT, doc INTEGER NOT NULL, piece INTEGER NOT NULL, conv INTEGER NOT NULL,
	at INTEGER NOT NULL, role INTEGER NOT NULL, hash BLOB NOT NULL, code BLOB NOT NULL);
CREATE INDEX code_doc_%[1]d ON code_%[1]d (doc);
CREATE INDEX code_hash_%[1]d ON code_%[1]d (hash);
CREATE TABLE vec_%[1]d (id INTEGER PRIMARY KEY, scale REAL NOT NULL, num BLOB NOT NULL);
CREATE TABLE held_%[1]d (doc INTEGER PRIMARY KEY, why INTEGER NOT NULL);
`

const (
	maxConns    = 3
	busyTimeout = 10 * time.Second
)

// settings are set on every connection.
var settings = []string{
	"journal_mode=WAL",
	"synchronous=NORMAL",
	"secure_delete=1", // overwrite what is erased
	"temp_store=MEMORY",
	"cache_size=-4096", // KiB
	"journal_size_limit=16777216",
}

// database is an open file.
type database struct {
	conns *sqlitex.Pool
}

func openDatabase(ctx context.Context, path string, watch func(*sqlite.Conn) error) (*database, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil: // no write-ahead log of an earlier file may get into the new one
		if err := errors.Join(f.Close(), removeAll(path+"-wal", path+"-shm")); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	pool, err := sqlitex.NewPool(path, sqlitex.PoolOptions{Flags: sqlite.OpenReadWrite, PoolSize: maxConns, PrepareConn: func(c *sqlite.Conn) error {
		if err := configure(c); err != nil || watch == nil {
			return err
		}
		return watch(c)
	}})
	if err != nil {
		return nil, err
	}
	d := &database{pool}
	if err := d.use(ctx, prepare); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return d, nil
}

func configure(c *sqlite.Conn) error {
	c.SetBusyTimeout(busyTimeout)
	for _, s := range settings {
		if err := sqlitex.ExecuteTransient(c, "PRAGMA "+s, nil); err != nil {
			return err
		}
	}
	return nil
}

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
	case have != 0 || tables != 0:
		return broken("it has version %d, but this Steward writes version %d", have, version)
	}
	return sqlitex.ExecuteScript(c, schema+fmt.Sprintf("PRAGMA user_version = %d", version), nil)
}

// checkOrigin checks that the file was built from the store's log: the newest entry that it
// includes must be in the log.
func (d *database) checkOrigin(ctx context.Context, st store.Store) error {
	var last resource.Entry
	var key []byte
	err := d.use(ctx, func(c *sqlite.Conn) error {
		return query(c, "SELECT seq, at, key FROM state", nil, func(s *sqlite.Stmt) {
			last.Seq, last.At, key = uint64(s.ColumnInt64(0)), time.UnixMicro(s.ColumnInt64(1)), blob(s, 2)
		})
	})
	if err != nil || last.Seq == 0 {
		return err
	}
	page, err := st.Log(ctx, nodeScope(), store.LogQuery{Since: last.Seq - 1, Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Entries) == 0 || page.Entries[0].Seq != last.Seq || page.Entries[0].At.UnixMicro() != last.At.UnixMicro() ||
		string(page.Entries[0].URI.Key()) != string(key) {
		return broken("it was built from another log")
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

// write runs do in a transaction that writes.
func (d *database) write(ctx context.Context, do func(*sqlite.Conn) error) error {
	return d.use(ctx, func(c *sqlite.Conn) (err error) {
		end, err := sqlitex.ImmediateTransaction(c)
		if err != nil {
			return err
		}
		defer end(&err)
		return do(c)
	})
}

// read runs do in a transaction, which sees one state of the file.
func (d *database) read(ctx context.Context, do func(*sqlite.Conn) error) error {
	return d.use(ctx, func(c *sqlite.Conn) (err error) {
		defer sqlitex.Transaction(c)(&err)
		return do(c)
	})
}

func query(c *sqlite.Conn, text string, args []any, each func(*sqlite.Stmt)) error {
	return sqlitex.Execute(c, text, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		each(s)
		return nil
	}})
}

// number reads one number. found is false if there is no row.
func number(c *sqlite.Conn, text string, args ...any) (n int64, found bool, err error) {
	err = query(c, text, args, func(s *sqlite.Stmt) { n, found = s.ColumnInt64(0), true })
	return n, found, err
}

func exec(c *sqlite.Conn, text string, args ...any) error {
	return sqlitex.Execute(c, text, &sqlitex.ExecOptions{Args: args})
}

// blob returns a copy of a column.
func blob(s *sqlite.Stmt, col int) []byte {
	b := make([]byte, s.ColumnLen(col))
	s.ColumnBytes(col, b)
	return b
}

func removeAll(paths ...string) error {
	var errs []error
	for _, p := range paths {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// errBroken marks errors after which the file must be rebuilt.
var errBroken = errors.New("invalid vector index")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errBroken}, args...)...)
}

// damaged reports whether an error means that the file must be rebuilt.
func damaged(err error) bool {
	var other *fault.Error // the store's errors may wrap SQLite's, too
	if errors.Is(err, errBroken) || err == nil || errors.As(err, &other) {
		return errors.Is(err, errBroken)
	}
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCorrupt, sqlite.ResultNotADB:
		return true
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
	return fault.New(fault.Unavailable, "search_unavailable", "cannot use the vector index %s: %w", path, err).
		WithHint("check whether the disk is full or the folder is read-only; you can delete the file; its vectors are then computed again")
}

// script runs several statements within the transaction of c.
func script(c *sqlite.Conn, text string) error {
	for s := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(s) == "" {
			continue
		}
		if err := sqlitex.ExecuteTransient(c, s, nil); err != nil {
			return err
		}
	}
	return nil
}
