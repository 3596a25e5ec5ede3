package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/lifetime/disk"
	"steward/internal/tool"
	"steward/internal/tools/local"
)

type writeArgs struct {
	Path      string `json:"path" jsonschema:"the file to write, beginning with a granted folder's name, for example notes/todo.txt; missing folders are made" minlen:"1" maxlen:"1024"`
	Content   string `json:"content" jsonschema:"the whole new content of the file"`
	Overwrite bool   `json:"overwrite,omitzero" jsonschema:"replace the file if there is one; without it an existing file is left alone"`
}

// writable finds a place inside a folder that may be written to, and opens the folder.
func (k *kit) writable(ctx context.Context, user, shown string) (place, *os.Root, error) {
	mine, err := k.foldersOf(ctx, user)
	if err != nil {
		return place{}, nil, err
	}
	p, err := mine.find(shown)
	if err != nil {
		return p, nil, err
	}
	switch {
	case !p.Write:
		return p, nil, fault.New(fault.Denied, "folder_read_only", "the folder %s is read-only", p.Name).WithHint("%s", mine.granted(true))
	case p.rel == ".":
		return p, nil, p.notRegularError(fs.ModeDir)
	}
	root, err := p.open()
	if err != nil {
		return p, nil, err
	}
	if info, err := root.Lstat(p.rel); err == nil && p.private.Above(info) { // moving or deleting it would take Steward's own along
		root.Close() // it was only read
		return p, nil, p.privateError()
	}
	return p, root, nil
}

// put writes the content to a temporary file in the same folder, syncs it, and renames it, so that the
// file is never incomplete. Until the rename, a failure means that nothing was changed. The replaced file
// is kept in the trash.
func (k *kit) put(ctx context.Context, in tool.Invocation, p place, root *os.Root, content string, overwrite bool) error {
	mode := fs.FileMode(0o644)
	old, err := root.Lstat(p.rel)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return p.notRegularError(old.Mode())
	case err == nil && !overwrite:
		return p.exists()
	case err == nil:
		mode = old.Mode().Perm()
	}
	n := note{Path: p.shown, After: stateOfText(content)}
	if n.Before, err = stateOf(ctx, root, p.rel); err == nil {
		err = k.keep(ctx, in.User, local.Key(in), n, p, root)
	}
	if err != nil {
		return tool.NotDone(p.fault(err))
	}
	temp := tempName(p.rel, local.Key(in))
	if err := p.prepare(root, temp, content, mode); err != nil {
		return tool.NotDone(p.fault(err))
	}
	if err := p.publish(root, temp, overwrite); err != nil {
		if rmErr := root.Remove(temp); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
			err = fmt.Errorf("%w; a temporary file is left behind: %s", err, path.Base(temp))
		}
		return tool.NotDone(err)
	}
	if err := syncAncestors(root, path.Dir(p.rel)); err != nil {
		return fault.New(fault.Internal, "file_sync_failed", "%q was written, but the disk did not confirm it: %w", p.shown, err)
	}
	return nil
}

func (p place) exists() error {
	return fault.New(fault.Conflict, "file_exists", "there is a file %q already", p.shown).
		WithHint("write to another name, or set overwrite to replace it")
}

// tempName returns the name of the temporary file. It derives from the call's key, so that Settle finds
// what a crash left behind.
func tempName(rel, key string) string {
	return path.Join(path.Dir(rel), ".steward-"+id.Derive("files.write", key).String()+".tmp")
}

// prepare writes the temporary file and syncs it.
func (p place) prepare(root *os.Root, temp, content string, mode fs.FileMode) error {
	if err := root.MkdirAll(path.Dir(p.rel), 0o755); err != nil {
		return err
	}
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an attempt that a crash ended
		return err
	}
	return local.Write(root, temp, []byte(content), mode)
}

// publish gives the temporary file its name. Without overwrite it links it, because a link does not
// replace a file that was created in the meantime. If the file system has no links, it checks once
// more and renames it.
func (p place) publish(root *os.Root, temp string, overwrite bool) error {
	if !overwrite {
		err := root.Link(temp, p.rel)
		if err == nil {
			// The content is in place. A temporary name that stays is only untidy.
			_ = root.Remove(temp)
			return nil
		}
		if _, statErr := root.Lstat(p.rel); errors.Is(err, fs.ErrExist) || statErr == nil {
			return p.exists()
		}
	}
	if err := root.Rename(temp, p.rel); err != nil {
		return p.fault(err)
	}
	return nil
}

// syncAncestors syncs a folder and those above it, because any of them may be new.
func syncAncestors(root *os.Root, dir string) error {
	for {
		d, err := root.Open(dir)
		if err != nil {
			return err
		}
		err = errors.Join(disk.SyncNames(d), d.Close())
		if err != nil || dir == "." {
			return err
		}
		dir = path.Dir(dir)
	}
}
