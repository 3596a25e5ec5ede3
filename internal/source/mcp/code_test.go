package mcp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/test/must"
)

// What a command names is found in the forms in which people write it: scripts, modules, projects, paths in
// options and in variables. What it fetches by itself is said.
func TestTheCodeOfACommand(t *testing.T) {
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))
	at := func(name string) string { return filepath.Join(base, name) }
	for _, name := range []string{"srv/main.js", "srv/main.py", "srv/pkg/__init__.py", "lib/x.py", "bin/tool", "docs/a.txt", "pre.cjs"} {
		must.Do(t, os.MkdirAll(filepath.Dir(at(name)), 0o755))
		must.Do(t, os.WriteFile(at(name), []byte("#!/bin/sh\n"), 0o755))
	}
	must.Do(t, os.Chmod(at("docs/a.txt"), 0o644))
	t.Setenv("PATH", at("bin")+":"+os.Getenv("PATH"))
	for name, x := range map[string]struct {
		d                     Decl
		files, folders, loose string
	}{
		"a script":             {Decl{Command: "node", Args: []string{at("srv/main.js")}}, "srv/main.js", "srv", ""},
		"relative to cwd":      {Decl{Command: "python3", Args: []string{"main.py"}, Cwd: at("srv")}, "srv/main.py", "srv", ""},
		"a module in cwd":      {Decl{Command: "python", Args: []string{"-m", "pkg"}, Cwd: at("srv")}, "", "srv", ""},
		"a module of anywhere": {Decl{Command: "python", Args: []string{"-m", "pkg"}}, "", "", "python chooses the module of -m itself"},
		"uv's project":         {Decl{Command: "uv", Args: []string{"--directory", at("srv"), "run", "main.py"}}, "srv/main.py", "srv", "the packages that uv installs"},
		"an option with =":     {Decl{Command: "node", Args: []string{"--require=" + at("pre.cjs"), at("srv/main.js")}}, "pre.cjs srv/main.js", ". srv", ""},
		"a variable":           {Decl{Command: "python", Args: []string{at("srv/main.py")}, Env: map[string]string{"PYTHONPATH": at("lib") + ":/nowhere"}}, "srv/main.py", "srv lib", ""},
		"a name in PATH":       {Decl{Command: "tool"}, "bin/tool", "bin", ""},
		"data":                 {Decl{Command: "npx", Args: []string{"-y", "@x/files", at("docs"), at("docs/a.txt")}}, "", "", "npx downloads or chooses the code that it runs"},
		"through env":          {Decl{Command: []string{"/usr/bin/env", "uvx", "x"}}, "/usr/bin/env", "", "uvx downloads or chooses the code that it runs"},
		"an image":             {Decl{Command: "docker", Args: []string{"run", "-i", "x/y"}}, "", "", "docker downloads or chooses the code that it runs"},
		"a shell":              {Decl{Command: "sh", Args: []string{"-c", "cd x && node y"}}, "", "", "the programs that the command line of sh starts"},
		"npm's script":         {Decl{Command: "npm", Args: []string{"--prefix=" + at("srv"), "start"}}, "", "srv", ""},
	} {
		words := must.Get(x.d.words())
		c := (&source{decl: x.d, command: words}).code()
		short := func(list []string) string {
			var out []string
			for _, p := range list {
				if rel, err := filepath.Rel(base, p); err == nil && filepath.IsLocal(rel) {
					p = rel
				}
				out = append(out, p)
			}
			return strings.Join(out, " ")
		}
		if got := []string{short(c.files), short(c.folders), strings.Join(c.loose, "; ")}; !slices.Equal(got, []string{x.files, x.folders, x.loose}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
