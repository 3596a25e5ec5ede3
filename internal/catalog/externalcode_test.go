package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/tool"
	"steward/test/must"
)

// coded is a source whose code lies in a folder.
type coded struct {
	tool.Source
	dir string
}

func (c coded) Files() []string { return nil }
func (c coded) Code() tool.Code { return tool.Code{Folders: []string{c.dir}} }
func besideUnit(dir string) *unit {
	return &unit{path: "mcp:x", sources: []*liveSource{{src: coded{dir: dir}}}}
}
func writeAll(t *testing.T, base string, names ...string) {
	t.Helper()
	for _, name := range names {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(base, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(base, name), []byte("x"), 0o644))
	}
}

// The whole project's code is pinned, with its packages and what they link to; data, caches and histories are not.
func TestWhichCodeIsPinned(t *testing.T) {
	base := must.Get(filepath.EvalSymlinks(t.TempDir()))
	dir := filepath.Join(base, "srv")
	writeAll(t, dir, "package.json", "build/index.js", "build/lib/part.mjs", "node_modules/a/index.js", "node_modules/.pnpm/b/b.cjs", ".venv/lib/c.py",
		"state.db", "notes.txt", ".git/hooks/x.sh", "pkg/__pycache__/m.pyc", "pkg/m.py")
	writeAll(t, base, "other/d.js")
	must.Do(t, os.Symlink(filepath.Join(base, "other"), filepath.Join(dir, "node_modules", "d")))
	u := besideUnit(filepath.Join(dir, "build"))
	u.pinPrograms(nil)
	u.computeHash()
	var got []string
	for _, p := range u.run {
		got = append(got, must.Get(filepath.Rel(base, p.path)))
	}
	slices.Sort(got)
	want := []string{"other/d.js", "srv/.venv/lib/c.py", "srv/build/index.js", "srv/build/lib/part.mjs", "srv/node_modules/.pnpm/b/b.cjs", "srv/node_modules/a/index.js",
		"srv/package.json", "srv/pkg/m.py"}
	if !slices.Equal(got, want) || len(u.loose) > 0 {
		t.Errorf("%q %q, want %q", got, u.loose, want)
	}
	if caches, ok := u.externalCodeUnchanged(); !ok || !slices.Equal(caches, []string{filepath.Join(dir, "pkg", "__pycache__")}) {
		t.Errorf("%q %v", caches, ok)
	}
	for name, change := range map[string]func(path string) error{
		"node_modules/a/index.js": func(p string) error { return os.WriteFile(p, []byte("y"), 0o644) },
		"pkg/json.py":             func(p string) error { return os.WriteFile(p, []byte("x"), 0o644) },
		"build/lib/part.mjs":      os.Remove,
	} {
		must.Do(t, change(filepath.Join(dir, name)))
		if _, ok := u.externalCodeUnchanged(); ok {
			t.Errorf("%s was changed", name)
		}
		before := u.hash
		u.pinPrograms(nil)
		if u.computeHash(); u.hash == before {
			t.Errorf("%s: the approval is for the same", name)
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "state.db"), []byte("y"), 0o644))
	if _, ok := u.externalCodeUnchanged(); !ok {
		t.Error("data may change")
	}
}

// A folder with too much, such as the user's own, is not searched; what lies directly in it is pinned, and the
// person is told about the rest.
func TestTooMuchCodeIsSaid(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))
	writeAll(t, dir, "server.py", "helper.py")
	for i := range maxOwnCode {
		writeAll(t, dir, fmt.Sprintf("deep/%d/x.py", i))
	}
	u := besideUnit(dir)
	u.pinPrograms(nil)
	if len(u.run) != 2 || len(u.loose) != 1 || !strings.Contains(u.loose[0], "below "+dir) {
		t.Errorf("%d files, %q", len(u.run), u.loose)
	}
}
