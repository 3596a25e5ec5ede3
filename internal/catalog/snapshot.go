package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"steward/internal/fault"
)

// A snapshot is a copy of approved bytes. Programs of an agent run from it and never from the
// agent's folder, so that a file that changes after the approval, or during a call, is not executed.
// It is in Options.Snapshots under the unit's hash:
//
//	HASH/folder/…   the pinned files of the agent's folder
//	HASH/files/…    pinned files from elsewhere, by the hash of their path
//	HASH/empty      an empty folder, in place of compiled code that is not pinned
//
// It is taken when the unit is first started or approved, from bytes with the hashes that were read,
// and checked before each start. When no approved agent needs it any more, it is removed at the next
// change or start.
type snapshot struct {
	mu     sync.Mutex
	copies []pin // as of the last check
}

const (
	snapshotFolder = "folder"
	snapshotFiles  = "files"
	snapshotEmpty  = "empty"
)

// copied returns the files of a unit that its snapshot has, by their places in it. Programs of
// the machine itself run where they are: an approval must not keep them from being updated.
func (u *unit) copied() map[string]pin {
	out, beside := map[string]pin{}, 0
	for _, p := range u.sealed {
		if p.beside != "" {
			beside++
		}
	}
	for _, p := range u.sealed {
		switch {
		case p.beside != "" && beside > maxCopied: // compared before each start instead
		case !filepath.IsAbs(p.name) && u.dir != "":
			out[path.Join(snapshotFolder, p.name)] = p
		case filepath.IsAbs(p.name) && p.run && !isSystemPath(p.path):
			out[path.Join(snapshotFiles, hashOf([]byte(p.path)))] = p
		}
	}
	return out
}

func isSystemPath(path string) bool {
	for _, dir := range []string{"/usr/", "/bin/", "/sbin/", "/lib/", "/opt/", "/nix/store/", "/gnu/store/"} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return false
}

// snapshotOf implements tool.Env.Snapshot. Error codes: agent_changed, snapshot_changed (Denied),
// snapshot_too_large, snapshot_failed.
func (c *Catalog) snapshotOf(u *unit) (map[string]string, error) {
	u.snapshot.mu.Lock()
	defer u.snapshot.mu.Unlock()
	at, files := filepath.Join(c.opt.Snapshots, u.hash), u.copied()
	caches, kept := u.externalCodeUnchanged()
	if !kept {
		c.requestScan()
		return nil, fault.New(fault.Denied, "agent_changed", "code that %s loads differs from what was approved, or was added", u.path).
			WithHint("a person can review and approve it: steward agents show %s", u.path)
	}
	_, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		u.snapshot.copies = nil
		err = u.takeSnapshot(c.opt.Snapshots, at, files)
	}
	if err == nil {
		err = u.checkSnapshot(at, files)
	}
	if err != nil {
		if e := fault.Of(err); e.Code == "internal" {
			return nil, fault.New(fault.Unavailable, "snapshot_failed", "the approved copy of %s cannot be used: %w", u.path, err).
				WithHint("make sure that %s is writable and the disk has space", c.opt.Snapshots)
		}
		return nil, err
	}
	out := map[string]string{}
	if u.dir != "" {
		out[u.dir] = filepath.Join(at, snapshotFolder)
	}
	for _, cache := range caches { // compiled code counts for nothing: the program sees an empty folder
		empty := filepath.Join(at, snapshotEmpty)
		if err := os.MkdirAll(empty, 0o700); err != nil {
			return nil, err
		}
		out[cache] = empty
	}
	for place, p := range files {
		if strings.HasPrefix(place, snapshotFiles) {
			out[p.path] = filepath.Join(at, filepath.FromSlash(place))
		}
	}
	return out, nil
}

