package runtime

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/service"
	"steward/internal/taint"
	"steward/internal/tool"
)

// Catalog provides the agents that may be used. Safe for concurrent use.
type Catalog interface {
	// Tree returns the agents that may be used now; never nil.
	Tree() *catalog.Tree
	// Listings returns all agents and sources, those that may not be used among them.
	Listings() []catalog.Listing
}

// agentKit is an agent with its tools, built once. Its name is its path.
type agentKit struct {
	agent.Definition
	tools    *llm.Toolset
	plain    *llm.Toolset    // without the planning tools; nil: it has none of them
	registry *tool.Registry  // the tools of its level
	names    []string        // of the tools
	chooser  func() *chooser // made when it is needed
	tree     uint64          // version of the catalog's tree that it was built from; 0: none
	own      bool            // its limits narrow the node's
	small    bool            // see smallAgents
	meta     resource.Metadata
	asks     map[string]bool // the tools that ask its children
	hooks    map[string][]tool.Hook
	llm      service.Binding // of its llm service; the zero value: the node's
}

func (k *agentKit) has(name string) bool {
	_, ok := k.registry.Get(name)
	return ok
}

// kits makes and keeps the kits of all agents: of the fixed ones, which the node defines, of the small
// ones, which are built in, of those of the catalog, for one version of its tree, and of those that
// are designed for a task. Safe for concurrent use.
type kits struct {
	opt   kitOptions
	fixed map[string]*agentKit
	small map[string]*agentKit

	mu       sync.Mutex
	version  uint64 // of the catalog's tree
	levels   map[string]*agentKit
	designed map[string]*agentKit // agents that were designed for tasks
	warned   map[string]bool      // messages that were logged already
}

// kitOptions are the parts of kits. Tools, Models, Ask, Design and Log are required.
type kitOptions struct {
	Tools  *tool.Registry
	Models *llm.Models
	// Catalog provides the agents that are defined in folders. May be nil.
	Catalog Catalog
	// Limits bind all agents.
	Limits agent.Limits
	// Small says whether the small built-in agents are there.
	Small bool
	// RemoteModels returns the model server that an agent's llm service names. May be nil.
	RemoteModels func(b service.Binding) (llm.Provider, error)
	// Ask returns the tool by which the level above asks an agent.
	Ask func(*catalog.Agent) tool.Tool
	// Design makes the agent of a path that was designed for a task, if it is not in memory any more.
	Design func(path string) (*agentKit, error)
	Log    *slog.Logger
}

// newKits returns kits without any agent: see build.
func newKits(o kitOptions) *kits {
	return &kits{opt: o, fixed: map[string]*agentKit{}, small: map[string]*agentKit{}}
}

// build builds the kits of the fixed and the small agents, when all tools are there.
func (k *kits) build(fixed ...agent.Definition) error {
	for _, d := range fixed {
		kit, err := k.kit(d)
		if err != nil {
			return err
		}
		k.fixed[d.Name] = kit
	}
	return k.addSmallAgents()
}

// designedPrefix begins the paths of agents that are designed for a task. The
// task's id follows.
const designedPrefix = "designed/"

// maxDesigned bounds how many designed agents stay in memory.
const maxDesigned = 512

// designedKit returns the kit of an agent that was designed for a task, while it is in memory.
func (k *kits) designedKit(path string) *agentKit {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tree()
	return k.designed[path]
}

// keepDesigned keeps the kit of an agent that was designed for a task, unless the catalog has changed
// since it was made.
func (k *kits) keepDesigned(kit *agentKit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tree().Version != kit.tree {
		return
	}
	if len(k.designed) >= maxDesigned { // they are made again when they are needed
		clear(k.designed)
	}
	k.designed[kit.Name] = kit
}

