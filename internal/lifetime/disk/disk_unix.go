//go:build unix

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks an open file for this process. It returns false if another process, or another open file of this
// one, has the lock.
func TryLock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, err
		}
	}
}

// Unlock releases the lock of a file. Closing the file alone would leave it locked while a child of this process
// that was just forked still has it.
func Unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(SyncNames(d), d.Close())
}

// SyncNames is SyncFolder for a folder that is open.
func SyncNames(folder *os.File) error {
	err := folder.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) { // the file system cannot sync folders
		return nil
	}
	return err
}

// Free returns how many bytes a program without privileges can still write to the disk of a folder.
func Free(folder string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(folder, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: folder, Err: err}
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// Readable reports whether this process may read a file. It does not open the file, because closing it would
// release the locks that SQLite has on it.
func Readable(path string) bool {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK, unix.AT_EACCESS) == nil
}

// Usable reports whether this process may list, change and enter a folder.
func Usable(folder string) bool {
	return unix.Access(folder, unix.R_OK|unix.W_OK|unix.X_OK) == nil
}
