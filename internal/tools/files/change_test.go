package files

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/localtest"
	"steward/test/must"
)

// shop is the sandbox with a trash.
func shop(t testing.TB) (dir string, k *kit, r *tool.Registry) {
	t.Helper()
	dir, _ = sandbox(t)
	trash := filepath.Join(t.TempDir(), "trash")
	opt := Options{Folders: []Folder{{Name: "notes", Path: dir, Write: true}, {Name: "locked", Path: t.TempDir()}, {Name: "other", Path: t.TempDir(), Write: true}},
		Trash: func(user string) string { return filepath.Join(trash, user) }}
	return dir, &kit{opt: opt}, kitOf(t, opt)
}

func content(t testing.TB, name ...string) string {
	b, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		return "(none)"
	}
	return string(b)
}

func TestEditMoveDelete(t *testing.T) {
	dir, _, r := shop(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "e.txt"), []byte("one two one\nthree\n"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "bin"), []byte{0, 1, 2}, 0o600))
	localtest.Table(t, r, []localtest.Row{
		{"files.edit", `{"path":"notes/e.txt","old":"one","new":"1"}`, "text_not_unique"},
		{"files.edit", `{"path":"notes/e.txt","old":"four","new":"4"}`, "text_not_found"},
		{"files.edit", `{"path":"notes/e.txt","old":"two","new":"two"}`, "edit_empty"},
		{"files.edit", `{"path":"notes/bin","old":"a","new":"b"}`, "not_a_text"},
		{"files.edit", `{"path":"locked/x","old":"a","new":"b"}`, "folder_read_only"},
		{"files.edit", `{"path":"notes/none","old":"a","new":"b"}`, "file_not_found"},
		{"files.edit", `{"path":"notes/e.txt","old":"three","new":"3"}`, "Changed notes/e.txt:\n--- notes/e.txt\n+++ notes/e.txt (new)\n@@ -1,2 +1,2 @@\n one two one\n-three\n+3\n"},
		{"files.edit", `{"path":"notes/e.txt","old":"one","new":"1","all":true}`, "Changed notes/e.txt:\n--- notes/e.txt\n+++ notes/e.txt (new)\n@@ -1,2 +1,2 @@\n-one two one\n+1 two 1\n 3\n"},
		{"files.move", `{"from":"notes/e.txt","to":"notes/a.txt"}`, "file_exists"},
		{"files.move", `{"from":"notes/none","to":"notes/b"}`, "file_not_found"},
		{"files.move", `{"from":"notes/sub","to":"notes/sub/deep/er"}`, "move_inside"},
		{"files.move", `{"from":"notes/e.txt","to":"other/e.txt"}`, "move_across"},
		{"files.move", `{"from":"notes/e.txt","to":"notes/../x"}`, "path_refused"},
		{"files.move", `{"from":"notes/e.txt","to":"notes/new/f.txt"}`, "Moved notes/e.txt to notes/new/f.txt."},
		{"files.move", `{"from":"notes/sub","to":"notes/under"}`, "Moved notes/sub to notes/under."},
		{"files.delete", `{"path":"notes"}`, "not_a_file"},
		{"files.delete", `{"path":"notes/none"}`, "file_not_found"},
		{"files.delete", `{"path":"notes/new"}`, "Deleted notes/new. It is in the trash, so this can be undone."},
	})
	if content(t, dir, "under", "b.txt") != "beta" || content(t, dir, "new", "f.txt") != "(none)" {
		t.Error("not moved, or not deleted")
	}
	noTempFiles(t, dir)
}

// change makes a change under a key, and returns how to settle and undo it.
type change struct {
	t  *testing.T
	tl tool.Tool
	in tool.Invocation
}

func (c change) make() {
	c.t.Helper()
	must.Get(c.tl.Call(c.t.Context(), c.in))
}

func (c change) undo() error {
	u, ok := tool.UndoerOf(c.tl)
	if !ok {
		c.t.Fatal("it cannot be undone")
	}
	_, err := u.Undo(c.t.Context(), c.in, tool.Result{})
	return err
}

