//go:build long

// Package mcp_test tests the MCP client against servers of others, and with the conformance suite of MCP's
// authors.
package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/source/mcp"
	"steward/internal/tool"
	"steward/test/edge"
	"steward/test/must"
)

const packages = "node_modules/@modelcontextprotocol/"

// patience bounds the wait for something that must happen, on any machine.
const patience = 5 * time.Minute

// TestMain also runs the test binary as the client for the suite: TestClient, with the address of a server.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "conformance-client" {
		os.Setenv(serverVariable, os.Args[2])
		os.Args = []string{os.Args[0], "-test.run=^TestClient$"}
	}
	os.Exit(edge.Main(m))
}

// node returns the Node of the packages, because the suite needs a newer one than many systems have.
func node(t *testing.T) string {
	t.Helper()
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	path := must.Get(filepath.Abs("node_modules/node-linux-" + arch + "/bin/node"))
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the servers are not installed: run `make test`, or `npm ci` in test/mcp (%v)", err)
	}
	return path
}

func script(t *testing.T, name string) string {
	t.Helper()
	path := must.Get(filepath.Abs(packages + name))
	return path
}

func open(t testing.TB, d mcp.Decl) tool.Source {
	t.Helper()
	s := must.Get(mcp.Opener(mcp.Options{})(tool.Env{Name: "srv"}, func(into any) error { *into.(*mcp.Decl) = d; return nil }))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// kit announces and approves everything that a server offers.
func kit(t *testing.T, s tool.Source) map[string]tool.Tool {
	t.Helper()
	a := must.Get(s.Announce(within(t)))
	for _, r := range a.Refused {
		t.Logf("refused: %v", r)
	}
	tools := map[string]tool.Tool{}
	for _, spec := range a.Specs {
		tools[spec.Name] = s.Tool(spec)
	}
	return tools
}

func call(t *testing.T, tools map[string]tool.Tool, name, args string) tool.Result {
	t.Helper()
	tl, ok := tools[name]
	if !ok {
		t.Fatalf("there is no tool %s", name)
	}
	r, err := tl.Call(within(t), tool.Invocation{Args: []byte(args)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func text(r tool.Result) string {
	return (&message.ToolResult{Content: r.Content}).Text()
}

// everything uses all features of the server.
func everything(t *testing.T, s tool.Source) {
	tools := kit(t, s)
	if len(tools) < 10 {
		t.Errorf("%d tools", len(tools))
	}
	if got := text(call(t, tools, "srv.echo", `{"message":"grüße"}`)); !strings.Contains(got, "grüße") {
		t.Errorf("echo: %s", got)
	}
	if got := text(call(t, tools, "srv.get_sum", `{"a":2,"b":40}`)); !strings.Contains(got, "42") {
		t.Errorf("get_sum: %s", got)
	}
	picture := false
	for _, b := range call(t, tools, "srv.get_tiny_image", `{}`).Content {
		i, ok := b.(*message.Image)
		picture = picture || ok && i.MIME == "image/png" && strings.HasPrefix(string(i.Data), "\x89PNG")
	}
	if !picture {
		t.Error("there is no picture")
	}
	if got := text(call(t, tools, "srv.get_structured_content", `{"location":"Chicago"}`)); !strings.Contains(got, "temperature") {
		t.Errorf("get_structured_content: %s", got)
	}
	if got := text(call(t, tools, "srv.get_resource_links", `{"count":2}`)); strings.Count(got, "srv.read_resource") != 2 {
		t.Errorf("get_resource_links: %s", got)
	}
	var list struct {
		Resources []struct{ URI string }
	}
	if err := json.Unmarshal([]byte(text(call(t, tools, "srv.list_resources", `{}`))), &list); err != nil || len(list.Resources) == 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	args, _ := json.Marshal(map[string]string{"uri": list.Resources[0].URI})
	if r := call(t, tools, "srv.read_resource", string(args)); len(r.Content) == 0 {
		t.Error("a resource is empty")
	}
	if got := text(call(t, tools, "srv.list_prompts", `{}`)); !strings.Contains(got, "simple-prompt") {
		t.Errorf("list_prompts: %s", got)
	}
	if got := text(call(t, tools, "srv.get_prompt", `{"name":"args-prompt","arguments":{"city":"Oslo"}}`)); !strings.Contains(got, "Oslo") {
		t.Errorf("get_prompt: %s", got)
	}
	progress(t, tools)
	cancelled(t, tools)
	if _, err := tools["srv.echo"].Call(within(t), tool.Invocation{Args: []byte(`{"message":7}`)}); err != nil && !fault.Is(err, fault.Invalid) {
		t.Errorf("wrong arguments: %v", err)
	}
}

func progress(t *testing.T, tools map[string]tool.Tool) {
	var mu sync.Mutex
	var last tool.Progress
	n := 0
	_, err := tools["srv.trigger_long_running_operation"].Call(within(t), tool.Invocation{Args: []byte(`{"duration":1,"steps":4}`),
		Request: id.New(), Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Progress: func(p tool.Progress) { mu.Lock(); defer mu.Unlock(); last, n = p, n+1 }})
	mu.Lock()
	defer mu.Unlock()
	if err != nil || n < 3 || last.Fraction < 0.7 {
		t.Errorf("progress: %d, %+v, %v", n, last, err)
	}
}

func cancelled(t *testing.T, tools map[string]tool.Tool) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := tools["srv.trigger_long_running_operation"].Call(ctx, tool.Invocation{Args: []byte(`{"duration":60,"steps":600}`),
		Progress: func(tool.Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestEverythingOverStdio(t *testing.T) {
	everything(t, open(t, mcp.Decl{Command: node(t), Args: []string{script(t, "server-everything/dist/index.js"), "stdio"}}))
}

func TestEverythingOverHTTP(t *testing.T) {
	port, said := serve(t)
	for n := 1; port == "" && n < 10; n++ {
		port, said = serve(t)
	}
	if port == "" {
		t.Fatalf("the server does not start: %s", said)
	}
	everything(t, open(t, mcp.Decl{URL: "http://127.0.0.1:" + port + "/mcp"}))
}

// serve starts the server until the test ends and returns its port. The server needs a free port as an
// argument. If another program takes the port meanwhile, the server ends, and serve returns its stderr.
func serve(t *testing.T) (port, said string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))
	_, port, _ = net.SplitHostPort(l.Addr().String())
	l.Close()
	cmd := exec.Command(node(t), script(t, "server-everything/dist/index.js"), "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	out := must.Get(cmd.StderrPipe())
	must.Do(t, cmd.Start())
	ready := make(chan bool, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "listening on port") {
				ready <- true
				break
			}
			said += lines.Text() + "\n"
		}
		close(ready)
		io.Copy(io.Discard, out)
	})
	t.Cleanup(func() {
		cmd.Process.Kill()
		reading.Wait()
		cmd.Wait()
	})
	select {
	case listens := <-ready:
		if !listens {
			return "", said
		}
	case <-within(t).Done():
		t.Fatal("the server does not start")
	}
	return port, ""
}

func TestFilesystem(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))
	outside := filepath.Join(filepath.Dir(dir), "outside.txt")
	for file, s := range map[string]string{filepath.Join(dir, "a.txt"): "hello from a file", outside: "not yours"} {
		must.Do(t, os.WriteFile(file, []byte(s), 0o600))
	}
	// Its modules lie here, and the folder is all that it may write.
	here := must.Get(filepath.Abs("node_modules"))
	for name, d := range map[string]mcp.Decl{
		"free":     {},
		"confined": {Sandbox: &mcp.Sandbox{Read: []string{here}, Write: []string{dir}}},
	} {
		t.Run(name, func(t *testing.T) {
			d.Command, d.Args = node(t), []string{script(t, "server-filesystem/dist/index.js"), dir}
			if d.Sandbox != nil {
				d.Sandbox.Limits.Memory = 4 << 30
			}
			tools := kit(t, open(t, d))
			for name, want := range map[string]tool.Effect{"srv.read_text_file": tool.Query, "srv.list_directory": tool.Query,
				"srv.write_file": tool.Action, "srv.edit_file": tool.Action, "srv.move_file": tool.Action} {
				if tl := tools[name]; tl == nil || tl.Spec().Effect != want {
					t.Errorf("%s is no %s", name, want)
				}
			}
			if !tools["srv.write_file"].Spec().Asks || tools["srv.create_directory"].Spec().Asks {
				t.Error("what overwrites asks, what only adds does not")
			}
			at := func(path string) string {
				b, _ := json.Marshal(map[string]string{"path": path, "content": "written"})
				return string(b)
			}
			read := func(path string) string { b, _ := json.Marshal(map[string]string{"path": path}); return string(b) }
			if got := text(call(t, tools, "srv.read_text_file", read(filepath.Join(dir, "a.txt")))); !strings.Contains(got, "hello from a file") {
				t.Errorf("%s", got)
			}
			call(t, tools, "srv.write_file", at(filepath.Join(dir, name+".txt")))
			if b, err := os.ReadFile(filepath.Join(dir, name+".txt")); err != nil || string(b) != "written" {
				t.Errorf("%s, %v", b, err)
			}
			if r := call(t, tools, "srv.read_text_file", read(outside)); !r.Failed || strings.Contains(text(r), "not yours") {
				t.Errorf("%+v", r)
			}
		})
	}
}
