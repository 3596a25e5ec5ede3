package kits

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"steward/internal/tool"
)

// FindTool is the name of the tool that finds tools.
const FindTool = "tools.find"

// maxFound bounds how many tools one call finds.
const maxFound = 10

// found returns the indexes of the tools that a call of tools.find finds.
func (k *Kit) found(args []byte) []int {
	var query struct {
		Query string `json:"query"`
	}
	if json.Unmarshal(args, &query) != nil {
		return nil // the call fails for it
	}
	return k.chooser().finder.Find(query.Query, maxFound)
}

// findTools is tools.find. It is shown to a model that is not shown all of its tools.
type findTools struct{ kit *Kit }

// Spec implements tool.Tool.
func (findTools) Spec() tool.Spec {
	return tool.Spec{Name: FindTool, Effect: tool.Query, Version: "1", Reach: tool.ReachHere, ResultCap: 64 << 10,
		Input: []byte(`{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":1000,"description":"what the tool should do, in a few words"}},"required":["query"],"additionalProperties":false}`),
		Description: "Finds more tools: you are shown only some of those that you have. " +
			"Use it before you say that something cannot be done. What it finds can be called from then on.",
		Log: tool.LogSpec{Summary: "Look for tools", Parameters: []string{"query"}}}
}

// Call implements tool.Tool.
func (t findTools) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	var b strings.Builder
	for _, i := range t.kit.found(in.Args) {
		s := &t.kit.All.Specs()[i]
		fmt.Fprintf(&b, "%s: %s\nparameters: %s\n\n", s.Name, s.Description, s.Input)
	}
	if b.Len() == 0 {
		return tool.Text("There is no tool like that. Try other words, or tell the user that it cannot be done."), nil
	}
	return tool.Text(strings.TrimSpace(b.String())), nil
}
