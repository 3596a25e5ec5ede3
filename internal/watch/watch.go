// Package watch has the system tell of changes in folders.
package watch

import (
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher tells of changes directly in the folders added to it. It is safe for
// concurrent use.
//
// It stands between fsnotify and one loop that reads events and adds and
// removes folders in turn: fsnotify hands over its errors with its lock held,
// so that such a loop and fsnotify would wait for each other for ever
// (inotify.handleEvent of v1.10.1, for a folder moved away and deleted).
type Watcher struct {
	*fsnotify.Watcher
	// Errors tells that changes may have been missed. Of several at once it
	// keeps the first; it is never closed.
	Errors <-chan error
	read   sync.WaitGroup
}

// New returns a watcher of no folder yet. It fails where the system has none
// to give. Close ends it.
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
			default: // one is waiting, and says the same: look again
			}
		}
	})
	return w, nil
}

// Close ends the watch. Events is closed then.
func (w *Watcher) Close() error {
	err := w.Watcher.Close()
	w.read.Wait()
	return err
}

// Beside reports whether what an event names only lies beside folders or files
// that are looked after, such as a database in the folder above them: neither
// in one of them, nor on the way to it.
func Beside(name string, paths ...string) bool {
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
