package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// tempPattern is how the temporary folders of programs are called.
const tempPattern = "steward-program-*"

// removeTemp removes a temporary folder, also where a program has left folders
// in it that cannot be entered.
func removeTemp(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700) // what still cannot be removed, the next call tells
		}
		return nil
	})
	return os.RemoveAll(path)
}

// RemoveLeftovers removes the temporary folders of programs of processes that
// have ended without doing so. Those of other users and of processes that
// still run are left alone.
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
