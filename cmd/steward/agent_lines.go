package main

import (
	"context"

	"steward/internal/catalog"
	"steward/internal/face/terminal"
	"steward/internal/runtime"
)

// agentLines are the agents that may be talked to.
func (s *session) agentLines(ctx context.Context) ([]terminal.AgentLine, error) {
	list, err := s.agents(ctx)
	if err != nil {
		return nil, err
	}
	out := []terminal.AgentLine{{Path: runtime.DefaultAgent, Description: "answers when no other agent is named"}}
	for _, l := range list {
		if l.Usable && l.Kind == catalog.KindAgent {
			out = append(out, terminal.AgentLine{Path: l.Path, Description: l.Description})
		}
	}
	return out, nil
}

// modelNames are the names by which models can be asked for, the aliases first.
func (s *session) modelNames(ctx context.Context) ([]string, error) {
	var out struct {
		Aliases []string
		Models  []struct {
			Name     string
			Embedder bool
		}
	}
	if err := s.Call(ctx, "GET /models", nil, nil, &out); err != nil {
		return nil, err
	}
	names := out.Aliases
	for _, m := range out.Models {
		if !m.Embedder {
			names = append(names, m.Name)
		}
	}
	return names, nil
}
