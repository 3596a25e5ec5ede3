package rego

import (
	"context"
	"io/fs"
	"path/filepath"

	"steward/internal/catalog/watch"
	"steward/internal/fault"
)

// watch puts changes in the folder into force until ctx ends.
func (j *Authorizer) watch(ctx context.Context, looks string) {
	defer close(j.done)
	watch.Follower{
		What:  "the policies",
		Paths: []string{j.opt.Dir},
		Dirs:  j.dirs,
		Changed: func() {
			if now := watch.Digest(j.opt.Dir); now != looks {
				looks = now
				j.Reload()
			}
		},
		Quiet: j.opt.Quiet, Poll: j.opt.Poll, Log: j.log,
	}.Run(ctx)
}

// dirs returns the folder, its subfolders, and the folders that links in it lead to.
func (j *Authorizer) dirs() []string {
	out := []string{j.opt.Dir}
	err := filepath.WalkDir(j.opt.Dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case err != nil: // it has disappeared, which the next event reports
		case e.IsDir():
			out = append(out, p)
		case e.Type()&fs.ModeSymlink != 0:
			if to, err := filepath.EvalSymlinks(p); err == nil {
				out = append(out, filepath.Dir(to))
			}
		}
		return nil
	})
	if err != nil {
		j.log.Debug("cannot read the folder of policies", "error", err)
	}
	return out
}

// Reload reads the user's folder again and puts its policies into force if they are valid.
// Otherwise the previous policies stay in force, the error is returned and logged, and
// Authorizer.Broken returns it from then on.
func (j *Authorizer) Reload() error {
	src, err := readSources(j.opt.Dir)
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
		j.log.Error("changed policies are invalid; the earlier ones stay in force", "error", plain.Error(), "remedy", f.Remedy,
			"folder", j.opt.Dir, "version", old.version)
		return err
	}
	mended := j.bad.Swap(nil) != nil
	if p.version == old.version {
		if mended {
			j.log.Info("policies restored to those in force", "version", old.version)
		}
		return nil
	}
	j.now.Store(p)
	j.log.Info("policies changed", "version", p.version, "before", old.version)
	return nil
}
