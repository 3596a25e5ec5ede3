package catalog

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"steward/internal/fault"
	"steward/internal/tool"
)

// live is an open source or hook. It is closed when it is retired and no call of it is running.
type live[S part] struct {
	decl
	src     S
	usage   usage
	changes atomic.Int64 // of a source: changes reported since the last comparison began; zero: no comparison is running
}

// part is what sources and hooks have in common.
type part interface {
	Files() []string
	Close() error
}

type (
	liveSource = live[tool.Source]
	liveHook   = live[tool.HookSource]
)

// usage counts running calls, so that the source or hook can be closed after them.
type usage struct {
	mu      sync.Mutex
	calls   int
	retired bool
	done    bool
	shut    func() // starts the closing; set before the first use
}

// acquire begins a call, unless the source or hook is retired.
func (u *usage) acquire() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired {
		return false
	}
	u.calls++
	return true
}

func (u *usage) release() {
	u.mu.Lock()
	u.calls--
	u.closeIfIdle()
}

// retire lets no further call begin, and closes after the running ones, or at once if now is set.
func (u *usage) retire(now bool) {
	u.mu.Lock()
	u.retired = true
	if now && !u.done {
		u.calls = 0
	}
	u.closeIfIdle()
}

// busy reports whether a call is running.
func (u *usage) busy() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.calls > 0
}

// closeIfIdle closes the source or hook if it is retired and idle. It unlocks mu.
func (u *usage) closeIfIdle() {
	over := u.retired && u.calls <= 0 && !u.done
	if over {
		u.done = true
	}
	u.mu.Unlock()
	if over {
		u.shut()
	}
}

// grant represents an approval in force. It ends when the approval is withdrawn, the agent's
// bytes change, or the approval of an agent above ends.
type grant struct {
	path     string
	approval *approval // as the record has it
	ended    atomic.Bool
	differs  atomic.Pointer[difference] // between announcement and approval: these tools are off
	run      atomic.Pointer[[]pin]      // files that are executed, as approved
	stale    func()                     // called when one of them has changed
}

// check refuses a call that is no longer covered by an approval.
func (g *grant) check() error {
	if !g.ended.Load() && !g.unchanged() {
		g.ended.Store(true)
		g.stale()
	}
	if g.ended.Load() {
		return tool.NotDone(fault.New(fault.Denied, "agent_changed", "%s differs from what was approved, or is no longer allowed", g.path).
			WithHint("a person can review and approve it: steward agents show %s", g.path))
	}
	return nil
}

// maxChecked bounds how many files are checked before a call, besides those that the source
// names. The watch over the folders covers the others.
const maxChecked = 128

// setChecked sets the files to check before each call: those that the source names, which may be outside
// the watched folders, and the first maxLooked of the others.
func (g *grant) setChecked(run []pin) {
	var named, beside []pin
	for _, p := range run {
		if p.named {
			named = append(named, p)
		} else {
			beside = append(beside, p)
		}
	}
	list := append(named, beside[:min(len(beside), maxChecked)]...)
	g.run.Store(&list)
}

// unchanged checks that the files that are executed are the approved ones: first by their
// metadata, and by their content if the metadata differs.
func (g *grant) unchanged() bool { return unchanged(*g.run.Load()) }

func unchanged(files []pin) bool {
	for _, p := range files {
		now, err := os.Stat(p.path)
		if err == nil && same(p.info, now) {
			continue
		}
		read, err := outside(p.path)
		if err != nil || read.hash != p.hash {
			return false
		}
	}
	return true
}

// guarded is an approved tool, as the registry of a level holds it.
type guarded struct {
	tool.Tool
	spec  tool.Spec
	from  *liveSource
	grant *grant
}

// Spec returns the spec as approved.
func (t guarded) Spec() tool.Spec { return t.spec }

// Unwrap returns the source's own tool.
func (t guarded) Unwrap() tool.Tool { return t.Tool }

// Call implements tool.Tool.
func (t guarded) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	if err := t.begin(); err != nil {
		return tool.Result{}, err
	}
	defer t.from.usage.release()
	return t.Tool.Call(ctx, in)
}

// begin lets a call begin if the approval holds; it ends with usage.release.
func (t guarded) begin() error {
	if err := t.grant.check(); err != nil {
		return err
	}
	if t.grant.differs.Load().off(t.spec.Name) {
		return tool.NotDone(fault.New(fault.Denied, "tool_changed", "%s is no longer announced as it was approved", t.spec.Name).
			WithHint("a person can review and approve it: steward agents show %s", t.grant.path))
	}
	return t.grant.acquire(&t.from.usage)
}

// acquire begins a call under the grant. If the source or hook has been closed in the meantime, the
// grant ends.
func (g *grant) acquire(u *usage) error {
	if u.acquire() {
		return nil
	}
	g.ended.Store(true)
	return g.check()
}

