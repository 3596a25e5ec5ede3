package local

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"steward/internal/fault"
	"steward/internal/lifetime/disk"
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
		ok, err := disk.TryLock(f)
		if err != nil {
			f.Close()
			return nil, Fault(filepath.Base(path), err)
		}
		if ok {
			return func() { f.Close() }, nil // nothing was written to it
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fault.New(fault.Unavailable, "file_busy", "%s is being changed by another program", name).WithHint("try again")
		case <-time.After(lockWait):
		}
	}
}
