// Package watch reports changes in folders through the system's file notifications.
package watch

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher reports changes directly in the folders added to it, not in their
// subfolders. It is safe for concurrent use.
//
// It sits between fsnotify and a single loop that reads events and adds and
// removes folders. Without it the two would deadlock, because fsnotify sends
// its errors with its lock held (inotify.handleEvent of v1.10.1, for a folder
// that was moved away and deleted).
type Watcher struct {
	*fsnotify.Watcher
	// Errors reports that changes may have been missed. If several errors are
	// pending, it keeps the first. It is never closed.
	Errors <-chan error
	read   sync.WaitGroup
}

// New returns a watcher without folders. It fails if the system has no more
// watchers available. The caller must call Close.
func New() (*Watcher, error) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	errs := make(chan error, 1)
	w := &Watcher{Watcher: notify, Errors: errs}
	w.read.Go(func() {
		for err := range notify.Errors {
			select {
			case errs <- err:
			default: // an error is pending already and means the same: look again
			}
		}
	})
	return w, nil
}

// Close ends the watch and closes Events.
func (w *Watcher) Close() error {
	err := w.Watcher.Close()
	w.read.Wait()
	return err
}

// IsUnrelated reports whether an event is about an unrelated neighbour of the
// watched folders or files, such as a database in their parent folder: a path
// that is neither inside one of them nor one of their ancestors.
func IsUnrelated(name string, paths ...string) bool {
	within := func(p, dir string) bool { return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") }
	beside := false
	for _, p := range paths {
		if within(name, p) || within(p, name) {
			return false
		}
		beside = beside || within(filepath.Dir(p), filepath.Dir(name))
	}
	return beside
}
