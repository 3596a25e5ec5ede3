//go:build unix

package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// tempPattern is the name pattern of programs' temporary folders.
const tempPattern = "steward-program-*"

// removeTemp removes a temporary folder, even if a program has left folders in it that cannot be
// entered.
func removeTemp(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // the next call reports what still cannot be removed
		}
		return nil
	})
	return os.RemoveAll(path)
}

// RemoveLeftovers removes the temporary folders of processes that have ended without removing
// them. Those of other users and of running processes are left alone.
func RemoveLeftovers() error {
	found, err := filepath.Glob(filepath.Join(os.TempDir(), tempPattern))
	errs := []error{err}
	for _, path := range found {
		if unlock, ok := lockFolder(path); ok {
			errs = append(errs, removeTemp(path))
			unlock()
		}
	}
	return errors.Join(errs...)
}

// lockFolder locks a folder of this user. The lock ends with the process at the latest. ok is
// false if another process holds it.
func lockFolder(path string) (unlock func(), ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		return nil, false
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, false
	}
	if syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		dir.Close()
		return nil, false
	}
	return func() { dir.Close() }, true
}

// makeTemp makes a temporary folder for a program, and a function that removes it.
func makeTemp() (path string, remove func(), err error) {
	for {
		if path, err = os.MkdirTemp("", tempPattern); err != nil {
			return "", nil, err
		}
		if unlock, ok := lockFolder(path); ok {
			if _, err := os.Lstat(path); err == nil { // no other process has removed it as a leftover
				return path, func() { _ = removeTemp(path); unlock() }, nil
			}
			unlock()
		}
	}
}
