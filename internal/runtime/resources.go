package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"strings"

	"steward/internal/conversation/worklog"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/store"
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

// agentView shows the usable agents as resources.
type agentView struct{ n *Node }

// Types implements tree.Mount.
func (agentView) Types() []string { return []string{kits.TypeAgent} }

// List implements tree.Mount.
func (v agentView) List(ctx context.Context, p policy.Principal) ([]tree.Resource, error) {
	var out []tree.Resource
	for _, a := range v.n.Kits.Agents(ctx) {
		r, err := v.Get(ctx, p, kits.AgentURI(a.Path))
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
	kit, err := v.n.Kits.Named(kits.AgentPath(uri))
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
	}{Name: kit.Name, Version: kit.Version, Model: kit.Model, Tools: append([]string{}, kit.Names...)}
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
func (toolView) Types() []string { return []string{kits.TypeTool} }

// List implements tree.Mount.
func (v toolView) List(ctx context.Context, _ policy.Principal) ([]tree.Resource, error) {
	var out []tree.Resource
	for _, a := range v.n.Kits.Agents(ctx) {
		kit, err := v.n.Kits.Of(a.Path)
		if err != nil {
			continue // revoked in the meantime
		}
		above := kits.AgentURI(a.Path)
		if a.Path == kits.DefaultAgent {
			above = resource.URI{}
		}
		for _, name := range kit.Names {
			t, ok := kit.Registry.Get(name)
			if !ok {
				continue
			}
			r, err := toolResource(above.Child(kits.TypeTool, name), t.Spec())
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
	path := kits.DefaultAgent
	if above := uri.Parent(); !above.Zero() {
		path = kits.AgentPath(above)
	}
	kit, err := v.n.Kits.Named(path)
	if err != nil {
		return tree.Resource{}, err
	}
	t, ok := kit.Registry.Get(uri.ID())
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

const typeWork = "worklog.Entry"

// maxWork is how many entries of the work log are listed as resources: the
// newest. WorkLog returns all of them.
const maxWork = 10_000

// workView shows the entries of a user's work log as resources. Each is below the
// message that makes the call, under the call's block.
type workView struct{ n *Node }

// Types implements tree.Mount.
func (workView) Types() []string { return []string{typeWork} }

// Personal implements tree.Personal.
func (workView) Personal() {}

// List implements tree.Mount.
func (v workView) List(ctx context.Context, p policy.Principal) ([]tree.Resource, error) {
	var out []tree.Resource
	for after := store.Cursor(""); len(out) < maxWork; {
		page, next, err := v.n.WorkLog(ctx, p.User, worklog.Filter{}, after, 1000)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			r, err := workResource(p.User, e)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		if after = next; next == "" {
			break
		}
	}
	return out, nil
}

// Get implements tree.Mount.
func (v workView) Get(ctx context.Context, p policy.Principal, uri resource.URI) (tree.Resource, error) {
	msg := uri.Parent()
	e, _, err := v.n.WorkLogEntry(ctx, p.User, msg.ID()+"/"+uri.ID())
	if fault.HasCode(err, "ref_invalid") || err == nil && workURI(e) != uri {
		return tree.Resource{}, fault.New(fault.NotFound, "not_found", "there is no %s", uri)
	}
	if err != nil {
		return tree.Resource{}, err
	}
	return workResource(p.User, e)
}

// workURI returns the resource of an entry.
func workURI(e worklog.Entry) resource.URI {
	_, block, _ := strings.Cut(e.ID, "/")
	return e.Call.Child(typeWork, block)
}

func workResource(user string, e worklog.Entry) (tree.Resource, error) {
	r, err := mounted(workURI(e), resource.Metadata{Purpose: e.Summary}, e)
	r.Space, r.At = resource.UserSpace(user), e.At
	return r, err
}

// openEvents opens the engine that publishes what happens to resources.
func (n *Node) openEvents() (err error) {
	var mask func([]byte) []byte
	if n.opt.Secrets != nil {
		mask = n.opt.Secrets.MaskBytes
	}
	n.events, err = events.New(events.Options{Follow: n.entries, Authorizer: n.opt.Authorizer, Directory: n.opt.People,
		Audit: n.opt.AuditReads, Mask: mask, Log: n.log})
	return err
}

// Publish appends an event to the log under the user's own source; see
// events.Engine.Publish for the errors.
func (n *Node) Publish(ctx context.Context, user string, x events.Publication) (events.Published, error) {
	return n.events.Publish(ctx, events.Caller{User: user}, x)
}

// EraseEvent erases for good an event that a user published.
func (n *Node) EraseEvent(ctx context.Context, by, user string, which id.ID) error {
	return n.events.Erase(ctx, by, user, which)
}

// Subscribe yields the events after a cursor that match the filter and that the
// user may read, until ctx is done or the loop is left. See
// events.Engine.Subscribe for guarantees and errors.
func (n *Node) Subscribe(ctx context.Context, user string, f events.Filter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return n.events.Subscribe(ctx, events.Caller{User: user}, f, from)
}

// Observe yields the changes in the user's conversations after a cursor that
// match the filter, until ctx is done or the loop is left. See
// events.Engine.Observe for guarantees and errors.
func (n *Node) Observe(ctx context.Context, user string, f events.ChangeFilter, from events.Cursor) iter.Seq2[events.Batch, error] {
	return n.events.Observe(ctx, store.ForUser(user), f, from)
}

// addSearch adds the tools with which agents search.
func (n *Node) addSearch() error {
	if n.opt.Search == nil {
		return nil
	}
	scope := func(in tool.Invocation) store.Scope { return store.ForUser(in.User) }
	t, err := search.NewTool(n.opt.Search, scope)
	if err == nil {
		err = n.opt.Tools.Add(t)
	}
	vectors, ok := n.opt.Search.(search.Vectors)
	if err != nil || !ok {
		return err
	}
	if t, err = search.NewSimilarTool(vectors, scope); err != nil {
		return err
	}
	return n.opt.Tools.Add(t)
}

// followLog makes the search index follow the log for as long as the node lives.
func (n *Node) followLog() {
	if n.opt.Search == nil {
		return
	}
	n.life.Go(func() { n.opt.Search.Follow(n.life) })
}
