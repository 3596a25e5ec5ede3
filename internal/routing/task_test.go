package routing

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/catalog"
	"steward/internal/kits"
	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/search/similar"
	"steward/internal/store/sqlite"
	"steward/internal/tool"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// shelf is a catalog of agents.
type shelf struct {
	kits.Catalog
	tree *catalog.Tree
}

func (s shelf) Tree() *catalog.Tree { return s.tree }

// treeOf returns a tree of agents that are described by "path: description | example | example".
func treeOf(lines ...string) *catalog.Tree {
	tree := &catalog.Tree{Version: 1, Root: &catalog.Agent{}, ByPath: map[string]*catalog.Agent{}}
	for _, line := range lines {
		path, about, _ := strings.Cut(line, ": ")
		parts := strings.Split(about, " | ")
		a := &catalog.Agent{Path: path, Name: path[strings.LastIndexByte(path, '/')+1:], Description: parts[0], Metadata: resource.Metadata{Purpose: parts[0]}}
		for _, say := range parts[1:] {
			a.Examples = append(a.Examples, catalog.Example{Say: say})
		}
		above := tree.Root
		if i := strings.LastIndexByte(path, '/'); i >= 0 {
			above = tree.ByPath[path[:i]]
		}
		above.Children = append(above.Children, a)
		tree.ByPath[path] = a
	}
	return tree
}

// subjects is an embedding model: each text is about the first of its subjects that it names.
type subjects [][]string

func (s subjects) Embed(_ context.Context, texts []string) (llm.Vectors, error) {
	out := llm.Vectors{Model: "test/e"}
	for _, t := range texts {
		v := make([]float32, len(s)+1)
		v[len(s)] = 0.2
		for i, words := range s {
			for _, w := range words {
				if strings.Contains(strings.ToLower(t), w) {
					v[i] = 1
				}
			}
		}
		out.Values = append(out.Values, v)
	}
	return out, nil
}

func engineOf(t *testing.T, tree *catalog.Tree, threshold float64, near *similar.Finder) *Engine {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	k := kits.New(kits.Options{Tools: &tool.Registry{}})
	if err := k.Build(kits.Assistant); err != nil {
		t.Fatal(err)
	}
	return NewEngine(Options{Mode: Auto, Store: st, Kits: k, Catalog: shelf{tree: tree}, TaskThreshold: threshold, Similar: near, Log: slog.New(slog.DiscardHandler)})
}

var office = []string{
	"mail: Reads and sends mail. | Send a mail to Ana | Any new mail? | Answer Bob's mail | Forward the mail to the team",
	"money: Keeps the books. | Which invoices are due? | Book the invoice of the printer | What did we spend in May? | Pay the invoice",
	"money/tax: Prepares tax returns. | Prepare the tax return | Which taxes are due? | How much tax did we pay last year?",
	"money/wages: Pays the wages. | Pay the wages of May | What does Ana earn? | Raise the salary of Bob",
}

func TestAgentFor(t *testing.T) {
	t.Parallel()
	e := engineOf(t, treeOf(office...), 0.5, nil)
	find := func(e *Engine, about resource.Metadata, fits func(string) bool) string {
		t.Helper()
		path, sure, err := e.AgentFor(t.Context(), Task{User: "ana", About: about, Fits: fits})
		if err != nil || (path == "") != (sure == 0) || sure > 1.5 {
			t.Fatalf("%q %g %v", path, sure, err)
		}
		return path
	}
	for purpose, want := range map[string]string{
		"Send a mail to the landlord":              "mail",
		"Prepare the tax return for 2029":          "money/tax", // nested: its own examples are nearer than those of the agent above it
		"Pay the wages and salaries of June":       "money/wages",
		"Book the invoice for the new chairs":      "money",
		"Write a poem about the sea":               "",
		"Who was the first person on the moon?":    "",
		"Tell me a joke about a horse in a tavern": "",
	} {
		if got := find(e, resource.Metadata{Purpose: purpose}, nil); got != want {
			t.Errorf("%q is for %q, not %q", purpose, got, want)
		}
	}
	// Without a purpose, the instructions count. An agent that cannot do it leaves it to those above or below it that can.
	if got := find(e, resource.Metadata{Instructions: "Send a mail to Ana"}, nil); got != "mail" {
		t.Errorf("by its instructions: %q", got)
	}
	if got := find(e, resource.Metadata{Purpose: "Prepare the tax return for 2029"}, func(path string) bool { return path != "money/tax" }); got == "money/tax" {
		t.Error("an agent that cannot do the task gets it")
	}
	if got := find(e, resource.Metadata{Purpose: "Prepare the tax return for 2029"}, func(path string) bool { return path != "money" }); got != "money/tax" {
		t.Errorf("the agent below one that cannot do it: %q", got)
	}
	// The threshold decides who is sure enough.
	e.opt.TaskThreshold = 1
	if got := find(e, resource.Metadata{Purpose: "Send a mail to the landlord"}, nil); got != "" {
		t.Errorf("with the threshold 1: %q", got)
	}
	if got := find(engineOf(t, treeOf(), 0.5, nil), resource.Metadata{Purpose: "Send a mail"}, nil); got != "" {
		t.Errorf("without agents: %q", got)
	}
}

// An embedding model finds the agent of a task that shares no word with it, and changes nothing that the words are sure
// of.
func TestAgentForBySimilarity(t *testing.T) {
	t.Parallel()
	model := subjects{{"mail", "letter", "briefe"}, {"invoice", "books", "rechnung"}, {"tax return", "steuer"}, {"wages", "lohn"}}
	near := similar.New(similar.Options{Model: func() (similar.Model, error) { return similar.Model{Name: "test/e", Embedder: model}, nil },
		Life: t.Context(), Go: func(f func()) bool { go f(); return true }})
	with, without := engineOf(t, treeOf(office...), 0.7, near), engineOf(t, treeOf(office...), 0.7, nil)
	for purpose, want := range map[string]string{"Die Steuererklärung vorbereiten": "money/tax", "Briefe verschicken": "mail", "Lohn auszahlen": "money/wages"} {
		got, _, err := with.AgentFor(t.Context(), Task{User: "ana", About: resource.Metadata{Purpose: purpose}})
		if err != nil || got != want {
			t.Errorf("%q is for %q, not %q (%v)", purpose, got, want, err)
		}
		if got, _, err := without.AgentFor(t.Context(), Task{User: "ana", About: resource.Metadata{Purpose: purpose}}); err != nil || got == want {
			t.Errorf("%q is for %q without a model (%v): it shares words", purpose, got, err)
		}
	}
	for _, purpose := range []string{"Send a mail to the landlord", "Pay the wages of June", "Write a poem about the sea", "Which invoices are due?"} {
		about := resource.Metadata{Purpose: purpose}
		a, sure, err := without.AgentFor(t.Context(), Task{User: "ana", About: about})
		b, surer, err2 := with.AgentFor(t.Context(), Task{User: "ana", About: about})
		if err != nil || err2 != nil || a != "" && (a != b || surer < sure) {
			t.Errorf("%q is for %q (%g), and with a model for %q (%g) (%v, %v)", purpose, a, sure, b, surer, err, err2)
		}
	}
}
