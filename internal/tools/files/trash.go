package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/tools/local"
)

// Limits of the trash, which keeps what changes have replaced.
const (
	maxFormer      = 64 << 20 // bytes of one change
	maxFormerFiles = 5000
	maxTrash       = 1 << 30 // bytes of all
	maxTrashed     = 500     // changes
)

// note records a change before it is made, so that it can be settled after a crash, and undone. States
// are what stateOf returns; "" means that there is nothing.
type note struct {
	Path   string `json:"path"`
	To     string `json:"to,omitzero"` // where it is moved
	Before string `json:"before,omitzero"`
	After  string `json:"after,omitzero"`
	Was    string `json:"was,omitzero"` // what is replaced, in the trash
}

// changesOf returns the place beside which a user's changes are noted.
func (k *kit) changesOf(user string) string { return filepath.Join(k.opt.Trash(user), "changes") }

// trash opens a user's trash.
func (k *kit) trash(user string) (*os.Root, error) {
	dir := k.opt.Trash(user)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		var root *os.Root
		if root, err = os.OpenRoot(dir); err == nil {
			return root, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "trash_unavailable", "the folder for replaced files cannot be used: %w", err).
		WithHint("make sure that Steward may write to its data folder")
}

// keep records a change, with what it is about to replace at p.
func (k *kit) keep(ctx context.Context, user, key string, n note, p place, root *os.Root) error {
	trash, err := k.trash(user)
	if err != nil {
		return err
	}
	defer trash.Close()
	if known, err := local.LoadNote(k.changesOf(user), key, &note{}); err != nil || known {
		return err // an earlier attempt has recorded it
	}
	if n.Before != "" && n.To == "" {
		c := copier{ctx: ctx, bytes: maxFormer, files: maxFormerFiles}
		name := id.Derive("files", key).String()
		temp := ".new-" + name
		err := trash.RemoveAll(temp) // of an attempt that a crash ended
		if err == nil {
			err = c.copy(root, p.rel, trash, temp)
		}
		if err != nil {
			return errors.Join(p.fault(err), trash.RemoveAll(temp))
		}
		n.Was = fmt.Sprintf("%s-%d", name, maxFormer-c.bytes)
		if err = trash.RemoveAll(n.Was); err == nil {
			err = trash.Rename(temp, n.Was)
		}
		if err = cmp.Or(err, syncAncestors(trash, ".")); err != nil {
			return fault.New(fault.Unavailable, "trash_unavailable", "the files to be replaced cannot be kept: %w", err)
		}
	}
	if err := local.SaveNote(k.changesOf(user), key, n); err != nil {
		return err
	}
	return emptyTrash(trash)
}

// emptyTrash removes the oldest changes beyond the limits. The newest always stays.
func emptyTrash(trash *os.Root) error {
	list, err := fs.ReadDir(trash.FS(), ".")
	if err != nil {
		return err
	}
	var n, total int64
	for _, e := range slices.Backward(local.ByAge(list)) {
		size, convErr := strconv.ParseInt(e.Name()[strings.LastIndexByte(e.Name(), '-')+1:], 10, 64)
		if convErr != nil {
			continue
		}
		if n, total = n+1, total+size; n > 1 && (n > maxTrashed || total > maxTrash) {
			err = errors.Join(err, trash.RemoveAll(e.Name()))
		}
	}
	return err
}

// errTooMuch means that a folder or file is too large for the trash.
var errTooMuch = fault.New(fault.TooLarge, "file_too_large", "it is too large to be kept for undo: the limit is %d MiB and %d files", maxFormer>>20, maxFormerFiles).
	WithHint("do it yourself")

// copier copies files, folders and symbolic links from one root to another, within limits.
type copier struct {
	ctx   context.Context
	bytes int64
	files int
}

func (c *copier) copy(from *os.Root, src string, to *os.Root, dst string) error {
	c.files--
	if err := c.ctx.Err(); err != nil {
		return err
	}
	info, err := from.Lstat(src)
	if err != nil {
		return err
	}
	switch {
	case c.files < 0 || info.Mode().IsRegular() && info.Size() > c.bytes:
		return errTooMuch
	case info.IsDir():
		if err := to.Mkdir(dst, info.Mode().Perm()|0o700); err != nil {
			return err
		}
		list, err := fs.ReadDir(from.FS(), src)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := c.copy(from, src+"/"+e.Name(), to, dst+"/"+e.Name()); err != nil {
				return err
			}
		}
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := from.Readlink(src)
		if err != nil {
			return err
		}
		return to.Symlink(target, dst)
	case !info.Mode().IsRegular():
		return fault.New(fault.Invalid, "not_a_file", "%s is not a regular file and cannot be kept", path.Base(src))
	}
	in, err := from.OpenFile(src, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := to.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, c.bytes+1))
	if c.bytes -= n; err == nil && c.bytes < 0 {
		err = errTooMuch
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// stateOf returns a hash over the names and contents at a path, or "" if nothing is there. For files
// that are too large to be kept, sizes and times replace the contents.
func stateOf(ctx context.Context, root *os.Root, rel string) (string, error) {
	info, err := root.Lstat(rel)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	sum, left, files := sha256.New(), int64(maxFormer), 4*maxFormerFiles
	if !info.IsDir() {
		err = hashFile(sum, root, rel, info, &left)
		return hex.EncodeToString(sum.Sum(nil)), err
	}
	err = fs.WalkDir(root.FS(), rel, func(name string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if files--; err == nil && files < 0 {
			err = errTooMuch
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q\n", strings.TrimPrefix(name, rel))
		return hashFile(sum, root, name, info, &left)
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// stateOfText returns what stateOf will return for a file of this content.
func stateOfText(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func hashFile(sum hash.Hash, root *os.Root, name string, info fs.FileInfo, left *int64) error {
	switch {
	case info.IsDir():
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := root.Readlink(name)
		fmt.Fprintf(sum, "-> %q\n", target)
		return err
	case !info.Mode().IsRegular() || info.Size() > *left:
		fmt.Fprintf(sum, "%v %d %d\n", info.Mode(), info.Size(), info.ModTime().UnixNano())
		return nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	n, err := io.Copy(sum, io.LimitReader(f, *left))
	*left -= n
	return errors.Join(err, f.Close())
}
