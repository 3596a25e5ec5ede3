package served

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/tool"
	"steward/test/storetest"
)

// Office is a real catalog over a folder: agents in agents, servers in
// mcp.json. Each agent has the tool notes.add, and each server one of its name.
type Office struct {
	*catalog.Catalog
	Dir    string
	Nobody bool // nobody may decide
	t      *testing.T

	mu      sync.Mutex
	refuses error // the error of every inspection
	holds   chan struct{}
}

// NewOffice opens a catalog with further sources of the person's own.
func NewOffice(t *testing.T, root ...catalog.RootSource) *Office {
	t.Helper()
	o := &Office{t: t, Dir: t.TempDir()}
	opener := func(env tool.Env, _ func(any) error) (tool.Source, error) { return notes{env.Name, o}, nil }
	var err error
	o.Catalog, err = catalog.Open(t.Context(), catalog.Options{Store: storetest.NewModel(), Folders: []string{filepath.Join(o.Dir, "agents")}, Data: t.TempDir(),
		Openers: map[string]tool.Opener{"mcp": opener, "grpc": opener}, Log: slog.New(slog.DiscardHandler),
		Servers: []string{filepath.Join(o.Dir, "mcp.json")}, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// notes is a source of one tool.
type notes struct {
	name string
	o    *Office
}

func (n notes) Announce(ctx context.Context) (tool.Announcement, error) {
	n.o.mu.Lock()
	refuses, holds := n.o.refuses, n.o.holds
	n.o.mu.Unlock()
	if holds != nil {
		select {
		case <-holds:
		case <-ctx.Done():
			return tool.Announcement{}, ctx.Err()
		}
	}
	return tool.Announcement{Specs: []tool.Spec{n.Spec()}}, refuses
}
func (n notes) Tool(tool.Spec) tool.Tool { return n }
func (n notes) Files() []string          { return nil }
func (n notes) Close() error             { return nil }
func (n notes) Spec() tool.Spec {
	return tool.Spec{Name: n.name + ".add", Description: "Keeps a note.", Effect: tool.Action, Input: []byte(`{"type":"object"}`)}
}
func (n notes) Call(context.Context, tool.Invocation) (tool.Result, error) {
	return tool.Text("kept"), nil
}

// Set has inspections fail with an error, or wait until holds is closed.
func (o *Office) Set(refuses error, holds chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuses, o.holds = refuses, holds
}

func (o *Office) may() error {
	if o.Nobody {
		return fault.New(fault.Denied, "admin_only", "it is decided elsewhere")
	}
	return nil
}

// Inspect implements catalog.Approver.
func (o *Office) Inspect(ctx context.Context, path string) (catalog.Inspection, error) {
	if err := o.may(); err != nil {
		return catalog.Inspection{}, err
	}
	return o.Catalog.Inspect(ctx, path)
}

// Write writes a file below Dir, and has the catalog read it.
func (o *Office) Write(name, text string) {
	o.t.Helper()
	file := filepath.Join(o.Dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		o.t.Fatal(err)
	}
	if err := o.Rescan(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
}

// Agent writes an agent.yaml, with more lines.
func (o *Office) Agent(at, more string) {
	o.t.Helper()
	name := filepath.Base(at)
	o.Write("agents/"+at+"/agent.yaml", "name: "+name+"\ndescription: Does "+name+".\nmcp: {notes: {}}\n"+more)
}
