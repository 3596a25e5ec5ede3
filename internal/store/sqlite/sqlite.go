// Package sqlite keeps the tree and the log in one SQLite database file. One
// goroutine writes; it commits what waits as a group and acknowledges after
// the commit, which has synced the write-ahead log. Readers go their own way.
//
// Bodies live in the log only, which is only appended to; the tree and its
// indexes point at the log's newest entry of each resource.
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
	"steward/internal/store"
)

var (
	_ store.Store  = (*Store)(nil)
	_ store.Sealer = (*Store)(nil)
)

// Options of Open. Only Path is needed.
type Options struct {
	Path     string       // the database file; it and its folder are made if missing
	ReadOnly bool         // look only; works while another process writes
	Log      *slog.Logger // nil: nothing is logged
	Readers  int          // connections for reading; zero: one per processor, 2 to 8

	// Mask hides secrets in what is written: it returns the body, or another
	// one in its place. It is the last guard; who writes should have hidden
	// them before. nil: there are none.
	Mask func([]byte) []byte
}

// Limits.
const (
	maxBlob         = 512 << 20 // bytes of one body
	busyTimeout     = 10 * time.Second
	checkpointPages = 4000     // pages in the write-ahead log before it is worked into the database
	keepWAL         = 64 << 20 // bytes of the write-ahead log that stay after that
)

// Store is a store.Store over one database file. Safe for concurrent use.
type Store struct {
	path    string
	log     *slog.Logger
	lock    *fileLock
	names   *names
	codec   func() (*codec, error)
	readers *pool
	probe   *pool               // the one connection of Ready
	writer  *writer             // nil when read-only
	full    atomic.Bool         // the last change found no room on the disk
	mask    func([]byte) []byte // see Options
	window  uint64              // entries that one page of the log looks over
	news    news
	closing sync.Once
	err     error // what Close found
}

// Open opens the database, makes it if there is none, and brings an older one
// up to date after a backup. Errors: data_in_use, store_read_only, disk_full,
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
		return nil, fault.New(fault.Invalid, "path_invalid", "%q is no path for a database", o.Path)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // one file, one lock
	}
	s := &Store{path: path, log: o.Log, mask: o.Mask, names: newNames(), window: scanWindow}
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
		return nil, errors.Join(coded(path, err), s.lock.release())
	}
	return s, nil
}

func (o Options) readers() int {
	if o.Readers > 0 {
		return o.Readers
	}
	return min(max(runtime.GOMAXPROCS(0), 2), 8)
}

// openToWrite takes the lock, looks at the database without touching it, and
// only then opens it to write.
func (s *Store) openToWrite(steps []string) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	if s.lock, err = takeLock(s.path + ".lock"); err != nil {
		return err
	}
	version, err := s.look(len(steps))
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

// look makes the file if it is missing, and returns the version of what is in it.
func (s *Store) look(newest int) (int, error) {
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return 0, f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return 0, err
	}
	c, err := openConn(s.path, sqlite3.OpenReadOnly)
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
	// Without a word, SQLite opens a file for reading only that it may not write.
	if err := c.exec(fmt.Sprintf("BEGIN IMMEDIATE; PRAGMA user_version=%d; ROLLBACK", version)); err != nil {
		return err
	}
	backup, err := migrate(c, s.path, version, steps)
	if backup != "" {
		s.log.Info("the database was copied before it is brought up to date", "backup", backup, "version", version)
	}
	if err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(s.path)); err != nil {
		return err
	}
	s.writer, err = newWriter(s, c)
	return err
}

func (s *Store) openToRead(steps []string) error {
	if f, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.NotFound, "database_missing", "there is no database: %w", err).
			WithHint("start Steward once to make it, or name another file")
	} else if err != nil || f.IsDir() {
		return unreadable(s.path, cmp.Or(err, fs.ErrInvalid))
	}
	c, err := s.openReader()
	if isCode(err, sqlite3.ResultCantOpen) && !mayRead(s.path) {
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
			"%s has version %d, and this Steward reads version %d", s.path, version, len(steps)).
			WithHint("start Steward once to bring it up to date")
	}
	return nil
}

// openReader opens one connection that cannot write.
func (s *Store) openReader() (*conn, error) {
	c, err := openConn(s.path, sqlite3.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	if _, err = c.number("SELECT count(*) FROM sqlite_schema"); noRoom(err) && s.resting() {
		// A folder that cannot be written, and no write-ahead log in it: the
		// database file is all there is, and nobody changes it.
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
		{"cache_size", "-2048"}, // KiB: a long page read again is read from here
	} {
		if err := c.pragma(p[0], p[1], p[1]); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// noRoom reports whether SQLite could not put a write-ahead log, or the index
// of one, beside the database.
func noRoom(err error) bool {
	return isCode(err, sqlite3.ResultCantOpen) || isCode(err, sqlite3.ResultReadOnly)
}

// resting reports whether no write-ahead log lies beside the database.
func (s *Store) resting() bool {
	_, err := os.Stat(s.path + "-wal")
	return errors.Is(err, fs.ErrNotExist)
}

// Close commits what waits, refuses what comes later (store_closed), and
// closes the database. Calling it again returns the same.
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
		s.err = errors.Join(s.err, s.lock.release())
	})
	return s.err
}
