// Package agents_test tests the agents of examples/agents: whether requests are
// routed to the right tool, and whole turns through a node.
package agents_test

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/catalog"
	"steward/internal/domain/calendar"
	"steward/internal/domain/document"
	"steward/internal/domain/email"
	"steward/internal/domain/task"
	"steward/internal/domain/timer"
	"steward/internal/domain/weather"
	"steward/internal/domain/websearch"
	"steward/internal/effect"
	"steward/internal/llm"
	"steward/internal/policy"
	"steward/internal/store"
	"steward/internal/store/storetest"
	"steward/internal/tool"
	"steward/internal/toolkit/builtin"
)

// now is a Wednesday, 11:00 in Vienna.
var now = time.Date(2026, 3, 4, 10, 0, 0, 0, time.UTC)

const zoneName = "Europe/Vienna"

func zone(tb testing.TB) *time.Location {
	z, err := time.LoadLocation(zoneName)
	if err != nil {
		tb.Fatal(err)
	}
	return z
}

// copyAgents copies the example agents into a folder.
func copyAgents(tb testing.TB, dir string) {
	tb.Helper()
	from := filepath.Join("..", "..", "examples", "agents")
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, b, 0o644)
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// openers returns the domains as cmd/steward passes them, but with a given
// clock.
func openers(tb testing.TB, clock func() time.Time) map[string]tool.Opener {
	z := zone(tb)
	of := func(string) *time.Location { return z }
	return map[string]tool.Opener{
		email.Kind:     email.Opener(email.Options{Now: clock, Zone: of}),
		calendar.Kind:  calendar.Opener(calendar.Options{Now: clock, Zone: of}),
		task.Kind:      task.Opener(task.Options{Now: clock, Zone: of}),
		timer.Kind:     timer.Opener(timer.Options{Now: clock, Zone: of}),
		weather.Kind:   weather.Opener(weather.Options{Now: clock, Zone: of}),
		websearch.Kind: websearch.Opener(websearch.Options{}),
		document.Kind:  document.Opener(),
	}
}

// ownTools returns the node's own tools.
func ownTools(tb testing.TB) *tool.Registry {
	tb.Helper()
	r := &tool.Registry{}
	tools, err := builtin.Tools(builtin.Options{Now: func() time.Time { return now }})
	if err != nil {
		tb.Fatal(err)
	}
	for _, t := range tools {
		if err := r.Add(t); err != nil {
			tb.Fatal(err)
		}
	}
	return r
}

// openCatalog opens a catalog of a copy of the example agents and approves all
// of them.
func openCatalog(tb testing.TB, dir string, st store.Store, clock func() time.Time) *catalog.Catalog {
	tb.Helper()
	agents := filepath.Join(dir, "agents")
	copyAgents(tb, agents)
	c, err := catalog.Open(context.Background(), catalog.Options{Store: st, Folders: []string{agents}, Data: filepath.Join(dir, "private"),
		Openers: openers(tb, clock), Names: ownTools(tb).Names, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	list, err := c.List(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	for _, l := range list {
		if len(l.Problems) > 0 {
			tb.Fatalf("%s: %+v", l.Path, l.Problems)
		}
		in, err := c.Inspect(context.Background(), l.Path)
		if err != nil {
			tb.Fatal(err)
		}
		for _, w := range in.Warnings {
			if !strings.HasPrefix(w, "change something") {
				tb.Errorf("%s: %s", l.Path, w)
			}
		}
		if _, err := c.Approve(context.Background(), "ann", l.Path, in.Hash, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return c
}

// levels returns the tools that each agent of a tree sees, as the runtime
// provides them: its own, its children's NAME.ask, and at the top the node's
// own.
func levels(tb testing.TB, tree *catalog.Tree) map[string]*llm.Toolset {
	tb.Helper()
	read := effect.New(effect.Options{Store: storetest.NewModel(), Authorizer: policy.Fixed{}}).ReadTool()
	out := map[string]*llm.Toolset{}
	for path, a := range tree.ByPath {
		specs := []tool.Spec{read.Spec()}
		if path == "" {
			specs = append(specs, ownTools(tb).Specs()...)
			specs = append(specs, tool.Spec{Name: "conversation.search", Effect: tool.Query, Input: []byte(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`),
				Description: "Searches the text of the user's earlier conversations and of this one: what was said, and what tools gave. Use it when the user speaks of something that was said before. Newest first."})
		}
		if a.Tools != nil {
			specs = append(specs, a.Tools.Specs()...)
		}
		for _, c := range a.Children {
			specs = append(specs, tool.Spec{Name: c.Name + ".ask", Effect: tool.Query, Origin: "agent:" + c.Path,
				Description: "Asks the agent " + c.Name + ", which works on it by itself and answers.\n" + strings.TrimSpace(c.Description),
				Input:       []byte(`{"type":"object","properties":{"request":{"type":"string","minLength":1,"description":"What it is to do or to tell, with all that it has to know: it sees nothing of this conversation."}},"required":["request"],"additionalProperties":false}`)})
		}
		out[path] = llm.NewToolset(specs...)
	}
	return out
}
