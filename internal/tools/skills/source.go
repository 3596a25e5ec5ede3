package skills

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"time"

	"steward/internal/fault"
)

// cloneTime bounds a clone.
const cloneTime = 2 * time.Minute

func refused(format string, args ...any) error {
	return fault.New(fault.Denied, "skill_refused", "the skill is refused: "+format, args...)
}

// Fetch reads the skills of a source: a folder, a .zip, or the URL of a git repository. Nothing of them is
// run or stored. Error codes: skill_source_missing, skill_refused (a link, a path that leads out, too much),
// skill_invalid, git_failed.
func Fetch(ctx context.Context, source string) ([]*Skill, error) {
	var list []*Skill
	var err error
	switch {
	case isGit(source):
		list, err = clone(ctx, source)
	case strings.HasSuffix(source, ".zip"):
		list, err = archive(ctx, source)
	default:
		list, err = folder(ctx, source)
	}
	for _, s := range list {
		s.Source = source
	}
	return list, err
}

var isGit = regexp.MustCompile(`^((https|ssh|file)://|git@)`).MatchString

// clone reads a git repository with the system's git. No hook, filter or submodule of the repository
// runs, and git asks for nothing.
func clone(ctx context.Context, url string) ([]*Skill, error) {
	dir, err := os.MkdirTemp("", "steward-skill-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithTimeout(ctx, cloneTime)
	defer stop()
	c := exec.CommandContext(ctx, "git", "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=true", "-c", "filter.lfs.smudge=", "-c", "filter.lfs.required=false",
		"clone", "--quiet", "--depth", "1", "--single-branch", "--no-tags", "--no-recurse-submodules", "--template=", "--", url, dir+"/it")
	c.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https:ssh:file", "GIT_CONFIG_NOSYSTEM=1", "GIT_LFS_SKIP_SMUDGE=1")
	c.WaitDelay = 5 * time.Second
	if out, err := c.CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fault.New(fault.Unsupported, "git_missing", "git is not installed").WithHint("install git, or download the skill as a .zip")
		}
		return nil, fault.New(fault.Unavailable, "git_failed", "git cannot clone %s: %.300s", url, strings.ToValidUTF8(string(bytes.TrimSpace(out)), "")).WithHint("check the address")
	}
	return folder(ctx, dir+"/it")
}

// folder reads the skills in a folder of the machine.
func folder(ctx context.Context, dir string) ([]*Skill, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, missing(dir, err)
	}
	defer root.Close()
	return walk(ctx, root.FS())
}

func missing(source string, err error) error {
	return fault.New(fault.NotFound, "skill_source_missing", "%s cannot be read: %w", source, err).
		WithHint("name a folder, a .zip, or the URL of a git repository")
}

// archive reads the skills in a .zip.
func archive(ctx context.Context, name string) ([]*Skill, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, missing(name, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, refused("%s is not a regular file of at most %d bytes", name, maxBytes)
	}
	z, err := zip.OpenReader(name)
	if err != nil {
		return nil, fault.New(fault.Invalid, "skill_invalid", "the archive %s is damaged: %w", name, err)
	}
	defer z.Close()
	for _, f := range z.File { // which the file system below would correct
		if !fs.ValidPath(strings.TrimSuffix(f.Name, "/")) || strings.Contains(f.Name, "\\") {
			return nil, refused("the path %.100q leads outside the archive", f.Name)
		}
	}
	return walk(ctx, z)
}

// walk reads the skills in a tree of files, within the limits. Declared sizes are not trusted.
func walk(ctx context.Context, tree fs.FS) ([]*Skill, error) {
	files, left := map[string]string{}, int64(maxBytes)
	err := fs.WalkDir(tree, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case e.IsDir() && e.Name() == ".git":
			return fs.SkipDir
		case e.IsDir():
			return nil
		case !e.Type().IsRegular():
			return refused("%.100q is not a regular file", name)
		case strings.Contains(name, "\\"):
			return refused("the path %.100q has a backslash", name)
		case strings.Count(name, "/") > maxDeep:
			return refused("it is nested too deeply")
		case len(files) == maxFiles:
			return refused("it has more than %d files", maxFiles)
		}
		f, err := tree.Open(name)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(io.LimitReader(f, left+1))
		if left -= int64(len(b)); left < 0 {
			err = refused("it has more than %d MB", maxBytes>>20)
		}
		files[name] = string(b)
		return errors.Join(err, f.Close())
	})
	if err != nil {
		if coded := (*fault.Error)(nil); !errors.As(err, &coded) && ctx.Err() == nil {
			err = fault.New(fault.Invalid, "skill_invalid", "it cannot be read: %w", err)
		}
		return nil, err
	}
	return skillsOf(files)
}

// skillsOf returns the skills among files: each folder with a SKILL.md, and everything below it.
func skillsOf(all map[string]string) ([]*Skill, error) {
	var out []*Skill
	for name := range all {
		if path.Base(name) != fileSkill {
			continue
		}
		if len(out) == maxSkills {
			return nil, refused("it has more than %d skills", maxSkills)
		}
		files := map[string]string{}
		for other, data := range all {
			below, ok := strings.CutPrefix(other, path.Dir(name)+"/")
			if path.Dir(name) == "." {
				below, ok = other, true
			}
			if ok {
				files[below] = data
			}
		}
		s, err := parse(files)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.NotFound, "skill_missing", "there is no %s in it", fileSkill).WithHint("give the folder of a skill, or a folder of skills")
	}
	return out, nil
}
