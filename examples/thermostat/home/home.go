// Package home is an MCP server for the recipe in docs/guides/headless.md: a
// thermostat with a tool that reads and one that sets.
package home

import (
	"context"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type nothing struct{}

type setting struct {
	Degrees float64 `json:"degrees" jsonschema:"the temperature to heat to, in degrees Celsius"`
}

// Serve serves over standard input and output until they end.
func Serve(ctx context.Context) error {
	var mu sync.Mutex
	degrees := 19.5
	s := mcp.NewServer(&mcp.Implementation{Name: "thermostat", Version: "1"}, nil)
	said := func(format string, args ...any) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil, nil
	}
	mcp.AddTool(s, &mcp.Tool{Name: "temperature", Description: "Read the temperature of the living room.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, nothing) (*mcp.CallToolResult, any, error) {
			mu.Lock()
			defer mu.Unlock()
			return said("It is %.1f degrees.", degrees)
		})
	mcp.AddTool(s, &mcp.Tool{Name: "heat", Description: "Set the temperature that the heating keeps."},
		func(_ context.Context, _ *mcp.CallToolRequest, in setting) (*mcp.CallToolResult, any, error) {
			mu.Lock()
			defer mu.Unlock()
			degrees = in.Degrees
			return said("Heating to %.1f degrees.", degrees)
		})
	return s.Run(ctx, &mcp.StdioTransport{})
}
