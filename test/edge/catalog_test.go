package edge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/test/edge"
)

// simulator is an MCP server in the test process. It outlives the Steward that
// talks to it.
type simulator struct {
	*sdk.Server
	url string
}

func newSimulator(t testing.TB) *simulator {
	s := sdk.NewServer(&sdk.Implementation{Name: "sim", Version: "1"}, nil)
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() {
		for session := range s.Sessions() { // including those of killed clients
			session.Close() //nolint:errcheck // it may have ended
		}
		h.CloseClientConnections()
		h.Close()
	})
	return &simulator{s, h.URL}
}

// offers adds a tool. If call is nil, the tool answers "did NAME".
func (s *simulator) offers(t *sdk.Tool, call func(ctx context.Context, r *sdk.CallToolRequest) string) {
	if t.Description == "" {
		t.Description = "It is " + t.Name + "."
	}
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	s.AddTool(t, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		text := "did " + r.Params.Name
		if call != nil {
			text = call(ctx, r)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, ctx.Err()
	})
}

// reads returns a tool that declares itself read-only.
func reads(name string) *sdk.Tool {
	return &sdk.Tool{Name: name, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}
}

// listed is an agent or a source as a node lists it.
type listed struct {
	Path, Status, Hash   string
	Usable               bool
	Tools, Waiting, Gone []string
}

func listing(n *edge.Node, path string) listed {
	n.T.Helper()
	var out struct{ Agents []listed }
	n.Get("/api/v1/agents", &out)
	for _, l := range out.Agents {
		if l.Path == path {
			return l
		}
	}
	return listed{}
}

// servers writes mcp.json into the data folder.
func servers(n *edge.Node, decls map[string]any) {
	n.T.Helper()
	b, err := json.Marshal(map[string]any{"mcpServers": decls})
	if err != nil {
		n.T.Fatal(err)
	}
	n.Write(string(b), "data", "mcp.json")
}

func statuses(a edge.Answer) string {
	var out []string
	for _, r := range a.Results {
		out = append(out, r.Name+" "+r.Status)
	}
	return strings.Join(out, ", ")
}

func TestAFolderThatWaitsDoesNotShadowAnApprovedServer(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	sim.offers(reads("look"), nil)
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "sim.look", Args: struct{}{}}))})
	servers(n, map[string]any{"sim": map[string]any{"url": sim.url}})
	n.Must("agents", "approve", "mcp:sim", "--yes")
	n.Serve()
	if a := n.Ask("Look.", nil); statuses(a) != "sim.look ok" {
		t.Fatalf("%s: %s %s", statuses(a), a.Code, a.Text)
	}
	n.Write("name: sim\ndescription: Simulates.\n", "data", "agents", "sim", "agent.yaml")
	n.Until("the folder is found", func() bool { return listing(n, "sim").Status == "invalid" })
	if l := listing(n, "mcp:sim"); !l.Usable || l.Status != "approved" {
		t.Errorf("%+v", l)
	}
	if a := n.Ask("Look again.", nil); statuses(a) != "sim.look ok" {
		t.Errorf("%s: %s %s", statuses(a), a.Code, a.Text)
	}
}

