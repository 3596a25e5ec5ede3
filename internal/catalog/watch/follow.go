package watch

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Follower reads folders again when something in them has changed and they
// have come to rest. Where the system has no file notifications, it polls every
// few seconds.
type Follower struct {
	What  string          // the folders in words, for the log: "the policies"
	Paths []string        // watched folders and files; they need not exist
	Dirs  func() []string // the folders to be watched, as of the last reading
	// Changed reads the folders again. It is also called once at the start, for
	// changes made between the first reading and the start of the watch.
	Changed func()
	Noted   func()          // called at once on a possible change; may be nil
	Again   <-chan struct{} // requests a reading; may be nil
	Quiet   time.Duration   // how long a folder has to be quiet before it is read
	Poll    time.Duration   // polling interval, instead of notifications; zero: poll only where there are none
	Log     *slog.Logger
}

const defaultPoll = 2 * time.Second

// Run watches the folders until ctx ends.
func (f Follower) Run(ctx context.Context) {
	if f.Noted == nil {
		f.Noted = func() {}
	}
	if f.Poll == 0 {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		f.Log.Warn(f.What+" are polled every few seconds: the system does not report changes", "error", err)
	}
	f.poll(ctx)
}

// follow waits for the system's notifications. It returns when ctx ends, or with
// an error if the system has no more watches available.
func (f Follower) follow(ctx context.Context) error {
	w, err := New()
	if err != nil {
		return err
	}
	defer func() {
		if err := w.Close(); err != nil {
			f.Log.Warn("closing the watch on "+f.What+" failed", "error", err)
		}
	}()
	watched := map[string]bool{}
	if _, err := f.watchDirs(w, watched); err != nil {
		return err
	}
	rest := Debouncer{Quiet: f.Quiet}
	rest.Record() // what came between the reading and the watch
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ev, ok := <-w.Events:
			if ok && ev.Has(fsnotify.Remove|fsnotify.Rename) {
				forget(w, watched, ev.Name)
			}
			if ok && !ignored(ev) && !IsUnrelated(ev.Name, f.Paths...) {
				f.Noted()
				rest.Record()
			}
		case err := <-w.Errors:
			f.Log.Warn("a change of "+f.What+" may have been missed; everything is read again", "error", err)
			f.Noted()
			rest.Record()
		case <-f.Again:
			rest.Record()
		case <-rest.C:
			rest.Done()
			f.Changed()
			more, err := f.watchDirs(w, watched)
			if err != nil {
				return err
			}
			if more {
				f.Noted()
				rest.Record() // for files put into a new folder before it was watched
			}
		}
	}
}

// ignored reports whether an event does not change what is read: access times
// and editors' temporary files. Creation and removal always count.
func ignored(ev fsnotify.Event) bool {
	base := filepath.Base(ev.Name)
	return ev.Op == fsnotify.Chmod && (strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~"))
}

// forget drops the watches of a removed folder and of those below it, so that a
// new folder of the same name is watched afresh.
func forget(w *Watcher, watched map[string]bool, name string) {
	for d := range watched {
		if d == name || strings.HasPrefix(d, name+string(filepath.Separator)) {
			delete(watched, d)
			_ = w.Remove(d) // usually the system has removed the watch already
		}
	}
}

// watchDirs watches the folders of the last reading, and no others. It reports
// whether folders were added, and fails if the system refuses a watch.
func (f Follower) watchDirs(w *Watcher, watched map[string]bool) (more bool, err error) {
	wanted := map[string]bool{}
	for _, d := range f.Dirs() {
		d = existing(d)
		if wanted[d] = true; watched[d] {
			continue
		}
		if err := w.Add(d); err != nil {
			if _, gone := os.Stat(d); gone != nil {
				continue // its removal leads to another reading
			}
			return more, fmt.Errorf("%s: %w", d, err)
		}
		watched[d], more = true, true
	}
	for d := range watched {
		if !wanted[d] {
			delete(watched, d)
			if err := w.Remove(d); err != nil {
				f.Log.Debug("a folder is no longer watched", "folder", d, "error", err) // it is gone, and its watch with it
			}
		}
	}
	return more, nil
}

// existing returns the nearest existing folder at or above a path.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// poll reads the folders again whenever their digest (Looks) has changed.
func (f Follower) poll(ctx context.Context) {
	tick := time.NewTicker(cmp.Or(f.Poll, defaultPoll))
	defer tick.Stop()
	last := ""
	for {
		if looks := Digest(f.Paths...); looks != last {
			f.Changed()
			last = looks
		}
		select {
		case <-ctx.Done():
			return
		case <-f.Again:
			last = ""
		case <-tick.C:
		}
	}
}

// Digest returns a digest over the names, sizes and times of files and of
// everything below folders. It follows symbolic links.
func Digest(paths ...string) string {
	h := fnv.New128a()
	for _, top := range paths {
		if real, err := filepath.EvalSymlinks(top); err == nil {
			top = real // WalkDir would stop at the link
		}
		err := filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
			if err != nil {
				fmt.Fprintln(h, p, err)
				return nil
			}
			if info, err := os.Stat(p); err == nil {
				fmt.Fprintln(h, p, e.Type(), info.Size(), info.ModTime().UnixNano(), Touched(info).UnixNano(), info.Mode())
			}
			return nil
		})
		fmt.Fprintln(h, err)
	}
	return string(h.Sum(nil))
}
