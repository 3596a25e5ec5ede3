package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockAt is the high half of the offset of the byte that is locked. It is far beyond the end of any file, because
// Windows lets nobody else read the bytes of a lock, and lock files say who has them.
const lockAt = 0x4000_0000

// TryLock locks an open file for this process. It returns false if another process, or another open file of this
// one, has the lock.
func TryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{OffsetHigh: lockAt})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lock of a file.
func Unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &windows.Overlapped{OffsetHigh: lockAt})
}

// SyncFolder reports whether there is a folder. Windows has no call that makes the names in a folder durable; NTFS
// writes them to its journal.
func SyncFolder(path string) error {
	_, err := os.Stat(path)
	return err
}

// SyncNames does nothing, for the same reason.
func SyncNames(*os.File) error { return nil }

// Free returns how many bytes can still be written to the disk of a folder.
func Free(folder string) (int64, error) {
	name, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "free space", Path: folder, Err: err}
	}
	return int64(free), nil
}

// Readable reports whether this process may read a file.
func Readable(path string) bool {
	f, err := os.Open(path)
	return err == nil && f.Close() == nil
}

// Usable reports whether this process may list and change a folder.
func Usable(folder string) bool {
	f, err := os.CreateTemp(folder, ".steward-*")
	return err == nil && errors.Join(f.Close(), os.Remove(f.Name())) == nil
}
