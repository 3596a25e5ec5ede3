package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"steward/internal/fault"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/tool"
	"steward/internal/tree"
)

// Resources returns the service over the tree: everything that exists, as far as
// the caller may see it.
func (n *Node) Resources() *tree.Service { return n.resources }

// addResources creates the service, and adds the tools by which agents use it.
func (n *Node) addResources() error {
	if n.opt.People == nil {
		n.opt.People = members{}
	}
	if err := n.openEvents(); err != nil {
		return err
	}
	n.resources = tree.New(tree.Options{Store: n.opt.Store, Authorizer: n.opt.Authorizer, People: n.opt.People, Audit: n.events,
		Mounts: []tree.Mount{agentView{n}, toolView{n}, workView{n}}})
	tools, err := n.resources.Tools()
	if err != nil {
		return err
	}
	for _, t := range tools {
		if err := n.opt.Tools.Add(t); err != nil {
			return err
		}
	}
	return nil
}

// members is the default directory: everybody is a member.
type members struct{}

// Principal implements policy.Directory.
func (members) Principal(_ context.Context, user string) (policy.Principal, error) {
	return policy.Principal{User: user, Roles: []string{policy.RoleMember}}, nil
}

const (
	typeAgent = "agent.Agent"
	typeTool  = "tool.Tool"
)

// agentView shows the usable agents as resources.
type agentView struct{ n *Node }

// Types implements tree.Mount.
func (agentView) Types() []string { return []string{typeAgent} }

// List implements tree.Mount.
func (v agentView) List(ctx context.Context, p policy.Principal) ([]tree.Resource, error) {
	var out []tree.Resource
	for _, a := range v.n.Agents(ctx) {
		r, err := v.Get(ctx, p, agentURI(a.Path))
		if fault.Is(err, fault.NotFound) {
			continue // revoked in the meantime
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// Get implements tree.Mount.
func (v agentView) Get(_ context.Context, p policy.Principal, uri resource.URI) (tree.Resource, error) {
	kit, err := v.n.kitOf(agentPath(uri))
	if err != nil {
		return tree.Resource{}, err
	}
	about := struct {
		Name        string   `json:"name"`
		Description string   `json:"description,omitzero"`
		Version     string   `json:"version,omitzero"`
		Model       string   `json:"model,omitzero"`
		Tools       []string `json:"tools"`
		Prompt      string   `json:"prompt,omitzero"` // for admins
		resource.Metadata
	}{Name: kit.Name, Version: kit.Version, Model: kit.Model, Tools: append([]string{}, kit.names...)}
	if v.n.opt.Catalog != nil {
		if a := v.n.opt.Catalog.Tree().ByPath[kit.Name]; a != nil {
			about.Description, about.Metadata = a.Description, a.Metadata
		}
	}
	if p.Has(policy.RoleAdmin) {
		about.Prompt = kit.Prompt
	}
	return mounted(uri, about.Metadata, about)
}

// toolView shows agents' tools with their schemas: the assistant's at the root,
// other agents' tools below their agents.
type toolView struct{ n *Node }

// Types implements tree.Mount.
func (toolView) Types() []string { return []string{typeTool} }

// List implements tree.Mount.
func (v toolView) List(ctx context.Context, _ policy.Principal) ([]tree.Resource, error) {
	var out []tree.Resource
	for _, a := range v.n.Agents(ctx) {
		kit, err := v.n.kitOf(a.Path)
		if err != nil {
			continue // revoked in the meantime
		}
		above := agentURI(a.Path)
		if a.Path == DefaultAgent {
			above = resource.URI{}
		}
		for _, name := range kit.names {
			t, ok := kit.registry.Get(name)
			if !ok {
				continue
			}
			r, err := toolResource(above.Child(typeTool, name), t.Spec())
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// Get implements tree.Mount.
func (v toolView) Get(_ context.Context, _ policy.Principal, uri resource.URI) (tree.Resource, error) {
	path := DefaultAgent
	if above := uri.Parent(); !above.Zero() {
		path = agentPath(above)
	}
	kit, err := v.n.kitOf(path)
	if err != nil {
		return tree.Resource{}, err
	}
	t, ok := kit.registry.Get(uri.ID())
	if !ok {
		return tree.Resource{}, fault.New(fault.NotFound, "not_found", "there is no tool %.200q", uri.ID())
	}
	return toolResource(uri, t.Spec())
}

func toolResource(uri resource.URI, s tool.Spec) (tree.Resource, error) {
	meta := s.Metadata
	meta.Purpose = cmp.Or(meta.Purpose, s.Description)
	return mounted(uri, meta, struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Effect      tool.Effect     `json:"effect"`
		Delivery    tool.Delivery   `json:"delivery,omitzero"`
		Version     string          `json:"version,omitzero"`
		Origin      string          `json:"origin,omitzero"`
		Out         bool            `json:"out,omitzero"`
		Asks        bool            `json:"asks,omitzero"`
		Input       json.RawMessage `json:"input"`
		resource.Metadata
	}{s.Name, s.Description, s.Effect, s.Delivery, s.Version, s.Origin, s.Out(), s.Asks, s.Input, meta})
}

func mounted(uri resource.URI, meta resource.Metadata, about any) (tree.Resource, error) {
	body, err := json.Marshal(about)
	if err != nil {
		return tree.Resource{}, err
	}
	return tree.Resource{URI: uri, Space: resource.System, Metadata: meta, Body: body}, nil
}

// agentURI returns the resource of an agent: one step for each element of its path.
func agentURI(path string) resource.URI {
	var u resource.URI
	for _, name := range strings.Split(path, "/") {
		u = u.Child(typeAgent, name)
	}
	return u
}

// agentPath reverses agentURI. For any other resource it returns a path that no agent has.
func agentPath(uri resource.URI) string {
	var names []string
	for _, e := range uri.Elements() {
		if e.Type != typeAgent {
			return "/"
		}
		names = append(names, e.ID)
	}
	return strings.Join(names, "/")
}
