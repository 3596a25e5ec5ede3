package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	sqlite3 "modernc.org/sqlite/lib"

	"steward/internal/fault"
	"steward/internal/resource"
)

// sqlError is a failure as SQLite told it.
type sqlError struct {
	code  int32 // extended result code
	errno int32 // the system's own, where there was one
	msg   string
	op    string // the statement
}

func (e *sqlError) Error() string {
	s := fmt.Sprintf("sqlite: %s (%d)", e.msg, e.code)
	if e.errno != 0 {
		s += ": " + syscall.Errno(e.errno).Error()
	}
	return s
}

func (e *sqlError) Unwrap() error {
	if e.errno != 0 {
		return syscall.Errno(e.errno)
	}
	return nil
}

// isCode reports whether err is SQLite's, with this primary result code.
func isCode(err error, code int32) bool {
	var e *sqlError
	return errors.As(err, &e) && e.code&0xff == code
}

// coded turns what SQLite or the system said into the contract's errors.
// Errors that are coded already pass unchanged.
func coded(path string, err error) error {
	var f *fault.Error
	var e *sqlError
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case errors.As(err, &e):
		return e.coded(path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return diskFull(path, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return readOnly(path, err)
	}
	return broken(path, err)
}

func (e *sqlError) coded(path string) error {
	switch e.code & 0xff {
	case sqlite3.SQLITE_FULL:
		return diskFull(path, e)
	case sqlite3.SQLITE_TOOBIG:
		return fault.New(fault.TooLarge, "body_too_large", "a body is larger than the store takes (%d MB)", maxBlob>>20)
	case sqlite3.SQLITE_NOTADB:
		return notADatabase(path, e)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		if e.code == sqlite3.SQLITE_READONLY_DBMOVED {
			return fault.New(fault.Internal, "store_broken", "the database %s was moved or deleted while it was in use: %w", path, e).
				With("put the file back and start again")
		}
		return readOnly(path, e)
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.New(fault.Unavailable, "store_busy", "another program holds the database %s: %w", path, e).
			With("end the other program, or wait").Retrying(fault.RetryBackoff, 0)
	case sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		switch syscall.Errno(e.errno) {
		case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
			return diskFull(path, e)
		case syscall.EROFS, syscall.EACCES, syscall.EPERM:
			return readOnly(path, e)
		}
	}
	return broken(path, e)
}

func diskFull(path string, err error) error {
	return fault.New(fault.NoSpace, "disk_full", "there is no room to write %s: %w", path, err).
		With("free some space; nothing that was acknowledged is lost").Retrying(fault.RetryBackoff, 0)
}

func readOnly(path string, err error) error {
	return fault.New(fault.Unavailable, "store_read_only", "%s cannot be written: %w", path, err).
		With("make the file and its folder writable for the user that runs Steward, or name another folder")
}

func unreadable(path string, err error) error {
	return fault.New(fault.Denied, "store_unreadable", "%s cannot be read: %w", path, err).
		With("name a file that the user that runs Steward may read")
}

// broken tells of a failure that nobody knows better; that a caller did not
// wait is none of the database's.
func broken(path string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fault.Of(err)
	}
	return fault.New(fault.Internal, "store_broken", "the database %s failed: %w", path, err).
		With("keep a copy of the file as it is; restore a backup if this goes on")
}

func notADatabase(path string, err error) error {
	return fault.New(fault.Invalid, "not_a_database", "%s is not a database of Steward: %w", path, err).
		With("it was left as it is; move it away, or name another file")
}

func closed() error {
	return fault.New(fault.Unavailable, "store_closed", "the store is closed")
}

func notFound(u resource.URI) error {
	return fault.New(fault.NotFound, "not_found", "%s does not exist", u).Detail("uri", u.String())
}

func conflict(u resource.URI, format string, args ...any) *fault.Error {
	return fault.New(fault.Conflict, "conflict", "%s %s", u, fmt.Sprintf(format, args...)).
		Detail("uri", u.String()).With("read it again and decide anew")
}
