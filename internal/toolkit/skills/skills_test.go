package skills

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/must"
)

const good = "---\nname: pdf-forms\ndescription: Fill in PDF forms. Use it for forms.\nallowed-tools: Bash(*)\n---\nRead reference.md first.\n"

func put(t testing.TB, name, text string) {
	must.Do(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must.Do(t, os.WriteFile(name, []byte(text), 0o600))
}

// entry is a file of an archive; link makes it a symbolic link to text.
type entry struct {
	name, text string
	link       bool
}

func zipOf(t testing.TB, list ...entry) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		if h.SetMode(0o644); e.link {
			h.SetMode(0o777 | os.ModeSymlink)
		}
		must.Get(must.Get(z.CreateHeader(h)).Write([]byte(e.text)))
	}
	must.Do(t, z.Close())
	name := filepath.Join(t.TempDir(), "a.zip")
	put(t, name, b.String())
	return name
}

func tarOf(t testing.TB, list ...entry) string {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	w := tar.NewWriter(gz)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.link {
			h.Typeflag, h.Linkname, h.Size, e.text = tar.TypeSymlink, e.text, 0, ""
		}
		if h.Linkname == "SKILL.md" {
			h.Typeflag = tar.TypeLink
		}
		must.Do(t, w.WriteHeader(h))
		must.Get(w.Write([]byte(e.text)))
	}
	must.Do(t, w.Close())
	must.Do(t, gz.Close())
	name := filepath.Join(t.TempDir(), "a.tar.gz")
	put(t, name, b.String())
	return name
}

func TestFetch(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "SKILL.md"), good)
	put(t, filepath.Join(dir, "reference.md"), "Details.\n")
	repo := filepath.Join(t.TempDir(), "repo")
	put(t, filepath.Join(repo, "skills", "pdf-forms", "SKILL.md"), good)
	put(t, filepath.Join(repo, "skills", "pdf-forms", "reference.md"), "Details.\n")
	put(t, filepath.Join(repo, "README.md"), "Others.\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x"}} {
		c := exec.Command("git", args...)
		c.Dir = repo
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	files := []entry{{"x/SKILL.md", good, false}, {"x/reference.md", "Details.\n", false}}
	var hash string
	for _, source := range []string{dir, zipOf(t, files...), tarOf(t, files...), "file://" + repo} {
		list, err := Fetch(t.Context(), source)
		if err != nil || len(list) != 1 || list[0].Name != "pdf-forms" || list[0].Description != "Fill in PDF forms. Use it for forms." || list[0].Source != source || len(list[0].Files) != 2 {
			t.Fatalf("%s: %+v, %v", source, list, err)
		}
		if hash == "" {
			hash = list[0].Hash()
		}
		if list[0].Hash() != hash {
			t.Errorf("%s has another hash", source)
		}
	}
	if _, err := Fetch(t.Context(), "file://"+dir); !fault.HasCode(err, "git_failed") {
		t.Error(err)
	}
	if _, err := Fetch(t.Context(), "https://--upload-pack=touch x"); err == nil {
		t.Error("an option was taken for a URL")
	}
}

