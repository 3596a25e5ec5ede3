package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/catalog/watch"
	"steward/internal/tool"
)

// Limits on the code beside a program that does not belong to an agent.
const (
	maxOwnCode  = 2000   // files of its own
	maxPackages = 20_000 // files of the packages that it has installed
	maxVisited  = 50_000 // files and folders looked at
	maxCopied   = 100    // files that run from copies; each is a mount
	maxCaches   = 200
)

// errTooManyFiles ends the search of a folder that has more than is pinned.
var errTooManyFiles = errors.New("it has too many files")

// externalCode is the code that the programs of a unit load from outside of its folder.
type externalCode struct {
	caches []string // folders of compiled Python, which is not pinned and not used
	loose  []string // what is not pinned, in words
}

// pinExternalCode pins the code in folders outside of the unit's own. known are pins of an earlier time, by path: a
// file that was not touched since is not read again.
func (u *unit) pinExternalCode(known map[string]pin) {
	var folders []string
	installs := false // packages change at a start
	u.externalCode = externalCode{}
	var parts []any
	for _, s := range u.sources {
		parts = append(parts, s.src)
	}
	for _, place := range sortedKeys(u.hooks) {
		for _, h := range u.hooks[place] {
			parts = append(parts, h.src)
		}
	}
	for _, s := range parts {
		coded, ok := s.(tool.Coded)
		if !ok {
			continue
		}
		code := coded.Code()
		u.loose = append(u.loose, code.Loose...)
		installs = installs || code.Installs
		for _, dir := range code.Folders {
			if dir = project(dir); dir != "" && !isSystemPath(dir+"/") && !(u.dir != "" && within(dir, u.dir)) {
				folders = append(folders, dir)
			}
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	folders = slices.DeleteFunc(folders, func(dir string) bool {
		return slices.ContainsFunc(folders, func(other string) bool { return other != dir && within(dir, other) })
	})
	taken := map[string]bool{}
	for _, p := range u.run {
		taken[p.path] = true
	}
	var total int64
	for _, dir := range folders {
		for _, path := range u.codeIn(dir, installs) {
			if taken[path] {
				continue
			}
			p, read := known[path]
			if info, err := os.Stat(path); err == nil && read && same(p.info, info) {
				p.info = info
			} else if p, err = outside(path); err != nil {
				continue // it was removed in the meantime, or it is not a regular file, which no program loads
			}
			p.data, p.named, p.beside = nil, false, dir
			if total += p.size; total > maxBytes {
				u.loose = append(u.loose, fmt.Sprintf("the part of %s beyond %d MiB", dir, maxBytes>>20))
				break
			}
			taken[path] = true
			u.run = append(u.run, p)
		}
	}
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// same reports whether a file was not touched between two looks at it.
func same(then, now fs.FileInfo) bool {
	return os.SameFile(now, then) && now.Size() == then.Size() && now.ModTime().Equal(then.ModTime()) && watch.Touched(now).Equal(watch.Touched(then))
}

// project returns the folder of the project that a folder of code belongs to: the next one above that has a
// file which shows it, or else the folder itself. It is never the user's whole folder.
func project(dir string) string {
	home, _ := os.UserHomeDir()
	for up, n := dir, 0; n < 4 && up != home && up != filepath.Dir(up); up, n = filepath.Dir(up), n+1 {
		for _, name := range []string{"package.json", "pyproject.toml", "setup.py", "requirements.txt", "Gemfile", "composer.json", "deno.json"} {
			if info, err := os.Stat(filepath.Join(up, name)); err == nil && info.Mode().IsRegular() {
				return up
			}
		}
	}
	return dir
}

// packages are folders of code that the project did not write.
func packages(name string) bool {
	return slices.Contains([]string{"node_modules", "site-packages", ".venv", "venv", "vendor", ".pnpm"}, name)
}

// codeIn returns the files of code below a folder. If its packages are too many, they are left out; if its own
// code is, only the folder itself is looked at, without those below it. Packages that the program installs itself
// are left out too.
func (u *unit) codeIn(dir string, installs bool) []string {
	var own []string
	err := errTooManyFiles // the user's whole folder, or the system's
	if home, _ := os.UserHomeDir(); dir != home && dir != "/" && dir != filepath.Clean(os.TempDir()) {
		own, err = u.codeBelow(dir, false)
	}
	if err != nil {
		u.loose = append(u.loose, "the folders below "+dir+", which have too many files")
		own = nil
		list, err := os.ReadDir(dir)
		if err != nil {
			return nil
		}
		for _, e := range list {
			if !e.IsDir() && tool.IsCode(e.Name()) && len(own) < maxOwnCode {
				own = append(own, filepath.Join(dir, e.Name()))
			}
		}
		return own
	}
	if installs {
		return own
	}
	bought, err := u.codeBelow(dir, true)
	if err != nil {
		u.loose = append(u.loose, "the installed packages in "+dir+", which are too many to compare")
		bought = nil
	}
	return append(own, bought...)
}

// codeBelow returns the files of code below a folder: its own, or those of its packages.
func (u *unit) codeBelow(dir string, ofPackages bool) (files []string, err error) {
	most := maxOwnCode
	if ofPackages {
		most = maxPackages
	}
	visited := 0
	real := []string{dir}
	for i := 0; i < len(real) && err == nil; i++ {
		root := real[i]
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if visited++; visited > maxVisited {
				return errTooManyFiles
			}
			name := e.Name()
			inPackages := slices.ContainsFunc(strings.Split(strings.TrimPrefix(path, dir), "/"), packages)
			switch {
			case err != nil:
				return nil //nolint:nilerr // what cannot be read is not loaded either
			case e.IsDir() && (name == ".git" || name == ".hg"):
				return fs.SkipDir
			case e.IsDir() && name == "__pycache__":
				if !inPackages && len(u.caches) < maxCaches {
					u.caches = append(u.caches, path)
				} else if note := "compiled Python of the packages in " + dir; !slices.Contains(u.loose, note) {
					u.loose = append(u.loose, note)
				}
				return fs.SkipDir
			case e.IsDir() && inPackages && !ofPackages:
				return fs.SkipDir
			case e.IsDir():
				return nil
			case e.Type()&fs.ModeSymlink != 0: // a package that lies elsewhere
				to, serr := filepath.EvalSymlinks(path)
				info, ierr := os.Stat(path)
				if serr == nil && ierr == nil && info.IsDir() && inPackages == ofPackages && len(real) < maxOwnCode && !isSystemPath(to+"/") &&
					!slices.ContainsFunc(real, func(r string) bool { return within(to, r) || within(r, to) }) {
					real = append(real, to)
				}
				if ierr != nil || info.IsDir() {
					return nil
				}
			}
			if tool.IsCode(name) && (inPackages || root != dir && ofPackages) == ofPackages {
				if files = append(files, path); len(files) > most {
					return errTooManyFiles
				}
			}
			return nil
		})
	}
	return files, err
}

// externalItems makes an item of the code of each folder: what a person is shown are the names and hashes.
func externalItems(run []pin) (items []Item) {
	groups := map[string][]pin{}
	for _, p := range run {
		if p.beside != "" {
			groups[p.beside] = append(groups[p.beside], p)
		}
	}
	for _, dir := range sortedKeys(groups) {
		list := groups[dir]
		slices.SortFunc(list, func(a, b pin) int { return strings.Compare(a.path, b.path) })
		sum := sha256.New()
		var text strings.Builder
		var bytes int64
		for _, p := range list {
			fmt.Fprintf(sum, "%q %s\n", p.path, p.hash)
			if bytes += p.size; text.Len() < maxShown {
				fmt.Fprintf(&text, "%s  %d bytes, SHA-256 %s\n", visible(strings.TrimPrefix(p.path, dir+"/")), p.size, p.hash)
			}
		}
		if text.Len() >= maxShown {
			text.WriteString("and others\n")
		}
		items = append(items, Item{Name: "code in " + dir, Hash: hex.EncodeToString(sum.Sum(nil)),
			Text: fmt.Sprintf("%d files, %d bytes\n%s", len(list), bytes, text.String())})
	}
	return items
}

// externalCodeUnchanged reports whether the code beside a program still is what was read, files that are new included, and
// returns the folders of compiled code that there are now.
func (u *unit) externalCodeUnchanged() (caches []string, ok bool) {
	var before []pin
	for _, p := range u.sealed {
		if p.run {
			before = append(before, p)
		}
	}
	if !slices.ContainsFunc(before, func(p pin) bool { return p.beside != "" }) {
		return nil, true
	}
	now := &unit{path: u.path, dir: u.dir, file: u.file, def: u.def, decls: u.decls, pins: u.pins, sources: u.sources, hooks: u.hooks}
	now.pinPrograms(before)
	slices.Sort(now.caches)
	return slices.Compact(now.caches), len(now.problems) == 0 && sameBytes(now.run, before)
}

// sameBytes reports whether two lists have the same files with the same content.
func sameBytes(a, b []pin) bool {
	return slices.EqualFunc(a, b, func(x, y pin) bool { return x.name == y.name && x.hash == y.hash })
}
