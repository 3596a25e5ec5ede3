package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	sqlite3 "zombiezen.com/go/sqlite"

	"steward/internal/fault"
	"steward/internal/resource"
)

// sqlError is an error of SQLite.
type sqlError struct {
	code sqlite3.ResultCode // the extended result code
	err  error
}

// failure wraps the library's error, if there is one.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return &sqlError{sqlite3.ErrCode(err), err}
}

func (e *sqlError) Error() string { return fmt.Sprintf("%v (%d)", e.err, e.code) }

func (e *sqlError) Unwrap() error { return e.err }

// isCode reports whether err is from SQLite and has this primary result code.
func isCode(err error, code sqlite3.ResultCode) bool {
	var e *sqlError
	return errors.As(err, &e) && e.code.ToPrimary() == code
}

// coded translates an error of SQLite or the system into the contract's errors.
// Errors that have a code already are returned unchanged.
func coded(path string, err error) error {
	var f *fault.Error
	var e *sqlError
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.As(err, &e):
		return e.coded(path)
	}
	return byCause(path, err, err)
}

func (e *sqlError) coded(path string) error {
	switch e.code.ToPrimary() {
	case sqlite3.ResultFull:
		return diskFull(path, e)
	case sqlite3.ResultTooBig:
		return fault.New(fault.TooLarge, "body_too_large", "a body exceeds the limit of the store (%d MB)", maxBlob>>20)
	case sqlite3.ResultNotADB:
		return notADatabase(path, e)
	case sqlite3.ResultReadOnly, sqlite3.ResultPerm:
		if e.code == sqlite3.ResultReadOnlyDBMoved {
			return fault.New(fault.Internal, "store_broken", "the database %s was moved or deleted while it was in use: %w", path, e).
				WithHint("put the file back and start again")
		}
		return readOnly(path, e)
	case sqlite3.ResultBusy, sqlite3.ResultLocked:
		return fault.New(fault.Unavailable, "store_busy", "another program uses the database %s: %w", path, e).
			WithHint("stop the other program, or wait").Retrying(fault.RetryBackoff, 0)
	case sqlite3.ResultIOErr, sqlite3.ResultCantOpen:
		if cause := tryToWrite(path); cause != nil {
			return byCause(path, fmt.Errorf("%w: %w", e, cause), cause)
		}
	}
	return broken(path, e)
}

// byCause assigns an error's code by the system error that caused it.
func byCause(path string, err, cause error) error {
	switch {
	case errors.Is(cause, syscall.ENOSPC), errors.Is(cause, syscall.EDQUOT), errors.Is(cause, syscall.EFBIG):
		return diskFull(path, err)
	case errors.Is(cause, syscall.EROFS), errors.Is(cause, fs.ErrPermission):
		return readOnly(path, err)
	}
	return broken(path, err)
}

// tryToWrite tests whether the system allows writes beside the database, and
// returns the reason if it does not: the SQLite library does not pass on the
// system's error. It writes a little to a file of its own, at an offset as large
// as the database and its write-ahead log, since file sizes can be limited too.
func tryToWrite(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".steward-probe-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	var size int64
	for _, name := range []string{path, path + "-wal"} {
		if st, err := os.Stat(name); err == nil {
			size = max(size, st.Size())
		}
	}
	_, err = f.WriteAt(make([]byte, 64<<10), size)
	return errors.Join(err, f.Close())
}

func diskFull(path string, err error) error {
	return fault.New(fault.NoSpace, "disk_full", "no space left to write %s: %w", path, err).
		WithHint("free some space; no acknowledged data is lost").Retrying(fault.RetryBackoff, 0)
}

func readOnly(path string, err error) error {
	return fault.New(fault.Unavailable, "store_read_only", "%s cannot be written: %w", path, err).
		WithHint("make the file and its folder writable for the user that runs Steward, or name another folder")
}

func unreadable(path string, err error) error {
	return fault.New(fault.Denied, "store_unreadable", "%s cannot be read: %w", path, err).
		WithHint("name a file that the user that runs Steward can read")
}

// broken returns the error for an unknown failure. A caller's cancelled context
// is passed on as it is: it says nothing about the database.
func broken(path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Of(err)
	}
	return fault.New(fault.Internal, "store_broken", "error in the database %s: %w", path, err).
		WithHint("keep a copy of the file; restore a backup if the error persists")
}

func notADatabase(path string, err error) error {
	return fault.New(fault.Invalid, "not_a_database", "%s is not a database of Steward: %w", path, err).
		WithHint("the file was not changed; move it away, or name another file")
}

func closed() error {
	return fault.New(fault.Unavailable, "store_closed", "the store is closed")
}

func notFound(u resource.URI) error {
	return fault.New(fault.NotFound, "not_found", "%s does not exist", u).Detail("uri", u.String())
}

func conflict(u resource.URI, format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, "conflict", "%s %s", u, fmt.Sprintf(format, args...)).
		Detail("uri", u.String()).WithHint("reload the resource, then decide")
}