func (c change) settle() (bool, error) {
	s, _ := tool.SettlerOf(c.tl)
	done, _, err := s.Settle(c.t.Context(), c.in)
	return done, err
}

func TestChangesAreUndone(t *testing.T) {
	for _, c := range []struct{ name, tool, args, disturb string }{
		{"a new file", "files.write", `{"path":"notes/new.txt","content":"x"}`, "new.txt"},
		{"a replaced file", "files.write", `{"path":"notes/a.txt","content":"x","overwrite":true}`, "a.txt"},
		{"an edit", "files.edit", `{"path":"notes/a.txt","old":"alpha","new":"omega"}`, "a.txt"},
		{"a move", "files.move", `{"from":"notes/a.txt","to":"notes/z/y.txt"}`, "z/y.txt"},
		{"a moved folder", "files.move", `{"from":"notes/sub","to":"notes/bus"}`, "bus/b.txt"},
		{"a deleted file", "files.delete", `{"path":"notes/a.txt"}`, "a.txt"},
		{"a deleted folder", "files.delete", `{"path":"notes/sub"}`, "sub"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _, r := shop(t)
			must.Do(t, os.Symlink("b.txt", filepath.Join(dir, "sub", "link")))
			tl, _ := r.Get(c.tool)
			x := change{t, tl, tool.Invocation{Args: []byte(c.args), Key: "k", User: "ann"}}
			before := treeOf(t, dir)
			if done, err := x.settle(); done || err != nil && c.tool != "files.write" {
				t.Errorf("settled before: %v, %v", done, err)
			}
			if err := x.undo(); !fault.HasCode(err, "undo_unknown") {
				t.Errorf("undone before: %v", err)
			}
			x.make()
			if done, err := x.settle(); !done || err != nil {
				t.Errorf("settled: %v, %v", done, err)
			}
			must.Do(t, x.undo())
			after := treeOf(t, dir)
			delete(after, "z") // a folder that was made on the way stays
			if fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("undone to\n%v\nnot\n%v", after, before)
			}
			must.Do(t, x.undo()) // again, as after a crash
			noTempFiles(t, dir)

			x.in.Key = "second"
			x.make()
			at := filepath.Join(dir, filepath.FromSlash(c.disturb))
			must.Do(t, os.MkdirAll(filepath.Dir(at), 0o755))
			must.Do(t, os.WriteFile(at, []byte("of others"), 0o600))
			if err := x.undo(); !fault.HasCode(err, "changed_since") || !tool.CertainlyNotDone(err) {
				t.Errorf("changed since: %v", err)
			}
			if content(t, at) != "of others" {
				t.Error("what others wrote is gone")
			}
		})
	}
}

// treeOf returns everything in a folder, with its mode and content.
func treeOf(t testing.TB, dir string) map[string]string {
	out := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info := must.Get(d.Info())
		switch {
		case d.IsDir():
			out[rel] = "folder"
		case d.Type()&fs.ModeSymlink != 0:
			out[rel] = "-> " + must.Get(os.Readlink(p))
		default:
			out[rel] = info.Mode().String() + " " + string(must.Get(os.ReadFile(p)))
		}
		return nil
	}))
	return out
}

// Whatever happens in which order: undoing the changes backwards leads back to the beginning.
func TestUndoingBackwardsLeadsBack(t *testing.T) {
	rapid.Check(t, func(t2 *rapid.T) {
		dir, _, r := shop(t)
		before := treeOf(t, dir)
		name := rapid.SampledFrom([]string{"a.txt", "b", "sub/b.txt", "sub/c"})
		var done []change
		for i := range rapid.IntRange(1, 12).Draw(t2, "changes") {
			m := map[string]any{}
			which := rapid.SampledFrom([]string{"files.write", "files.edit", "files.move", "files.delete"}).Draw(t2, "tool")
			switch p := "notes/" + name.Draw(t2, "path"); which {
			case "files.write":
				m = map[string]any{"path": p, "content": rapid.StringMatching("[a-c]{0,3}").Draw(t2, "content"), "overwrite": true}
			case "files.edit":
				m = map[string]any{"path": p, "old": rapid.StringMatching("[a-c]").Draw(t2, "old"), "new": "bc", "all": true}
			case "files.move":
				m = map[string]any{"from": p, "to": "notes/" + name.Draw(t2, "to")}
			case "files.delete":
				m = map[string]any{"path": p}
			}
			tl, _ := r.Get(which)
			c := change{t, tl, tool.Invocation{Args: must.Get(json.Marshal(m)), Key: fmt.Sprint(i), User: "ann"}}
			if _, err := tl.Call(context.Background(), c.in); err == nil {
				done = append(done, c)
			}
		}
		for i := len(done) - 1; i >= 0; i-- {
			if err := done[i].undo(); err != nil {
				t2.Fatalf("%s: %v", done[i].in.Args, err)
			}
		}
		if after := treeOf(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
			t2.Fatalf("%v\nnot\n%v", after, before)
		}
	})
}

