package main

import (
	"context"
	"net/http"

	"steward/internal/catalog"
	"steward/internal/face/terminal"
	"steward/internal/runtime"
)

// AgentLines implements backend: the agents that may be talked to.
func (l *local) AgentLines(ctx context.Context) ([]terminal.AgentLine, error) {
	var out []terminal.AgentLine
	for _, a := range l.node.Agents(ctx) {
		out = append(out, terminal.AgentLine{Path: a.Path, Description: a.Description})
	}
	return out, nil
}

// AgentLines implements backend.
func (r *remote) AgentLines(ctx context.Context) ([]terminal.AgentLine, error) {
	var got struct {
		Agents []catalog.Listing `json:"agents"`
	}
	if err := r.call(ctx, http.MethodGet, "/agents", nil, &got); err != nil {
		return nil, err
	}
	out := []terminal.AgentLine{{Path: runtime.DefaultAgent, Description: "answers when no other agent is named"}}
	for _, l := range got.Agents {
		if l.Usable && l.Kind == catalog.KindAgent {
			out = append(out, terminal.AgentLine{Path: l.Path, Description: l.Description})
		}
	}
	return out, nil
}
