package cli

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"steward/internal/cli/command"
)

// A desktop client starts steward mcp serve, and uses its tools: with a Steward that runs, and without one.
func TestMCPServe(t *testing.T) {
	for _, where := range []string{"alone", "beside a Steward that runs"} {
		t.Run(where, func(t *testing.T) {
			env := user(t)
			if where != "alone" {
				serveFor(t, env)
			}
			c := sdk.NewClient(&sdk.Implementation{Name: "desktop", Version: "1"}, nil)
			s, err := c.Connect(t.Context(), &sdk.CommandTransport{Command: buildProgram(t, env, "mcp", "serve")}, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "math__multiply", Arguments: map[string]any{"a": 6, "b": 7}})
			if err != nil || len(res.Content) != 1 || res.Content[0].(*sdk.TextContent).Text != "42" {
				t.Errorf("%+v, %v", res, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMCPServeWithoutItsKey(t *testing.T) {
	code, _, errs := in(t, "", user(t), "mcp", "serve", "--key-env", "NOT_SET")
	if code != command.ExitFailed || !strings.Contains(errs, "[key_missing]") {
		t.Errorf("%d %s", code, errs)
	}
}