// takeSnapshot copies all files of a unit as they were read, or none.
func (u *unit) takeSnapshot(dir, at string, files map[string]pin) error {
	err := os.MkdirAll(dir, 0o700)
	if err != nil {
		return err
	}
	making, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(making)
	if err := os.Mkdir(filepath.Join(making, snapshotFolder), 0o700); err != nil {
		return err
	}
	var from folder
	if u.dir != "" {
		root, err := os.OpenRoot(u.dir)
		if err != nil {
			return err
		}
		defer root.Close()
		from = folder{root, u.dir}
	}
	var total int64
	for place, p := range files {
		if total += p.size; total > maxBytes {
			return fault.New(fault.TooLarge, "snapshot_too_large", "the programs of %s have more than %d bytes, which is too much for the approved copy", u.path, maxBytes).
				WithHint("install large programs below /usr or /opt, and keep data outside of the agent's folder")
		}
		if err := copyPinned(from, p, filepath.Join(making, filepath.FromSlash(place))); err != nil {
			return err
		}
	}
	return os.Rename(making, at)
}

// copyPinned copies a file if it is still what was read.
func copyPinned(from folder, p pin, to string) error {
	var in *os.File
	var err error
	if filepath.IsAbs(p.name) {
		in, err = os.OpenFile(p.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	} else {
		in, _, err = from.open(p.name, maxFile)
	}
	changed := fault.New(fault.Conflict, "agent_changed", "%s has changed since it was read", p.path).WithHint("inspect it again: steward agents list")
	if errors.Is(err, fs.ErrNotExist) {
		return changed
	}
	if err != nil {
		return err
	}
	defer in.Close()
	mode := fs.FileMode(0o400)
	if p.info.Mode()&0o111 != 0 {
		mode = 0o500
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, sum), io.LimitReader(in, p.size+1))
	if err = errors.Join(err, out.Close()); err == nil && hex.EncodeToString(sum.Sum(nil)) != p.hash {
		return changed
	}
	return err
}

// checkSnapshot refuses a snapshot that is not what was approved. It compares files by content
// the first time, and later only if their metadata shows that they were touched.
func (u *unit) checkSnapshot(at string, files map[string]pin) error {
	refused := fault.New(fault.Denied, "snapshot_changed", "the approved copy of %s in %s has been changed", u.path, at).
		WithHint("find out who changed it, and delete it: it is created again from the agent's folder if that still is as approved")
	seen := 0
	err := filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		place, err := filepath.Rel(at, p)
		if _, known := files[filepath.ToSlash(place)]; err != nil || !known || !d.Type().IsRegular() {
			return refused
		}
		seen++
		return nil
	})
	switch {
	case err != nil:
		return err
	case seen != len(files):
		return refused
	case u.snapshot.copies != nil:
		if !unchanged(u.snapshot.copies) {
			return refused
		}
		return nil
	}
	var copies []pin
	for place, p := range files {
		now, err := outside(filepath.Join(at, filepath.FromSlash(place)))
		if err != nil {
			return err
		}
		if now.hash != p.hash {
			return refused
		}
		copies = append(copies, now)
	}
	u.snapshot.copies = copies
	return nil
}

// dropSnapshots removes the snapshots that no approval and no running program needs. Called under
// mu.
func (c *Catalog) dropSnapshots() {
	if c.opt.Snapshots == "" {
		return
	}
	list, err := os.ReadDir(c.opt.Snapshots)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	needed := map[string]bool{}
	for _, r := range c.records {
		if r.Status == Approved {
			needed[r.Static] = true
		}
	}
	var busy []*unit
	for _, u := range c.retired {
		if u.busy() {
			busy = append(busy, u)
		}
	}
	c.retired = busy
	for _, u := range append(busy, c.units...) {
		if u.busy() {
			needed[u.hash] = true
		}
	}
	for _, e := range list {
		if !needed[e.Name()] && !strings.HasPrefix(e.Name(), ".new-") {
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.opt.Snapshots, e.Name())))
		}
	}
	if err != nil {
		c.log.Warn("copies of files that are no longer approved could not be removed", "error", err)
	}
}

// busy reports whether anything of a unit is being called.
func (u *unit) busy() bool {
	for _, s := range u.sources {
		if s.usage.busy() {
			return true
		}
	}
	for _, list := range u.hooks {
		for _, h := range list {
			if h.usage.busy() {
				return true
			}
		}
	}
	return false
}
