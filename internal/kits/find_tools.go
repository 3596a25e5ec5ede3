package kits

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"steward/internal/fault"
	"steward/internal/search/similar"
	"steward/internal/tool"
)

// FindTool is the name of the tool that finds tools.
const FindTool = "tools.find"

// maxFound bounds how many tools one call finds.
const maxFound = 10

// FoundIn returns the agent's tools that a result of tools.find names, by their indexes.
func (k *Kit) FoundIn(result string) (found []int) {
	for part := range strings.SplitSeq(result, foundEnd) {
		name, _, _ := strings.Cut(part, ":")
		if i, ok := k.IndexOf(name); ok && len(found) < maxFound {
			found = append(found, i)
		}
	}
	return found
}

// foundEnd separates the tools in a result.
const foundEnd = "\n\n"

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
func (t findTools) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	var args struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal(in.Args, &args); err != nil {
		return tool.Result{}, fault.New(fault.Invalid, "args_invalid", "the arguments cannot be read: %w", err)
	}
	specs := t.kit.All.Specs()
	all := make([]int, len(specs))
	for i := range all {
		all[i] = i
	}
	near := func(about []string) []float64 {
		return t.kit.Similar.Scores(ctx, similar.Request{User: in.User, Agent: in.Agent, Labels: in.Labels, Text: args.Query}, about)
	}
	var b strings.Builder
	for _, i := range t.kit.chooser().find(args.Query, all, maxFound, near) {
		s := &specs[i]
		fmt.Fprintf(&b, "%s: %s\nparameters: %s%s", s.Name, strings.ReplaceAll(s.Description, foundEnd, "\n"), s.Input, foundEnd)
	}
	if b.Len() == 0 {
		return tool.Text("There is no tool like that. Try other words, or tell the user that it cannot be done."), nil
	}
	return tool.Text(strings.TrimSpace(b.String())), nil
}
