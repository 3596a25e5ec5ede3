package catalog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/catalog/watch"
	"steward/internal/fault"
	"steward/internal/service"
	"steward/internal/store"
	"steward/internal/strict"
	"steward/internal/tool"
)

// rootName is the name of the agent above all others.
const rootName = "assistant"

// Options of a catalog. Store is required.
type Options struct {
	Store   store.Store
	Folders []string // folders of agents; they need not exist
	Servers []string // mcpServers JSON files; they need not exist
	Root    []RootSource
	Openers map[string]tool.Opener // by kind: "mcp", "grpc", "process", "state", "db"
	// HookOpener opens hooks.
	HookOpener tool.HookOpener
	// Data is the folder in which sources get private folders of their own.
	Data string
	// Snapshots is the folder for the copies of approved files from which programs run. Empty:
	// programs run from their own place.
	Snapshots string
	// Hide are folders and files that no program may see, except for its own part of them.
	Hide []string
	// Confined returns nil if Hide also holds for programs that run unconfined, and otherwise the
	// reason why it does not. nil: it does not hold.
	Confined func() error
	// Names returns the names of the node's own tools, which nothing may shadow; nil: they are
	// unknown.
	Names func() []string
	// Jobs says in words when a job of an agent begins, or why it cannot; nil: jobs are not checked.
	Jobs func(name string, j Job) (string, error)
	// Secrets returns a secret of an agent by name; nil: there are none.
	Secrets func(agent, name string) (string, bool)
	// Services returns the value of Env.Services for an agent. May be nil.
	Services func(agent string) func(ctx context.Context) (env []string, release func(), err error)
	// Review asks a model to look at the tools that a person is about to approve; nil: there is no
	// model.
	Review Reviewer
	// Watch makes the catalog watch the folders. Without it only Rescan reads them again.
	Watch bool
	// Poll is the interval for watching by polling instead of the system's notifications. Zero:
	// poll every 2 seconds, and only if there are no notifications.
	Poll time.Duration
	// Quiet is how long a folder must be unchanged before it is read, because editors and copies
	// take several steps. Zero: 100 ms.
	Quiet time.Duration
	Log   *slog.Logger // nil: slog.Default()
}

// RootSource is a source that the settings name. It belongs to the root level.
type RootSource struct {
	Kind       string // of its opener: "mcp", "grpc"
	Name       string // the first word of its tools' names
	File       string // where it is declared, for faults
	Definition []byte // the declaration, JSON: what is approved
}

// Catalog knows the agents and sources, and which of them may be used. Safe for concurrent use.
type Catalog struct {
	opt Options
	log *slog.Logger

	mu       sync.Mutex // one scan or decision at a time
	units    []*unit    // sorted by path
	retired  []*unit    // no longer in use, but calls may still be running
	records  map[string]*record
	dirs     []string // to watch
	logged   map[string]string
	notified string // the state that the last change notification was about
	used     string // what the tree was made from
	closed   bool

	tree    atomic.Pointer[Tree]
	noted   atomic.Uint64 // changes that the watch has seen
	seen    atomic.Uint64 // how many of them the last scan covers
	scans   atomic.Uint64 // scans
	top     atomic.Pointer[string]
	changes struct {
		sync.Mutex
		next chan struct{}
	}

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup
	kick chan struct{} // scan again
}

var _ Approver = (*Catalog)(nil)

// Open reads the approvals and the folders. It starts nothing and connects to nothing. A faulty
// agent is logged and does not stop the others; errors are those of the store.
func Open(ctx context.Context, opt Options) (*Catalog, error) {
	c := &Catalog{opt: opt, log: cmp.Or(opt.Log, slog.Default()), logged: map[string]string{}, kick: make(chan struct{}, 1)}
	c.opt.Quiet = cmp.Or(opt.Quiet, 100*time.Millisecond)
	c.changes.next = make(chan struct{})
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	var err error
	if c.records, err = readRecords(ctx, opt.Store); err != nil {
		c.end()
		return nil, err
	}
	c.tree.Store(&Tree{Root: &Agent{Name: rootName, Tools: &tool.Registry{}}, ByPath: map[string]*Agent{}})
	c.tree.Load().ByPath[""] = c.tree.Load().Root
	c.mu.Lock()
	c.scan()
	c.dropSnapshots()
	c.mu.Unlock()
	if opt.Watch {
		c.watch()
	}
	return c, nil
}

// Close ends the watch and all sources, and waits for them.
func (c *Catalog) Close() error {
	c.end()
	c.mu.Lock()
	already := c.closed
	c.closed = true
	if !already {
		for _, u := range c.units {
			u.retire(true)
		}
	}
	c.mu.Unlock()
	c.work.Wait()
	return nil
}

// Tree returns all that may be used now.
func (c *Catalog) Tree() *Tree { return c.tree.Load() }

