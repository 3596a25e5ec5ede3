package fts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"steward/internal/fault"
	"steward/internal/store"
)

// version is that of the tables and of what they hold: it changes when
// search.Tokens or search.Read find other words in the same message.
const version = 1

// schema makes the tables.
//
// A doc is a message; its number grows with the time at which it was said, so
// that the newest come first in the order of the words' lists already. The
// words are in fts, without the text. Its column facets holds what narrows a
// search as words too (s1: the space with the number 1, c: the conversation,
// t: a tool, r: the role), so that FTS5 skips to what can be an answer. Docs
// are gone when a person has deleted the message, cut when they stand on
// deleted branches only; conversations have cut where any of theirs is.
const schema = `
CREATE TABLE state (id INTEGER PRIMARY KEY CHECK (id = 1), cursor TEXT NOT NULL DEFAULT '',
	seq INTEGER NOT NULL DEFAULT 0, at INTEGER NOT NULL DEFAULT 0, key BLOB NOT NULL DEFAULT x'', erase INTEGER NOT NULL DEFAULT 0);
INSERT INTO state (id) VALUES (1);
CREATE TABLE space (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE tool (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE conv (id INTEGER PRIMARY KEY, uid BLOB NOT NULL UNIQUE,
	gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0);
CREATE TABLE doc (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, at INTEGER NOT NULL, space INTEGER NOT NULL, conv INTEGER NOT NULL,
	inter BLOB NOT NULL, msg BLOB NOT NULL, prev BLOB NOT NULL, key BLOB NOT NULL,
	gone INTEGER NOT NULL DEFAULT 0, cut INTEGER NOT NULL DEFAULT 0);
CREATE UNIQUE INDEX doc_msg ON doc (conv, msg);
CREATE INDEX doc_prev ON doc (conv, prev);
CREATE VIRTUAL TABLE fts USING fts5 (facets, body, content='', contentless_delete=1, tokenize='ascii');
`

// database is an open file: one connection that writes, several that read.
type database struct {
	path         string
	file         fs.FileInfo // as it was opened
	write, reads *sql.DB
}

const (
	readers     = 4
	busyTimeout = 10 * time.Second
	idleFor     = time.Minute // connections rest open for so long
)

// settings of every connection, read back because unknown ones are ignored.
var settings = []struct{ name, set, want string }{
	{"busy_timeout", "10000", "10000"},
	{"journal_mode", "WAL", "wal"},
	{"synchronous", "NORMAL", "1"},
	{"secure_delete", "1", "1"}, // what is erased is overwritten
	{"temp_store", "MEMORY", "2"},
	{"cache_size", "-2048", "-2048"}, // KiB
	{"journal_size_limit", "16777216", "16777216"},
}

func openDatabase(ctx context.Context, path string) (*database, error) {
	if err := makeFile(path); err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}}
	for _, s := range settings {
		q.Add("_pragma", s.name+"("+s.set+")")
	}
	dsn := (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), RawQuery: q.Encode()}).String()
	file, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	d := &database{path: path, file: file}
	if d.write, err = sql.Open("sqlite", dsn); err != nil {
		return nil, err
	}
	if d.reads, err = sql.Open("sqlite", dsn); err != nil {
		return nil, errors.Join(err, d.write.Close())
	}
	d.write.SetMaxOpenConns(1)
	d.write.SetConnMaxIdleTime(idleFor)
	d.reads.SetMaxOpenConns(readers)
	d.reads.SetMaxIdleConns(readers)
	d.reads.SetConnMaxIdleTime(idleFor)
	if err = d.prepare(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// makeFile makes the file for its owner alone. A write-ahead log of an
// earlier file must not get into the new one.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), removeBeside(path))
}

func removeDatabase(path string) error {
	return errors.Join(remove(path), removeBeside(path))
}

func removeBeside(path string) error { return errors.Join(remove(path+"-wal"), remove(path+"-shm")) }

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lost tells whether the file has been removed, or replaced, since it was
// opened: what SQLite still holds of it nobody else would see.
func (d *database) lost() error {
	if now, err := os.Stat(d.path); err != nil || !os.SameFile(d.file, now) {
		return broken("it was removed")
	}
	return nil
}

func (d *database) close() error { return errors.Join(d.reads.Close(), d.write.Close()) }

// prepare makes the tables in an empty file, and looks at the version of
// another.
func (d *database) prepare(ctx context.Context) error {
	for _, s := range settings {
		var got string
		if err := d.write.QueryRowContext(ctx, "PRAGMA "+s.name).Scan(&got); err != nil {
			return err
		}
		if got != s.want {
			return fault.New(fault.Internal, "search_unavailable", "the search index has %s=%s instead of %s", s.name, got, s.want)
		}
	}
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var have, tables int
	if err := tx.QueryRowContext(ctx, "SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)").Scan(&have, &tables); err != nil {
		return err
	}
	switch {
	case have == version:
		return nil
	case have != 0 || tables != 0:
		return broken("it has version %d, this Steward writes version %d", have, version)
	}
	if _, err := tx.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return err
	}
	return tx.Commit()
}

// belongs checks that the file was made from the store's log: the newest
// entry that it has seen must be there.
func (d *database) belongs(ctx context.Context, st store.Store) error {
	var seq uint64
	var at int64
	var key []byte
	if err := d.write.QueryRowContext(ctx, "SELECT seq, at, key FROM state").Scan(&seq, &at, &key); err != nil {
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
		return broken("it belongs to another log")
	}
	return nil
}

// errBroken is in the chain of errors that ask for a new file.
var errBroken = errors.New("the search index cannot be used")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errBroken}, args...)...)
}

// damaged reports whether an error says that the file is of no use.
func damaged(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return errors.Is(err, errBroken)
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	case sqlite3.SQLITE_ERROR:
		return strings.Contains(e.Error(), "no such table") || strings.Contains(e.Error(), "no such column")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR: // removed, or cut short, under our hands
		return e.Code() == sqlite3.SQLITE_READONLY_DBMOVED || e.Code() == sqlite3.SQLITE_IOERR_SHORT_READ
	}
	return false
}

// coded tells what went wrong with the file, and what to do.
func coded(path string, err error) error {
	var own *fault.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fault.New(fault.Unavailable, "search_unavailable", "the search index %s cannot be used: %w", path, err).
		WithHint("see whether the disk is full or the folder cannot be written; the file may be deleted and is made anew")
}
