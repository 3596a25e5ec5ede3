//go:build long

package edge_test

import (
	"fmt"
	"testing"

	"steward/test/edge"
)

func TestAWebSocketAnswersAfterManyConversations(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "yes"} })})
	c := n.Dial()
	first := ""
	for i := range 1100 {
		a := c.Turn(map[string]any{"content": fmt.Sprint("Are you there, ", i, "?")}, nil)
		if a.Text != "yes" {
			t.Fatalf("conversation %d: %s %s", i, a.Code, a.Text)
		}
		if first == "" {
			first = a.Conversation
		}
	}
	if a := c.Turn(map[string]any{"content": "And in the first one?", "conversation_id": first}, nil); a.Text != "yes" || a.Conversation != first {
		t.Errorf("%s %s", a.Code, a.Text)
	}
}
