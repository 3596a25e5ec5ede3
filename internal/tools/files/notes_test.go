package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/tool"
	"steward/test/localtest"
)

func TestNotes(t *testing.T) {
	dir, trash := filepath.Join(t.TempDir(), "work"), t.TempDir()
	r := kitOf(t, Options{Folders: []Folder{{Name: "workspace", Path: dir, Write: true, Make: true}}, Trash: func(string) string { return trash }, Notes: "workspace/Notes"})
	localtest.Table(t, r, []localtest.Row{
		{"notes.list", `{}`, "There are no notes yet."},
		{"notes.search", `{"query":"tulips"}`, "There are no notes yet."},
		{"notes.read", `{"title":"Garden"}`, "file_not_found"},
		{"notes.append", `{"title":"Garden","text":"- tulips"}`, "Added to workspace/Notes/Garden.md: it has 9 bytes now."},
		{"notes.write", `{"title":"Garden","text":"x"}`, "file_exists"},
		{"notes.write", `{"title":"House.md","text":"# House"}`, "Wrote workspace/Notes/House.md: 7 bytes."},
		{"notes.read", `{"title":"Garden"}`, "- tulips\n"},
		{"notes.search", `{"query":"TULIPS"}`, "workspace/Notes/Garden.md:1: - tulips\n"},
		{"notes.read", `{"title":"../secret"}`, "title_invalid"},
		{"notes.write", `{"title":"a/b","text":"x"}`, "title_invalid"},
		{"notes.write", `{"title":".hidden","text":"x"}`, "title_invalid"},
		{"notes.append", `{"title":"Garden","text":"` + strings.Repeat("x", maxNote) + `"}`, "note_too_large"},
	})
	tl, _ := r.Get("notes.append")
	c := change{t, tl, tool.Invocation{Args: []byte(`{"title":"House","text":"Paint it."}`), Key: "k", User: "ann"}}
	c.make()
	at := filepath.Join(dir, "Notes", "House.md")
	if b, err := os.ReadFile(at); err != nil || string(b) != "# House\nPaint it.\n" {
		t.Errorf("%q, %v", b, err)
	}
	if err := c.undo(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(at); err != nil || string(b) != "# House" {
		t.Errorf("%q, %v", b, err)
	}
}
