package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/service"
	"steward/internal/strict"
	"steward/internal/tool"
)

// unit is an agent or a source as it was found, with the bytes that were read. It is immutable
// once it is published, except for the fields under Catalog.mu.
type unit struct {
	path, name, kind string
	dir              string // agents: the folder
	file             string // where it is defined
	above            string // path of the level above; "" for units of the root level
	def              *parsed
	pins             []pin // used as text
	skills           []skill
	decls            []decl    // sources
	problems         []Problem // of the unit itself
	clash            []Problem // another unit has its name; see settleNames

	sources []*liveSource
	hooks   map[string][]*liveHook
	run     []pin  // files that are executed
	sealed  []pin  // everything that was read, for the snapshot
	hash    string // over items: what is known without starting anything
	items   []Item

	announced     *announced      // of the last inspection; dropped when a source reports a change
	lastAnnounced *announced      // the last announcement; nil: none yet
	logged        map[string]bool // logged tools that differ from the approved ones
	grant         *grant          // while it may be used
	tools         *tool.Registry
	bindings      service.Bindings
	read          string // the content as it was read, before anything was opened
	snapshot      snapshot
	externalCode
}

func (u *unit) add(p strict.Position, code, remedy, format string, args ...any) {
	reporter(u.file, &u.problems)(p, code, remedy, format, args...)
}

// content returns a hash over the files that were read as text, and their problems.
func (u *unit) content() string {
	h := sha256.New()
	for _, p := range u.pins {
		fmt.Fprintf(h, "%q %s\n", p.name, p.hash)
	}
	for _, p := range u.problems {
		fmt.Fprintf(h, "%q\n", p.String())
	}
	return hex.EncodeToString(h.Sum(nil))
}

// unreadable notes that a part of the folder cannot be read.
func (u *unit) unreadable(name string, err error) {
	file := filepath.Join(u.dir, filepath.FromSlash(name))
	bad := reporter(file, &u.problems)
	var pe *fs.PathError
	switch {
	case errors.As(err, &pe) && strings.Contains(pe.Err.Error(), "escapes"):
		bad(strict.Position{}, "link_outside", "put the file itself into the folder", "the link leads out of the agent's folder")
	case errors.Is(err, errNotPlain):
		bad(strict.Position{}, "file_unreadable", "replace it by a file", "it is not a regular file")
	default:
		bad(strict.Position{}, "file_unreadable", "fix or remove it", "it cannot be read: %v", err)
	}
}

// pinPrograms reads the files that determine what the sources and hooks do, and the files beside
// them, which a program may load as its own. known are pins of an earlier time.
func (u *unit) pinPrograms(known []pin) {
	before := map[string]pin{}
	for _, p := range known {
		before[p.path] = p
	}
	defer u.pinExternalCode(before)
	var named []string
	for _, s := range u.sources {
		named = append(named, s.src.Files()...)
	}
	for _, place := range sortedKeys(u.hooks) {
		for _, h := range u.hooks[place] {
			named = append(named, h.src.Files()...)
		}
	}
	u.run = nil
	if u.dir == "" {
		u.pinOutside(named)
		return
	}
	root, err := os.OpenRoot(u.dir)
	if err != nil {
		u.unreadable(".", err)
		return
	}
	f := folder{root, u.dir}
	u.pinInside(f, named)
	if err := root.Close(); err != nil {
		u.unreadable(".", err)
	}
}

// runs reports whether the unit has programs that are started.
func (u *unit) runs() bool {
	started := func(d decl) bool { return d.node.Get("command") != nil }
	return slices.ContainsFunc(u.decls, started) || u.def != nil && slices.ContainsFunc(u.def.hooks, started)
}

func (u *unit) pinOutside(named []string) {
	slices.Sort(named)
	for _, name := range slices.Compact(named) {
		p, err := outside(name)
		p.named = true
		if err != nil {
			reporter(name, &u.problems)(strict.Position{}, "file_unreadable", "create it, or correct the reference to it", "it cannot be read: %v", err)
			continue
		}
		u.run = append(u.run, p)
	}
}

func (u *unit) pinInside(f folder, named []string) {
	inside, chosen, elsewhere := map[string]bool{}, map[string]bool{}, []string{}
	dirs := map[string]bool{dirTools: true, dirHooks: true}
	if u.runs() { // it may load any file in the folder, whatever its command names
		dirs["."] = true
	}
	for _, abs := range named {
		rel, err := filepath.Rel(u.dir, abs)
		if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			elsewhere = append(elsewhere, abs)
			continue
		}
		rel = filepath.ToSlash(rel)
		inside[rel], chosen[rel], dirs[path.Dir(rel)] = true, true, true
	}
	folders := maxFiles
	for _, d := range sortedKeys(dirs) {
		if err := f.walk(d, inside, &folders, 0); err != nil {
			u.unreadable(d, err)
		}
	}
	for _, p := range u.pins {
		delete(inside, p.name) // pinned as text
	}
	var total int64
	for _, name := range sortedKeys(inside) {
		p, err := f.bytes(name)
		if err != nil {
			u.unreadable(name, err)
			continue
		}
		p.named = chosen[name]
		if total += p.size; total > maxBytes {
			u.add(strict.Position{}, "agent_too_large", "keep data outside of the folders of programs", "the files of its programs have more than %d bytes", maxBytes)
			break
		}
		u.run = append(u.run, p)
	}
	u.pinOutside(elsewhere)
}

// computeHash makes the items and the hash of what was read.
func (u *unit) computeHash() {
	u.items = nil
	u.sealed = slices.Concat(u.pins, u.run)
	for _, p := range u.sealed {
		if p.beside != "" {
			continue
		}
		it := Item{Name: p.name, Hash: p.hash, Text: fmt.Sprintf("%d bytes, SHA-256 %s\n", p.size, p.hash)}
		if p.run {
			it.Name = "file " + p.name
		}
		if p.data != nil {
			it.Text = visible(string(p.data))
		}
		u.items = append(u.items, it)
	}
	u.items = append(u.items, externalItems(u.run)...)
	u.hash = hashItems(u.path, u.items)
}

// hashItems returns the hash that an approval names: over the names and hashes of all items.
func hashItems(path string, items []Item) string {
	h := sha256.New()
	fmt.Fprintf(h, "steward approval 1\n%q\n", path)
	for _, it := range items {
		fmt.Fprintf(h, "%q %s\n", it.Name, it.Hash)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// faults returns all problems of a unit.
func (u *unit) faults() []Problem {
	if len(u.clash) == 0 {
		return u.problems
	}
	return slices.Concat(u.problems, u.clash)
}

func invalidAgent(u *unit) error {
	faults := u.faults()
	return fault.New(fault.Invalid, "agent_invalid", "%s cannot be used: %s", u.path, faults[0].String()).
		Detail("problems", faults).WithHint("fix it; steward agents show %s lists all problems", u.path)
}
