package edge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/test/edge"
)

// web.search can use a tool of an MCP server. Policy decides about that tool, and it has to be approved.
func TestAnMCPServerSearchesTheWeb(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	sim.offers(&sdk.Tool{Name: "find", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}, InputSchema: map[string]any{"type": "object", "properties": map[string]any{"q": map[string]any{"type": "string"}}}},
		func(_ context.Context, r *sdk.CallToolRequest) string {
			if strings.Contains(string(r.Params.Arguments), "long") {
				return strings.Repeat("found ", 10_000)
			}
			return "found by " + string(r.Params.Arguments)
		})
	query := "opening hours"
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		return edge.Steps(edge.Call{Name: "web.search", Args: map[string]any{"query": query}})(in)
	})})
	configure(n, "web: {search: {engine: mcp, tool: sim.find}}\n")
	servers(n, map[string]any{"sim": map[string]any{"url": sim.url}})
	search := func(want string, decide func(edge.Approval) string, asked int) {
		t.Helper()
		a := n.Ask("Search.", decide)
		if len(a.Results) != 1 || !strings.Contains(a.Results[0].Result, want) || len(a.Asked) != asked {
			t.Errorf("want %s: %d questions, %.1000s", want, len(a.Asked), fmt.Sprint(a.Results))
		}
	}
	n.Serve()
	search("there is no tool \"sim.find\" of an approved MCP server", nil, 0)
	if out := n.Run("doctor").Out; !strings.Contains(out, "sim.find") {
		t.Error(out)
	}
	n.Must("agents", "approve", "mcp:sim", "--yes", "--tool", "sim.*=query,noask")
	search(`found by {"q":"opening hours"}`, nil, 0)
	query = "long"
	search("[Cut after 32768 of 60000 bytes. Read on with", nil, 0)
	n.Stop()
	n.Write("package steward\n\nask contains \"searches\" if input.tool.name == \"sim.find\"\n", "data", "policies", "house.rego")
	n.Serve()
	search("found", func(q edge.Approval) string {
		if shown := n.Must("approvals", "show", q.ID); !strings.Contains(shown, "sim.find") {
			t.Error(shown)
		}
		return "approve"
	}, 1)
	search("Denied", nil, 1)
}
