package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// below reports whether a path equals another one or lies in it.
func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, strings.TrimSuffix(parent, "/")+"/")
}

// instead returns the place of the approved copy of a path, or the path itself.
func (c *Command) instead(path string) string {
	for was, now := range c.Instead {
		if filepath.IsAbs(path) && below(filepath.Clean(path), was) {
			return filepath.Join(now, strings.TrimPrefix(filepath.Clean(path), was))
		}
	}
	return path
}

// rewrite replaces paths by those of the approved copies, for a program in whose file system
// nothing can be mounted over the originals.
func (c *Command) rewrite() {
	c.Path, c.Dir, c.Args = c.instead(c.Path), c.instead(c.Dir), slices.Clone(c.Args)
	for i, a := range c.Args {
		c.Args[i] = c.instead(a)
	}
}

// Unseen returns the first of a confined program's arguments that names a file here which the
// program would not see, or whose neighbours it would not see, such as a script's modules. It
// returns "" if there is none.
func (c *Command) Unseen() string {
	if c.Unsandboxed {
		return ""
	}
	seen := append(append([]string{c.Dir, c.Data, "/usr", "/bin", "/lib", "/opt"}, c.Read...), c.Write...)
	for _, path := range append([]string{c.Path}, c.Args...) {
		if !filepath.IsAbs(path) {
			if path = filepath.Join(c.Dir, path); c.Dir == "" {
				continue
			}
		}
		info, err := os.Stat(path)
		if err != nil || slices.ContainsFunc(seen, func(s string) bool { return s != "" && below(path, filepath.Clean(s)) }) {
			continue
		}
		if info.Mode().IsRegular() || info.IsDir() {
			return path
		}
	}
	return ""
}