func TestANewToolDoesNotStopATurn(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	var n *edge.Node
	sim.offers(reads("two"), nil)
	sim.offers(reads("look"), func(context.Context, *sdk.CallToolRequest) string {
		sim.offers(reads("extra"), nil)
		sim.RemoveTools("two")
		return "looked"
	})
	var offered atomic.Bool
	steps := edge.Steps(edge.Call{Name: "sim.look", Args: struct{}{}}, edge.Call{Name: "sim.look", Args: struct{}{}}, edge.Call{Name: "sim.two", Args: struct{}{}})
	n = edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		for _, x := range in.Tools {
			if x.Function.Name == "sim__extra" {
				offered.Store(true)
			}
		}
		if in.Rounds() == 1 {
			n.Until("the new tool is noticed", func() bool { return fmt.Sprint(listing(n, "mcp:sim").Waiting) == "[sim.extra]" })
		}
		return steps(in)
	})})
	servers(n, map[string]any{"sim": map[string]any{"url": sim.url}})
	n.Must("agents", "approve", "mcp:sim", "--yes")
	n.Serve()
	a := n.Ask("Look twice.", nil)
	if statuses(a) != "sim.look ok, sim.look ok, sim.two unavailable" || a.Stop == "" {
		t.Errorf("%s: %s %s", statuses(a), a.Code, a.Text)
	}
	if offered.Load() {
		t.Error("a tool that nobody has approved is offered to the model")
	}
	if l := listing(n, "mcp:sim"); l.Status != "approved" || fmt.Sprint(l.Tools, l.Waiting, l.Gone) != "[sim.look] [sim.extra] [sim.two]" {
		t.Errorf("%+v", l)
	}
	if c := strings.Count(n.Log(), "disabled until they are approved"); c != 1 {
		t.Errorf("told %d times:\n%s", c, n.Log())
	}
	if out := n.Must("agents", "approve", "--all", "--yes"); !strings.Contains(out, "tool sim.extra") {
		t.Errorf("the approval does not show what is new: %s", out)
	}
	if l := listing(n, "mcp:sim"); fmt.Sprint(l.Tools, l.Waiting, l.Gone) != "[sim.extra sim.look] [] []" {
		t.Errorf("%+v", l)
	}
}

func TestProgressOfASynchronousToolIsTold(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	seen := make(chan struct{})
	sim.offers(reads("steps"), func(ctx context.Context, r *sdk.CallToolRequest) string {
		for i := range 3 {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: float64(i), Total: 4, Message: fmt.Sprint("step\n", i)}); err != nil {
				return err.Error()
			}
		}
		select {
		case <-seen: // keep the newest while the call runs
		case <-ctx.Done():
		}
		return "stepped"
	})
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case in.Rounds() > 0:
			return edge.Reply{Text: "done"}
		case in.User() == "Step.":
			return edge.Reply{Calls: []edge.Call{{Name: "sim.steps", Args: struct{}{}}}}
		}
		return edge.Reply{Calls: []edge.Call{{Name: "half.run", Args: struct{}{}}}}
	})})
	servers(n, map[string]any{"sim": map[string]any{"url": sim.url}})
	n.Write("name: prog\ndescription: Runs a program.\n", "data", "agents", "prog", "agent.yaml")
	n.Write("name: half\ndescription: Tells of its half.\neffect: query\ncommand: ./half.sh\n", "data", "agents", "prog", "tools", "half.yaml")
	n.Write(edge.Tool+`printf '{"type":"status","request_id":"%s","status":"running","progress":0.5,"message":"half of it"}\n' "$id"
answer '"all of it"'
`, "data", "agents", "prog", "half.sh")
	n.Must("agents", "approve", "--all", "--yes")
	n.Serve()
	c := n.Dial()
	told := func(message map[string]any, name, want string) bool {
		found := false
		c.Send(message)
		for {
			f := c.Read()
			var more struct{ Progress float64 }
			if err := json.Unmarshal(f.Raw, &more); err != nil {
				t.Fatal(err)
			}
			if f.Type == "tool_call" && f.Name == name && f.Status == "running" && f.Message == want && more.Progress == 0.5 && !found {
				if found = true; name == "sim.steps" {
					close(seen)
				}
			}
			if f.Type == "complete" || f.Type == "error" {
				return found
			}
		}
	}
	if !told(map[string]any{"type": "message", "id": "1", "content": "Step."}, "sim.steps", "step 2") {
		t.Error("the progress of an MCP tool is not told")
	}
	if !told(map[string]any{"type": "message", "id": "2", "content": "Run.", "agent": "prog"}, "half.run", "half of it") {
		t.Error("the progress of a program is not told")
	}
}

