//go:build long

package edge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/sandbox"
	"steward/test/edge"
)

// A long command goes on in the background. Its latest line is told to the chat and shown by the list of
// requests while it runs, and its result arrives by itself.
func TestTheOutputOfALongCommandIsToldWhileItRuns(t *testing.T) {
	t.Parallel()
	if sandbox.Available() != nil {
		return // there is no such tool
	}
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() == 0 && in.User() == "Work." {
			return edge.Reply{Calls: []edge.Call{{Name: "shell.run", Args: map[string]any{"command": "echo step one; until [ -e go ]; do sleep 0.1; done; echo step two", "timeout": 600}}}}
		}
		return edge.Reply{Text: in.User()}
	})})
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "id": "1", "content": "Work."})
	early, live := false, false
	for !live {
		f := c.Read()
		switch {
		case f.Type == "tool_call" && f.Status == "awaiting_approval":
			c.Send(map[string]any{"type": "approve", "approval_id": f.Approval.ID, "hash": f.Approval.Hash})
		case f.Type == "tool_call" && f.Message == "step one":
			early = true
		case f.Type == "task" && f.Status == "running" && f.Message == "step one":
			live = true
		case f.Type == "error":
			t.Fatal(string(f.Raw))
		}
	}
	if !early {
		t.Error("the output is told in the background only")
	}
	n.Until("the list of requests shows the line", func() bool { return strings.Contains(n.Must("requests", "list"), "step one") })
	if err := os.WriteFile(filepath.Join(n.Dir, "Steward", "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for {
		f := c.Read()
		var text string
		if json.Unmarshal(f.Content, &text) == nil && f.Type == "complete" && strings.Contains(text, "step two") {
			return
		}
		if f.Type == "error" {
			t.Fatal(string(f.Raw))
		}
	}
}
