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

// pollEvery is how often the folder is looked at, also where the system tells
// of changes: it may miss one.
const pollEvery = 2 * time.Second

// watch puts what changes in the folder in force, until ctx ends.
func (j *Judge) watch(ctx context.Context, looks string) {
	defer close(j.done)
	events, errs, end := j.notify()
	defer end()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	rest := watch.Rest{Quiet: j.opt.Quiet}
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			rest.Disturb()
		case err := <-errs:
			j.log.Warn("a change of the policies may have been missed; they are looked at", "error", err)
			rest.Disturb()
		case <-tick.C:
			if rest.C == nil && looksOf(j.opt.Dir) != looks {
				rest.Disturb()
			}
		case <-rest.C:
			rest.Done()
			if now := looksOf(j.opt.Dir); now != looks {
				looks = now
				j.Reload()
			}
		}
	}
}

// notify has the system tell of changes; where it cannot, the folder is only
// looked at every few seconds.
func (j *Judge) notify() (<-chan fsnotify.Event, <-chan error, func()) {
	w, err := watch.New()
	if err == nil {
		err = filepath.WalkDir(j.opt.Dir, func(p string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			return w.Add(p)
		})
	}
	if err != nil {
		j.log.Warn("the policies are looked at every few seconds: the system does not notify of changes", "error", err)
	}
	if w == nil {
		return nil, nil, func() {}
	}
	return w.Events, w.Errors, func() {
		if err := w.Close(); err != nil {
			j.log.Warn("ending the watch over the policies failed", "error", err)
		}
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
