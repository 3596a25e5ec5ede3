package kits

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"steward/internal/agent"
	"steward/internal/catalog"
	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/record"
	"steward/internal/search/similar"
	"steward/internal/service"
	"steward/internal/tool"
)

// Catalog provides the agents that may be used. Safe for concurrent use.
type Catalog interface {
	// Tree returns the agents that may be used now; never nil.
	Tree() *catalog.Tree
	// Listings returns all agents and sources, those that may not be used among them.
	Listings() []catalog.Listing
}

// Engine makes and keeps the kits of all agents: of the fixed ones, which the node defines, of the small
// ones, which are built in, of those of the catalog, for one version of its tree, and of those that
// are designed for a task. Safe for concurrent use.
type Engine struct {
	opt   Options
	Fixed map[string]*Kit
	Small map[string]*Kit

	mu       sync.Mutex
	version  uint64 // of the catalog's tree
	levels   map[string]*Kit
	designed map[string]*Kit // agents that were designed for tasks
	warned   map[string]bool // messages that were logged already
}

// Options are the parts of an Engine. Tools, Models, Ask, Design and Log are required.
type Options struct {
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
	Design func(path string) (*Kit, error)
	// Similar finds tools by an embedding model. nil: they are found by words alone.
	Similar *similar.Finder
	Log     *slog.Logger
}

// New returns an engine without any agent: see Build.
func New(o Options) *Engine {
	return &Engine{opt: o, Fixed: map[string]*Kit{}, Small: map[string]*Kit{}}
}

// Build builds the kits of the fixed and the small agents, when all tools are there.
func (k *Engine) Build(fixed ...agent.Definition) error {
	for _, d := range fixed {
		kit, err := k.fixedKit(d)
		if err != nil {
			return err
		}
		k.Fixed[d.Name] = kit
	}
	return k.addSmallAgents()
}

// maxDesigned bounds how many designed agents stay in memory.
const maxDesigned = 512

// designedKit returns the kit of an agent that was designed for a task, while it is in memory.
func (k *Engine) designedKit(path string) *Kit {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tree()
	return k.designed[path]
}

// KeepDesigned keeps the kit of an agent that was designed for a task, unless the catalog has changed
// since it was made.
func (k *Engine) KeepDesigned(kit *Kit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tree().Version != kit.Tree {
		return
	}
	if len(k.designed) >= maxDesigned { // they are made again when they are needed
		clear(k.designed)
	}
	k.designed[kit.Name] = kit
}

