package edge_test

//lint:file-ignore SA1019 The specification of 2026-07-28 deprecates sampling, and servers of earlier ones use it.

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/test/edge"
)

// wants makes a tool of the simulator that asks for the model and tells what came back, once for each request.
func (s *simulator) wants(name string, list ...*sdk.CreateMessageParams) {
	s.offers(reads(name), func(ctx context.Context, r *sdk.CallToolRequest) string {
		var got []string
		for _, p := range list {
			res, err := r.Session.CreateMessage(ctx, p)
			if err != nil {
				got = append(got, "error: "+err.Error())
				continue
			}
			b, err := json.Marshal(res)
			got = append(got, fmt.Sprintf("%s %v", b, err))
		}
		return strings.Join(got, "\n")
	})
}

func prompt(text string) *sdk.CreateMessageParams {
	return &sdk.CreateMessageParams{SystemPrompt: "You are a poet.", MaxTokens: 100_000, Messages: []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}}
}

// sampled returns a node with the simulator's tools, each called once in a turn, and a function that returns
// what the server asked the model.
func sampled(t *testing.T, sim *simulator, decl map[string]any, settings string, tools ...string) (n *edge.Node, asked func() []edge.Asked) {
	var mu sync.Mutex
	var list []edge.Asked
	var calls []edge.Call
	for _, name := range tools {
		calls = append(calls, edge.Call{Name: "sim." + name, Args: struct{}{}})
	}
	steps := edge.Steps(calls...)
	n = edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Messages[0].Text() != "You are a poet." {
			return steps(in)
		}
		mu.Lock()
		defer mu.Unlock()
		list = append(list, in)
		return edge.Reply{Text: "An old pond.", Input: 50_000}
	})})
	if settings != "" {
		configure(n, settings)
	}
	decl["url"] = sim.url
	servers(n, map[string]any{"sim": decl})
	n.Must("agents", "approve", "mcp:sim", "--yes", "--tool", "sim.*=query,noask")
	n.Serve()
	return n, func() []edge.Asked {
		mu.Lock()
		defer mu.Unlock()
		return list
	}
}

// A server of which the user says so may have the model answer: what the person allowed, without tools, and
// a few times in a call.
func TestAServerAsksTheModel(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	sim.wants("one", prompt("A haiku about FROGS."))
	var six []*sdk.CreateMessageParams
	for i := range 6 {
		six = append(six, prompt(fmt.Sprint("Number ", i)))
	}
	sim.wants("six", six...)
	picture := prompt("")
	picture.Messages[0].Content = &sdk.ImageContent{MIMEType: "image/png", Data: []byte("x")}
	sim.wants("picture", picture)
	sim.wants("long", prompt(strings.Repeat("x", 40<<10)))
	sim.wants("nothing", &sdk.CreateMessageParams{MaxTokens: 1})
	sim.offers(reads("tools"), func(ctx context.Context, r *sdk.CallToolRequest) string {
		_, err := r.Session.CreateMessageWithTools(ctx, &sdk.CreateMessageWithToolsParams{MaxTokens: 9, Tools: []*sdk.Tool{reads("x")}})
		return fmt.Sprint(err)
	})
	n, asked := sampled(t, sim, map[string]any{"sampling": true}, "", "one", "six", "picture", "long", "nothing", "tools")
	a := n.Ask("Go.", func(q edge.Approval) string {
		shown := n.Must("approvals", "show", q.ID)
		if !strings.Contains(shown, "sim.sampling") || !strings.Contains(shown, "You are a poet.") || !strings.Contains(shown, "Its answer is sent to the server.") {
			t.Error(shown)
		}
		if !strings.Contains(shown, "FROGS") {
			return "approve"
		}
		if r := n.Run("approvals", "approve", q.ID, "--always", "--exactly", "--yes"); r.Code == 0 {
			t.Error("it is allowed for ever")
		}
		n.Must("approvals", "approve", q.ID, "--edit", `{"system":"You are a poet.","messages":[{"role":"user","text":"A haiku about ponds."}],"max_tokens":50}`, "--yes")
		return ""
	})
	if len(a.Results) != 6 || len(a.Asked) != 6 {
		t.Fatalf("%d questions, %+v", len(a.Asked), a.Results)
	}
	for i, want := range []string{`{"content":{"type":"text","text":"An old pond."},"model":"openai/`, "too often", "other than text", "too long", "messages", "use tools"} {
		got := a.Results[i].Result
		if !strings.Contains(got, want) || strings.Contains(got, "was rejected") != (i > 0) {
			t.Errorf("%s: want %s", got, want)
		}
	}
	if n := strings.Count(a.Results[1].Result, "An old pond."); n != 5 {
		t.Error(n, "answers in one call")
	}
	if got := asked(); len(got) != 6 || got[0].User() != "A haiku about ponds." || !strings.Contains(string(got[0].Body), `:50`) ||
		!strings.Contains(string(got[1].Body), `:4096`) || len(got[1].Tools) != 0 || len(got[1].Messages) != 2 {
		t.Errorf("%d: %s", len(got), got[0].Body)
	}
}

