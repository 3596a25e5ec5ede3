package catalog

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"steward/internal/watch"
)

// watch looks after the folders until Close.
func (c *Catalog) watch() {
	c.work.Add(1)
	if c.opt.Poll > 0 {
		go c.poll(c.opt.Poll)
		return
	}
	w, err := watch.New()
	if err != nil {
		c.log.Warn("folders are looked at every few seconds: the system does not notify of changes", "error", err)
		go c.poll(defaultPoll)
		return
	}
	go c.follow(w)
}

const defaultPoll = 2 * time.Second

// follow reads the folders again after each change, once they are quiet.
func (c *Catalog) follow(w *watch.Watcher) {
	defer c.work.Done()
	watched := map[string]bool{}
	rest := watch.Rest{Quiet: c.opt.Quiet}
	// mcp.json lies beside the database, which changes all the time.
	concerns := slices.Concat(c.opt.Folders, c.opt.Servers)
	if _, ok := c.watchDirs(w, watched); !ok {
		c.fallBack(w)
		return
	}
	rest.Disturb() // what came between the reading and the watch
	for {
		select {
		case <-c.life.Done():
			c.closeWatcher(w)
			return
		case ev, ok := <-w.Events:
			if ok && ev.Has(fsnotify.Remove|fsnotify.Rename) {
				forget(w, watched, ev.Name)
			}
			if ok && !ignored(ev) && !watch.Beside(ev.Name, concerns...) {
				c.noted.Add(1)
				rest.Disturb()
			}
		case err := <-w.Errors:
			c.log.Warn("a change of a folder may have been missed; all are read again", "error", err)
			c.noted.Add(1)
			rest.Disturb()
		case <-c.kick:
			rest.Disturb()
		case <-rest.C:
			rest.Done()
			if c.Rescan(c.life) != nil {
				continue
			}
			more, ok := c.watchDirs(w, watched)
			if !ok {
				c.fallBack(w)
				return
			}
			if more {
				c.noted.Add(1)
				rest.Disturb() // what was put into a new folder before it was watched
			}
		}
	}
}

// ignored reports whether an event changes nothing that is read: access times
// and the leavings of editors. What is created or removed always counts.
func ignored(ev fsnotify.Event) bool {
	base := filepath.Base(ev.Name)
	return ev.Op == fsnotify.Chmod && (strings.HasPrefix(base, ".") || strings.HasSuffix(base, "~"))
}

func (c *Catalog) closeWatcher(w *watch.Watcher) {
	if err := w.Close(); err != nil {
		c.log.Warn("ending the watch over folders failed", "error", err)
	}
}

// fallBack polls where the system has no more watches to give.
func (c *Catalog) fallBack(w *watch.Watcher) {
	c.closeWatcher(w)
	c.work.Add(1)
	c.poll(defaultPoll)
}

// forget takes up nothing more of a folder that has gone, and of those below:
// another one that comes by its name is to be watched anew.
func forget(w *watch.Watcher, watched map[string]bool, name string) {
	for d := range watched {
		if d == name || strings.HasPrefix(d, name+string(filepath.Separator)) {
			delete(watched, d)
			_ = w.Remove(d) // mostly its watch has gone with it
		}
	}
}

// watchDirs watches the folders of the last reading, and no others. It tells
// whether there are more of them, and whether the system lets it.
func (c *Catalog) watchDirs(w *watch.Watcher, watched map[string]bool) (more, ok bool) {
	c.mu.Lock()
	dirs := c.dirs
	c.mu.Unlock()
	wanted := map[string]bool{}
	for _, d := range dirs {
		d = existing(d)
		if wanted[d] = true; watched[d] {
			continue
		}
		if err := w.Add(d); err != nil {
			if _, gone := os.Stat(d); gone != nil {
				continue // the reading that its removal leads to will tell
			}
			c.log.Warn("folders are looked at every few seconds: the system watches no more of them", "folder", d, "error", err)
			return more, false
		}
		watched[d], more = true, true
	}
	for d := range watched {
		if !wanted[d] {
			delete(watched, d)
			if err := w.Remove(d); err != nil {
				c.log.Debug("a folder is not watched any more", "folder", d, "error", err) // it is gone, and its watch with it
			}
		}
	}
	return more, true
}

// existing returns the nearest folder at or above one that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// poll reads the folders again when they look otherwise.
func (c *Catalog) poll(every time.Duration) {
	defer c.work.Done()
	tick := time.NewTicker(cmp.Or(every, defaultPoll))
	defer tick.Stop()
	last := ""
	for {
		looks := c.looks()
		if looks != last && c.Rescan(c.life) == nil {
			last = looks
		}
		select {
		case <-c.life.Done():
			return
		case <-c.kick:
			last = ""
		case <-tick.C:
		}
	}
}

// looks is a digest over the names, sizes and times of everything below what
// is read.
func (c *Catalog) looks() string {
	h := fnv.New128a()
	for _, top := range append(append([]string{}, c.opt.Folders...), c.opt.Servers...) {
		if real, err := filepath.EvalSymlinks(top); err == nil {
			top = real // which is what is read; a walk would stop at the link
		}
		err := filepath.WalkDir(top, func(p string, e fs.DirEntry, err error) error {
			if err != nil {
				fmt.Fprintln(h, p, err)
				return nil
			}
			if info, err := e.Info(); err == nil {
				fmt.Fprintln(h, p, info.Size(), info.ModTime().UnixNano(), touched(info).UnixNano(), info.Mode())
			}
			return nil
		})
		fmt.Fprintln(h, err)
	}
	return string(h.Sum(nil))
}
