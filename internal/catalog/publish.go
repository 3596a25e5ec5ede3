package catalog

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"steward/internal/tool"
)

// publish rebuilds the tree of what may be used, and announces changes. Called under mu.
func (c *Catalog) publish() {
	usable := map[string]bool{"": true}
	var used strings.Builder
	for _, u := range c.units {
		s, _ := c.status(u)
		if s != Approved || !usable[u.above] {
			if u.grant != nil {
				u.grant.ended.Store(true)
				u.grant, u.tools = nil, nil
			}
			continue
		}
		usable[u.path] = true
		rec := c.records[u.path]
		if u.grant == nil || u.grant.ended.Load() || u.grant.approval != rec.Approved {
			c.grantTo(u, rec)
		} else if !reflect.DeepEqual(u.differs(rec), *u.grant.differs.Load()) {
			c.makeTools(u, rec)
		}
		// A grant that has ended is never reused: the tree needs the new one.
		fmt.Fprintf(&used, "%s %p %p %v\n", u.path, u, u.grant, u.grant.differs.Load())
	}
	if c.used != used.String() {
		c.used = used.String()
		c.tree.Store(c.makeTree(usable))
	}
	var state strings.Builder
	for _, u := range c.units {
		l := c.listing(u)
		fmt.Fprintf(&state, "%s %s %s %v %v %v %v %v\n", l.Path, l.Status, l.Hash, l.Changed, l.Usable, l.Problems, l.Waiting, l.Gone)
	}
	if state.WriteString(c.used); c.notified == state.String() {
		return
	}
	c.notified = state.String()
	c.dropSnapshots()
	c.changes.Lock()
	close(c.changes.next)
	c.changes.next = make(chan struct{})
	c.changes.Unlock()
}

// grantTo makes the tools of a unit from what was approved. Called under mu.
func (c *Catalog) grantTo(u *unit, rec *record) {
	if u.grant != nil {
		u.grant.ended.Store(true)
	}
	u.grant = &grant{path: u.path, approval: rec.Approved, stale: c.requestScan}
	u.grant.setChecked(u.run)
	if c.opt.Snapshots != "" && u.runs() { // an older approval may have no snapshot yet
		if _, err := c.snapshotOf(u); err != nil {
			c.log.Warn("the programs of an approved agent cannot be run", "agent", u.path, "error", err)
		}
	}
	c.makeTools(u, rec)
}

// makeTools makes the approved tools that are not known to be announced differently, under the
// current grant. Called under mu.
func (c *Catalog) makeTools(u *unit, rec *record) {
	d := u.differs(rec)
	u.grant.differs.Store(&d)
	u.tools = &tool.Registry{}
	sources := map[string]*liveSource{}
	for _, s := range u.sources {
		sources[s.name] = s
	}
	for _, spec := range rec.Approved.specs() {
		from := sources[sourceOf(spec)]
		if from == nil || d.off(spec.Name) {
			continue
		}
		if spec.Version == "" {
			spec.Version = rec.Approved.Hash[:12]
		}
		if err := u.tools.Add(guard(from.src.Tool(spec), spec, from, u.grant)); err != nil {
			c.log.Warn("an approved tool cannot be used", "agent", u.path, "tool", spec.Name, "error", err)
		}
	}
	if len(u.skills) > 0 {
		if err := u.tools.Add(skillReader{u.skills}); err != nil {
			c.log.Warn("the skills cannot be read", "agent", u.path, "error", err)
		}
	}
}

// sourceOf returns the name of the source of a tool. A tool of the settings may leave it out of its own name.
func sourceOf(s tool.Spec) string {
	if strings.HasSuffix(s.FullName, "."+s.Name) {
		return category(s.FullName)
	}
	return category(s.Name)
}

func category(name string) string {
	first, _, _ := strings.Cut(name, ".")
	return first
}

// makeTree makes the tree of the usable units. Called under mu.
func (c *Catalog) makeTree(usable map[string]bool) *Tree {
	root := &Agent{Name: rootName, Tools: &tool.Registry{}}
	t := &Tree{Version: c.tree.Load().Version + 1, Root: root, ByPath: map[string]*Agent{"": root}}
	for _, u := range c.units { // an agent comes before those below it
		if !usable[u.path] || u.grant == nil {
			continue
		}
		if u.kind == KindSource {
			c.addRootTools(root.Tools, u)
			continue
		}
		a := u.agent(c.records[u.path].Approved.Hash)
		t.ByPath[u.path] = a
		above := t.ByPath[u.above]
		above.Children = append(above.Children, a)
	}
	for _, a := range t.ByPath {
		slices.SortFunc(a.Children, func(x, y *Agent) int { return strings.Compare(x.Name, y.Name) })
	}
	return t
}

// addRootTools adds the tools of a source to the root level.
func (c *Catalog) addRootTools(root *tool.Registry, u *unit) {
	for _, name := range u.tools.Names() {
		if err := root.AddFrom(u.tools, name); err != nil {
			c.log.Warn("an approved tool cannot be used", "source", u.path, "tool", name, "error", err)
		}
	}
}

// agent returns the agent of a unit, for the tree.
func (u *unit) agent(hash string) *Agent {
	d := u.def
	a := &Agent{
		Path: u.path, Name: u.name, Description: d.forAbove(), Version: cmp.Or(d.definition.Version, "0") + "+" + hash[:12],
		Prompt: u.prompt(), Model: d.Model, Sampling: d.Sampling.llm(), Limits: d.Limits,
		Examples: d.Examples, Metadata: d.metadata, Config: d.Config, Services: d.Services, Bindings: u.bindings,
		Hooks: map[string][]tool.Hook{}, Persona: d.Persona, Dir: u.dir, Tools: u.tools, Uses: d.Tools, Deferred: d.Deferred, Checks: d.Checks,
	}
	a.Metadata.Purpose = cmp.Or(d.metadata.Purpose, strings.TrimSpace(d.Description))
	if d.Parameters != nil {
		a.Parameters = d.Parameters
	}
	for place, list := range u.hooks {
		for _, h := range list {
			a.Hooks[place] = append(a.Hooks[place], guardedHook{h, u.grant})
		}
	}
	return a
}
