package sqlite

import (
	"slices"
	"time"

	"steward/internal/resource"
	"steward/internal/store"
)

// planner computes the outcome of a group of batches in memory: it checks each
// change against the tree as the previous changes leave it. Only the outcome is
// written (flush). So a refused batch needs no rollback in the database, and a
// resource that a group puts ten times is written to the tree once.
//
// There is no other writer, so what it has read stays valid and is cached.
type planner struct {
	s *Store
	c *conn

	committed uint64 // newest sequence number in the database
	stale     bool   // the database may differ from the cached state
	seq       uint64 // newest sequence number assigned
	at        int64  // newest time assigned, in microseconds since 1970

	nodes cache[resource.URI, *node]
	lists cache[resource.URI, *list]
	// Places at or below which the tree was empty when they were read. Resources
	// created since are in nodes, and both caches are dropped together. So a
	// resource below such a place that is not in nodes does not exist.
	empty cache[resource.URI, struct{}]

	// State of the current group.
	entries  []entry
	changed  []*changed // in the order of their first change
	byURI    map[resource.URI]*changed
	occupied map[seat]bool // positions that the group took or freed
	newNames map[nameKey]int64
	packs    []uint64 // the newest entries of resources to be packed
	erased   bool     // since the last scrub
	seal     sealer
	undo     []undo
	buf      []byte
}

// changed is a resource that the group changes: its state in the database and its
// present state.
type changed struct {
	uri      resource.URI
	was, now *node
}

// undo reverts one step of a batch: it restores a resource to its previous state
// (nil: unchanged by the group), or else a position.
type undo struct {
	c           *changed
	now         *node
	at          seat
	known, full bool
}

// node is a resource as the tree has it. Version 0 means that it never existed.
// Nodes are immutable: they are replaced, not modified.
type node struct {
	seq, version      uint64
	space, typ, state int64
	gone              bool
	refs              refs
}

// in reports whether the resource exists in the space.
func (n *node) in(space int64) bool { return n.version > 0 && !n.gone && n.space == space }

// list is an ordered list. last is at least the position of its last member.
type list struct{ id, last int64 }

// seat is a position in a list. Each space has its own positions.
type seat struct {
	slot
	space int64
}

// entry is a log row to be written.
type entry struct {
	change       *store.Change
	op           resource.Op
	seq, prev    uint64
	version      uint64
	space, actor int64
	typ, state   int64
	request      []byte
}

func newPlanner(c *conn, s *Store) *planner {
	return &planner{
		s: s, c: c,
		nodes:    newCache[resource.URI, *node](1024),
		lists:    newCache[resource.URI, *list](512),
		empty:    newCache[resource.URI, struct{}](0),
		byURI:    make(map[resource.URI]*changed),
		occupied: make(map[seat]bool),
		newNames: make(map[nameKey]int64),
		seal:     sealer{s: s, c: c},
	}
}

// reload reads the head of the log from the database.
func (p *planner) reload() error {
	p.committed = 0
	s := p.c.prepare("SELECT seq, at FROM log ORDER BY seq DESC LIMIT 1")
	_, err := s.first(func() error {
		p.committed, p.at = uint64(s.int(0)), max(p.at, s.int(1))
		return nil
	})
	if err != nil {
		return err
	}
	p.seq, p.stale = p.committed, false
	return p.seal.reload()
}

func (p *planner) begin(now time.Time) { p.at = max(p.at, now.UnixMicro()) }

// keep makes the group's outcome the new state after its commit.
func (p *planner) keep() {
	p.committed = p.seq
	for _, c := range p.changed {
		p.nodes.put(c.uri, c.now)
	}
	for k, id := range p.newNames {
		p.s.names.add(k, id)
	}
	if p.nodes.rotateIfFull() {
		p.empty.rotate()
	}
	p.lists.rotateIfFull()
	p.clear()
}

// drop discards the group and everything cached that may differ from the
// database.
func (p *planner) drop() {
	p.seq, p.stale = p.committed, true
	p.nodes.clear()
	p.lists.clear()
	p.empty.clear()
	p.clear()
}

func (p *planner) clear() {
	clear(p.entries)
	p.entries = p.entries[:0]
	clear(p.byURI)
	clear(p.changed)
	p.changed = p.changed[:0]
	clear(p.occupied)
	clear(p.newNames)
	p.packs = p.packs[:0]
}

// author is the request, actor and space of a change, as numbers.
type author struct {
	space, actor int64
	request      []byte
}

// apply plans one batch. If it refuses the batch (a fault), the plan is
// unchanged.
func (p *planner) apply(sc store.Scope, b *store.Batch) (r store.Receipt, err error) {
	p.undo = p.undo[:0]
	seq, entries, packs := p.seq, len(p.entries), len(p.packs)
	r.Versions = make([]uint64, len(b.Changes))
	var by author
	if by.space, err = p.intern(spaceName, string(sc.Write)); err != nil {
		return r, err
	}
	if by.actor, err = p.intern(actorName, sc.Actor); err != nil {
		return r, err
	}
	if !b.Request.Zero() {
		by.request = b.Request[:]
	}
	for i := range b.Changes {
		if r.Versions[i], err = p.change(by, &b.Changes[i]); err != nil {
			p.seq, p.entries, p.packs = seq, p.entries[:entries], p.packs[:packs]
			p.undoBatch()
			return store.Receipt{}, err
		}
	}
	r.Seq, r.At = p.seq, time.UnixMicro(p.at).UTC()
	return r, nil
}