// kitOf returns an agent by its path, as it may be used now. Error code:
// agent_not_found.
func (k *kits) kitOf(path string) (*agentKit, error) {
	if strings.HasPrefix(path, designedPrefix) {
		if kit := k.designedKit(path); kit != nil {
			return kit, nil
		}
		return k.opt.Design(path)
	}
	fixed := cmp.Or(k.fixed[path], k.smallAgent(path))
	if k.opt.Catalog == nil || fixed != nil && path != DefaultAgent {
		if fixed == nil {
			return nil, unknownAgent(path)
		}
		return fixed, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	tree := k.tree()
	if kit := k.levels[path]; kit != nil {
		return kit, nil
	}
	a := tree.ByPath[path]
	if path == DefaultAgent {
		a = tree.Root
	}
	if a == nil || a.Path == "" && path != DefaultAgent {
		return nil, unknownAgent(path)
	}
	kit, err := k.level(tree, a)
	if err == nil {
		k.levels[path] = kit
	}
	return kit, err
}

// kitNamed returns an agent that a caller names. One that was designed for a task
// works on that task only, and is named by nobody.
func (k *kits) kitNamed(path string) (*agentKit, error) {
	if strings.HasPrefix(path, designedPrefix) {
		return nil, unknownAgent(path)
	}
	return k.kitOf(path)
}

func unknownAgent(path string) error {
	return fault.New(fault.NotFound, "agent_not_found", "there is no agent %.200q, or it may not be used", path).
		WithHint("steward agents list shows those that there are, and which of them wait for your approval")
}

// tree returns the catalog's tree (an empty one if there is no catalog), and drops
// the kits of other versions. The caller holds mu.
func (k *kits) tree() *catalog.Tree {
	tree := &catalog.Tree{}
	if k.opt.Catalog != nil {
		tree = k.opt.Catalog.Tree()
	}
	if k.version != tree.Version || k.levels == nil {
		k.version, k.levels, k.designed = tree.Version, map[string]*agentKit{}, map[string]*agentKit{}
	}
	return tree
}

// kit builds the kit of a fixed agent.
func (k *kits) kit(d agent.Definition) (*agentKit, error) {
	if d.Name == "" {
		return nil, fault.New(fault.Invalid, "agent_invalid", "an agent needs a name")
	}
	specs, err := k.opt.Tools.Select(d.Tools...)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	kit := &agentKit{Definition: d, registry: &tool.Registry{}}
	for _, sp := range specs {
		if err := kit.registry.AddFrom(k.opt.Tools, sp.Name); err != nil {
			return nil, err
		}
	}
	if len(d.Tools) == 0 { // an agent that lists its tools lists the planning tools too
		if err := (taint.Needs{}).AddTools(kit.registry, k.opt.Tools, nil); err != nil {
			return nil, err
		}
	}
	kit.seal()
	return kit, nil
}

// onlyNamed reports whether a tool is offered only to agents that list it. Most
// agents have no use for the tools over resources, and each model call would
// carry them.
func onlyNamed(name string) bool { return strings.HasPrefix(name, "resource.") }

// seal derives the names and tool sets from the kit's registry, and adds tools.find to it.
func (k *agentKit) seal() {
	k.registry.Remove(findTool)
	k.names = k.registry.Names()
	specs := k.registry.Specs()
	if !k.own && len(k.Tools) == 0 {
		specs = slices.DeleteFunc(slices.Clone(specs), func(s tool.Spec) bool { return onlyNamed(s.Name) })
	}
	k.tools, k.plain = llm.NewToolset(specs...), nil
	if rest := slices.DeleteFunc(slices.Clone(specs), func(s tool.Spec) bool { return taint.Plans(s.Name) }); len(rest) < len(specs) {
		k.plain = llm.NewToolset(rest...)
	}
	k.chooser = sync.OnceValue(func() *chooser { return newChooser(k.tools, k.own || len(k.Tools) > 0) })
	if err := k.registry.Add(findTools{k}); err != nil {
		panic(err) // the spec is a constant
	}
}

// level builds the kit of a catalog agent: the node's tools that it lists (the
// root level: all), its own tools, and a tool for each child. If names collide,
// the first in this order wins.
func (k *kits) level(tree *catalog.Tree, a *catalog.Agent) (*agentKit, error) {
	kit := &agentKit{registry: &tool.Registry{}, tree: tree.Version, own: true, hooks: a.Hooks, asks: map[string]bool{}}
	from := k.fixed[DefaultAgent].names
	if a.Path == "" {
		kit.Definition, kit.own = k.fixed[DefaultAgent].Definition, false
	} else {
		kit.Definition = agent.Definition{Name: a.Path, Version: a.Version, Prompt: promptOf(a), Model: modelOf(tree, a),
			Sampling: a.Sampling, Limits: narrower(a.Limits, k.opt.Limits)}
		kit.meta = a.Metadata
		kit.serve(a.Bindings[service.LLM])
		from = k.uses(a)
	}
	k.join(kit, k.opt.Tools, from, a.Deferred)
	if a.Tools != nil {
		k.join(kit, a.Tools, a.Tools.Names(), a.Deferred)
	}
	var below taint.Needs
	for _, c := range a.Children {
		t := k.opt.Ask(c)
		if err := kit.registry.Add(t); err != nil {
			k.once("an agent cannot be asked", c.Path, err)
			continue
		}
		kit.asks[t.Spec().Name] = true
		k.needsBelow(&below, c)
	}
	if err := below.AddTools(kit.registry, k.opt.Tools, a.Uses); err != nil {
		return nil, err
	}
	kit.seal()
	return kit, nil
}

// serve sets the kit's model and sampling from the agent's llm service, unless
// the definition names its own.
func (k *agentKit) serve(b service.Binding) {
	k.llm = b
	switch {
	case b.Source == service.Remote:
		k.Model = remoteModel
	case b.Model != "":
		k.Model = b.Model
	}
	k.Sampling = k.Sampling.Over(llm.Sampling{Temperature: b.Temperature, MaxTokens: b.MaxTokens})
}

// remoteModel is what a run pins as its model if the model is at the URL of the
// agent's llm service.
const remoteModel = "service/llm"

// modelFor returns the model of a run, and pins the chain that it resolves to, so
// that no other model takes its place when the run continues after a restart.
func (k *kits) modelFor(kit *agentKit, run *record.Run) (llm.Resolved, error) {
	run.Model = cmp.Or(run.Model, k.modelOf(kit), "default")
	if run.Model == record.RepeatModel {
		return repeating(), nil
	}
	if run.Model != remoteModel && len(run.Models) > 0 {
		return k.opt.Models.Pinned(run.Model, run.Models), nil
	}
	if run.Model != remoteModel {
		r, err := k.opt.Models.Resolve(run.Model)
		run.Models = r.Models
		return r, err
	}
	if kit.llm.Source != service.Remote || k.opt.RemoteModels == nil {
		return llm.Resolved{}, fault.New(fault.NotFound, "model_not_found", "the agent %s has no llm service at a URL any more", kit.Name).
			WithHint("begin a new turn")
	}
	return k.farModel(kit.llm)
}

// farModel returns the model of an llm service at a URL, with the node's own as
// fallback if the agent is configured so.
func (k *kits) farModel(b service.Binding) (llm.Resolved, error) {
	p, err := k.opt.RemoteModels(b)
	if err != nil {
		return llm.Resolved{}, err
	}
	next := ""
	if b.Fallback == service.Local {
		next = "default"
	}
	return k.opt.Models.Beside(p, cmp.Or(b.Model, "default"), next)
}

// uses returns the names of the node's tools that an agent may use. The tool that
// reads on in clipped results is always among them.
func (k *kits) uses(a *catalog.Agent) []string {
	names := []string{effect.ReadToolName}
	known := slices.DeleteFunc(slices.Clone(a.Uses), func(p string) bool {
		missing := !k.opt.Tools.Knows(p)
		if missing {
			k.once("an agent names a tool that is not there", a.Path, fault.New(fault.NotFound, "tool_unknown", "there is no tool named %s", p))
		}
		return missing
	})
	if len(known) == 0 {
		return names
	}
	specs, err := k.opt.Tools.Select(known...)
	if err != nil {
		k.once("an agent's list of tools cannot be read: it has none of them", a.Path, err)
	}
	for _, sp := range specs {
		if sp.Name != effect.ReadToolName {
			names = append(names, sp.Name)
		}
	}
	return names
}

// join adds tools of a registry to a kit, except those whose name is taken. Those
// that match a pattern in defers wait for the end of the turn.
func (k *kits) join(kit *agentKit, from *tool.Registry, names, defers []string) {
	for _, name := range names {
		t, ok := from.Get(name)
		if !ok || taint.Plans(name) {
			continue // removed in the meantime; for planning tools see plan
		}
		add := func() error { return kit.registry.AddFrom(from, name) }
		if s := t.Spec(); s.Effect == tool.Action && !s.Async && s.AsyncAfter == 0 &&
			slices.ContainsFunc(defers, func(p string) bool { return tool.Means(p, s.Name) }) {
			add = func() error { return kit.registry.Add(deferred{t}) }
		}
		if err := add(); err != nil {
			k.once("an agent does not get a tool", kit.Name, err)
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

// once logs a warning about an agent only once. The caller holds mu.
func (k *kits) once(what, path string, err error) {
	key := path + "\x00" + err.Error()
	if k.warned[key] {
		return
	}
	if k.warned == nil {
		k.warned = map[string]bool{}
	}
	k.warned[key] = true
	k.opt.Log.Warn(what, "agent", path, "error", err)
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

// ownModel returns the model that an agent, given by its path, or a level above
// it names, or "" if none does.
func (k *kits) ownModel(path string) string {
	kit, err := k.kitOf(path)
	if err != nil {
		return "" // asking it will report the error
	}
	return kit.Model
}

// modelOf returns an agent's own model, otherwise that of the nearest level above
// that names one.
func modelOf(tree *catalog.Tree, a *catalog.Agent) string {
	for a != nil && a.Path != "" {
		if a.Model != "" {
			return a.Model
		}
		above, _, _ := cutLast(a.Path)
		a = tree.ByPath[above]
	}
	return ""
}

// cutLast splits a path into the path of the level above and the agent's name.
func cutLast(path string) (above, name string, nested bool) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:], true
	}
	return "", path, false
}

// narrower returns an agent's limits, none of them wider than the node's.
func narrower(own catalog.Limits, node agent.Limits) agent.Limits {
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

// narrowed returns the agent with only those of its tools that a conversation's
// patterns select; without patterns it has all. If the agent takes over the
// conversation (over), patterns that name tools it lacks are ignored. Otherwise a
// name that no agent has is an error (tool_unknown).
func (x *kits) narrowed(k *agentKit, patterns []string, over bool) (*agentKit, error) {
	if len(patterns) == 0 {
		return k, nil
	}
	kit := *k
	kit.registry = &tool.Registry{}
	here := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool {
		return !k.registry.Knows(p) && (over || x.opt.Tools.Knows(p)) // another agent's, perhaps
	})
	if len(here) > 0 {
		specs, err := k.registry.Select(here...)
		if err != nil {
			return nil, err
		}
		for _, sp := range specs {
			if err := kit.registry.AddFrom(k.registry, sp.Name); err != nil {
				return nil, err
			}
		}
	}
	kit.seal()
	return &kit, nil
}

// usable returns a kit's tool as it may be called now. If the catalog has changed
// since the kit was built, it checks again. Error codes: agent_not_approved,
// tool_changed, tool_unavailable.
func (x *kits) usable(k *agentKit, name string) (tool.Tool, error) {
	t, ok := k.registry.Get(name)
	if !ok || k.tree == 0 || x.opt.Catalog.Tree().Version == k.tree {
		return t, nil
	}
	now, err := x.kitOf(k.Name)
	if err != nil {
		return nil, fault.New(fault.Denied, "agent_not_approved", "the agent %s may not be used any more: it has changed, or its approval was taken back", k.Name).
			WithHint("steward agents list shows what waits for an approval")
	}
	u, ok := now.registry.Get(name)
	if !ok {
		return nil, tool.NotDone(fault.New(fault.Unavailable, "tool_unavailable", "the tool %s is not offered any more, or not as it was approved", name).
			WithHint("steward agents list shows what waits for an approval"))
	}
	if tool.Fingerprint(u.Spec()) != tool.Fingerprint(t.Spec()) {
		return nil, fault.New(fault.Denied, "tool_changed", "the tool %s is not there any more as it was when this turn began", name).
			WithHint("with the next message it is as it is now")
	}
	return u, nil
}

// toolOf looks up a tool by name for an agent: among the agent's tools, then the
// node's, then those of any agent that may be used. The tool serves to describe
// past calls, not to be called.
func (k *kits) toolOf(path, name string) (tool.Tool, bool) {
	if kit, err := k.kitOf(cmp.Or(path, DefaultAgent)); err == nil {
		if t, ok := kit.registry.Get(name); ok {
			return t, true
		}
	}
	if t, ok := k.opt.Tools.Get(name); ok || k.opt.Catalog == nil {
		return t, ok
	}
	tree := k.opt.Catalog.Tree()
	for _, p := range slices.Sorted(maps.Keys(tree.ByPath)) {
		if a := tree.ByPath[p]; a.Tools != nil {
			if t, ok := a.Tools.Get(name); ok {
				return t, true
			}
		}
	}
	return nil, false
}

// specOf returns the spec of a tool of any agent, to describe past calls.
func (k *kits) specOf(name string) (tool.Spec, bool) {
	t, ok := k.toolOf("", name)
	if !ok {
		return tool.Spec{}, false
	}
	return t.Spec(), true
}

// namesOf returns the names of an agent's tools.
func (k *kits) namesOf(path string) []string {
	kit, err := k.kitOf(cmp.Or(path, DefaultAgent))
	if err != nil {
		return k.opt.Tools.Names()
	}
	return kit.names
}

// needsBelow adds what an agent and all agents below it need.
func (k *kits) needsBelow(w *taint.Needs, a *catalog.Agent) {
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

// toolset returns the tools for a chain of models. The built-in model cannot
// plan, so it gets no planning tools.
func (k *agentKit) toolset(models []string) *llm.Toolset {
	if !llm.Offline(models) || k.plain == nil {
		return k.tools
	}
	return k.plain
}
