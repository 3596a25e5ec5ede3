package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
)

// grant is a part of the file system that a program is shown, or that is hidden from it.
type grant struct {
	path  string // inside
	from  string // outside
	write bool
	copy  bool // approved copies that replace the originals
	hide  bool // an empty folder or file
	hold  bool // a folder above what is hidden, which cannot be renamed
}

// liveFolder is the part of an agent's folder that an approval does not pin. It is shown as it
// is.
const liveFolder = "data"

// wholeMachine shows the file system as it is, for an unsandboxed program.
func (c *confined) wholeMachine() ([]string, error) {
	args := []string{"--bind", "/", "/"}
	if os.Getuid() == 0 { // root can read the machine's disks as files
		args = append(args, "--dev", "/dev")
	} else {
		args = append(args, "--dev-bind", "/dev", "/dev")
	}
	more, err := c.granted(grant{path: "/", from: "/", write: true})
	return append(append(args, "--proc", "/proc"), more...), err
}

// granted returns bubblewrap's arguments for everything shown besides the base: the folder of the
// command, the paths that it may read and write, the approved copies, and the program itself if
// it lies elsewhere. Parents come first. The arguments also hide the parts in Hide. Paths below a
// writable path are shown with it and get no mount of their own: a link that the program leaves
// behind could misdirect such a mount the next time. Only the folders above a hidden part get one,
// because the kernel renames no mount point: otherwise the program could move such a folder away,
// and put another one with settings of its own in its place.
func (c *confined) granted(base ...grant) ([]string, error) {
	all := c.wanted()
	hidden, err := Places(c.Hide)
	if err != nil {
		return nil, err
	}
	for _, g := range slices.Concat(base, all) {
		if g.copy {
			continue
		}
		real, err := filepath.EvalSymlinks(g.from)
		if err != nil {
			continue // grantable reports that
		}
		for _, h := range hidden {
			if below(h, real) && h != real {
				at := func(p string) string { return filepath.Join(g.path, strings.TrimPrefix(p, real)) }
				all = append(all, grant{path: at(h), from: h, hide: true})
				for up := filepath.Dir(h); up != real; up = filepath.Dir(up) {
					all = append(all, grant{path: at(up), from: up, write: true, hold: true})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b grant) int { return strings.Compare(a.path, b.path) })
	var args, after []string
	shown := slices.Clone(base)
	for _, g := range all {
		over := enclosing(shown, g.path)
		switch {
		case g.hide && over.hide, g == over:
			continue
		case g.hide && !isFolder(g.from):
			number, err := c.data(nil)
			if err != nil {
				return nil, err
			}
			args = append(args, "--ro-bind-data", number, g.path)
		case g.hide:
			args, after = append(args, "--perms", "0755", "--tmpfs", g.path), append(after, "--remount-ro", g.path)
		case g.hold:
			if !over.write || over.copy {
				continue
			}
			args = append(args, "--bind", g.from, g.path)
		case g.copy:
			more, later := g.parts(all)
			args, after = append(args, more...), append(after, later...)
		default:
			if err := c.grantable(g, over, hidden); err != nil {
				return nil, err
			}
			if over.path != "" && !over.hide && !over.copy && (over.write || !g.write) || over.copy && over.has(g.path) && !g.write ||
				!g.write && over.path == "" && isSystem(g.path) {
				continue
			}
			how := "--ro-bind"
			if g.write {
				how = "--bind"
			}
			args = append(args, how, g.from, g.path)
		}
		shown = append(shown, g)
	}
	return append(args, after...), nil
}

// wanted returns all grants of the command, with paths as the program knows them.
func (c *confined) wanted() []grant {
	var all []grant
	add := func(write bool, paths ...string) {
		for _, p := range paths {
			if p != "" {
				all = append(all, grant{path: c.inside(p), from: filepath.Clean(p), write: write})
			}
		}
	}
	for path, from := range c.Instead {
		all = append(all, grant{path: c.inside(path), from: from, copy: true})
		if own := filepath.Join(path, liveFolder); isFolder(own) && isFolder(from) {
			add(c.Unsandboxed, own)
		}
	}
	add(true, append(slices.Clone(c.Write), c.Data)...)
	if !c.Unsandboxed {
		add(false, c.Read...)
	}
	add(false, c.Dir, c.program)
	return all
}

// inside returns a path's place inside. On the whole machine links exist there too, and nothing
// can be mounted through them.
func (c *confined) inside(path string) string {
	if c.Unsandboxed {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
	}
	return filepath.Clean(path)
}

// enclosing returns the deepest grant that contains a path.
func enclosing(shown []grant, path string) grant {
	var found grant
	for _, g := range shown {
		if below(path, g.path) && len(g.path) >= len(found.path) {
			found = g
		}
	}
	return found
}

// has reports whether a path is part of a copied folder.
func (g grant) has(path string) bool {
	_, err := os.Lstat(filepath.Join(g.from, strings.TrimPrefix(path, g.path)))
	return err == nil
}

// isFolder reports whether a path is itself a folder, not a link to one.
func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// parts shows an approved copy. A folder in which something else is shown too is assembled from
// its parts, because nothing can be mounted in the copy itself.
func (g grant) parts(all []grant) (args, after []string) {
	inner := slices.ContainsFunc(all, func(o grant) bool { return o.path != g.path && below(o.path, g.path) && !g.has(o.path) })
	list, err := os.ReadDir(g.from)
	if !inner || err != nil {
		return []string{"--ro-bind", g.from, g.path}, nil
	}
	args = []string{"--perms", "0755", "--tmpfs", g.path}
	for _, p := range list {
		args = append(args, "--ro-bind", filepath.Join(g.from, p.Name()), filepath.Join(g.path, p.Name()))
	}
	return args, []string{"--remount-ro", g.path}
}

// grantable returns an error if a grant cannot be mounted at its place.
func (c *confined) grantable(g, over grant, hidden []string) error {
	if err := grantable(g.from); err != nil {
		return err
	}
	bad := func(why, remedy string) error {
		return fault.New(fault.Invalid, "sandbox_path_invalid", "%s cannot be shown to a program: %s", g.from, why).WithHint("%s", remedy)
	}
	if over.copy && g.write && g.path == over.path {
		return bad("the program runs from the approved copy of this folder, which is read-only",
			"write to the folder in STEWARD_DATA, or to a folder of its own, such as "+liveFolder)
	}
	if over.copy && !over.has(g.path) {
		if first, _, deep := strings.Cut(strings.TrimPrefix(g.path, over.path+"/"), "/"); deep && over.has(filepath.Join(over.path, first)) {
			return bad("it is inside the approved files", "move it to the top of the agent's folder, such as "+liveFolder)
		}
		return nil
	}
	real, err := filepath.EvalSymlinks(g.from)
	if err != nil {
		return err
	}
	own := c.Data != "" && below(g.from, filepath.Clean(c.Data)) || over.copy
	if !own && slices.ContainsFunc(hidden, func(h string) bool { return below(real, h) }) {
		return bad("it belongs to Steward's own data and settings", "move files that programs need to another place")
	}
	return nil
}