func TestTheTrashIsBounded(t *testing.T) {
	dir, k, r := shop(t)
	must.Do(t, os.Truncate(filepath.Join(dir, "a.txt"), maxFormer+1))
	for _, row := range []localtest.Row{{"files.delete", `{"path":"notes/a.txt"}`, ""}, {"files.write", `{"path":"notes/a.txt","content":"","overwrite":true}`, ""}} {
		if _, err := localtest.Call(t, r, row[0], row[1]); !fault.HasCode(err, "file_too_large") || !tool.CertainlyNotDone(err) {
			t.Errorf("%s: %v", row[0], err)
		}
	}
	if info := must.Get(os.Stat(filepath.Join(dir, "a.txt"))); info.Size() != maxFormer+1 {
		t.Error("it was changed")
	}
	trash := k.opt.Trash("ann")
	for i := range maxTrashed + 5 {
		must.Do(t, os.MkdirAll(filepath.Join(trash, fmt.Sprintf("%04d-10", i)), 0o700))
	}
	must.Do(t, os.MkdirAll(filepath.Join(trash, "huge-2000000000"), 0o700))
	root := must.Get(os.OpenRoot(trash))
	defer root.Close()
	must.Do(t, emptyTrash(root))
	if list := must.Get(os.ReadDir(trash)); len(list) != 1 {
		t.Errorf("%d are left", len(list))
	}
}

func TestPreviews(t *testing.T) {
	_, _, r := shop(t)
	for _, c := range []localtest.Row{
		{"files.edit", `{"path":"notes/a.txt","old":"alpha","new":"beta"}`, "--- notes/a.txt\n+++ notes/a.txt (new)\n@@ -1,1 +1,1 @@\n-alpha\n+beta\n"},
		{"files.edit", `{"path":"notes/a.txt","old":"gamma","new":"beta"}`, "text_not_found"},
		{"files.write", `{"path":"notes/a.txt","content":"beta\n","overwrite":true}`, "--- notes/a.txt\n+++ notes/a.txt (new)\n@@ -1,1 +1,1 @@\n-alpha\n+beta\n"},
		{"files.write", `{"path":"notes/none.txt","content":"beta\n"}`, ""},
	} {
		tl, _ := r.Get(c[0])
		p, ok := tool.PreviewerOf(tl)
		if !ok {
			t.Fatalf("%s shows nothing", c[0])
		}
		got, err := p.Preview(t.Context(), tool.Invocation{Args: []byte(c[1])})
		if err != nil {
			got = fault.Of(err).Code
		}
		if got != c[2] {
			t.Errorf("%s: %q, %v", c[1], got, err)
		}
	}
}

