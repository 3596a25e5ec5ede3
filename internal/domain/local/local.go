// Package local is what the local stand-ins of the domains share: where they
// keep their files, how they write them so that a crash leaves either the old
// or the new, how they offer their tools, and how they search texts.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"steward/internal/fault"
	"steward/internal/tool"
)

// Place is where something is kept: a path that the declaration names, the
// same for all users, or the default one, each user's own.
type Place struct {
	shared string
	data   string
	rest   string
}

// NewPlace finds the place that a declaration means: relative to the agent's
// folder and inside of it, or absolute; empty: rest, below a folder for each
// user in the source's data folder. Errors: Invalid, path_invalid.
func NewPlace(env tool.Env, declared, rest string) (Place, error) {
	bad := func(why string) (Place, error) {
		return Place{}, fault.New(fault.Invalid, "path_invalid", "the path %.200q of %s: %s", declared, env.Name, why).
			WithHint("write a path inside the agent's folder, such as ./%s, an absolute one, or none", rest)
	}
	switch {
	case strings.ContainsRune(declared, 0):
		return bad("it has a zero byte")
	case filepath.IsAbs(declared):
		return Place{shared: filepath.Clean(declared)}, nil
	case declared == "" && env.Data == "":
		return bad("it is not given, and there is no data folder")
	case declared == "":
		return Place{data: env.Data, rest: rest}, nil
	case env.Dir == "":
		return bad("it is relative, and there is no folder that it could be relative to")
	case !filepath.IsLocal(declared):
		return bad("it leads out of the agent's folder")
	}
	return Place{shared: filepath.Join(env.Dir, declared)}, nil
}

// For returns the path for a user.
func (p Place) For(user string) string {
	if p.shared != "" {
		return p.shared
	}
	return filepath.Join(p.data, userFolder(user), p.rest)
}

// userFolder is a user's name as that of a folder: what is not plain in it is
// written in hexadecimal, so that two users never share one.
func userFolder(user string) string {
	var b strings.Builder
	for i := range len(user) {
		c := user[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' && i > 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "_%02x", c)
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}

// Forget removes what is kept of a user's own in the default places of all
// sources, whose data folders lie below one folder.
func Forget(data, user string) error {
	return filepath.WalkDir(data, func(path string, at fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !at.IsDir() || at.Name() != userFolder(user) {
			return err
		}
		if above := filepath.Base(filepath.Dir(filepath.Dir(path))); above != "sources" && above != "root" {
			return nil
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return fs.SkipDir
	})
}

// Create writes a new file, durably: it is there whole or not at all. An
// existing one is left alone; the error is fs.ErrExist then.
func Create(path string, data []byte) error {
	err := write(path, data, func(temp string) error {
		if err := os.Link(temp, path); err != nil {
			return err
		}
		return os.Remove(temp)
	})
	if errors.Is(err, fs.ErrExist) { // perhaps by one who was stopped before this
		return errors.Join(err, syncDir(filepath.Dir(path)))
	}
	return err
}

// Replace writes a file, durably: it is the new one whole, or the old one.
func Replace(path string, data []byte) error {
	return write(path, data, func(temp string) error { return os.Rename(temp, path) })
}

// write prepares a temporary file beside path and lets it take the name.
func write(path string, data []byte, publish func(temp string) error) error {
	dir := filepath.Dir(path)
	if err := makeAll(dir); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if old, err := os.Stat(path); err == nil {
		mode = old.Mode().Perm()
	}
	f, err := os.CreateTemp(dir, ".steward-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = publish(f.Name())
	}
	if err != nil {
		return errors.Join(err, gone(os.Remove(f.Name())))
	}
	return syncDir(dir)
}

// gone is nil for a file that is not there.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// makeAll makes a folder and those above it, durably.
func makeAll(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) { // a file system that syncs no folders
		err = nil
	}
	return errors.Join(err, d.Close())
}

var errNotPlain = errors.New("it is no plain file")

// ReadFile reads a file of at most limit bytes. One that is not there is
// empty. Errors: TooLarge, file_too_large; Unavailable, file_unavailable.
func ReadFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, Fault(path, err)
	case !info.Mode().IsRegular():
		return nil, Fault(path, errNotPlain) // to read a pipe would wait for who writes into it
	case info.Size() > limit:
		return nil, fault.New(fault.TooLarge, "file_too_large", "%s has %d bytes: at most %d are read", filepath.Base(path), info.Size(), limit)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, Fault(path, err)
	}
	return b, nil
}

// Fault says what went wrong with a file, without where on the machine it is.
func Fault(path string, err error) error {
	name := filepath.Base(path)
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "file_not_found", "there is no %s", name)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.New(fault.Denied, "file_denied", "the system does not let Steward use %s", name).WithHint("look at the rights of the file")
	case errors.Is(err, syscall.ENOSPC):
		return fault.New(fault.NoSpace, "disk_full", "the disk is full")
	}
	return fault.New(fault.Unavailable, "file_unavailable", "%s cannot be used: %w", name, err)
}

// Update changes a file under a lock that keeps out other processes and other
// calls: change gets what is there (nothing: no file yet) and returns what
// shall be there instead, or nil to leave it. An error of change, and one of
// writing, means that nothing was changed (tool.NotDone).
func Update(ctx context.Context, path string, limit int64, change func(old []byte) ([]byte, error)) error {
	unlock, err := lock(ctx, path)
	if err != nil {
		return tool.NotDone(err)
	}
	defer unlock()
	old, err := ReadFile(path, limit)
	if err != nil {
		return tool.NotDone(err)
	}
	data, err := change(old)
	if err != nil {
		return tool.NotDone(err)
	}
	if data == nil {
		return nil
	}
	if int64(len(data)) > limit {
		return tool.NotDone(fault.New(fault.TooLarge, "file_too_large", "%s would have %d bytes: at most %d", filepath.Base(path), len(data), limit))
	}
	if err := Replace(path, data); err != nil {
		if now, readErr := os.ReadFile(path); readErr == nil && string(now) == string(data) {
			return Fault(path, err) // it is there, but perhaps not for good
		}
		return tool.NotDone(Fault(path, err))
	}
	return nil
}
