package kits

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/resource"
)

// AgentView is an agent that may be used, as it is shown to a person.
type AgentView struct {
	Path        string `json:"path"`
	Description string `json:"description,omitzero"`
	Persona     bool   `json:"persona,omitzero"` // may take over an existing conversation

	URI      resource.URI      `json:"-"`
	Limits   catalog.Limits    `json:"-"` // of one run
	Metadata resource.Metadata `json:"-"`
}

// Agents returns the agents that may be used, sorted by path; "assistant" comes
// first.
func (k *Engine) Agents(context.Context) []AgentView {
	out := []AgentView{{Path: DefaultAgent, Description: "answers when no other agent is named", Persona: true}}
	for _, name := range slices.Sorted(maps.Keys(k.Fixed)) {
		if name != DefaultAgent {
			v := AgentView{Path: name, Persona: true}
			if name == PlannerAgent {
				v.Description = "plans what you ask for, and has the plan's tasks done by agents that it designs"
			}
			out = append(out, v)
		}
	}
	for _, a := range smallAgents {
		if k.smallAgent(a.path) != nil {
			out = append(out, AgentView{Path: a.path, Description: a.about, Persona: true})
		}
	}
	if k.opt.Catalog != nil {
		tree := k.opt.Catalog.Tree()
		for _, path := range slices.Sorted(maps.Keys(tree.ByPath)) {
			if a := tree.ByPath[path]; a.Path != "" && k.Fixed[path] == nil {
				out = append(out, AgentView{Path: path, Description: a.Description, Persona: a.Persona, Metadata: a.Metadata, Limits: a.Limits})
			}
		}
	}
	for i := range out {
		v := &out[i]
		v.URI, v.Metadata.Purpose = AgentURI(v.Path), cmp.Or(v.Metadata.Purpose, v.Description)
	}
	return out
}

// TakesOver refuses an agent that would continue another agent's conversation and
// is not meant for it.
func (k *Engine) TakesOver(path, before string) error {
	if before = cmp.Or(before, DefaultAgent); path == before || path == DefaultAgent || k.Fixed[path] != nil || k.opt.Catalog == nil {
		return nil
	}
	if a := k.opt.Catalog.Tree().ByPath[path]; a != nil && !a.Persona {
		return fault.New(fault.Conflict, "agent_no_persona", "the agent %s does not take over conversations: it would see all that was said in this one", path).
			WithHint("talk to it in a conversation of its own, or set persona: true in its agent.yaml")
	}
	return nil
}

// AgentURI returns the resource of an agent: one step for each element of its path.
func AgentURI(path string) resource.URI {
	var u resource.URI
	for _, name := range strings.Split(path, "/") {
		u = u.Child(TypeAgent, name)
	}
	return u
}

// AgentPath reverses agentURI. For any other resource it returns a path that no agent has.
func AgentPath(uri resource.URI) string {
	var names []string
	for _, e := range uri.Elements() {
		if e.Type != TypeAgent {
			return "/"
		}
		names = append(names, e.ID)
	}
	return strings.Join(names, "/")
}

const (
	TypeAgent = "agent.Agent"
	TypeTool  = "tool.Tool"
)
