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

// approvedCopy returns the path of the approved copy of a path, or the path itself.
func (c *Command) approvedCopy(path string) string {
	for was, now := range c.Instead {
		if filepath.IsAbs(path) && below(filepath.Clean(path), was) {
			return filepath.Join(now, strings.TrimPrefix(filepath.Clean(path), was))
		}
	}
	return path
}

// rewrite replaces paths by those of the approved copies. It is for a program that runs without
// mounts, so that no copy can be mounted over its original.
func (c *Command) rewrite() {
	c.Path, c.Dir, c.Args = c.approvedCopy(c.Path), c.approvedCopy(c.Dir), slices.Clone(c.Args)
	for i, a := range c.Args {
		c.Args[i] = c.approvedCopy(a)
	}
}

// HiddenPath returns the first path in a confined program's command that exists here but lies in no
// folder that the program sees. The program would miss the file itself, or files beside it such as
// a script's modules. HiddenPath returns "" if there is no such path.
func (c *Command) HiddenPath() string {
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
