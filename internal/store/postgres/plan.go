package postgres

import (
	"slices"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// planner computes the outcome of one group of batches in memory: it checks each
// change against the tree as the changes before it leave it. Only the outcome is
// written (see flush). It reads nothing: what the group can touch was read under
// the lock.
type planner struct {
	seq uint64 // newest sequence number assigned
	at  int64  // of the group's entries, in microseconds since 1970

	nodes map[resource.URI]*node // as the database has them; those missing do not exist
	taken map[seat]bool          // positions that the group asks for, and whether they are taken

	group draft // what the batches so far have changed
	own   draft // what the present batch changes

	entries []entry
	order   []resource.URI // changed resources in the order of their first change
}

// draft is a set of changes over what was before.
type draft struct {
	nodes map[resource.URI]*node
	seats map[seat]bool
}

func newDraft() draft { return draft{make(map[resource.URI]*node), make(map[seat]bool)} }

// node is a resource as the tree has it. Version 0 means that it never existed.
// Nodes are immutable: they are replaced, not modified.
type node struct {
	seq, version      uint64
	space, typ, state string
	gone              bool
	refs              refs
}

var nowhere = &node{}

// in reports whether the resource exists in the space.
func (n *node) in(space string) bool { return n.version > 0 && !n.gone && n.space == space }

// seat is a position in a list. Each space has its own positions.
type seat struct {
	slot
	space string
}

// entry is a log row to be written.
type entry struct {
	change       *store.Change
	op           resource.Op
	seq, prev    uint64
	version      uint64
	space, actor string
	typ, state   string
	request      id.ID
}

func newPlanner(head uint64, at int64, now time.Time) *planner {
	return &planner{seq: head, at: max(at, now.UnixMicro()), nodes: make(map[resource.URI]*node), taken: make(map[seat]bool), group: newDraft(), own: newDraft()}
}

// apply plans one batch. If it refuses the batch, the plan is unchanged.
func (p *planner) apply(sc store.Scope, b *store.Batch) (r store.Receipt, err error) {
	seq, entries := p.seq, len(p.entries)
	clear(p.own.nodes)
	clear(p.own.seats)
	r.Versions = make([]uint64, len(b.Changes))
	by := author{space: string(sc.Write), actor: sc.Actor, request: b.Request}
	for i := range b.Changes {
		if r.Versions[i], err = p.change(by, &b.Changes[i]); err != nil {
			p.seq, p.entries = seq, p.entries[:entries]
			return store.Receipt{}, err
		}
	}
	for _, c := range b.Changes {
		if n := p.own.nodes[c.URI]; n != nil {
			if p.group.nodes[c.URI] == nil {
				p.order = append(p.order, c.URI)
			}
			p.group.nodes[c.URI] = n
		}
	}
	for at, full := range p.own.seats {
		p.group.seats[at] = full
	}
	r.Seq, r.At = p.seq, when(p.at)
	return r, nil
}

// author is the space, actor and request of a change.
type author struct {
	space, actor string
	request      id.ID
}

// node returns a resource as the changes before leave it.
func (p *planner) node(u resource.URI) *node {
	for _, m := range []map[resource.URI]*node{p.own.nodes, p.group.nodes, p.nodes} {
		if n := m[u]; n != nil {
			return n
		}
	}
	return nowhere
}

// full reports whether a position is taken.
func (p *planner) full(at seat) bool {
	for _, m := range []map[seat]bool{p.own.seats, p.group.seats, p.taken} {
		if full, ok := m[at]; ok {
			return full
		}
	}
	return false
}

func (p *planner) change(by author, c *store.Change) (uint64, error) {
	n := p.node(c.URI)
	exists := n.in(by.space)
	if err := checkPrecondition(c, n, exists); err != nil {
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
		p.unlist(c, n)
	case c.Op == store.Pack:
		// PostgreSQL packs long bodies by itself.
	default:
		p.remove(by, c, resource.OpDelete, n)
	}
	return 0, nil
}

// checkPrecondition checks a change's precondition. A resource of another space
// does not exist to it.
func checkPrecondition(c *store.Change, n *node, exists bool) error {
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
	if len(want.States) > 0 && !slices.Contains(want.States, n.state) {
		return conflict(c.URI, "is in state %q, not in %q", n.state, want.States).Detail("state", n.state)
	}
	return nil
}

func (p *planner) put(by author, c *store.Change, n *node, exists bool) (uint64, error) {
	if !exists && n.version > 0 && n.space != by.space {
		return 0, alreadyExists(c.URI)
	}
	next := &node{version: n.version + 1, space: by.space, typ: c.URI.Type(), state: c.State,
		refs: refs{terms: sorted(c.Terms), places: n.refs.places}}
	if c.Place != nil {
		if err := p.place(by, c, next); err != nil {
			return 0, err
		}
	}
	p.record(by, c, resource.OpPut, n, next)
	return next.version, nil
}

// place assigns next its position, if that is free.
func (p *planner) place(by author, c *store.Change, next *node) error {
	to := slot{string(c.Place.List.Key()), c.Place.Pos}
	from, listed := next.refs.in(to.list)
	if listed && from == to {
		return nil
	}
	if p.full(seat{to, by.space}) {
		return conflict(c.URI, "cannot be placed: position %d of %s is taken", to.pos, c.Place.List).
			Detail("position", to.pos)
	}
	if listed {
		p.own.seats[seat{from, by.space}] = false
	}
	p.own.seats[seat{to, by.space}] = true
	next.refs = next.refs.place(to)
	return nil
}

func (p *planner) unlist(c *store.Change, n *node) {
	list := string(c.Place.List.Key())
	from, listed := n.refs.in(list)
	if !listed {
		return
	}
	next := *n
	next.refs = n.refs.unlist(list)
	p.own.seats[seat{from, n.space}] = false
	p.own.nodes[c.URI] = &next
}

func (p *planner) remove(by author, c *store.Change, op resource.Op, n *node) {
	gone := &node{version: n.version + 1, space: n.space, typ: n.typ, gone: true}
	for _, pl := range n.refs.places {
		p.own.seats[seat{pl, n.space}] = false
	}
	p.record(by, c, op, n, gone)
}

// record assigns a change its sequence number and appends its entry.
func (p *planner) record(by author, c *store.Change, op resource.Op, n, next *node) {
	p.seq++
	next.seq = p.seq
	p.entries = append(p.entries, entry{
		change: c, op: op, seq: next.seq, prev: n.seq, version: next.version,
		space: by.space, actor: by.actor, typ: next.typ, state: next.state, request: by.request,
	})
	p.own.nodes[c.URI] = next
}
