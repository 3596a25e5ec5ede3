package rego

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"steward/internal/fault"
	"steward/internal/watch"
)

// pollEvery is how often the folder is looked at where the system does not tell
// of changes.
const pollEvery = 2 * time.Second

// watch puts what changes in the folder in force, until ctx ends.
func (j *Judge) watch(ctx context.Context, looks string) {
	defer close(j.done)
	var events <-chan fsnotify.Event
	var errs <-chan error
	var poll <-chan time.Time
	w, err := watch.New()
	if err == nil {
		defer j.unwatch(w)
		events, errs = w.Events, w.Errors
		err = j.follow(w)
	}
	if err != nil {
		j.log.Warn("the policies are looked at every few seconds: the system does not notify of changes", "error", err)
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		poll = tick.C
	}
	rest := watch.Rest{Quiet: j.opt.Quiet}
	rest.Disturb() // what came between the reading and the watch
	for {
		select {
		case <-ctx.Done():
			return
		case ev := <-events:
			if !watch.Beside(ev.Name, j.opt.Dir) {
				rest.Disturb()
			}
		case err := <-errs:
			j.log.Warn("a change of the policies may have been missed; they are looked at", "error", err)
			rest.Disturb()
		case <-poll:
			if rest.C == nil && looksOf(j.opt.Dir) != looks {
				rest.Disturb()
			}
		case <-rest.C:
			rest.Done()
			if now := looksOf(j.opt.Dir); now != looks {
				looks = now
				j.Reload()
				rest.Disturb() // what was put into a new folder before it was watched
			}
			if w != nil && poll == nil {
				if err := j.follow(w); err != nil {
					j.log.Warn("the policies are looked at every few seconds: the system watches no more folders", "error", err)
					tick := time.NewTicker(pollEvery)
					defer tick.Stop()
					poll = tick.C
				}
			}
		}
	}
}

// follow has the system tell of changes in the folder, those in it and those
// to which links in it lead; where it is missing, in the one that it is to
// come into. What is watched already stays so.
func (j *Judge) follow(w *watch.Watcher) error {
	dir := j.opt.Dir
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	if dir != j.opt.Dir {
		return w.Add(dir)
	}
	return filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // it has gone, which the next event tells
		case e.IsDir():
			return w.Add(p)
		case e.Type()&fs.ModeSymlink != 0:
			if to, err := filepath.EvalSymlinks(p); err == nil {
				return w.Add(filepath.Dir(to))
			}
		}
		return nil
	})
}

func (j *Judge) unwatch(w *watch.Watcher) {
	if err := w.Close(); err != nil {
		j.log.Warn("ending the watch over the policies failed", "error", err)
	}
}

// Reload reads the user's folder again and puts it in force, if it holds:
// else the policies before it stay, and the error, which is also logged, tells
// the faults. Judge.Broken goes on to tell of them.
func (j *Judge) Reload() error {
	src, err := gather(j.opt.Dir, j.opt.Bare)
	var p *program
	if err == nil {
		p, err = compile(src, j.opt.Settings)
	}
	old := j.now.Load()
	if err != nil {
		f := fault.Of(err)
		j.bad.Store(f)
		plain := *f
		plain.Remedy = ""
		j.log.Error("the changed policies are not in force; those from before are", "error", plain.Error(), "remedy", f.Remedy,
			"folder", j.opt.Dir, "version", old.version)
		return err
	}
	mended := j.bad.Swap(nil) != nil
	if p.version == old.version {
		if mended {
			j.log.Info("the policies are again as they are in force", "version", old.version)
		}
		return nil
	}
	j.now.Store(p)
	j.log.Info("the policies have changed", "version", p.version, "before", old.version)
	return nil
}

// looksOf is a digest over the names, sizes and times of a folder's files.
func looksOf(dir string) string {
	h := fnv.New128a()
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			fmt.Fprintln(h, p, errors.Is(err, os.ErrNotExist))
			return nil
		}
		if info, err := os.Stat(p); err == nil { // of what a link leads to
			fmt.Fprintln(h, p, info.Size(), info.ModTime().UnixNano(), info.Mode())
		}
		return nil
	})
	fmt.Fprintln(h, err)
	return string(h.Sum(nil))
}
