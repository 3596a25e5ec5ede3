package catalog

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/locked"
	"steward/test/must"
	"steward/test/storetest"
)

// world is the environment of a catalog: a folder of agents, a store, and sources whose announcements the
// test chooses.
type world struct {
	t     testing.TB
	dir   string // of agents
	data  string
	store store.Store
	opt   Options
	edge  *edge
	log   *locked.Buffer
}

func newWorld(t testing.TB) *world {
	base := t.TempDir()
	w := &world{t: t, dir: filepath.Join(base, "agents"), data: filepath.Join(base, "private"), store: storetest.NewModel(), edge: &edge{}, log: &locked.Buffer{}}
	w.mkdir(w.dir)
	w.opt = Options{Store: w.store, Folders: []string{w.dir}, Data: w.data, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Names:      func() []string { return []string{"math.evaluate", "time.now", "files.read"} },
		Quiet:      5 * time.Millisecond,
		HookOpener: w.edge.hook,
		Openers:    map[string]tool.Opener{"mcp": w.edge.open, "grpc": w.edge.open, "process": w.edge.open, "state": w.edge.open}}
	return w
}

func (w *world) mkdir(dir string) {
	w.t.Helper()
	must.Do(w.t, os.MkdirAll(dir, 0o755))
}

func (w *world) write(name, text string) string {
	w.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.dir, name)
	}
	w.mkdir(filepath.Dir(name))
	must.Do(w.t, os.WriteFile(name, []byte(text), 0o755))
	return name
}

func (w *world) remove(name string) {
	w.t.Helper()
	must.Do(w.t, os.RemoveAll(filepath.Join(w.dir, name)))
}

// agent writes a small agent's folder.
func (w *world) agent(at, more string) {
	w.t.Helper()
	w.write(filepath.Join(at, "agent.yaml"), "name: "+filepath.Base(at)+"\ndescription: Does "+filepath.Base(at)+" things.\nprompt: You do them.\n"+more)
}

func (w *world) open() *Catalog {
	w.t.Helper()
	c := must.Get(Open(context.Background(), w.opt))
	w.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return c
}

// boxed returns a world with an agent whose source box announces specs.
func boxed(t testing.TB, agent, declaration string, specs ...tool.Spec) *world {
	w := newWorld(t)
	w.agent(agent, declaration)
	w.edge.offer("box", specs...)
	return w
}

// approved opens the catalog and approves an agent.
func (w *world) approved(path string) *Catalog {
	w.t.Helper()
	c := w.open()
	approve(w.t, c, path)
	return c
}

func rescan(t testing.TB, c *Catalog) {
	t.Helper()
	must.Do(t, c.Rescan(context.Background()))
}

func inspect(t testing.TB, c *Catalog, path string) Inspection {
	t.Helper()
	insp, err := c.Inspect(context.Background(), path)
	if err != nil {
		t.Fatalf("inspecting %s: %v", path, err)
	}
	return insp
}

func approve(t testing.TB, c *Catalog, path string) Listing {
	t.Helper()
	l, err := c.Approve(context.Background(), "local", path, inspect(t, c, path).Hash, nil)
	if err != nil {
		t.Fatalf("approving %s: %v", path, err)
	}
	return l
}

func listing(t testing.TB, c *Catalog, path string) Listing {
	t.Helper()
	for _, l := range c.Listings() {
		if l.Path == path {
			return l
		}
	}
	t.Fatalf("%s is not listed: %+v", path, c.Listings())
	return Listing{}
}

// until waits until a condition about the catalog holds.
func until(t testing.TB, c *Catalog, what string, ok func() bool) {
	t.Helper()
	for {
		changed := c.Changed()
		if ok() {
			return
		}
		<-changed
	}
}

func usable(c *Catalog, path string) bool { return c.Tree().ByPath[path] != nil }

// edge is a test double of all servers and programs. A source announces what the test offers under its name.
type edge struct {
	mu      sync.Mutex
	offers  map[string][]tool.Spec
	refuses map[string]error
	opened  []*source
	starts  int
	asked   chan struct{} // gets a value for each announcement, unless it is full
	during  func()        // runs once, between making and returning an announcement
	wrap    func(remote) tool.Tool
}