func (p *planner) change(by author, c *store.Change) (uint64, error) {
	n, err := p.node(c.URI)
	if err != nil {
		return 0, err
	}
	exists := n.in(by.space)
	if err := p.checkPrecondition(c, n, exists); err != nil {
		return 0, err
	}
	switch {
	case c.Op == store.Check:
		return 0, nil
	case c.Op == store.Put:
		return p.put(by, c, n, exists)
	case c.Op == store.Erase && n.version > 0 && n.space == by.space: // whether it is deleted already or not
		p.remove(by, c, resource.OpErase, n)
	case !exists:
		return 0, notFound(c.URI)
	case c.Op == store.Unlist:
		return 0, p.unlist(by, c, n)
	case c.Op == store.Pack:
		p.packs = append(p.packs, n.seq)
	default:
		p.remove(by, c, resource.OpDelete, n)
	}
	return 0, nil
}

func (p *planner) remove(by author, c *store.Change, op resource.Op, n *node) {
	gone := &node{version: n.version + 1, space: n.space, typ: n.typ, gone: true}
	for _, pl := range n.refs.places {
		p.seat(seat{pl, n.space}, false)
	}
	p.record(by, c, op, n, gone)
}

// checkPrecondition checks a change's precondition. A resource of another space does not
// exist to it.
func (p *planner) checkPrecondition(c *store.Change, n *node, exists bool) error {
	want := &c.If
	if want.Absent && exists {
		return alreadyExists(c.URI)
	}
	if want.Version == 0 && len(want.States) == 0 {
		return nil
	}
	if !exists {
		return notFound(c.URI)
	}
	if want.Version != 0 && want.Version != n.version {
		return conflict(c.URI, "has version %d, not %d", n.version, want.Version).Detail("version", n.version)
	}
	if len(want.States) == 0 {
		return nil
	}
	state, err := p.word(n.state)
	if err != nil {
		return err
	}
	if !slices.Contains(want.States, state) {
		return conflict(c.URI, "is in state %q, not in %q", state, want.States).Detail("state", state)
	}
	return nil
}

func (p *planner) put(by author, c *store.Change, n *node, exists bool) (uint64, error) {
	if !exists && n.version > 0 && n.space != by.space {
		return 0, alreadyExists(c.URI)
	}
	next := &node{version: n.version + 1, space: by.space, typ: n.typ}
	next.refs.places = n.refs.places
	var err error
	if n.version == 0 {
		if next.typ, err = p.intern(typeName, c.URI.Type()); err != nil {
			return 0, err
		}
	}
	if c.State != "" {
		if next.state, err = p.intern(stateName, c.State); err != nil {
			return 0, err
		}
	}
	if next.refs.terms, err = p.terms(c.Terms); err != nil {
		return 0, err
	}
	if c.Place != nil {
		if err := p.place(by, c, next); err != nil {
			return 0, err
		}
	}
	p.record(by, c, resource.OpPut, n, next)
	return next.version, nil
}

func (p *planner) terms(in []store.Term) ([]term, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]term, len(in))
	for i, t := range in {
		id, err := p.intern(termName, t.Name)
		if err != nil {
			return nil, err
		}
		out[i] = term{id, t.Value}
	}
	return sorted(out), nil
}

// place assigns next its position, if that is free.
func (p *planner) place(by author, c *store.Change, next *node) error {
	l, err := p.list(c.Place.List, true)
	if err != nil {
		return err
	}
	to := slot{l.id, c.Place.Pos}
	from, listed := next.refs.in(l.id)
	if listed && from == to {
		return nil
	}
	full, err := p.full(seat{to, by.space}, l)
	if err != nil {
		return err
	}
	if full {
		return conflict(c.URI, "cannot be placed: position %d of %s is taken", to.pos, c.Place.List).
			Detail("position", to.pos)
	}
	if listed {
		p.seat(seat{from, by.space}, false)
	}
	p.seat(seat{to, by.space}, true)
	l.last = max(l.last, to.pos)
	next.refs = next.refs.place(to)
	return nil
}

func (p *planner) unlist(by author, c *store.Change, n *node) error {
	l, err := p.list(c.Place.List, false)
	if err != nil || l == nil {
		return err
	}
	from, listed := n.refs.in(l.id)
	if !listed {
		return nil
	}
	next := *n
	next.refs = n.refs.unlist(l.id)
	p.seat(seat{from, by.space}, false)
	p.replace(c.URI, n, &next)
	return nil
}

// record assigns a change its sequence number and appends its entry.
func (p *planner) record(by author, c *store.Change, op resource.Op, n, next *node) {
	p.seq++
	next.seq = p.seq
	p.entries = append(p.entries, entry{
		change: c, op: op, seq: next.seq, prev: n.seq, version: next.version,
		space: by.space, actor: by.actor, typ: next.typ, state: next.state, request: by.request,
	})
	p.replace(c.URI, n, next)
}

func (p *planner) replace(u resource.URI, n, next *node) {
	c := p.byURI[u]
	if c == nil {
		c = &changed{uri: u, was: n}
		p.byURI[u] = c
		p.changed = append(p.changed, c)
	}
	p.undo = append(p.undo, undo{c: c, now: c.now})
	c.now = next
}

func (p *planner) seat(at seat, full bool) {
	was, known := p.occupied[at]
	p.undo = append(p.undo, undo{at: at, known: known, full: was})
	p.occupied[at] = full
}

// undoBatch undoes the current batch.
func (p *planner) undoBatch() {
	for _, step := range slices.Backward(p.undo) {
		switch {
		case step.c != nil && step.now != nil:
			step.c.now = step.now
		case step.c != nil:
			delete(p.byURI, step.c.uri)
			p.changed = p.changed[:len(p.changed)-1]
		case step.known:
			p.occupied[step.at] = step.full
		default:
			delete(p.occupied, step.at)
		}
	}
}

func alreadyExists(u resource.URI) error { return conflict(u, "exists already") }