// Changed returns a channel that is closed when the tree, or anything that List returns, changes.
// Get the channel before reading either.
func (c *Catalog) Changed() <-chan struct{} {
	c.changes.Lock()
	defer c.changes.Unlock()
	return c.changes.next
}

// Rescan reads all folders again.
func (c *Catalog) Rescan(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed()
	}
	c.scan()
	return nil
}

func errClosed() error {
	return fault.New(fault.Unavailable, "catalog_closed", "Steward is closing").WithHint("restart it")
}

// requestScan asks the watch for a scan; it returns at once.
func (c *Catalog) requestScan() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// rootsDigest returns a digest over the sizes and times of the configured folders and files themselves,
// without what is in the folders.
func (c *Catalog) rootsDigest() string {
	var b strings.Builder
	for _, name := range slices.Concat(c.opt.Folders, c.opt.Servers) {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprintln(&b, name, info.Size(), info.ModTime().UnixNano(), watch.Touched(info).UnixNano())
		}
	}
	return b.String()
}

// scan reads everything, opens what is new, and retires what is gone. Called under mu.
func (c *Catalog) scan() {
	c.seen.Store(c.noted.Load())
	tops := c.rootsDigest()
	c.top.Store(&tops)
	c.scans.Add(1)
	r := &reader{dirs: map[string]bool{}, readJob: c.opt.Jobs}
	if c.opt.Names != nil {
		r.names = c.opt.Names()
	}
	for _, f := range c.opt.Folders {
		if err := r.folder(f); err != nil {
			c.logProblems(f, []Problem{{File: f, Code: "folder_unreadable", Message: err.Error(), Remedy: "correct its permissions, or name another folder"}})
		} else {
			c.logProblems(f, nil)
		}
	}
	for _, f := range c.opt.Servers {
		problems := r.servers(f)
		c.logProblems(f, problems)
		r.broken(f, problems)
	}
	for _, s := range c.opt.Root {
		r.root(s)
	}
	slices.SortStableFunc(r.units, func(a, b *unit) int { return strings.Compare(a.path, b.path) })
	r.check()
	r.bind()
	c.replaceUnits(r.units)
	c.settleNames()
	for _, u := range c.units {
		for _, p := range u.run {
			if u.dir != "" && strings.HasPrefix(p.path, u.dir) {
				r.dirs[filepath.Dir(p.path)] = true
			}
		}
		if !u.isBroken() { // that was logged
			c.logProblems(u.path+" "+u.dir, u.faults())
		}
	}
	c.dirs = sortedKeys(r.dirs)
	c.publish()
}

// logProblems logs problems, unless the same ones were logged last time.
func (c *Catalog) logProblems(what string, problems []Problem) {
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	digest := strings.Join(lines, "\n")
	if c.logged[what] == digest {
		return
	}
	c.logged[what] = digest
	for _, p := range problems {
		c.log.Warn(p.Message, "file", p.File, "line", p.Line, "column", p.Column, "code", p.Code, "remedy", p.Remedy)
	}
}

// replaceUnits replaces the known units by those just read. Units that have not changed stay, with
// everything that they have open.
func (c *Catalog) replaceUnits(read []*unit) {
	old := map[string]*unit{}
	for _, u := range c.units {
		old[u.path+"\x00"+u.dir] = u
	}
	for i, u := range read {
		u.read = u.content()
		key := u.path + "\x00" + u.dir
		if o := old[key]; o != nil && o.unchangedIn(u) {
			read[i] = o
			delete(old, key)
			continue
		}
		if len(u.problems) == 0 {
			c.openUnit(u)
			u.pinPrograms(nil)
		}
		if len(u.problems) > 0 {
			u.retire(true)
			u.sources, u.hooks = nil, nil
		}
		u.computeHash()
	}
	for _, o := range old {
		o.retire(false)
		c.retired = append(c.retired, o)
	}
	c.units = read
}

// unchangedIn reports whether a scan found no change in the unit, including the files that are
// executed.
func (u *unit) unchangedIn(read *unit) bool {
	if u.read != read.read || u.file != read.file || len(u.problems) > 0 {
		return false
	}
	now := &unit{path: u.path, dir: u.dir, file: u.file, def: u.def, decls: u.decls, pins: u.pins, sources: u.sources, hooks: u.hooks}
	now.pinPrograms(u.run)
	if len(now.problems) > 0 || !sameBytes(now.run, u.run) {
		return false
	}
	u.run = now.run // the same bytes, though perhaps in new files
	u.bindings = read.bindings
	if u.grant != nil {
		u.grant.setChecked(u.run)
	}
	return true
}

