//go:build unix

package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/fault"
)

const lockWait = 5 * time.Millisecond // between two tries

// lock locks a file against other changes. The kernel releases the lock when the process ends. The lock's
// file is not removed, because then two processes could lock two different files.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	dir, name := filepath.Split(path)
	if err := makeAll(filepath.Clean(dir)); err != nil {
		return nil, Fault(filepath.Base(path), err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "."+name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Fault(filepath.Base(path), err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil // nothing was written to it
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, Fault(filepath.Base(path), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fault.New(fault.Unavailable, "file_busy", "%s is being changed by another program", name).WithHint("try again")
		case <-time.After(lockWait):
		}
	}
}
