package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	sqlite3 "zombiezen.com/go/sqlite"
)

// Copied says what a copy of a database holds.
type Copied struct {
	Schema  int    // the schema version
	Entries uint64 // of the log
}

// Copy writes one snapshot of Steward's database to a new file, and syncs it. Others may go on to write meanwhile,
// also in other processes: they wait for nothing, and what they commit after the copy has begun is not in it. The
// database may have an older schema. If Copy fails, the new file is removed.
func Copy(ctx context.Context, path, to string) (out Copied, err error) {
	steps, err := schema()
	if err != nil {
		return out, err
	}
	err = copyOf(ctx, path, to, func(c *conn) error {
		version, err := versionOf(c, to, len(steps))
		if err != nil || version == 0 {
			return err
		}
		last, err := c.number("SELECT max(seq) FROM log")
		out = Copied{version, uint64(last)}
		return err
	})
	return out, coded(path, err)
}

// CopyAny is Copy for an SQLite database of any kind. Numbers of rows stay as they are.
func CopyAny(ctx context.Context, path, to string) error {
	return copyOf(ctx, path, to, func(*conn) error { return nil })
}

// copyOf makes a copy, and calls read with a connection to it.
func copyOf(ctx context.Context, path, to string, read func(*conn) error) (err error) {
	c, err := openConn(path, sqlite3.OpenReadOnly)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	f, err := os.OpenFile(to, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(to))
		}
	}()
	c.db.SetInterrupt(ctx.Done())
	err = c.prepare("VACUUM INTO CAST(? AS TEXT)").argText(to).run()
	c.db.SetInterrupt(nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("cannot copy %s: %w", path, err)
		if cause := tryToWrite(to); cause != nil { // it is the new file that is at fault
			return byCause(to, err, cause)
		}
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	made, err := openConn(to, sqlite3.OpenReadOnly)
	if err != nil {
		return err
	}
	return errors.Join(read(made), made.close())
}

// SchemaOf returns the schema version of a database, and the newest one that this program knows. The version is 0
// if there is no database.
func SchemaOf(path string) (version, newest int, err error) {
	steps, err := schema()
	if err != nil {
		return 0, 0, err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, len(steps), nil
	}
	c, err := openConn(path, sqlite3.OpenReadOnly)
	if err != nil {
		return 0, len(steps), coded(path, err)
	}
	version, err = versionOf(c, path, len(steps))
	return version, len(steps), coded(path, errors.Join(err, c.close()))
}

// DamageOf runs SQLite's integrity check over a database of any kind, as Store.Damage does.
func DamageOf(ctx context.Context, path string) (found []string, err error) {
	c, err := openConn(path, sqlite3.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.db.SetInterrupt(ctx.Done())
	return damage(c)
}

// damage returns the findings of SQLite's integrity check.
func damage(c *conn) (found []string, err error) {
	st := c.prepare("PRAGMA integrity_check(20)")
	err = st.each(func() error {
		if line := string(st.view(0)); line != "ok" {
			found = append(found, line)
		}
		return nil
	})
	return found, err
}

// Hold locks a database's folder for this process, as Open does, and returns the function that releases it. Nothing
// is opened. Error: data_in_use.
func Hold(path string) (release func() error, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // as Open does
	}
	lock, err := TakeLock(path + ".lock")
	if err != nil {
		return nil, coded(path, err)
	}
	return lock.Release, nil
}

// UserVersion returns the number that SQLite keeps for a program in a database of any kind.
func UserVersion(path string) (int, error) {
	c, err := openConn(path, sqlite3.OpenReadOnly)
	if err != nil {
		return 0, err
	}
	n, err := c.number("PRAGMA user_version")
	return int(n), errors.Join(err, c.close())
}
