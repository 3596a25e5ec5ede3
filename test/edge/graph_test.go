package edge_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

// TestOneCallTellsWhoAnnIs and what was agreed: the model asks the graph once, and its answer has the relations,
// the facts with their dates and sources, and what messages and documents say of Ann.
func TestOneCallTellsWhoAnnIs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	shown := ""
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if !strings.Contains(string(in.Body), "Who is Ann Miller") {
			return edge.Reply{Text: "Noted."}
		}
		if in.Rounds() == 1 {
			mu.Lock()
			shown = strings.Join(in.Results(), "\n")
			mu.Unlock()
		}
		return edge.Steps(edge.Call{Name: "graph.neighbours", Args: map[string]any{"of": "Ann Miller"}})(in)
	})})
	n.Env = append(n.Env, "STEWARD_ROUTING=off")
	configure(n, "tools: {shown_tokens: 100000, shown: 200}\n")
	n.Must("memory", "add", "Ann Miller works at Acme", "--subject", "Ann Miller")
	n.Must("graph", "assert", "Ann Miller", "speaks", "Dutch")
	n.Must("documents", "add", "--own", n.Write("---\nauthor: Ann Miller\n---\n\n# Offer\n\nAnn Miller gives ten per cent off.\n", "offer.md"))
	n.Serve()
	n.Ask("We agreed with Ann Miller that she sends the offer by Friday.", nil)
	n.Ask("Who is Ann Miller, and what did we agree?", nil)
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"Ann Miller <urn:steward:entity:ann-miller>", "- works at: Acme", "- speaks: Dutch", "Facts:\n- Ann Miller works at Acme (since ", "From a message in ", "she sends the offer by Friday", "From offer.md:", "ten per cent off"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the model is not shown %q:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "Who is Ann") {
		t.Errorf("the question itself is shown:\n%s", shown)
	}
	// What is forgotten is gone from the graph, and so is what a removed document states.
	n.Must("memory", "forget", "Ann Miller works at Acme", "--yes")
	n.Must("documents", "remove", "offer.md", "--yes")
	if out := n.Must("graph", "export"); strings.Contains(out, "Acme") || strings.Contains(out, "offer.md") || !strings.Contains(out, "Dutch") {
		t.Error(fmt.Sprint("the graph still has what is gone, or lacks what is not:\n", out))
	}
}

// TestWhatIsStatedPointsToItsMessage, and goes with it.
func TestWhatIsStatedPointsToItsMessage(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "graph.assert", Args: map[string]any{"subject": "Bob", "predicate": "lives in", "object": "Graz"}}))})
	n.Env = append(n.Env, "STEWARD_ROUTING=off")
	configure(n, "tools: {shown_tokens: 100000, shown: 200}\n")
	n.Serve()
	a := n.Ask("Note that Bob lives in Graz.", func(edge.Approval) string { return "approve" })
	out := n.Must("graph", "neighbours", "Bob", "--json")
	if !strings.Contains(out, "/common.Message.") || !strings.Contains(out, "Note that Bob lives in Graz.") {
		t.Errorf("the statement does not show its message:\n%s\n%s", out, a.Text)
	}
}
