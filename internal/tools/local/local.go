// Package local is the common part of the domains, which are everyday tools over local files. Place
// decides where the files of a user are. Replace and Update write them durably: after a crash there is
// either the old content or the new. Kit makes tools of functions. A note of each change is kept beside the
// file under the key of the call, so that a repeated call changes nothing, a call can be settled after a
// crash, and a change can be undone.
package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime/disk"
	"steward/internal/strict"
	"steward/internal/tool"
)

// Place is where files are kept: a path in a folder for each user.
type Place struct{ data, rest string }

// NewPlace returns the place of a path in a folder for each user below the source's data folder. Error
// code: data_missing.
func NewPlace(env tool.Env, rest string) (Place, error) {
	if env.Data == "" {
		return Place{}, fault.New(fault.Invalid, "data_missing", "%s has no data folder", env.Name).WithHint("name one with --data")
	}
	return Place{env.Data, rest}, nil
}

// For returns the path for a user.
func (p Place) For(user string) string { return filepath.Join(p.data, userFolder(user), p.rest) }

// userFolder returns the name of a user's folder. Special characters are written in hexadecimal, so that
// two users never share a folder.
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

// Forget removes a user's files from the default places of all sources below a data folder.
func Forget(data, user string) error {
	list, err := Folders(data, user)
	for _, path := range list {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

// Folders returns the folders in which all sources below a data folder keep a user's files.
func Folders(data, user string) (list []string, err error) {
	err = filepath.WalkDir(data, func(path string, at fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !at.IsDir() || at.Name() != userFolder(user) {
			return err
		}
		if above := filepath.Base(filepath.Dir(filepath.Dir(path))); above != "sources" && above != "root" {
			return nil
		}
		list = append(list, path)
		return fs.SkipDir
	})
	return list, err
}

// Replace writes a file durably and atomically.
func Replace(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := makeAll(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	temp := ".steward-" + id.New().String() + ".tmp"
	if err := Write(root, temp, data, 0o600); err != nil {
		return err
	}
	if old, statErr := os.Stat(path); statErr == nil {
		err = root.Chmod(temp, old.Mode().Perm())
	}
	if err == nil {
		err = root.Rename(temp, filepath.Base(path))
	}
	if err != nil {
		return errors.Join(err, gone(root.Remove(temp)))
	}
	return disk.SyncFolder(dir)
}

// ReplaceTarget is Replace, except that the file is replaced that a symbolic link leads to.
func ReplaceTarget(path string, data []byte) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	return Replace(path, data)
}

// Write writes a new file completely, or not at all.
func Write(root *os.Root, name string, data []byte, mode fs.FileMode) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, root.Remove(name))
	}
	return err
}

// gone returns the error, unless it says that a file does not exist.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// makeAll creates a folder and its parents durably.
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
	return disk.SyncFolder(parent)
}

var errNotPlain = errors.New("it is not a regular file")

// ReadFile reads a text file of at most limit bytes, without a byte order mark. It returns nil if there is none. Error codes:
// file_too_large, file_unavailable.
func ReadFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, Fault(filepath.Base(path), err)
	case !info.Mode().IsRegular():
		return nil, Fault(filepath.Base(path), errNotPlain) // reading a pipe would block
	case info.Size() > limit:
		return nil, fault.New(fault.TooLarge, "file_too_large", "%s has %d bytes: the limit is %d", filepath.Base(path), info.Size(), limit)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, Fault(filepath.Base(path), err)
	}
	return strict.Unmarked(b), nil
}

// Fault returns the coded error for a file that people know by a name, without its path on the machine.
func Fault(name string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "file_not_found", "there is no %q", name)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fault.New(fault.Denied, "file_denied", "permission denied for %q", name).WithHint("check the permissions of the file")
	case errors.Is(err, syscall.ENOSPC):
		return fault.New(fault.NoSpace, "disk_full", "the disk is full")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist): // the latter from making folders
		return fault.New(fault.Invalid, "not_a_folder", "a part of %q is a file, not a folder", name)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.New(fault.Invalid, "name_too_long", "the name %.80q… is too long", name)
	}
	return fault.New(fault.Unavailable, "file_unavailable", "%q cannot be used: %w", name, err)
}

// Update changes a file under a lock that excludes other processes and calls. change gets the content, or
// nil if there is no file, and returns the new content. After an error of change or of writing, nothing
// was changed (tool.NotDone). done is called after a success, under the lock; it may be nil.
func Update(ctx context.Context, path string, limit int64, change func(old []byte) ([]byte, error), done func()) error {
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
	if int64(len(data)) > limit {
		return tool.NotDone(fault.New(fault.TooLarge, "file_too_large", "%s would have %d bytes: at most %d", filepath.Base(path), len(data), limit))
	}
	if !bytes.Equal(data, old) {
		if err := Replace(path, data); err != nil {
			if now, readErr := os.ReadFile(path); readErr == nil && bytes.Equal(now, data) {
				return Fault(filepath.Base(path), err) // it was written, but perhaps not synced
			}
			return tool.NotDone(Fault(filepath.Base(path), err))
		}
	}
	if done != nil {
		done()
	}
	return nil
}
