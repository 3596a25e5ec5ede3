package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/message"
)

func TestPast(t *testing.T) {
	tr := newTurn(t, 40)
	for _, m := range []*message.Message{
		{Role: message.User, Blocks: []message.Block{&message.Text{Text: "hello"}}},
		{Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Name: "a.b", Status: message.Failed}}},
		{Role: message.Assistant, Blocks: []message.Block{&message.Text{Text: "hi"}}},
		{Role: message.System},
	} {
		tr.renderHistory(m)
	}
	if got := tr.printed(); got != "› hello\n\n✗ a.b → \n\nhi" {
		t.Errorf("%q", got)
	}
}

func TestHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	h, err := openHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"one", "two\nlines", "two\nlines", strings.Repeat("x", maxOne+1)} {
		if err := h.add(s); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if h, err = openHistory(file); err != nil || len(h.lines) != 2 {
		t.Fatalf("%+v %v", h, err)
	}
	steps := []struct {
		by   int
		want string
		ok   bool
	}{{1, "", false}, {-1, "two\nlines", true}, {-1, "one", true}, {-1, "", false}, {1, "two\nlines", true}, {1, "draft", true}}
	for i, s := range steps {
		if got, ok := h.move(s.by, "draft"); got != s.want || ok != s.ok {
			t.Errorf("step %d: %q %v", i, got, ok)
		}
	}
	var many strings.Builder
	for i := range keptLines + 5 {
		fmt.Fprintf(&many, "\"line %d\"\nnonsense\n", i)
	}
	if err := os.WriteFile(file, []byte(many.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err = openHistory(file); err != nil || len(h.lines) != keptLines || h.lines[0] != "line 5" {
		t.Errorf("%d lines, %v", len(h.lines), err)
	}
	if b, err := os.ReadFile(file); err != nil || strings.Count(string(b), "\n") != keptLines {
		t.Errorf("the file was not shortened: %v", err)
	}
	if _, err := openHistory(t.TempDir()); err == nil {
		t.Error("a folder was taken for a file")
	}
	if err := (&history{file: "/nowhere/history"}).add("x"); err == nil {
		t.Error("not told that nothing is kept")
	}
	if err := (&history{file: "/nowhere/history"}).rewrite(); err == nil {
		t.Error("not told that nothing is kept")
	}
	if _, err := newChat(t.Context(), Options{History: t.TempDir()}); err == nil {
		t.Error("not told that the history cannot be read")
	}
	if err := Run(t.Context(), Options{History: t.TempDir()}); err == nil {
		t.Error("not told that the history cannot be read")
	}
}