// Of returns an agent by its path, as it may be used now. Error code:
// agent_not_found.
func (k *Engine) Of(path string) (*Kit, error) {
	if strings.HasPrefix(path, DesignedPrefix) {
		if kit := k.designedKit(path); kit != nil {
			return kit, nil
		}
		return k.opt.Design(path)
	}
	fixed := cmp.Or(k.Fixed[path], k.smallAgent(path))
	if k.opt.Catalog == nil || fixed != nil && path != DefaultAgent {
		if fixed == nil {
			return nil, UnknownAgent(path)
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
		return nil, UnknownAgent(path)
	}
	kit, err := k.levelKit(tree, a)
	if err == nil {
		k.levels[path] = kit
	}
	return kit, err
}

// Named returns an agent that a caller names. One that was designed for a task
// works on that task only, and cannot be named.
func (k *Engine) Named(path string) (*Kit, error) {
	if strings.HasPrefix(path, DesignedPrefix) {
		return nil, UnknownAgent(path)
	}
	return k.Of(path)
}

// UnknownAgent returns the error for a path that leads to no agent that may be used.
func UnknownAgent(path string) error {
	return fault.New(fault.NotFound, "agent_not_found", "there is no agent %.200q, or it may not be used", path).
		WithHint("steward agents list shows those that there are, and which of them wait for your approval")
}

// tree returns the catalog's tree (an empty one if there is no catalog), and drops
// the kits of other versions. The caller holds mu.
func (k *Engine) tree() *catalog.Tree {
	tree := &catalog.Tree{}
	if k.opt.Catalog != nil {
		tree = k.opt.Catalog.Tree()
	}
	if k.version != tree.Version || k.levels == nil {
		k.version, k.levels, k.designed = tree.Version, map[string]*Kit{}, map[string]*Kit{}
	}
	return tree
}

// RemoteModel is what a run pins as its model if the model is at the URL of the
// agent's llm service.
const RemoteModel = "service/llm"

// ModelFor returns the model of a run, and pins the chain that it resolves to, so
// that no other model takes its place when the run continues after a restart.
func (k *Engine) ModelFor(kit *Kit, run *record.Run) (llm.Resolved, error) {
	run.Model = cmp.Or(run.Model, k.ModelOf(kit), "default")
	if run.Model == record.RepeatModel {
		return repeatModel(), nil
	}
	if run.Model != RemoteModel && len(run.Models) > 0 {
		return k.opt.Models.Pinned(run.Model, run.Models), nil
	}
	if run.Model != RemoteModel {
		r, err := k.opt.Models.Resolve(run.Model)
		run.Models = r.Models
		return r, err
	}
	if kit.LLM.Source != service.Remote || k.opt.RemoteModels == nil {
		return llm.Resolved{}, fault.New(fault.NotFound, "model_not_found", "the agent %s no longer has an llm service at a URL", kit.Name).
			WithHint("begin a new turn")
	}
	return k.ServiceModel(kit.LLM)
}

// ServiceModel returns the model of an llm service at a URL, with the node's own as
// fallback if the agent is configured so.
func (k *Engine) ServiceModel(b service.Binding) (llm.Resolved, error) {
	p, err := k.opt.RemoteModels(b)
	if err != nil {
		return llm.Resolved{}, err
	}
	next := ""
	if b.Fallback == service.Local {
		next = "default"
	}
	return k.opt.Models.Unconfigured(p, cmp.Or(b.Model, "default"), next)
}

// warnOnce logs a warning about an agent only once. The caller holds mu.
func (k *Engine) warnOnce(what, path string, err error) {
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

// OwnModel returns the model that an agent, given by its path, or a level above
// it names, or "" if none does.
func (k *Engine) OwnModel(path string) string {
	kit, err := k.Of(path)
	if err != nil {
		return "" // asking it will report the error
	}
	return kit.Model
}

// Narrow returns the agent with only those of its tools that a conversation's
// patterns select; without patterns it has all. If the agent takes over the
// conversation (takesOver), patterns that name tools it lacks are ignored. Otherwise a
// name that no agent has is an error (tool_unknown).
func (k *Engine) Narrow(base *Kit, patterns []string, takesOver bool) (*Kit, error) {
	if len(patterns) == 0 {
		return base, nil
	}
	kit := *base
	kit.Registry = &tool.Registry{}
	here := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool {
		return !base.Registry.Knows(p) && (takesOver || k.opt.Tools.Knows(p)) // another agent's, perhaps
	})
	if len(here) > 0 {
		specs, err := base.Registry.Select(here...)
		if err != nil {
			return nil, err
		}
		for _, sp := range specs {
			if err := kit.Registry.AddFrom(base.Registry, sp.Name); err != nil {
				return nil, err
			}
		}
	}
	kit.Seal()
	return &kit, nil
}

// Usable returns a kit's tool as it may be called now. If the catalog has changed
// since the kit was built, it checks again. Error codes: agent_not_approved,
// tool_changed, tool_unavailable.
func (k *Engine) Usable(base *Kit, name string) (tool.Tool, error) {
	t, ok := base.Registry.Get(name)
	if !ok || base.Tree == 0 || k.opt.Catalog.Tree().Version == base.Tree {
		return t, nil
	}
	now, err := k.Of(base.Name)
	if err != nil {
		return nil, fault.New(fault.Denied, "agent_not_approved", "the agent %s may no longer be used: it has changed, or its approval was withdrawn", base.Name).
			WithHint("steward agents list shows what waits for an approval")
	}
	u, ok := now.Registry.Get(name)
	if !ok {
		return nil, tool.NotDone(fault.New(fault.Unavailable, "tool_unavailable", "the tool %s is no longer offered, or not as it was approved", name).
			WithHint("steward agents list shows what waits for an approval"))
	}
	if tool.Fingerprint(u.Spec()) != tool.Fingerprint(t.Spec()) {
		return nil, fault.New(fault.Denied, "tool_changed", "the tool %s has changed since this turn began", name).
			WithHint("send another message to use it as it is now")
	}
	return u, nil
}

// ToolOf looks up a tool by name for an agent: among the agent's tools, then the
// node's, then those of any agent that may be used. The tool serves to describe
// past calls, not to be called.
func (k *Engine) ToolOf(path, name string) (tool.Tool, bool) {
	if kit, err := k.Of(cmp.Or(path, DefaultAgent)); err == nil {
		if t, ok := kit.Registry.Get(name); ok {
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

// SpecOf returns the spec of a tool of any agent, to describe past calls.
func (k *Engine) SpecOf(name string) (tool.Spec, bool) {
	t, ok := k.ToolOf("", name)
	if !ok {
		return tool.Spec{}, false
	}
	return t.Spec(), true
}

// NamesOf returns the names of an agent's tools.
func (k *Engine) NamesOf(path string) []string {
	kit, err := k.Of(cmp.Or(path, DefaultAgent))
	if err != nil {
		return k.opt.Tools.Names()
	}
	return kit.Names
}

// Callee returns the tool of that name of an agent.
func (k *Engine) Callee(path, name string) (tool.Tool, bool) {
	kit, err := k.Of(cmp.Or(path, DefaultAgent))
	if err != nil {
		return nil, false
	}
	return kit.Registry.Get(name)
}

// PendingSource returns the agent or the source of tools that must be approved before there is a tool of
// this name; empty: none.
func (k *Engine) PendingSource(name string) string {
	if k.opt.Catalog == nil {
		return ""
	}
	for _, l := range k.opt.Catalog.Listings() {
		source := l.Kind == catalog.KindSource && strings.HasPrefix(name, l.Path[strings.Index(l.Path, ":")+1:]+".")
		if l.Status == catalog.Pending && (source || l.Path+".ask" == name) || slices.Contains(l.Waiting, name) {
			return l.Path
		}
	}
	return ""
}

// UnknownTool returns the error for the name of a tool that does not exist, or not yet.
func (k *Engine) UnknownTool(name string) *fault.Error {
	if path := k.PendingSource(name); path != "" {
		return fault.New(fault.Denied, "agent_not_approved", "%.80q waits for your approval", name).WithHint("steward agents approve %s", path)
	}
	return fault.New(fault.NotFound, "tool_unknown", "there is no tool named %.80q", name)
}
