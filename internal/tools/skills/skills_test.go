package skills

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
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

// folderOf returns a folder with files: a name and a text each.
func folderOf(t testing.TB, files ...[2]string) string {
	dir := t.TempDir()
	for _, f := range files {
		put(t, filepath.Join(dir, f[0]), f[1])
	}
	return dir
}

// zipOf returns an archive with files: a name and a text each. A text that begins with "-> " makes a link.
func zipOf(t testing.TB, files ...[2]string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f[0], Method: zip.Deflate}
		if h.SetMode(0o644); strings.HasPrefix(f[1], "-> ") {
			h.SetMode(0o777 | os.ModeSymlink)
		}
		must.Get(must.Get(z.CreateHeader(h)).Write([]byte(f[1])))
	}
	must.Do(t, z.Close())
	name := filepath.Join(t.TempDir(), "a.zip")
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
	var hash string
	for _, source := range []string{dir, folderOf(t, [2]string{"x/SKILL.md", good}, [2]string{"x/reference.md", "Details.\n"}),
		zipOf(t, [2]string{"x/SKILL.md", good}, [2]string{"x/reference.md", "Details.\n"}), "file://" + repo} {
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
	skill := [2]string{"SKILL.md", good}
	linked := folderOf(t, skill)
	must.Do(t, os.Symlink("/etc/passwd", filepath.Join(linked, "x")))
	var many [][2]string
	for i := range maxFiles + 1 {
		many = append(many, [2]string{fmt.Sprint("f", i), "x"})
	}
	head := func(text string) string { return folderOf(t, [2]string{"SKILL.md", text}) }
	for name, c := range map[string]struct{ source, code string }{
		"a backslash":    {folderOf(t, skill, [2]string{`..\evil`, "x"}), "skill_refused"},
		"a link":         {linked, "skill_refused"},
		"too much":       {folderOf(t, skill, [2]string{"zeros", strings.Repeat("\x00", maxBytes+1)}), "skill_refused"},
		"many files":     {folderOf(t, many...), "skill_refused"},
		"too deep":       {folderOf(t, skill, [2]string{strings.Repeat("d/", 20) + "x", "x"}), "skill_refused"},
		"no skill":       {folderOf(t, [2]string{"README.md", "x"}), "skill_missing"},
		"nothing":        {filepath.Join(linked, "none"), "skill_source_missing"},
		"no archive":     {filepath.Join(linked, "none.zip"), "skill_source_missing"},
		"damaged":        {filepath.Join(folderOf(t, [2]string{"a.zip", "PK"}), "a.zip"), "skill_invalid"},
		"a slip":         {zipOf(t, skill, [2]string{"a/../../evil", "x"}), "skill_refused"},
		"an absolute":    {zipOf(t, skill, [2]string{"/etc/evil", "x"}), "skill_refused"},
		"a zip's slash":  {zipOf(t, skill, [2]string{`..\evil`, "x"}), "skill_refused"},
		"a zip's link":   {zipOf(t, skill, [2]string{"x", "-> /etc/passwd"}), "skill_refused"},
		"a bomb":         {zipOf(t, skill, [2]string{"zeros", strings.Repeat("\x00", maxBytes+1)}), "skill_refused"},
		"a zip of many":  {zipOf(t, many...), "skill_refused"},
		"twice the same": {zipOf(t, skill, [2]string{"SKILL.md", "other"}), "skill_invalid"},
		"a deep zip":     {zipOf(t, skill, [2]string{strings.Repeat("d/", 20) + "x", "x"}), "skill_refused"},
		"no head":        {head("# Hello"), "skill_invalid"},
		"a bad name":     {head("---\nname: ../x\ndescription: x\n---\n"), "skill_invalid"},
		"no description": {head("---\nname: x\n---\n"), "skill_invalid"},
		"bad YAML":       {head("---\nname: [x\n---\n"), "skill_invalid"},
	} {
		list, err := Fetch(t.Context(), c.source)
		if !fault.HasCode(err, c.code) || list != nil {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Fetch(ctx, folderOf(t, skill)); err == nil {
		t.Error("it went on after its end")
	}
}

func TestApproveReadRemove(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "skills")}
	if about, err := s.About(); err != nil || about != "" {
		t.Errorf("%s, %v", about, err)
	}
	sk := must.Get(Fetch(t.Context(), folderOf(t, [2]string{"SKILL.md", good}, [2]string{"reference.md", "Details.\n"}, [2]string{"bin", "\xff"})))[0]
	if d := sk.Diff(nil); !strings.Contains(d, "+Read reference.md first.") || !strings.Contains(d, "+Details.") || !strings.Contains(d, "bin: 1 bytes that are not text") {
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
	changed := must.Get(Fetch(t.Context(), folderOf(t, [2]string{"SKILL.md", good + "More.\n"})))[0]
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

// What people write on any system is a skill: a mark at the beginning, a colon in the description, and as many
// characters as the specification allows, in any script.
func TestFrontMatterIsReadLeniently(t *testing.T) {
	long := strings.Repeat("é", 1024)
	for text, want := range map[string]string{
		"\ufeff" + good: "Fill in PDF forms. Use it for forms.",
		"---\nname: pdf-forms\ndescription: Fills in forms: use it for PDF\n---\nText\n":      "Fills in forms: use it for PDF",
		"\ufeff---\r\nname: pdf-forms\r\ndescription: Use when: forms\r\n---\r\nText\r\n":     "Use when: forms",
		"---\nname: pdf-forms\ndescription: " + long + "\n---\nText\n":                        long,
		"---\nname: pdf-forms\ndescription: Forms\nmetadata:\n  note: a: b\n---\nText\n":      "Forms",
		"---\nname: pdf-forms\ndescription: >-\n  Use it: for\n  forms\nx: y: z\n---\nText\n": "Use it: for forms",
	} {
		sk, err := parse(map[string]string{fileSkill: text})
		if err != nil || sk.Description != want {
			t.Errorf("%.80q: %+v, %v", text, sk, err)
		}
	}
	for _, text := range []string{"no head", "---\nname: pdf-forms\n---\n", "---\nname: PDF\ndescription: x\n---\n", "---\nname: pdf-forms\ndescription: " + long + "x\n---\n"} {
		if _, err := parse(map[string]string{fileSkill: text}); !fault.HasCode(err, "skill_invalid") {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}
