package skills

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"

	"steward/internal/fault"
)

// cloneTime bounds a clone.
const cloneTime = 2 * time.Minute

func refused(format string, args ...any) error {
	return fault.New(fault.Denied, "skill_refused", "the skill is refused: "+format, args...)
}

// Fetch reads the skills of a source: a folder, a .zip or .tar.gz, or the URL of a git repository. Nothing
// of them is run or stored. Error codes: skill_source_missing, skill_refused (a link, a path that leads out, too
// much), skill_invalid, git_failed.
func Fetch(ctx context.Context, source string) ([]*Skill, error) {
	var list []*Skill
	var err error
	switch {
	case isGit(source):
		list, err = clone(ctx, source)
	case strings.HasSuffix(source, ".zip"), strings.HasSuffix(source, ".tar.gz"), strings.HasSuffix(source, ".tgz"):
		list, err = archive(ctx, source)
	default:
		list, err = folder(ctx, source)
	}
	for _, s := range list {
		s.Source = source
	}
	return list, err
}

func isGit(source string) bool {
	for _, p := range []string{"https://", "ssh://", "git@", "file://"} {
		if strings.HasPrefix(source, p) {
			return true
		}
	}
	return false
}

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
			return nil, fault.New(fault.Unsupported, "git_missing", "there is no git on this machine").WithHint("install git, or download the skill as an archive")
		}
		return nil, fault.New(fault.Unavailable, "git_failed", "git cannot clone %s: %.300s", url, strings.ToValidUTF8(string(bytes.TrimSpace(out)), "")).WithHint("look at the address")
	}
	return folder(ctx, dir+"/it")
}

// archive reads a .zip or a .tar.gz.
func archive(ctx context.Context, name string) ([]*Skill, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.New(fault.NotFound, "skill_source_missing", "%s cannot be read: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return nil, refused("%s is no plain file of at most %d bytes", name, maxBytes)
	}
	in := intake{}
	if strings.HasSuffix(name, ".zip") {
		err = in.zip(ctx, f, info.Size())
	} else {
		err = in.tar(ctx, f)
	}
	if err != nil {
		var coded *fault.Error
		if !errors.As(err, &coded) {
			err = fault.New(fault.Invalid, "skill_invalid", "the archive %s is damaged: %w", name, err)
		}
		return nil, err
	}
	return in.skills()
}

// intake collects the files of a source, within the limits.
type intake struct {
	files map[string]string
	bytes int64
}

// add reads one file. What it says about its size does not count.
func (in *intake) add(name string, r io.Reader) error {
	name = strings.TrimPrefix(name, "./")
	switch {
	case !fs.ValidPath(name) || strings.ContainsAny(name, "\\\x00"):
		return refused("the path %.100q leads out of it", name)
	case strings.Count(name, "/") > maxDeep:
		return refused("it is nested too deeply")
	case len(in.files) >= maxFiles:
		return refused("it has more than %d files", maxFiles)
	case in.files[name] != "":
		return refused("it has %.100q twice", name)
	}
	b, err := io.ReadAll(io.LimitReader(r, maxBytes-in.bytes+1))
	if in.bytes += int64(len(b)); in.bytes > maxBytes {
		return refused("it has more than %d MB", maxBytes>>20)
	}
	if in.files == nil {
		in.files = map[string]string{}
	}
	in.files[name] = string(b)
	return err
}

func (in *intake) zip(ctx context.Context, f io.ReaderAt, size int64) error {
	z, err := zip.NewReader(f, size)
	if err != nil {
		return err
	}
	for _, e := range z.File {
		if e.FileInfo().IsDir() {
			continue
		}
		if err := in.file(ctx, e.Name, e.Mode(), e.Open); err != nil {
			return err
		}
	}
	return nil
}

// file reads one file, which must be a plain one.
func (in *intake) file(ctx context.Context, name string, mode fs.FileMode, open func() (io.ReadCloser, error)) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !mode.IsRegular():
		return refused("%.100q is a link or no plain file", name)
	}
	r, err := open()
	if err != nil {
		return err
	}
	return errors.Join(in.add(name, r), r.Close())
}

func (in *intake) tar(ctx context.Context, f io.Reader) error {
	gz, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	t := tar.NewReader(io.LimitReader(gz, 2*maxBytes)) // headers and skipped entries count too
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader:
			continue
		}
		mode := fs.ModeIrregular
		if h.Typeflag == tar.TypeReg {
			mode = 0
		}
		if err := in.file(ctx, h.Name, mode, func() (io.ReadCloser, error) { return io.NopCloser(t), nil }); err != nil {
			return err
		}
	}
}

// skills returns the skills among the files: each folder with a SKILL.md, and everything below it.
func (in *intake) skills() ([]*Skill, error) {
	var out []*Skill
	for name := range in.files {
		if path.Base(name) != fileSkill {
			continue
		}
		if len(out) == maxSkills {
			return nil, refused("it has more than %d skills", maxSkills)
		}
		files := map[string]string{}
		for other, data := range in.files {
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
		return nil, fault.New(fault.NotFound, "skill_missing", "there is no %s in it", fileSkill).WithHint("name the folder of a skill, or one that holds skills")
	}
	return out, nil
}