func TestLines(t *testing.T) {
	dir, r := sandbox(t)
	var b strings.Builder
	for i := 1; i <= 5000; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "long"), []byte(b.String()+"end"), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(dir, "wide"), []byte("a\n"+strings.Repeat("x", 3*maxPage)+"\nb\n"), 0o600))
	localtest.Table(t, r, []localtest.Row{
		{"files.read", `{"path":"notes/long","line":2,"lines":2}`, "line 2\nline 3\n\n[Lines 2 to 3. Read on at line 4.]"},
		{"files.read", `{"path":"notes/long","line":5000}`, "line 5000\nend\n[Lines 5000 to 5001: the end.]"},
		{"files.read", `{"path":"notes/long","line":5001,"lines":5}`, "end\n[Lines 5001 to 5001: the end.]"},
		{"files.read", `{"path":"notes/long","line":5002}`, "line_invalid"},
		{"files.read", `{"path":"notes/wide","lines":1}`, "a\n\n[Lines 1 to 1. Read on at line 2.]"},
		{"files.read", `{"path":"notes/wide","line":2}`, strings.Repeat("x", maxPage) + "\n[Lines 2 to 2. Read on at line 3.]"},
		{"files.read", `{"path":"notes/wide","line":5}`, "\nb\n\n[Lines 5 to 6: the end.]"},
		{"files.read", `{"path":"notes/wide","line":7}`, "line_invalid"},
	})
	if got := must.Get(localtest.Call(t, r, "files.read", `{"path":"notes/long"}`)); len(got) > maxPage+100 || !strings.Contains(got, "\n\n[Lines 1 to ") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestSearch(t *testing.T) {
	dir, r := sandbox(t)
	put := func(name, text string) {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	put("src/main.go", "package main\n\nfunc main() { Hello() }\n")
	put("src/hello.go", "package main\n\n// Hello says hello, world.\n")
	put("build/out.go", "func main() {}\n")
	put(".git/config", "main\n")
	put("src/.gitignore", "*.log\n!keep.log\n/gen/\n")
	put("src/a.log", "main\n")
	put("src/keep.log", "main\n")
	put("src/gen/x.go", "main\n")
	put("src/deep/gen/y.go", "main\n")
	put(".gitignore", "# built\nbuild/\n")
	put("bin", "main\x00")
	must.Do(t, os.Symlink("../../secret.txt", filepath.Join(dir, "src", "out.txt")))
	const not = "[Not searched: 1 file that is not text, 6 that are hidden or named in .gitignore.]"
	const named = "[Not searched: 2 that are hidden or named in .gitignore.]"
	localtest.Table(t, r, []localtest.Row{
		{"files.search", `{"query":"main hello"}`, "notes/src/main.go:3: func main() { Hello() }\n" + not + "\n"},
		{"files.search", `{"query":"^// H\\w+ says","regexp":true}`, "notes/src/hello.go:3: // Hello says hello, world.\n" + not + "\n"},
		{"files.search", `{"query":"main","path":"notes/src","glob":"*.log"}`, "notes/src/keep.log:1: main\n" + named + "\n"},
		{"files.search", `{"query":"main","glob":"src/**/gen/*.go"}`, "notes/src/deep/gen/y.go:1: main\n[Not searched: 3 that are hidden or named in .gitignore.]\n"},
		{"files.search", `{"query":"func","path":"notes/src/main.go"}`, "notes/src/main.go:3: func main() { Hello() }\n"},
		{"files.search", `{"query":"the secret"}`, "No line of 6 files matches.\n" + not},
		{"files.search", `{"query":"("}`, "notes/src/main.go:3: func main() { Hello() }\n" + not + "\n"},
		{"files.search", `{"query":"(","regexp":true}`, "regexp_invalid"},
		{"files.search", `{"query":"x","path":"notes/none"}`, "file_not_found"},
		{"files.search", `{"query":"x","path":"../x"}`, "path_refused"},
	})
	put("many", strings.Repeat("needle\n", maxHits+10))
	if got := must.Get(localtest.Call(t, r, "files.search", `{"query":"needle"}`)); strings.Count(got, "\n") != maxHits+2 || !strings.Contains(got, "[Stopped after 200 lines") {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	tl, _ := r.Get("files.search")
	if _, err := tl.Call(ctx, tool.Invocation{Args: []byte(`{"query":"x"}`)}); err == nil {
		t.Error("it went on after its end")
	}
}

func FuzzGlobs(f *testing.F) {
	for _, s := range []string{"*.go", "a/**/b", "[!a-z]x", "[z-a]", `\*`, "[", "**", "\xe0\\"} {
		f.Add(s, "a/b.go")
	}
	f.Fuzz(func(t *testing.T, glob, name string) { globRegexp(glob).MatchString(name) })
}