// Without the person's consent, and without the setting, no model is asked.
func TestAServerIsRefusedTheModel(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	sim.wants("one", prompt("A haiku."))
	n, asked := sampled(t, sim, map[string]any{"sampling": true}, "", "one")
	if a := n.Ask("Go.", nil); len(a.Asked) != 1 || !strings.Contains(a.Results[0].Result, "error: ") || !strings.Contains(a.Results[0].Result, "the model was not asked: Denied") {
		t.Errorf("%+v", a.Results)
	}
	if r := n.Run("ask", "Go."); !strings.Contains(fmt.Sprint(r), "nobody can be asked here") {
		t.Error(r)
	}
	other := newSimulator(t)
	other.wants("one", prompt("A haiku."))
	other.offers(reads("able"), func(_ context.Context, r *sdk.CallToolRequest) string {
		return fmt.Sprint(r.Session.InitializeParams().Capabilities.Sampling)
	})
	m, also := sampled(t, other, map[string]any{}, "", "one", "able")
	if a := m.Ask("Go.", func(edge.Approval) string { return "approve" }); len(a.Asked) != 0 || !strings.Contains(a.Results[0].Result, "error: ") || !strings.HasPrefix(a.Results[1].Result, "<nil>") {
		t.Errorf("%+v", a.Results)
	}
	if len(asked())+len(also()) != 0 {
		t.Errorf("%v %v", asked(), also())
	}
}

// What a server has the model read counts as written by others, and policy decides which model may read that.
func TestAServersUseOfTheModelIsLabelled(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	sim.wants("one", prompt("A haiku."))
	n, asked := sampled(t, sim, map[string]any{"sampling": true}, "", "one")
	n.Stop()
	n.Write("package steward\n\ndeny contains \"none of that\" if {\n\tinput.point == \"model\"\n\tinput.labels.untrusted\n}\n", "data", "policies", "house.rego")
	n.Serve()
	a := n.Ask("Go.", func(edge.Approval) string { return "approve" })
	if len(a.Results) != 1 || len(a.Asked) != 1 || !strings.Contains(a.Results[0].Result, "none of that") || len(asked()) != 0 {
		t.Errorf("%+v %v", a.Results, asked())
	}
}

// What a server has the model do is paid for from the turn's budget.
func TestAServersUseOfTheModelCounts(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	sim.wants("two", prompt("A haiku."), prompt("Another one."))
	n, asked := sampled(t, sim, map[string]any{"sampling": true}, "limits: {tokens: 45000}\n", "two")
	a := n.Ask("Go.", func(edge.Approval) string { return "approve" })
	if strings.Count(a.Results[0].Result, "An old pond.") != 1 || !strings.Contains(a.Results[0].Result, "budget_exhausted") || !strings.Contains(a.Text, "budget") || len(asked()) != 1 {
		t.Errorf("%s %s", a.Text, a.Results[0].Result)
	}
}
