package kits

import (
	"cmp"
	"slices"
	"strings"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/service"
	"steward/internal/taint"
	"steward/internal/tool"
)

// levelKit builds the kit of a catalog agent: the node's tools that it lists (the
// root level: all), its own tools, and a tool for each child. If names collide,
// the first in this order wins.
func (k *Engine) levelKit(tree *catalog.Tree, a *catalog.Agent) (*Kit, error) {
	kit := &Kit{Registry: &tool.Registry{}, Similar: k.opt.Similar, Tree: tree.Version, Own: true, Hooks: a.Hooks, Asks: map[string]bool{}}
	from := k.Fixed[DefaultAgent].Names
	if a.Path == "" {
		kit.Definition, kit.Own = k.Fixed[DefaultAgent].Definition, false
	} else {
		kit.Definition = agent.Definition{Name: a.Path, Version: a.Version, Prompt: promptOf(a), Model: modelOf(tree, a),
			Sampling: a.Sampling, Limits: NarrowLimits(a.Limits, k.opt.Limits)}
		kit.Meta = a.Metadata
		kit.useService(a.Bindings[service.LLM])
		from = k.uses(a)
	}
	k.addTools(kit, k.opt.Tools, from, a.Deferred)
	if a.Tools != nil {
		k.addTools(kit, a.Tools, a.Tools.Names(), a.Deferred)
	}
	var below taint.Needs
	for _, c := range a.Children {
		t := k.opt.Ask(c)
		if err := kit.Registry.Add(t); err != nil {
			k.warnOnce("an agent cannot be asked", c.Path, err)
			continue
		}
		kit.Asks[t.Spec().Name] = true
		k.needsBelow(&below, c)
	}
	if err := below.AddTools(kit.Registry, k.opt.Tools, a.Uses); err != nil {
		return nil, err
	}
	kit.Seal()
	return kit, nil
}

// useService sets the kit's model and sampling from the agent's llm service, unless
// the definition names its own.
func (k *Kit) useService(b service.Binding) {
	k.LLM = b
	switch {
	case b.Source == service.Remote:
		k.Model = RemoteModel
	case b.Model != "":
		k.Model = b.Model
	}
	k.Sampling = k.Sampling.Over(llm.Sampling{Temperature: b.Temperature, MaxTokens: b.MaxTokens})
}

// uses returns the names of the node's tools that an agent may use. The tool that
// reads on in clipped results is always among them.
func (k *Engine) uses(a *catalog.Agent) []string {
	names := []string{effect.ReadToolName}
	existing := slices.DeleteFunc(slices.Clone(a.Uses), func(p string) bool {
		missing := !k.opt.Tools.Knows(p)
		if missing {
			k.warnOnce("an agent names a tool that is not there", a.Path, fault.New(fault.NotFound, "tool_unknown", "there is no tool named %s", p))
		}
		return missing
	})
	if len(existing) == 0 {
		return names
	}
	specs, err := k.opt.Tools.Select(existing...)
	if err != nil {
		k.warnOnce("an agent's list of tools cannot be read: it has none of them", a.Path, err)
	}
	for _, sp := range specs {
		if sp.Name != effect.ReadToolName {
			names = append(names, sp.Name)
		}
	}
	return names
}

// addTools adds tools of a registry to a kit, except those whose name is taken. Those
// that match a pattern in defers wait for the end of the turn.
func (k *Engine) addTools(kit *Kit, from *tool.Registry, names, defers []string) {
	for _, name := range names {
		t, ok := from.Get(name)
		if !ok || taint.Plans(name) {
			continue // removed in the meantime; planning tools are added by what they are needed for
		}
		add := func() error { return kit.Registry.AddFrom(from, name) }
		if s := t.Spec(); s.Effect == tool.Action && !s.Async && s.AsyncAfter == 0 &&
			slices.ContainsFunc(defers, func(p string) bool { return tool.PatternMatches(p, s.Name) }) {
			add = func() error { return kit.Registry.Add(deferred{t}) }
		}
		if err := add(); err != nil {
			k.warnOnce("an agent does not get a tool", kit.Name, err)
		}
	}
}

// deferred is an action of a registry that is performed when the turn ends.
type deferred struct{ tool.Tool }

func (d deferred) Unwrap() tool.Tool       { return d.Tool }
func (d deferred) Check(args []byte) error { return d.Tool.(tool.Checker).Check(args) }

func (d deferred) Spec() tool.Spec {
	s := d.Tool.Spec()
	s.Delivery = tool.Deferred
	return s
}

// promptOf returns an agent's system prompt: its role, and nothing about other
// levels.
func promptOf(a *catalog.Agent) string {
	role := strings.TrimSpace(a.Prompt)
	if role == "" {
		role = "You are " + strings.ReplaceAll(a.Name, "_", " ") + ". " + strings.TrimSpace(a.Description)
	}
	if len(a.Config) > 0 && string(a.Config) != "null" {
		role += "\n\nYour config:\n" + string(a.Config)
	}
	return role + "\n\nWhen a tool fails or is denied, say so. " +
		"Do not claim that something was done unless a tool result says it was."
}

// modelOf returns an agent's own model, otherwise that of the nearest level above
// that names one.
func modelOf(tree *catalog.Tree, a *catalog.Agent) string {
	for a != nil && a.Path != "" {
		if a.Model != "" {
			return a.Model
		}
		parent, _, _ := cutLast(a.Path)
		a = tree.ByPath[parent]
	}
	return ""
}

// cutLast splits a path into the path of the level above and the agent's name.
func cutLast(path string) (parent, name string, nested bool) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return "", path, false
}

// NarrowLimits returns an agent's limits, none of them wider than the node's.
func NarrowLimits(own catalog.Limits, node agent.Limits) agent.Limits {
	out := agent.Limits{Iterations: cmp.Or(node.Iterations, agent.DefaultIterations), Time: cmp.Or(node.Time, agent.DefaultTime), Calls: node.Calls}
	if own.Iterations > 0 {
		out.Iterations = min(out.Iterations, own.Iterations)
	}
	if own.Time > 0 {
		out.Time = min(out.Time, own.Time)
	}
	out.Budget = llm.Budget{MaxTokens: own.Tokens, MaxCost: own.Cost} // the node's budget applies in addition
	return out
}

// needsBelow adds what an agent and all agents below it need.
func (k *Engine) needsBelow(w *taint.Needs, a *catalog.Agent) {
	if a.Tools != nil {
		for _, s := range a.Tools.Specs() {
			w.See(s)
		}
	}
	for _, name := range k.uses(a) {
		if t, ok := k.opt.Tools.Get(name); ok {
			w.See(t.Spec())
		}
	}
	for _, c := range a.Children {
		k.needsBelow(w, c)
	}
}
