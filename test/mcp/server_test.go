//go:build long

package mcp_test

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/test/edge"
	"steward/test/must"
)

// desktop begins a session as a desktop client does: it starts steward mcp serve.
func desktop(t *testing.T, n *edge.Node, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "desktop", Version: "1"}, o)
	s := must.Get(c.Connect(within(t), &sdk.CommandTransport{Command: n.Command("mcp", "serve")}, nil))
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// said is the text of a result.
func said(r *sdk.CallToolResult) string {
	var all []string
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}

// household uses what a desktop client uses: tools, an agent, an approval, a resource with a subscription.
func household(t *testing.T, n *edge.Node, s *sdk.ClientSession, updated <-chan string) {
	t.Helper()
	ctx := within(t)
	var names []string
	for x, err := range s.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, x.Name)
	}
	if !slices.Contains(names, "math__multiply") || !slices.Contains(names, "ask_assistant") {
		t.Fatalf("%v", names)
	}
	res := must.Get(s.CallTool(ctx, &sdk.CallToolParams{Name: "math__multiply", Arguments: map[string]any{"a": 6, "b": 7}}))
	if said(res) != "42" {
		t.Errorf("6 times 7: %s", said(res))
	}
	res = must.Get(s.CallTool(ctx, &sdk.CallToolParams{Name: "ask_assistant", Arguments: map[string]any{"message": "Hello"}}))
	if res.IsError || said(res) != "Hello to you" {
		t.Errorf("the assistant: %s", said(res))
	}
	res = must.Get(s.CallTool(ctx, &sdk.CallToolParams{Name: "files__write", Arguments: map[string]any{"path": "workspace/a.txt", "content": "milk"}}))
	if res.IsError {
		t.Errorf("a file: %s", said(res))
	}
	const note = "cld:home.Note.shopping"
	must.Do(t, s.Subscribe(ctx, &sdk.SubscribeParams{URI: note}))
	if r := n.RunIn(`{"text":"milk"}`, "resources", "put", note); r.Code != 0 { // another command joins
		t.Errorf("a note: %s", r.Err)
	}
	if got := <-updated; got != note {
		t.Errorf("updated: %s", got)
	}
	read := must.Get(s.ReadResource(ctx, &sdk.ReadResourceParams{URI: note}))
	if !strings.Contains(read.Contents[0].Text, "milk") {
		t.Errorf("%s", read.Contents[0].Text)
	}
}

// A desktop client uses the household over standard input and output, with a Steward that runs and without one.
func TestADesktopClient(t *testing.T) {
	for _, where := range []string{"alone", "beside a Steward that runs"} {
		t.Run(where, func(t *testing.T) {
			n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply { return edge.Reply{Text: in.User() + " to you"} })})
			if where != "alone" {
				n.Serve()
			}
			updated := make(chan string, 10)
			asked := ""
			s := desktop(t, n, &sdk.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					asked = r.Params.Message
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}, nil
				},
				ResourceUpdatedHandler: func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { updated <- r.Params.URI },
			})
			household(t, n, s, updated)
			if !strings.Contains(asked, "a.txt") || !strings.Contains(asked, "milk") {
				t.Errorf("asked: %q", asked)
			}
			if where == "alone" {
				if got := n.Must("conversations", "list"); !strings.Contains(got, "Hello") { // another command joins it
					t.Error(got)
				}
				return
			}
			n.Stop()
			n.Serve()
			res, err := s.CallTool(within(t), &sdk.CallToolParams{Name: "math__multiply", Arguments: map[string]any{"a": 2, "b": 3}})
			if err != nil || said(res) != "6" {
				t.Errorf("after Steward was started again: %v", err)
			}
		})
	}
}

// Nothing but messages goes to standard output, whatever the client sends.
func TestABrokenClient(t *testing.T) {
	n := edge.Serve(t, edge.Options{})
	cmd := n.Command("mcp", "serve")
	cmd.Stdin = strings.NewReader("not json\n\n" + `{"jsonrpc":"2.0","id":7,"method":"tools/list"}` + "\n")
	out := must.Get(cmd.Output())
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		if !strings.HasPrefix(line, `{"`) || !strings.Contains(line, `"error"`) {
			t.Errorf("%s", line)
		}
	}
	if !strings.Contains(string(out), `"id":7`) || !strings.Contains(string(out), "-32700") {
		t.Errorf("%s", out)
	}
}

// TestServerConformance runs the scenarios of the suite that apply to any server of the versions that Steward speaks.
// The others want a server with certain tools, resources and prompts, which Steward does not have, or are about 2026-07-28.
func TestServerConformance(t *testing.T) {
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply { return edge.Reply{Text: "Hello"} })})
	// The suite sends no credential, so a proxy adds it.
	proxy := authorized(t, n)
	for _, name := range []string{"server-initialize", "server-session-lifecycle", "logging-set-level", "ping", "completion-complete",
		"tools-list", "server-sse-polling", "server-sse-multiple-streams", "resources-list", "sep-2164-resource-not-found", "prompts-list", "dns-rebinding-protection"} {
		t.Run(name, func(t *testing.T) {
			out, err := exec.CommandContext(within(t), node(t), script(t, "conformance/dist/index.js"), "server", "--url", proxy+"/mcp", "--scenario", name).CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// authorized returns the address of a proxy that sends the token of the machine's user. It keeps the Host, by which
// Steward recognizes requests that a web page has sent to another name.
func authorized(t *testing.T, n *edge.Node) string {
	target := must.Get(url.Parse(n.URL))
	token := n.Token()
	s := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s.URL
}