// Interfaces other than Tool that change something have a wrapper of their own, because a caller
// that looks for them would find the unguarded tool through Unwrap. Settlers only ask.
type (
	guardedBatcher struct {
		tool.Tool // the layer below
		by        tool.Batcher
		guarded   guarded
	}
	guardedUndoer struct {
		tool.Tool
		by      tool.Undoer
		guarded guarded
	}
	guardedChecker struct {
		tool.Tool
		tool.Checker
	}
)

func (t guardedBatcher) Unwrap() tool.Tool { return t.Tool }
func (t guardedUndoer) Unwrap() tool.Tool  { return t.Tool }
func (t guardedChecker) Unwrap() tool.Tool { return t.Tool }

// CallAll implements tool.Batcher.
func (t guardedBatcher) CallAll(ctx context.Context, ins []tool.Invocation) []tool.Outcome {
	if err := t.guarded.begin(); err != nil {
		return slices.Repeat([]tool.Outcome{{Err: err}}, len(ins))
	}
	defer t.guarded.from.usage.release()
	return t.by.CallAll(ctx, ins)
}

// Undo implements tool.Undoer.
func (t guardedUndoer) Undo(ctx context.Context, in tool.Invocation, res tool.Result) (tool.Result, error) {
	if err := t.guarded.begin(); err != nil {
		return tool.Result{}, err
	}
	defer t.guarded.from.usage.release()
	return t.by.Undo(ctx, in, res)
}

func guard(t tool.Tool, spec tool.Spec, from *liveSource, g *grant) tool.Tool {
	if !spec.Foreign() { // they are Steward's own and not part of what was approved
		spec.Sentences = t.Spec().Sentences
	}
	own := guarded{Tool: t, spec: spec, from: from, grant: g}
	var out tool.Tool = own
	if by, ok := tool.BatcherOf(t); ok {
		out = guardedBatcher{out, by, own}
	}
	if by, ok := tool.UndoerOf(t); ok {
		out = guardedUndoer{out, by, own}
	}
	if by, ok := t.(tool.Checker); ok {
		out = guardedChecker{out, by}
	}
	return out
}

// guardedHook is an approved hook.
type guardedHook struct {
	from  *liveHook
	grant *grant
}

// Fire implements tool.Hook.
func (h guardedHook) Fire(ctx context.Context, ev tool.HookEvent) (tool.HookAnswer, error) {
	if err := h.grant.check(); err != nil {
		return tool.HookAnswer{}, err
	}
	if err := h.grant.acquire(&h.from.usage); err != nil {
		return tool.HookAnswer{}, err
	}
	defer h.from.usage.release()
	return h.from.src.Fire(ctx, ev)
}

// openUnit opens the sources and hooks of a unit. This starts nothing.
func (c *Catalog) openUnit(u *unit) {
	for _, d := range u.decls {
		open := c.opt.Openers[d.kind]
		if open == nil {
			reporter(d.file, &u.problems)(d.node.Position, "source_unknown", "leave it out", "%s is not available in this Steward", d.kind)
			continue
		}
		s := &liveSource{decl: d}
		if openPart(c, u, s, c.env(u, d, s), d.name, open) {
			u.sources = append(u.sources, s)
		}
	}
	if u.def == nil {
		return
	}
	u.hooks = map[string][]*liveHook{}
	for _, d := range u.def.hooks {
		h := &liveHook{decl: d}
		if openPart(c, u, h, c.env(u, d, nil), "hooks."+d.kind, c.opt.HookOpener) {
			u.hooks[d.kind] = append(u.hooks[d.kind], h)
		}
	}
}

// openPart opens a source or a hook and reports its problems.
func openPart[S part](c *Catalog, u *unit, s *live[S], env tool.Env, what string, open func(tool.Env, func(any) error) (S, error)) bool {
	s.usage.shut = func() { c.closeInBackground(u.path+" "+s.name, s.src.Close) }
	src, err := open(env, s.decode(&u.problems))
	if err == nil {
		s.src = src
		return true
	}
	if !errors.Is(err, errReported) {
		e := fault.Of(err)
		reporter(s.file, &u.problems)(s.node.Position, e.Code, e.Remedy, "%s: %s", what, withoutRemedy(e))
	}
	return false
}

func withoutRemedy(e *fault.Error) string {
	bare := *e
	bare.Remedy = ""
	return bare.Error()
}

// retire ends everything that a unit has open.
func (u *unit) retire(now bool) {
	if u.grant != nil {
		u.grant.ended.Store(true)
	}
	for _, s := range u.sources {
		s.usage.retire(now)
	}
	for _, list := range u.hooks {
		for _, h := range list {
			h.usage.retire(now)
		}
	}
}
