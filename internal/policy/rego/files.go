package rego

import (
	"embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"steward/internal/fault"
)

//go:embed templates/*.rego
var templates embed.FS

// TemplateFile is the file in the user's folder to which a template is written.
const TemplateFile = "template.rego"

// Template is a set of rules for a kind of household.
type Template struct {
	Name  string `json:"name"`
	About string `json:"about"` // in one line
	Text  string `json:"text,omitzero"`
}

// Templates returns the templates; the one named default has no rules.
func Templates() ([]Template, error) {
	out := []Template{{Name: "default", About: "each action requires approval; only the default rules apply"}}
	for _, name := range []string{"family", "team", "locked"} {
		b, err := templates.ReadFile("templates/" + name + ".rego")
		if err != nil {
			return nil, err
		}
		about, _, _ := strings.Cut(strings.TrimPrefix(string(b), "# "), "\n")
		out = append(out, Template{Name: name, About: about, Text: string(b)})
	}
	return out, nil
}

// Use writes a template into a folder, in place of the previous one, and returns the path of
// the file. If the previous one was changed by hand, Use refuses (policy_changed, Conflict);
// with force it keeps that file as FILE.old.
func Use(dir, name string, force bool) (string, error) {
	all, err := Templates()
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(all, func(t Template) bool { return t.Name == name })
	if i < 0 {
		return "", fault.New(fault.NotFound, "template_unknown", "unknown template %.60q", name).
			WithHint("the templates are default, family, team and locked")
	}
	if err := makeDir(dir); err != nil {
		return "", err
	}
	file := filepath.Join(dir, TemplateFile)
	old, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", unwritable(err)
	case slices.ContainsFunc(all, func(t Template) bool { return t.Text == string(old) }):
	case !force:
		return "", fault.New(fault.Conflict, "policy_changed", "%s was changed by hand", file).
			WithHint("rename it to keep it active next to the template, or use --force to replace it and keep an inactive copy as %s.old", TemplateFile)
	default:
		if err := os.Rename(file, file+".old"); err != nil {
			return "", unwritable(err)
		}
	}
	if all[i].Text == "" {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", unwritable(err)
		}
		return "", nil
	}
	return file, write(file, all[i].Text)
}

// write replaces a file as a whole, so that a watcher never sees half of it.
func write(file, text string) error {
	tmp := file + ".new"
	if err := os.WriteFile(tmp, []byte(text), 0o600); err != nil {
		return unwritable(err)
	}
	if err := os.Rename(tmp, file); err != nil {
		return unwritable(err)
	}
	return nil
}

func unwritable(err error) error {
	return fault.New(fault.Unavailable, "policy_unwritable", "the policies cannot be written: %w", err)
}

// File is a file of policies.
type File struct {
	Name string `json:"name"` // "default/tools.rego", "house.rego"
	Text string `json:"text"`
}

// Loaded describes the policies of a folder together with the default bundle.
type Loaded struct {
	Version string `json:"version"`
	Files   []File `json:"files"`
	Tests   int    `json:"tests"` // files with tests
}

// Check reads and compiles policies as Open does, and returns what it found.
// Error codes: policy_invalid, policy_unreadable.
func Check(dir string, settings map[string]any) (Loaded, error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = ""
	}
	src, err := readSources(dir)
	if err != nil {
		return Loaded{}, err
	}
	out := Loaded{Tests: len(src.tests)}
	for _, n := range src.names {
		out.Files = append(out.Files, File{Name: n, Text: src.text[n]})
	}
	p, err := compile(src, settings)
	if err != nil {
		return out, err
	}
	out.Version = p.version
	return out, nil
}

// Files returns the policies in force, the default bundle first.
func (j *Authorizer) Files() []File {
	src := j.now.Load().sources
	out := make([]File, 0, len(src.names))
	for _, n := range src.names {
		out = append(out, File{Name: n, Text: src.text[n]})
	}
	return out
}