// env returns the Env for a source or hook of a unit.
func (c *Catalog) env(u *unit, d decl, s *liveSource) tool.Env {
	e := tool.Env{Name: d.name, Dir: u.dir, Hide: c.opt.Hide, Log: c.log.With("source", d.name)}
	if c.opt.Snapshots != "" {
		e.Snapshot = func() (map[string]string, error) { return c.snapshotOf(u) }
	}
	private := []string{c.opt.Data, "root", d.name}
	if u.kind == KindAgent {
		e.Agent, e.Config = u.path, u.def.Config
		e.Log = e.Log.With("agent", u.path)
		private = append([]string{c.opt.Data, "agents"}, strings.Split(u.path, "/")...)
		private = append(private, "sources", d.name)
	}
	e.Data = filepath.Join(private...)
	e.Secret = func(name string) (string, bool) {
		if c.opt.Secrets == nil || u.def != nil && !slices.Contains(u.def.Secrets, name) {
			return "", false
		}
		return c.opt.Secrets(e.Agent, name)
	}
	if c.opt.Services != nil && u.kind == KindAgent {
		e.Services = c.opt.Services(u.path)
	}
	if s != nil {
		e.Changed = func() { c.sourceChanged(u, s) }
	}
	return e
}

// closeInBackground closes something in the background.
func (c *Catalog) closeInBackground(what string, closing func() error) {
	c.work.Go(func() {
		if err := closing(); err != nil {
			c.log.Warn("a source could not be closed", "source", what, "error", err)
		}
	})
}

// find returns the unit at a path. If there are several, it returns the one that holds the name.
// Called under mu.
func (c *Catalog) find(path string) (*unit, error) {
	var paths []string
	var found *unit
	for _, u := range c.units {
		if u.path == path && (found == nil || len(found.clash) > 0) {
			found = u
		}
		paths = append(paths, u.path)
	}
	if found != nil {
		return found, nil
	}
	e := fault.New(fault.NotFound, "agent_not_found", "there is no agent or source %s", strict.Clip(visible(path))).Detail("path", path)
	if w := strict.Suggest(path, paths); w != "" {
		return nil, e.WithHint("did you mean %s?", w)
	}
	return nil, e.WithHint("steward agents list shows what there is")
}

// Bindings returns the services that an agent declares, resolved through the levels above,
// whether the agent may be used or not.
func (c *Catalog) Bindings(path string) (service.Bindings, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, err := c.find(path)
	if err != nil {
		return nil, err
	}
	return u.bindings, nil
}

// status returns the status of a unit, and whether it has changed since its approval. Called under
// mu.
func (c *Catalog) status(u *unit) (s Status, changed bool) {
	rec := c.records[u.path]
	switch {
	case len(u.faults()) > 0:
		return Invalid, false
	case rec == nil:
		return Pending, false
	case rec.Status == Pending || rec.Static != u.hash:
		return Pending, rec.Approved != nil
	}
	return rec.Status, false
}

// listing describes a unit. usable are the paths that may be used. Called under mu.
func (c *Catalog) listing(u *unit) Listing {
	l := Listing{Path: u.path, Kind: u.kind, Hash: u.hash, Static: u.hash, Problems: u.faults(), Dir: u.dir}
	if u.dir == "" {
		l.Dir = u.file
	}
	l.Status, l.Changed = c.status(u)
	if u.def != nil {
		l.Description, l.Version = visible(u.def.Description), visible(u.def.definition.Version)
		l.Examples, l.Jobs = u.def.Examples, u.def.Jobs
	}
	l.Usable = l.Status == Approved && u.grant != nil && !u.grant.ended.Load()
	if u.announced != nil {
		l.Hash = u.announced.hash
	}
	rec := c.records[u.path]
	if rec == nil {
		return l
	}
	l.By, l.At, l.Reason = rec.By, rec.At, rec.Reason
	if l.Status == Approved {
		l.Hash, l.Tools, l.Settings = rec.Approved.Hash, rec.Approved.names(), rec.Approved.Settings
		if d := u.differs(rec); !d.same() {
			l.Hash, l.Waiting, l.Gone = d.Hash, d.Waiting, d.Gone
			l.Tools = slices.DeleteFunc(l.Tools, d.off)
		}
	}
	return l
}

// List implements Approver. It scans the folders again only if the watch has seen a change that
// was not scanned yet, if something has appeared or disappeared at the top level, of which the
// watch may not know yet, or if there is no watch.
func (c *Catalog) List(ctx context.Context) ([]Listing, error) {
	if !c.opt.Watch || c.noted.Load() != c.seen.Load() || c.rootsDigest() != *c.top.Load() {
		if err := c.Rescan(ctx); err != nil {
			return nil, err
		}
	}
	return c.Listings(), nil
}

// Listings is List as of the last reading.
func (c *Catalog) Listings() []Listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Listing, len(c.units))
	for i, u := range c.units {
		out[i] = c.listing(u)
	}
	return out
}
