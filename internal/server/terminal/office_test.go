package terminal_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

// office is a real catalog over a folder, as the chat decides about it.
type office struct {
	*catalog.Catalog
	t   *testing.T
	dir string

	mu      sync.Mutex
	refuses error // what looking at anything comes to
	holds   chan struct{}
	nobody  bool // the person may not decide
}

func newOffice(t *testing.T) *office {
	t.Parallel() // most of the time the keyboard rests
	o := &office{t: t, dir: t.TempDir()}
	opener := func(env tool.Env, _ func(any) error) (tool.Source, error) { return notes{env.Name, o}, nil }
	var err error
	o.Catalog, err = catalog.Open(t.Context(), catalog.Options{Store: storetest.NewModel(), Folders: []string{filepath.Join(o.dir, "agents")}, Data: t.TempDir(),
		Openers: map[string]tool.Opener{"domain:notes": opener, "mcp": opener, "grpc": opener}, Log: slog.New(slog.DiscardHandler),
		Servers: []string{filepath.Join(o.dir, "mcp.json")}, Root: []catalog.RootSource{{Kind: "grpc", Name: "hash", File: "steward.yaml", Definition: []byte(`{"host":"127.0.0.1:1"}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := o.Catalog.Deny(t.Context(), "ada", "grpc:hash", ""); err != nil { // until a test wants it
		t.Fatal(err)
	}
	return o
}

// notes is a source of one tool, and says no more than that.
type notes struct {
	name string
	o    *office
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

func (o *office) set(refuses error, holds chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuses, o.holds = refuses, holds
}

func (o *office) may() error {
	if o.nobody {
		return fault.New(fault.Denied, "admin_only", "it is decided elsewhere")
	}
	return nil
}

func (o *office) Inspect(ctx context.Context, path string) (catalog.Inspection, error) {
	if err := o.may(); err != nil {
		return catalog.Inspection{}, err
	}
	return o.Catalog.Inspect(ctx, path)
}

func (o *office) Approve(ctx context.Context, by, path, hash string, set map[string]catalog.ToolSetting) (catalog.Listing, error) {
	if err := o.may(); err != nil {
		return catalog.Listing{}, err
	}
	return o.Catalog.Approve(ctx, by, path, hash, set)
}

func (o *office) Deny(ctx context.Context, by, path, reason string) (catalog.Listing, error) {
	if err := o.may(); err != nil {
		return catalog.Listing{}, err
	}
	return o.Catalog.Deny(ctx, by, path, reason)
}

// write puts a file into the folder and has it seen.
func (o *office) write(name, text string) {
	o.t.Helper()
	file := filepath.Join(o.dir, name)
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

func (o *office) agent(at, more string) {
	o.t.Helper()
	name := filepath.Base(at)
	o.write("agents/"+at+"/agent.yaml", "name: "+name+"\ndescription: Does "+name+".\ndomains: {notes: }\n"+more)
}

func (o *office) is(path string, want catalog.Status) {
	o.t.Helper()
	for _, l := range o.Listings() {
		if l.Path == path {
			if l.Status != want {
				o.t.Errorf("%s is %s, want %s", path, l.Status, want)
			}
			return
		}
	}
	o.t.Errorf("%s is not there", path)
}
