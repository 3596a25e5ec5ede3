// Package sqlite keeps the tree and the log in one SQLite database file. One
// goroutine writes: it commits waiting batches as a group and acknowledges them
// after the commit, which syncs the write-ahead log. Readers use connections of
// their own and run concurrently.
//
// Bodies are stored only in the log, which is append-only. The tree and its
// indexes point to each resource's newest log entry.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	sqlite3 "zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
	"steward/internal/lifetime/telemetry"
	"steward/internal/store"
)

var (
	_ store.Store  = (*Store)(nil)
	_ store.Sealer = (*Store)(nil)
)

// Options configure Open. Only Path is required.
type Options struct {
	Path     string       // the database file; it and its directory are created if missing
	ReadOnly bool         // never writes; works while another process writes
	Log      *slog.Logger // nil: nothing is logged
	Readers  int          // read connections; zero: one per processor, 2 to 8

	// BeforeMigration is called before a database of an older schema is migrated, while the folder is locked. It
	// makes the backup, since nothing else does. If it fails, nothing is changed. nil: nothing is called.
	BeforeMigration func(from, to int) error

	// Mask removes secrets from a body before it is written. It returns the body
	// unchanged or a replacement. It is the last line of defence; callers should
	// have masked secrets already. nil: no masking.
	Mask func([]byte) []byte

	// Wrote is called with every batch that was committed, with the bytes of its bodies. It must not
	// block. nil: it is not called.
	Wrote func(sc store.Scope, changes int, bytes int64)

	Telemetry *telemetry.Telemetry // counts commits; may be nil
}

// Limits.
const (
	maxBlob         = 512 << 20 // bytes of one body
	busyTimeout     = 10 * time.Second
	checkpointPages = 4000     // pages in the write-ahead log that trigger a checkpoint
	keepWAL         = 64 << 20 // bytes of the write-ahead log that are kept after a checkpoint
)

// Store is a store.Store over one database file. Safe for concurrent use.
type Store struct {
	path    string
	log     *slog.Logger
	lock    *FileLock
	names   *names
	wrote   func(sc store.Scope, changes int, bytes int64)
	counts  *telemetry.Telemetry
	codec   func() (*codec, error)
	readers *pool
	probe   *pool               // the only connection of Ready
	writer  *writer             // nil when read-only
	full    atomic.Bool         // the last write failed because the disk was full
	mask    func([]byte) []byte // see Options
	window  uint64              // maximum number of entries scanned for one page of the log
	news    news
	closing sync.Once

	beforeMigration func(from, to int) error
	migrated        int   // the schema version before the migration; zero: there was none
	err             error // the result of Close
}

// Open opens the database. It creates one that is missing and migrates an older
// one after BeforeMigration. Errors: data_in_use, store_read_only, disk_full,
// not_a_database, database_too_new, database_too_old and database_missing
// (ReadOnly only), store_broken.
func Open(ctx context.Context, o Options) (*Store, error) {
	steps, err := schema()
	if err != nil {
		return nil, err
	}
	return open(ctx, o, steps)
}

func open(ctx context.Context, o Options, steps []string) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(o.Path)
	if err != nil || o.Path == "" {
		return nil, fault.New(fault.Invalid, "path_invalid", "invalid path of a database %q", o.Path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // one file, one lock, whatever symbolic links lead to it
	}
	s := &Store{path: path, log: o.Log, mask: o.Mask, wrote: o.Wrote, counts: o.Telemetry, beforeMigration: o.BeforeMigration, names: newNames(), window: scanWindow}
	s.codec = sync.OnceValues(func() (*codec, error) { return newCodec(maxBlob) })
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if o.ReadOnly {
		err = s.openToRead(steps)
	} else {
		err = s.openToWrite(steps)
	}
	if err == nil && s.readers == nil {
		s.readers = newPool(o.readers(), s.openReader)
	}
	s.probe = newPool(1, s.openReader)
	if err == nil && s.writer != nil {
		s.writer.start()
	}
	if err != nil {
		return nil, errors.Join(coded(path, err), s.lock.Release())
	}
	return s, nil
}

func (o Options) readers() int {
	if o.Readers > 0 {
		return o.Readers
	}
	return min(max(runtime.GOMAXPROCS(0), 2), 8)
}

// openToWrite takes the lock and inspects the database without modifying it. Only
// then does it open the database for writing.
func (s *Store) openToWrite(steps []string) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if s.lock, err = TakeLock(s.path + ".lock"); err != nil {
		return err
	}
	version, err := s.schemaVersion(len(steps))
	if err != nil {
		return err
	}
	c, err := openConn(s.path, sqlite3.OpenReadWrite)
	if err != nil {
		return err
	}
	if err := s.prepareWriter(c, version, steps); err != nil {
		return errors.Join(err, c.close())
	}
	return nil
}

