package edge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/test/edge"
)

// asking makes a tool of the simulator that asks the person and tells what came back.
func (s *simulator) asking(name string, p *sdk.ElicitParams) {
	s.offers(reads(name), func(ctx context.Context, r *sdk.CallToolRequest) string {
		res, err := r.Session.Elicit(ctx, p)
		if err != nil {
			return "error: " + err.Error()
		}
		b, err := json.Marshal(res.Content)
		if err != nil {
			return err.Error()
		}
		return res.Action + " " + string(b)
	})
}

// What an MCP server asks, a person answers: never the model, never without a person, and never a secret.
func TestAServerAsksThePerson(t *testing.T) {
	t.Parallel()
	sim := newSimulator(t)
	form := map[string]any{"type": "object", "required": []string{"guests"}, "properties": map[string]any{
		"guests": map[string]any{"type": "integer", "minimum": 1, "title": "How many"}, "day": map[string]any{"type": "string", "default": "Friday"}}}
	sim.asking("book", &sdk.ElicitParams{Message: "For how many?", RequestedSchema: form})
	sim.asking("open", &sdk.ElicitParams{Mode: "url", Message: "Pay here.", URL: "https://pay.example/now", ElicitationID: "1"})
	sim.asking("secret", &sdk.ElicitParams{Message: "Your password, please.", RequestedSchema: form})
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "sim.book", Args: struct{}{}},
		edge.Call{Name: "sim.open", Args: struct{}{}}, edge.Call{Name: "sim.secret", Args: struct{}{}}))})
	servers(n, map[string]any{"sim": map[string]any{"url": sim.url}})
	n.Must("agents", "approve", "mcp:sim", "--yes", "--tool", "sim.*=query,noask")
	n.Serve()
	told := func(a edge.Answer) string {
		var out []string
		for _, r := range a.Results {
			out = append(out, r.Name+": "+r.Result)
		}
		return strings.Join(out, "\n")
	}
	a := n.Ask("Book, pay.", func(q edge.Approval) string {
		shown := n.Must("approvals", "show", q.ID)
		switch {
		case !strings.Contains(shown, "sim.question"):
			t.Error(shown)
		case strings.Contains(shown, "pay.example"):
			if !strings.Contains(shown, "Steward does not open it") || !strings.Contains(shown, "https://pay.example/now") {
				t.Error(shown)
			}
			return "approve"
		case !strings.Contains(shown, "guests: integer, required, How many") || !strings.Contains(shown, "Friday"):
			t.Error(shown)
		}
		if r := n.Run("approvals", "approve", q.ID, "--edit", `{"question":"For how many?","answer":{"guests":0}}`, "--yes"); r.Code == 0 {
			t.Error("an answer that does not fit is taken")
		}
		if r := n.Run("approvals", "approve", q.ID, "--edit", `{"question":"For whom?","answer":{"guests":1}}`, "--yes"); r.Code == 0 {
			t.Error("another question is answered")
		}
		if r := n.Run("approvals", "approve", q.ID, "--always", "--exactly", "--yes"); r.Code == 0 {
			t.Error("it is answered for ever")
		}
		n.Must("approvals", "approve", q.ID, "--edit", `{"question":"For how many?","answer":{"guests":4,"day":"Friday"}}`, "--yes")
		return ""
	})
	want := "sim.book: accept {\"day\":\"Friday\",\"guests\":4}\nsim.open: accept null\nsim.secret: decline null"
	if got := told(a); !strings.HasPrefix(got, want) || !strings.Contains(got, "asks for a secret") || len(a.Asked) != 2 {
		t.Errorf("%d questions, %s", len(a.Asked), got)
	}
	a = n.Ask("Book, pay.", nil)
	if got := told(a); strings.Count(got, "decline null") != 3 || len(a.Asked) != 2 {
		t.Errorf("%d questions, %s", len(a.Asked), got)
	}
	// Nobody is there.
	if r := n.Run("ask", "Book, pay."); !strings.Contains(fmt.Sprint(r), "nobody can be asked here") {
		t.Error(r)
	}
}
