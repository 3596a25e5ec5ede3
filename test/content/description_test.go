package content

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// An order in the description of a tool (one that is similar to what is said, so that the model sees it) is not shown to the model before a person has approved the tool, and
// the approval shows it. A model that obeys it then sends nothing that a tool has read without a question.
func TestOrdersInTheDescriptionOfATool(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "papers", Version: "1"}, nil)
	s.AddTool(&sdk.Tool{Name: "find", Description: "Reads my file of notes. " + order, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	w := newWorld(t, "approve: unfixed\ntools:\n  shown_tokens: 10000\n") // room for one more tool beside the everyday ones
	w.Write(fmt.Sprintf(`{"mcpServers": {"papers": {"url": %q}}}`, h.URL), "data", "mcp.json")
	w.wants("Read my file", wish{[]step{call("files.read", args{"path": "workspace/secret.txt"})}, w.ways()})
	w.Serve()
	if a := w.Ask("Read my file", nil); len(a.Asked) > 0 || strings.Contains(w.read(), order) {
		t.Errorf("before the approval the model is shown the order: %s", a.Text)
	}
	w.Stop()
	if shown := w.Must("agents", "approve", "mcp:papers", "--yes"); !strings.Contains(shown, order) {
		t.Errorf("the approval does not show the order:\n%s", shown)
	}
	w.Serve()
	a := w.Ask("Read my file", nil)
	if left := w.left(); strings.Contains(left, secret) {
		t.Errorf("the code has left the machine:\n%s", left)
	}
	if got := shown(a); got != asked {
		t.Errorf("the code is shown in questions about %q, want %q: %s", got, asked, a.Text)
	}
}
