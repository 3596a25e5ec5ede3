package mcp

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/tool"
	"steward/test/must"
)

// ample is a limit that no test reaches.
const ample = time.Hour

// world is a source under test, and counts its reports of changes.
type world struct {
	*source
	changed atomic.Int32
	mark    string
}

// start opens a source for one of programs, which runs like the user's own programs.
func start(t *testing.T, mode string, more ...func(*tool.Env, *Decl)) *world {
	t.Helper()
	w := &world{mark: "STEWARD_TEST_MARK=" + id.New().String()}
	exe := must.Get(os.Executable())
	name, mark, _ := strings.Cut(w.mark, "=")
	env := tool.Env{Name: "srv", Changed: func() { w.changed.Add(1) }}
	d := Decl{Command: exe, Env: map[string]string{"STEWARD_TEST_SERVER": mode, name: mark, "GORACE": "atexit_sleep_ms=0"}}
	for _, f := range more {
		f(&env, &d)
	}
	w.source = must.Get(open(env, d))
	w.keeper.Pause, w.startFor, w.listFor = time.Millisecond, ample, ample
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if left := w.running(t); len(left) > 0 {
			t.Errorf("it left behind: %v", left)
		}
	})
	return w
}

// running returns the processes of a source's program and its children.
func (w *world) running(t *testing.T) (pids []string) {
	t.Helper()
	all := must.Get(filepath.Glob("/proc/[0-9]*/environ"))
	for _, f := range all {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(w.mark)) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// announced returns the announced specs by name.
func (w *world) announced(t *testing.T) map[string]tool.Spec {
	t.Helper()
	a := must.Get(w.Announce(t.Context()))
	return byName(a)
}

func byName(a tool.Announcement) map[string]tool.Spec {
	m := map[string]tool.Spec{}
	for _, s := range a.Specs {
		m[s.Name] = s
	}
	return m
}

// tool returns an approved tool.
func (w *world) tool(t *testing.T, name string) tool.Tool {
	t.Helper()
	spec, ok := w.announced(t)[name]
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	return w.Tool(spec)
}

func call(ctx context.Context, tl tool.Tool, args string) (tool.Result, error) {
	return tl.Call(ctx, tool.Invocation{Args: []byte(args)})
}

func text(r tool.Result) string {
	return (&message.ToolResult{Content: r.Content}).Text()
}

func wantText(t *testing.T, tl tool.Tool, args, want string) {
	t.Helper()
	r, err := call(t.Context(), tl, args)
	if err != nil || text(r) != want {
		t.Fatalf("%s: %q, %v; want %q", tl.Spec().Name, text(r), err, want)
	}
}

func wantCode(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if !fault.HasCode(err, code) || !fault.Is(err, kind) {
		t.Errorf("%v (%+v); want %s, %s", err, fault.Of(err), kind, code)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, is func() bool) {
	for !is() {
		<-time.After(5 * time.Millisecond)
	}
}

func TestLazyAndIdle(t *testing.T) {
	w := start(t, "good", func(_ *tool.Env, d *Decl) { d.Idle = 50 * time.Millisecond })
	if left := w.running(t); len(left) > 0 {
		t.Fatalf("it runs unasked: %v", left)
	}
	work := w.tool(t, "srv.work")
	wantText(t, work, `{}`, "worked")
	eventually(t, "it stops when nobody needs it", func() bool { return len(w.running(t)) == 0 })
	wantText(t, work, `{}`, "worked")
	if w.changed.Load() != 0 {
		t.Error("it says that something has changed")
	}
}

func TestBackoff(t *testing.T) {
	w := start(t, "die_start", func(e *tool.Env, d *Decl) {
		e.Secret = func(name string) (string, bool) { return "hunter2hunter2", name == "TOKEN" }
		d.Env["TOKEN"] = "${TOKEN}"
	})
	w.keeper.Pause = time.Hour
	_, err := w.Announce(t.Context())
	wantCode(t, err, fault.Unavailable, "mcp_start_failed")
	f := fault.Of(err)
	if !tool.CertainlyNotDone(err) || !strings.Contains(f.Message, "no config") || strings.Contains(err.Error(), "hunter2") || f.Retry != fault.RetryAfter || f.After < time.Minute/2 {
		t.Errorf("%v, %+v", err, f)
	}
	_, again := call(t.Context(), w.Tool(tool.Spec{Name: "srv.x"}), `{}`)
	wantCode(t, again, fault.Unavailable, "mcp_start_failed")
	if after := fault.Of(again).After; after <= 0 || after >= f.After {
		t.Errorf("it was started again: %v after %v", after, f.After)
	}
}

func TestCannotStart(t *testing.T) {
	for code, change := range map[string]func(*tool.Env, *Decl){
		"program_not_found":  func(_ *tool.Env, d *Decl) { d.Command = "/nowhere/server" },
		"mcp_secret_missing": func(_ *tool.Env, d *Decl) { d.Args = []string{"--token=${TOKEN}", "${OTHER:-x}"} },
		"no_services": func(e *tool.Env, _ *Decl) {
			e.Services = func(context.Context) ([]string, func(), error) {
				return nil, nil, fault.New(fault.Unavailable, "no_services", "none")
			}
		},
	} {
		w := start(t, "good", change)
		_, err := w.Announce(t.Context())
		if !fault.HasCode(err, code) || !tool.CertainlyNotDone(err) {
			t.Errorf("%v; want %s", err, code)
		}
	}
	w := start(t, "good")
	must.Do(t, w.Close())
	_, err := w.Announce(t.Context())
	wantCode(t, err, fault.Unavailable, "mcp_closed")
}

func TestEnvironment(t *testing.T) {
	t.Setenv("STEWARD_TEST_PRIVATE", "must not be seen")
	var given, released atomic.Int32
	w := start(t, "environ", func(e *tool.Env, d *Decl) {
		e.Secret = func(name string) (string, bool) { return "s3cret", name == "TOKEN" || name == "KEY" }
		e.Services = func(context.Context) ([]string, func(), error) {
			given.Add(1)
			return []string{"STEWARD_STATE=http://127.0.0.1:4/state"}, func() { released.Add(1) }, nil
		}
		d.Args = []string{"--key=${env:KEY}", "${MISSING:-else}", "plain"}
		d.Env["TOKEN"] = "Bearer ${TOKEN}"
	})
	r := must.Get(call(t.Context(), w.tool(t, "srv.work"), `{}`))
	got := strings.Split(text(r), "\n")
	for _, want := range []string{"TOKEN=Bearer s3cret", "--key=s3cret", "else", "plain", "STEWARD_STATE=http://127.0.0.1:4/state"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(text(r), "must not be seen") {
		t.Error("it inherits Steward's own environment")
	}
	must.Do(t, w.Close())
	if given.Load() != 2 || released.Load() != 2 { // once for the program and once for its call
		t.Errorf("the services were given %d times and taken back %d times", given.Load(), released.Load())
	}
}

// A program serves many users, so each call has a token of its own, which ends with the call. A
// server at a URL gets none.
func TestCallsBringTheirTokens(t *testing.T) {
	type user struct{}
	var open atomic.Int32
	w := start(t, "friendly", func(e *tool.Env, _ *Decl) {
		e.Services = func(ctx context.Context) ([]string, func(), error) {
			who, ok := ctx.Value(user{}).(string)
			if !ok {
				return []string{"STEWARD_SERVICES_URL=http://127.0.0.1:4/x"}, nil, nil
			}
			if who == "nobody" {
				return nil, nil, fault.New(fault.Denied, "no_services", "none")
			}
			open.Add(1)
			return []string{"STEWARD_SERVICES_URL=http://127.0.0.1:4/x", "STEWARD_TOKEN=tok-" + who}, func() { open.Add(-1) }, nil
		}
	})
	meta := w.tool(t, "srv.meta")
	for _, who := range []string{"ada", "bob"} {
		r, err := call(context.WithValue(t.Context(), user{}, who), meta, `{}`)
		if err != nil || !strings.Contains(text(r), `"steward/token":"tok-`+who+`"`) {
			t.Errorf("%s, %v", text(r), err)
		}
	}
	if _, err := call(context.WithValue(t.Context(), user{}, "nobody"), meta, `{}`); !fault.HasCode(err, "no_services") || !tool.CertainlyNotDone(err) {
		t.Error(err)
	}
	if open.Load() != 0 {
		t.Error("a token is open after its call")
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"server": 0o755, "main.js": 0o644, "data.db": 0o644, "tool": 0o755} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, mode))
	}
	at := func(names ...string) (out []string) {
		for _, n := range names {
			out = append(out, filepath.Join(dir, n))
		}
		return out
	}
	for i, c := range []struct {
		dir  string
		d    Decl
		want []string
	}{
		{dir, Decl{Command: "./server", Args: []string{"data.db", "tool", "main.js"}}, at("server", "tool", "main.js")},
		{dir, Decl{Command: []any{"node", "main.js", "main.js"}}, at("main.js")},
		{dir, Decl{Command: "server"}, nil},
		{"", Decl{Command: filepath.Join(dir, "server"), Args: []string{"main.js", filepath.Join(dir, "main.js")}}, at("server", "main.js")},
		{"", Decl{URL: "https://example.org/mcp"}, nil},
	} {
		s := must.Get(open(tool.Env{Name: "a", Dir: c.dir}, c.d))
		if got := s.Files(); !slices.Equal(got, c.want) {
			t.Errorf("%d: %q; want %q", i, got, c.want)
		}
		s.Close()
	}
}