func TestHostileSources(t *testing.T) {
	skill := entry{"SKILL.md", good, false}
	linked := t.TempDir()
	put(t, filepath.Join(linked, "SKILL.md"), good)
	must.Do(t, os.Symlink("/etc/passwd", filepath.Join(linked, "x")))
	bomb := entry{"zeros", strings.Repeat("\x00", maxBytes+1), false}
	var many []entry
	for i := range maxFiles + 1 {
		many = append(many, entry{strings.Repeat("f", i+1), "x", false})
	}
	for name, c := range map[string]struct{ source, code string }{
		"zip slip":         {zipOf(t, skill, entry{"../evil", "x", false}), "skill_refused"},
		"tar slip":         {tarOf(t, skill, entry{"a/../../evil", "x", false}), "skill_refused"},
		"an absolute path": {tarOf(t, skill, entry{"/etc/evil", "x", false}), "skill_refused"},
		"a backslash":      {zipOf(t, skill, entry{`..\evil`, "x", false}), "skill_refused"},
		"a link in a zip":  {zipOf(t, skill, entry{"x", "/etc/passwd", true}), "skill_refused"},
		"a hard link":      {tarOf(t, skill, entry{"x", "SKILL.md", true}), "skill_refused"},
		"a link in a tar":  {tarOf(t, skill, entry{"x", "/etc/passwd", true}), "skill_refused"},
		"a link":           {linked, "skill_refused"},
		"a zip bomb":       {zipOf(t, skill, bomb), "skill_refused"},
		"a tar bomb":       {tarOf(t, skill, bomb), "skill_refused"},
		"many files":       {zipOf(t, many...), "skill_refused"},
		"twice the same":   {zipOf(t, skill, entry{"SKILL.md", "other", false}), "skill_refused"},
		"too deep":         {zipOf(t, skill, entry{strings.Repeat("d/", 20) + "x", "x", false}), "skill_refused"},
		"no skill":         {zipOf(t, entry{"README.md", "x", false}), "skill_missing"},
		"no archive":       {filepath.Join(linked, "none.zip"), "skill_source_missing"},
		"no head":          {zipOf(t, entry{"SKILL.md", "# Hello", false}), "skill_invalid"},
		"a bad name":       {zipOf(t, entry{"SKILL.md", "---\nname: ../x\ndescription: x\n---\n", false}), "skill_invalid"},
		"no description":   {zipOf(t, entry{"SKILL.md", "---\nname: x\n---\n", false}), "skill_invalid"},
		"bad YAML":         {zipOf(t, entry{"SKILL.md", "---\nname: [x\n---\n", false}), "skill_invalid"},
	} {
		list, err := Fetch(t.Context(), c.source)
		if !fault.HasCode(err, c.code) || list != nil {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	damaged := filepath.Join(t.TempDir(), "d.tar.gz")
	put(t, damaged, "no gzip")
	if _, err := Fetch(t.Context(), damaged); !fault.HasCode(err, "skill_invalid") {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Fetch(ctx, zipOf(t, skill)); err == nil {
		t.Error("it went on after its end")
	}
}

func TestApproveReadRemove(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "skills")}
	if about, err := s.About(); err != nil || about != "" {
		t.Errorf("%s, %v", about, err)
	}
	sk := must.Get(Fetch(t.Context(), zipOf(t, entry{"SKILL.md", good, false}, entry{"reference.md", "Details.\n", false}, entry{"bin", "\xff", false})))[0]
	if d := sk.Diff(nil); !strings.Contains(d, "+Read reference.md first.") || !strings.Contains(d, "+Details.") || !strings.Contains(d, "bin: 1 bytes that are no text") {
		t.Error(d)
	}
	must.Do(t, s.Approve(sk, time.Now()))
	tools := must.Get(Tools(s))
	if about := must.Get(s.About()); !strings.HasSuffix(about, "skills.read:\n- pdf-forms: Fill in PDF forms. Use it for forms.") {
		t.Error(about)
	}
	read := func(args string) (string, error) {
		res, err := tools[0].Call(t.Context(), tool.Invocation{Args: []byte(args)})
		if err != nil {
			return fault.Of(err).Code, err
		}
		return res.Content[0].(*message.Text).Text, nil
	}
	for args, want := range map[string]string{
		`{"name":"pdf-forms"}`:                         good + "\n\nFiles of this skill, which commands and programs find in /skills/pdf-forms: SKILL.md, bin, reference.md",
		`{"name":"pdf-forms","file":"reference.md"}`:   "Details.\n",
		`{"name":"pdf-forms","file":"./reference.md"}`: "Details.\n",
		`{"name":"pdf-forms","file":"../skill.json"}`:  "skill_file_not_found",
		`{"name":"pdf-forms","file":"bin"}`:            "not_a_text",
		`{"name":"../pdf-forms"}`:                      "skill_not_found",
		`{"name":"other"}`:                             "skill_not_found",
	} {
		if got, _ := read(args); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
	changed := must.Get(Fetch(t.Context(), zipOf(t, entry{"SKILL.md", good + "More.\n", false})))[0]
	old, _, err := s.Get(t.Context(), "pdf-forms")
	if d := changed.Diff(old); err != nil || !strings.Contains(d, "+More.") || !strings.Contains(d, "reference.md is removed") {
		t.Errorf("%s, %v", d, err)
	}
	must.Do(t, s.Approve(changed, time.Now()))
	if got, _ := read(`{"name":"pdf-forms"}`); got != good+"More.\n" {
		t.Errorf("%q", got)
	}
	// What is changed in the store is not what was approved.
	put(t, filepath.Join(s.Dir, "pdf-forms", "files", "SKILL.md"), good+"Evil.\n")
	if got, _ := read(`{"name":"pdf-forms"}`); got != "skill_changed" {
		t.Errorf("%q", got)
	}
	must.Do(t, s.Remove("pdf-forms"))
	if list, err := s.List(); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := s.Remove("pdf-forms"); !fault.HasCode(err, "skill_not_found") {
		t.Error(err)
	}
	if entries := must.Get(os.ReadDir(s.Dir)); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("---\nname: x\ndescription: |\n  y\n---")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parse(map[string]string{fileSkill: text}); err == nil && (!goodName.MatchString(s.Name) || s.Description == "") {
			t.Fatalf("%+v", s)
		}
	})
}
