package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// maxPrivate is how many files of private places are looked at to find hard links to them.
const maxPrivate = 200_000

// Private are places that no tool reads, lists, writes, moves or removes, by whatever path they are
// reached: Steward's own data and settings. They are recognised by what they are and not by their
// names, so that links, mounts and other spellings of a name lead nowhere. Nil has no places.
type Private struct {
	paths []string
	is    []fs.FileInfo
	above []fs.FileInfo // the folders that hold them

	mu    sync.Mutex
	links map[uint64]found // by device: files in the places that have several names
}

type found struct {
	files map[inode]bool
	err   error
}

// inode identifies a file of this machine.
type inode struct{ device, number uint64 }

// NewPrivate returns the places of these paths, as they are now. Paths that do not exist are left out.
func NewPrivate(paths []string) *Private {
	p := &Private{links: map[uint64]found{}}
	for _, path := range paths {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		info, err := os.Stat(real)
		if err != nil {
			continue
		}
		p.paths, p.is = append(p.paths, real), append(p.is, info)
		for up := filepath.Dir(real); ; up = filepath.Dir(up) {
			if info, err := os.Stat(up); err == nil && !contains(p.above, info) {
				p.above = append(p.above, info)
			}
			if up == filepath.Dir(up) {
				break
			}
		}
	}
	return p
}

func contains(list []fs.FileInfo, info fs.FileInfo) bool {
	return slices.ContainsFunc(list, func(other fs.FileInfo) bool { return os.SameFile(info, other) })
}

// Is reports whether a file or folder is one of the places, or a hard link to a file in one.
func (p *Private) Is(info fs.FileInfo) bool {
	if p == nil || len(p.is) == 0 {
		return false
	}
	if contains(p.is, info) {
		return true
	}
	id, links, ok := identity(info)
	if !ok || links < 2 || !info.Mode().IsRegular() {
		return false
	}
	own := p.linked(id.device)
	return own.err != nil || own.files[id] // what cannot be ruled out counts as a link
}

// Above reports whether a folder holds one of the places.
func (p *Private) Above(info fs.FileInfo) bool { return p != nil && contains(p.above, info) }

// Has reports whether a path leads to one of the places or into one.
func (p *Private) Has(path string) bool {
	if p == nil || len(p.is) == 0 {
		return false
	}
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return false // it does not exist
	}
	for up := real; ; up = filepath.Dir(up) {
		if info, err := os.Stat(up); err == nil && p.Is(info) {
			return true
		}
		if up == filepath.Dir(up) {
			return false
		}
	}
}

var errManyPrivate = errors.New("there are too many files to search for hard links")

// linked returns the files in the places of a device that have several names. A link does not lead to
// another device.
func (p *Private) linked(device uint64) found {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f, known := p.links[device]; known {
		return f
	}
	own, seen := found{files: map[inode]bool{}}, 0
	for i, path := range p.paths {
		if id, _, ok := identity(p.is[i]); !ok || id.device != device {
			continue
		}
		own.err = errors.Join(own.err, filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it was removed meanwhile, or a kernel folder that cannot be read
			}
			if seen++; seen > maxPrivate {
				return errManyPrivate
			}
			if !e.Type().IsRegular() {
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return nil //nolint:nilerr // likewise
			}
			if id, links, ok := identity(info); ok && links > 1 {
				own.files[id] = true
			}
			return nil
		}))
	}
	p.links[device] = own
	return own
}
