//go:build unix

package sqlite

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"steward/internal/fault"
)

// FileLock is held as long as its file is open.
type FileLock struct{ f *os.File }

// TakeLock locks path for this process, or reports who holds it (data_in_use).
// The kernel releases the lock when the process ends, however it ends. The file
// stays: if it were removed, two processes could lock two different files.
func TakeLock(path string) (*FileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, inUse(path, f)
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &FileLock{f}, nil
}

func inUse(path string, f *os.File) error {
	b, err := io.ReadAll(io.LimitReader(f, 32))
	who := "another process"
	pid := strings.TrimSpace(string(b))
	if err == nil && pid != "" {
		who = "process " + pid
	}
	return fault.New(fault.Unavailable, "data_in_use", "the data is in use by %s (%s is locked)", who, path).
		Detail("pid", pid).WithHint("stop the other Steward, or name another data folder")
}

// Release gives the lock free.
func (l *FileLock) Release() error {
	if l == nil {
		return nil
	}
	// Closing the file alone would leave it locked while a child of this process
	// that was just forked still has it.
	return errors.Join(unix.Flock(int(l.f.Fd()), unix.LOCK_UN), l.f.Close())
}

// mayRead reports whether this process may read a file. It does not open the
// file, since closing it would release SQLite's locks on it.
func mayRead(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS) == nil
}