// schemaVersion creates the file if it is missing, and returns the database's schema
// version.
func (s *Store) schemaVersion(newest int) (int, error) {
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return 0, f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	version, err := s.versionOf(newest, sqlite3.OpenReadOnly)
	var e *sqlError
	if errors.As(err, &e) && e.code == sqlite3.ResultReadOnlyRollback {
		// Its first transaction was cut off. It was made before the log of writes
		// (WAL) was turned on, so that only a writer can undo it.
		return s.versionOf(newest, sqlite3.OpenReadWrite)
	}
	return version, err
}

func (s *Store) versionOf(newest int, flags sqlite3.OpenFlags) (int, error) {
	c, err := openConn(s.path, flags)
	if err != nil {
		return 0, err
	}
	version, err := versionOf(c, s.path, newest)
	return version, errors.Join(err, c.close())
}

func (s *Store) prepareWriter(c *conn, version int, steps []string) error {
	for _, p := range []struct{ name, set, want string }{
		{"journal_mode", "WAL", ""},
		{"synchronous", "FULL", "2"},
		{"wal_autocheckpoint", strconv.Itoa(checkpointPages), ""},
		{"journal_size_limit", strconv.Itoa(keepWAL), ""},
		{"secure_delete", "ON", "1"}, // see erase
		{"temp_store", "MEMORY", "2"},
		{"cache_size", "-4096", ""}, // KiB
	} {
		if p.want == "" {
			p.want = p.set
		}
		if err := c.pragma(p.name, p.set, p.want); err != nil {
			return err
		}
	}
	// SQLite silently opens a file read-only if it may not write it.
	if err := c.exec(fmt.Sprintf("BEGIN IMMEDIATE; PRAGMA user_version=%d; ROLLBACK", version)); err != nil {
		return err
	}
	if err := s.migrate(c, version, steps); err != nil {
		return err
	}
	if err := disk.SyncFolder(filepath.Dir(s.path)); err != nil {
		return err
	}
	var err error
	s.writer, err = newWriter(s, c)
	return err
}

func (s *Store) openToRead(steps []string) error {
	if f, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "database_missing", "there is no database: %w", err).
			WithHint("start Steward once to create it, or name another file")
	} else if err != nil || f.IsDir() {
		return unreadable(s.path, cmp.Or(err, fs.ErrInvalid))
	}
	c, err := s.openReader()
	if isCode(err, sqlite3.ResultCantOpen) && !disk.Readable(s.path) {
		return unreadable(s.path, err)
	}
	if err != nil {
		return err
	}
	version, err := versionOf(c, s.path, len(steps))
	if err = errors.Join(err, c.close()); err != nil {
		return err
	}
	if version < len(steps) {
		return fault.New(fault.Unsupported, "database_too_old",
			"%s has version %d, but this Steward reads version %d", s.path, version, len(steps)).
			WithHint("start Steward once to migrate it")
	}
	return nil
}

// Migrated returns the schema version that the database had before it was opened, if it was migrated then, else 0.
func (s *Store) Migrated() int { return s.migrated }

// openReader opens one read-only connection.
func (s *Store) openReader() (*conn, error) {
	c, err := openConn(s.path, sqlite3.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	if _, err = c.number("SELECT count(*) FROM sqlite_schema"); noRoom(err) && s.hasNoWAL() {
		// The directory is not writable and there is no write-ahead log in it:
		// the database file is complete, and nobody changes it.
		c.close()
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(s.path), RawQuery: "immutable=1"}
		c, err = openConn(u.String(), sqlite3.OpenReadOnly|sqlite3.OpenURI)
	}
	if err != nil {
		if c != nil {
			c.close()
		}
		return nil, err
	}
	for _, p := range [][2]string{
		{"query_only", "1"},
		{"cache_size", "-2048"}, // KiB: serves repeated reads of a large page
	} {
		if err := c.pragma(p[0], p[1], p[1]); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// noRoom reports whether SQLite could not create a write-ahead log, or its index,
// beside the database.
func noRoom(err error) bool {
	return isCode(err, sqlite3.ResultCantOpen) || isCode(err, sqlite3.ResultReadOnly)
}

// hasNoWAL reports whether there is no write-ahead log beside the database.
func (s *Store) hasNoWAL() bool {
	_, err := os.Stat(s.path + "-wal")
	return errors.Is(err, fs.ErrNotExist)
}

// Close commits waiting batches, refuses later ones (store_closed), and closes
// the database. Further calls return the same result.
func (s *Store) Close() error {
	s.closing.Do(func() {
		if s.writer != nil {
			s.writer.stop()
		}
		s.news.close()
		s.err = errors.Join(s.readers.close(), s.probe.close())
		if s.writer != nil {
			s.err = errors.Join(s.err, s.writer.c.close())
		}
		s.err = errors.Join(s.err, s.lock.Release())
	})
	return s.err
}
