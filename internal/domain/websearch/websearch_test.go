package websearch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/domain/local/localtest"
	"steward/internal/fault"
	"steward/internal/message"
)

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestSearchAndOpen(t *testing.T) {
	env := localtest.Env(t, "web")
	web := filepath.Join(env.Dir, "web")
	put(t, web, "tea.md", "# Tea\n\nTea is a drink made of leaves.\n\nGreen tea is not fermented; black tea is.\n")
	put(t, web, "deep/coffee.txt", "Coffee\n\nCoffee is made of roasted beans. Some prefer tea.\n")
	put(t, web, "long.md", "# Long\n\n"+strings.Repeat("a line of words\n", 3000))
	s := localtest.Open(t, Opener(Options{}), env, "folder: web")
	got := s.Call("q", "web.search", `{"query":"Which teas are fermented?"}`)
	if !strings.HasPrefix(got, "1. Tea (local:tea.md)\n   Green tea is not fermented") || !strings.Contains(got, "2. Coffee (local:deep/coffee.txt)") {
		t.Errorf("found %s", got)
	}
	if !strings.HasSuffix(got, "(This is no search of the web: a local folder of documents stands in for it.)") {
		t.Errorf("not marked: %s", got)
	}
	if got := s.Call("q", "web.search", `{"query":"tea","limit":1}`); strings.Contains(got, "2. ") {
		t.Errorf("more than one: %s", got)
	}
	if got := s.Call("q", "web.search", `{"query":"quasars"}`); !strings.HasPrefix(got, `Nothing was found for "quasars".`) {
		t.Errorf("found %s", got)
	}
	for _, page := range []string{"local:deep/coffee.txt", "coffee", "Coffee", "deep/coffee.txt"} {
		if got := s.Call("q", "web.open", map[string]string{"page": page}); !strings.HasPrefix(got, "Coffee (local:deep/coffee.txt)\n\nCoffee\n\nCoffee is made of roasted beans.") {
			t.Errorf("%s: %s", page, got)
		}
	}
	if got := s.Call("q", "web.open", `{"page":"long"}`); !strings.Contains(got, "(The page goes on: open it from 1") {
		t.Errorf("%s", got[len(got)-200:])
	}
	if _, err := s.Try("q", "web.open", `{"page":"../../etc/passwd"}`); !fault.HasCode(err, "document_not_found") {
		t.Errorf("%v", err)
	}
	for _, spec := range s.Registry.Specs() {
		if !spec.Yields.Has(message.Untrusted) || spec.Effect != "query" {
			t.Errorf("%+v", spec)
		}
	}
	if _, err := Opener(Options{})(env, localtest.Decoder("folder: ../x")); !fault.HasCode(err, "path_invalid") {
		t.Errorf("%v", err)
	}
	if _, err := Opener(Options{})(env, localtest.Decoder("dir: x")); err == nil {
		t.Error("an unknown member was accepted")
	}
}
