package sqlite

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
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
	ok, err := disk.TryLock(f)
	if err == nil && !ok {
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
	return errors.Join(disk.Unlock(l.f), l.f.Close())
}
