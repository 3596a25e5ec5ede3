package catalog

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// fileRequirements names the Python packages that an agent's programs need (pip's format).
const fileRequirements = "requirements.txt"

const (
	maxRequirements = 200
	pythonTimeout   = 10 * time.Second
)

// pythonName is an interpreter of the machine. One in the agent's folder would be code that has not been
// approved.
var pythonName = regexp.MustCompile(`^python[0-9.]*$`)

// requirement is the name of a package at the beginning of a line (PEP 508).
var requirement = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`)

// probe prints its arguments that are not installed packages.
const probe = "import sys, importlib.metadata as m\nfor n in sys.argv[1:]:\n  try: m.version(n)\n  except m.PackageNotFoundError: print(n)"

// missingPackages warns of packages in an agent's requirements.txt that the machine's Python does not have: without
// them a program fails at its first call. The interpreter sees only the names.
func missingPackages(ctx context.Context, u *unit) []string {
	if u.kind != KindAgent {
		return nil
	}
	python := ""
	for _, d := range u.decls {
		if command := texts(d.node.Get("command")); len(command) > 0 && pythonName.MatchString(command[0]) {
			python = command[0]
		}
	}
	if python == "" {
		return nil
	}
	f, err := os.Open(filepath.Join(u.dir, fileRequirements))
	if err != nil {
		return nil // there is none
	}
	defer f.Close()
	var names []string
	lines := bufio.NewScanner(io.LimitReader(f, 64<<10)) // a longer line names no package
	for lines.Scan() && len(names) < maxRequirements {
		line, _, marker := strings.Cut(strings.TrimSpace(lines.Text()), ";") // with a marker it may not be needed here
		if name := requirement.FindString(line); name != "" && !marker && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pythonTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, python, append([]string{"-I", "-c", probe}, names...)...)
	c.Dir = os.TempDir()
	out, err := c.Output()
	if err != nil {
		return []string{fmt.Sprintf("cannot check whether the packages of %s are installed: %s: %v", fileRequirements, python, err)}
	}
	missing := strings.Fields(string(bytes.TrimSpace(out)))
	if len(missing) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("its programs need Python packages that %s does not have: %s; install them first", python, listed(missing))}
}

// renamedFrom returns the path of an agent that is not there any more and whose approved content a new one has, or
// "". Called under mu.
func (c *Catalog) renamedFrom(u *unit, items []Item) string {
	if u.kind != KindAgent || c.records[u.path] != nil && c.records[u.path].Approved != nil {
		return ""
	}
	same := func(a, b Item) bool { return a.Name == b.Name && a.Hash == b.Hash }
	for _, path := range sortedKeys(c.records) {
		rec := c.records[path]
		gone := !slices.ContainsFunc(c.units, func(o *unit) bool { return o.path == path })
		if gone && rec != nil && rec.Approved != nil && slices.EqualFunc(rec.Approved.Items, items, same) {
			return path
		}
	}
	return ""
}
