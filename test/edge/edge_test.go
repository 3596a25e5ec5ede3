package edge_test

import (
	"os"
	"testing"

	"steward/test/edge"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "probe" {
		os.Exit(probe(os.Args[2]))
	}
	os.Exit(edge.Main(m))
}

// This tests the harness itself: a turn with a tool call over the WebSocket,
// against the shipped binary with its default settings.
func TestATurn(t *testing.T) {
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "math.multiply", Args: map[string]any{"a": 6, "b": 7}}))})
	a := n.Ask("What is 6 times 7?", nil)
	if a.Text != "42" || len(a.Results) != 1 || a.Results[0].Status != "ok" {
		t.Errorf("%+v", a)
	}
	if status, b := n.HTTP("GET", "/readyz", nil); status != 200 {
		t.Errorf("%d %s", status, b)
	}
	if out := n.Must("conversations", "list"); out == "" {
		t.Error("no conversation is listed")
	}
}