type decl0 struct {
	Command []string          `yaml:"command"`
	Files   []string          `yaml:"files"`
	URL     string            `yaml:"url"`
	Env     map[string]string `yaml:"env"`
	Network bool              `yaml:"network"`
	Free    bool              `yaml:"unsandboxed"`
	Sandbox any               `yaml:"sandbox"`
	Timeout time.Duration     `yaml:"timeout"`
}

type source struct {
	edge   *edge
	env    tool.Env
	decl   decl0
	closed chan struct{}
	once   sync.Once
	call   func(ctx context.Context, in tool.Invocation) (tool.Result, error)
}

func (e *edge) offer(name string, specs ...tool.Spec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offers == nil {
		e.offers = map[string][]tool.Spec{}
	}
	e.offers[name] = specs
}

func (e *edge) started() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.starts
}

// last returns the last source that was opened under a name.
func (e *edge) last(name string) *source {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := len(e.opened) - 1; i >= 0; i-- {
		if e.opened[i].env.Name == name {
			return e.opened[i]
		}
	}
	return nil
}

func (e *edge) open(env tool.Env, decode func(any) error) (tool.Source, error) {
	s := &source{edge: e, env: env, closed: make(chan struct{})}
	if err := decode(&s.decl); err != nil {
		return nil, err
	}
	if s.decl.URL == "broken" {
		return nil, fault.New(fault.Invalid, "url_invalid", "the URL is broken").WithHint("mend it")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened = append(e.opened, s)
	return s, nil
}

func (e *edge) hook(env tool.Env, decode func(any) error) (tool.HookSource, error) {
	s, err := e.open(env, decode)
	if err != nil {
		return nil, err
	}
	return s.(*source), nil
}

func (s *source) Fire(_ context.Context, ev tool.HookEvent) (tool.HookAnswer, error) {
	return tool.HookAnswer{Note: "fired " + ev.On}, nil
}

func (s *source) Announce(context.Context) (tool.Announcement, error) {
	s.edge.mu.Lock()
	defer s.edge.mu.Unlock()
	s.edge.starts++
	select {
	case s.edge.asked <- struct{}{}:
	default:
	}
	if err := s.edge.refuses[s.env.Name]; err != nil {
		return tool.Announcement{}, err
	}
	said := tool.Announcement{Specs: s.edge.offers[s.env.Name]}
	if during := s.edge.during; during != nil {
		s.edge.during = nil
		s.edge.mu.Unlock()
		during()
		s.edge.mu.Lock()
	}
	return said, nil
}

func (s *source) Tool(spec tool.Spec) tool.Tool {
	if s.edge.wrap != nil {
		return s.edge.wrap(remote{s, spec})
	}
	return remote{s, spec}
}

func (s *source) Files() []string {
	var out []string
	for _, f := range s.decl.Files {
		if !filepath.IsAbs(f) {
			f = filepath.Join(s.env.Dir, f)
		}
		out = append(out, f)
	}
	return out
}

func (s *source) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

type remote struct {
	s    *source
	spec tool.Spec
}

func (r remote) Spec() tool.Spec { return r.spec }
func (r remote) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	if r.s.call != nil {
		return r.s.call(ctx, in)
	}
	return tool.Text("called " + r.spec.Name), nil
}

func spec(name, description string) tool.Spec {
	return tool.Spec{Name: name, Description: description, Input: []byte(`{"type":"object","properties":{"q":{"type":"string"}}}`), Effect: tool.Query}
}

func call(t testing.TB, c *Catalog, agent, name string) (tool.Result, error) {
	t.Helper()
	a := c.Tree().ByPath[agent]
	if a == nil {
		t.Fatalf("%q cannot be used", agent)
	}
	tl, ok := a.Tools.Get(name)
	if !ok {
		t.Fatalf("%q has no tool %s, only %v", agent, name, a.Tools.Names())
	}
	return tl.Call(context.Background(), tool.Invocation{Args: []byte(`{}`)})
}

func asJSON(t testing.TB, v any) string {
	b := must.Get(json.Marshal(v))
	return string(b)
}