// Steward is killed (kill -9) while five actions are in flight at a real MCP
// server. If the server recognises the idempotency key or can report a call's
// status, the action happens once and gets its result. Otherwise it is left to
// a person.
func TestAnActionInFlightAtAKillIsSettledWhereTheServerCan(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	var mu sync.Mutex
	done := map[string]map[string]int{} // effects by tool and key
	begun := make(chan struct{}, 16)
	key := func(r *sdk.CallToolRequest) string {
		k, _ := r.Params.Meta["steward/idempotency_key"].(string)
		if k == "" {
			t.Errorf("%s comes without a key: %v", r.Params.Name, r.Params.Meta)
		}
		return k
	}
	// pays adds a tool that counts its effects by key. Its first call never
	// answers. If before is true, the process is killed before the effect
	// happens.
	pays := func(name string, meta sdk.Meta, recognises, before bool) {
		done[name] = map[string]int{}
		sim.offers(&sdk.Tool{Name: name, Meta: meta}, func(ctx context.Context, r *sdk.CallToolRequest) string {
			k := key(r)
			mu.Lock()
			_, again := done[name][k]
			if !again && before {
				done[name][k] = 0
			} else if !again || before || !recognises {
				done[name][k]++
			}
			mu.Unlock()
			if !again {
				begun <- struct{}{}
				select { // the server does not learn that its client was killed
				case <-ctx.Done():
				case <-t.Context().Done():
				}
			}
			return "paid by " + name
		})
	}
	pays("repeated", sdk.Meta{"steward/dedupes": true}, true, false)
	pays("asked", sdk.Meta{"steward/status_tool": "status"}, false, false)
	pays("undone", sdk.Meta{"steward/status_tool": "status"}, false, true)
	pays("entry", nil, true, false) // declared in its mcp.json entry
	pays("parked", nil, false, false)
	sim.offers(reads("status"), func(_ context.Context, r *sdk.CallToolRequest) string {
		var in struct {
			Key string `json:"idempotency_key"`
		}
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, name := range []string{"asked", "undone"} {
			if done[name][in.Key] > 0 {
				return `{"status":"done","result":"paid by ` + name + `"}`
			}
		}
		return `{"status":"not_done"}`
	})
	calls := []string{"repeated", "asked", "undone", "entry", "parked"}
	results := make(chan []string, 1)
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() > 0 {
			select {
			case results <- in.Results():
			default:
			}
			return edge.Reply{Text: "done"}
		}
		var r edge.Reply
		for _, name := range calls {
			r.Calls = append(r.Calls, edge.Call{Name: "sim." + name, Args: struct{}{}})
		}
		return r
	})})
	servers(n, map[string]any{"sim": map[string]any{"url": sim.url, "dedupes": []string{"ent*"}}})
	shown := n.Must("agents", "show", "mcp:sim")
	if strings.Count(shown, "dedupes: it recognises") != 2 || strings.Count(shown, "sim.status is asked") != 2 {
		t.Errorf("the approval does not show what is declared:\n%s", shown)
	}
	n.Must("agents", "approve", "mcp:sim", "--yes")
	n.Serve()
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "id": "1", "content": "Pay."})
	conversation := ""
	for approved := 0; approved < len(calls); {
		f := c.Read()
		if conversation = f.Conversation; f.Type == "tool_call" && f.Status == "awaiting_approval" {
			c.Send(map[string]any{"type": "approve", "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
			approved++
		}
	}
	for range calls {
		<-begun
	}
	n.Kill()
	n.Serve()
	got := <-results
	mu.Lock()
	defer mu.Unlock()
	for i, name := range calls {
		effects := 0
		for _, count := range done[name] {
			effects += count
		}
		if effects != 1 || len(done[name]) != 1 {
			t.Errorf("%s was done %d times under %d keys", name, effects, len(done[name]))
		}
		if parked := strings.Contains(got[i], "outcome is unknown"); parked != (name == "parked") || !parked && got[i] != "paid by "+name {
			t.Errorf("%s: %s", name, got[i])
		}
	}
	if conversation == "" {
		t.Error("no conversation")
	}
}
