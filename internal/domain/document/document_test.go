package document

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/domain/local"
	"steward/internal/domain/local/localtest"
	"steward/internal/fault"
	"steward/internal/message"
	_ "steward/test/seed"
)

const (
	bridges = "# Bridges\n\nA bridge leads over a river. Mr. Smith built one in 1820! Did it hold?\n\n## Stone\n\nStone bridges are heavy; an arch carries them.\n\n```\n# no heading\n```\n\n## Steel ##\n\nSteel is light.\n"
	tunnels = "Tunnels\n=======\n\nA tunnel leads under a river or through a mountain.\n\nSteel\n-----\n\nSteel holds the walls.\n"
)

func open(t *testing.T) *localtest.Source {
	t.Helper()
	env := localtest.Env(t, "document")
	for name, text := range map[string]string{"bridges.md": bridges, "tunnels.md": tunnels, "empty.txt": "", "long.txt": strings.Repeat("many words here\n", 2000), "picture.png": "x"} {
		if err := os.WriteFile(filepath.Join(env.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return localtest.Open(t, Opener(), env, "folder: ./")
}

func TestTools(t *testing.T) {
	s := open(t)
	for _, c := range []struct {
		name, args string
		want       []string
	}{
		{"list", `{}`, []string{`- bridges.md: "Bridges", `, `- tunnels.md: "Tunnels"`, `- empty.txt: "empty", 0 words`}},
		{"read", `{"document":"tunnels"}`, []string{"Tunnels (tunnels.md)\n\n", "Steel holds the walls."}},
		{"read", `{"document":"long"}`, []string{"(The document goes on: read it from "}},
		{"read", `{"document":"long","from":31990}`, []string{"ords here"}},
		{"search", `{"query":"stone arches"}`, []string{"1. Bridges (bridges.md)\n   Stone bridges are heavy; an arch carries them."}},
		{"search", `{"query":"rockets","limit":2}`, []string{`No document has anything about "rockets".`}},
		{"outline", `{"document":"bridges"}`, []string{"- Bridges (15 words)\n  - Stone (13 words)\n  - Steel (3 words)"}},
		{"outline", `{"document":"tunnels.md"}`, []string{"- Tunnels (10 words)\n  - Steel (4 words)"}},
		{"outline", `{"document":"empty"}`, []string{"(it is empty)"}},
		{"outline", `{"document":"long"}`, []string{"- many words here many"}},
		{"compare", `{"first_document":"bridges","second_document":"the tunnels document"}`, []string{"similarity of their words:", "both speak of: ", "steel", `only "Bridges" speaks of: `, "headings of both: Steel", `headings of "Bridges" alone: Stone`}},
		{"compare", `{"first_document":"bridges","second_document":"bridges"}`, []string{"the same, to the letter"}},
		{"statistics", `{"document":"bridges"}`, []string{"31 words", "- 5 sentences", "- 3 paragraphs, 3 headings", "about a minute to read", "most frequent words: bridge"}},
		{"statistics", `{"document":"empty"}`, []string{"- 0 words, 0 different\n- 0 sentences\n"}},
	} {
		got := s.Call("q", "document."+c.name, c.args)
		for _, w := range c.want {
			if !strings.Contains(got, w) {
				t.Errorf("%s %s lacks %q:\n%s", c.name, c.args, w, local.Clip(got, 1000))
			}
		}
	}
	for args, code := range map[string]string{
		`read {"document":"rockets"}`:                                      "document_not_found",
		`outline {"document":"e"}`:                                         "document_ambiguous",
		`statistics {"document":"../x"}`:                                   "document_not_found",
		`compare {"first_document":"bridges","second_document":"rockets"}`: "document_not_found",
		`compare {"first_document":"rockets","second_document":"bridges"}`: "document_not_found",
	} {
		name, raw, _ := strings.Cut(args, " ")
		if _, err := s.Try("q", "document."+name, raw); !fault.HasCode(err, code) {
			t.Errorf("%s: %v, want %s", args, err, code)
		}
	}
	for _, spec := range s.Registry.Specs() {
		if !spec.Yields.Has(message.Untrusted) || spec.Effect != "query" || spec.Log.Summary == "" {
			t.Errorf("%+v", spec)
		}
	}
}

func TestNoFolderYet(t *testing.T) {
	s := localtest.Open(t, Opener(), localtest.Env(t, "document"), "")
	if got := s.Call("q", "document.list", `{}`); got != "There are no documents." {
		t.Errorf("%s", got)
	}
	if _, err := Opener()(localtest.Env(t, "d"), localtest.Decoder("folder: ../x")); !fault.HasCode(err, "path_invalid") {
		t.Errorf("%v", err)
	}
	if _, err := Opener()(localtest.Env(t, "d"), localtest.Decoder("x: y")); err == nil {
		t.Error("an unknown member was accepted")
	}
}

// Comparing is symmetric, 1 for the same text, and between 0 and 1.
func TestSimilarity(t *testing.T) {
	text := rapid.StringMatching(`([a-h]{1,4} ){0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := local.NewText("a", text.Draw(t, "a")), local.NewText("b", text.Draw(t, "b"))
		s := similarity(a, b)
		if s < 0 || s > 1+1e-9 || math.Abs(s-similarity(b, a)) > 1e-9 {
			t.Fatalf("%v and %v", s, similarity(b, a))
		}
		if own := similarity(a, a); own > 0 && math.Abs(own-1) > 1e-9 {
			t.Fatalf("with itself %v", own)
		}
		Compare(a, b)
		Statistics(a)
		Outline(a.Body)
	})
}
