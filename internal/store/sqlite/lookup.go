package sqlite

import (
	"bytes"
	"math"

	"steward/internal/resource"
)

// These methods look up and cache what the planner needs to know of the database.

// full reports whether a position is taken.
func (p *planner) full(at seat, l *list) (bool, error) {
	if full, ok := p.occupied[at]; ok {
		return full, nil
	}
	if at.pos > l.last {
		return false, nil
	}
	n, err := p.c.prepare("SELECT 1 FROM place WHERE list = ? AND pos = ? AND space = ?").argInt(at.list, at.pos, at.space).number()
	return n == 1, err
}

// node returns a resource as the previous changes leave it.
func (p *planner) node(u resource.URI) (*node, error) {
	if c := p.byURI[u]; c != nil {
		return c.now, nil
	}
	if n, ok := p.nodes.get(u); ok {
		return n, nil
	}
	if p.belowEmpty(u) {
		return &node{}, nil
	}
	return p.readNode(u)
}

// belowEmpty reports whether u is at or below a place that is known to be empty.
func (p *planner) belowEmpty(u resource.URI) bool {
	for ; !u.Zero(); u = u.Parent() {
		if p.empty.has(u) {
			return true
		}
	}
	return false
}

// readNode reads the first row of the tree at or after u's key. If that row is
// another resource, u does not exist; if it is not below u either, nothing is
// below u.
func (p *planner) readNode(u resource.URI) (*node, error) {
	s := p.c.prepare("SELECT key, seq, version, space, type, gone, state, refs FROM tree WHERE key >= ? ORDER BY key LIMIT 1")
	defer s.reset()
	key := u.Key()
	row, err := s.argBlob(key).step()
	if err != nil {
		return nil, err
	}
	n := &node{}
	switch {
	case row && bytes.Equal(s.view(0), key):
		*n = node{
			seq: uint64(s.int(1)), version: uint64(s.int(2)), space: s.int(3), typ: s.int(4),
			gone: s.int(5) != 0, state: s.int(6),
		}
		n.refs, err = decodeRefs(s.view(7))
		p.nodes.put(u, n)
	case !row || !bytes.HasPrefix(s.view(0), key):
		p.empty.put(u, struct{}{})
	}
	return n, err
}

// list returns a resource's list. If there is none, it creates one if make is
// set, and returns nil otherwise.
func (p *planner) list(u resource.URI, make bool) (*list, error) {
	if l, ok := p.lists.get(u); ok {
		return l, nil
	}
	s := p.c.prepare("SELECT id, (SELECT max(pos) FROM place WHERE list = id) FROM list WHERE key = ?")
	defer s.reset()
	row, err := s.argBlob(u.Key()).step()
	if err != nil || !row && !make {
		return nil, err
	}
	l := &list{last: math.MinInt64}
	if row {
		l.id = s.int(0)
		if !s.null(1) {
			l.last = s.int(1)
		}
	} else if l.id, err = p.c.prepare("INSERT INTO list (key) VALUES (?) RETURNING id").argBlob(u.Key()).number(); err != nil {
		return nil, err
	}
	p.lists.put(u, l)
	return l, nil
}

// intern returns the number of a word, and assigns one if it has none.
func (p *planner) intern(kind int64, text string) (int64, error) {
	k := nameKey{kind, text}
	if id, ok := p.newNames[k]; ok {
		return id, nil
	}
	if id, err := p.s.names.id(p.c, kind, text); err != nil || id != noNumber {
		return id, err
	}
	id, err := p.c.prepare("INSERT INTO name (kind, text) VALUES (?, ?) RETURNING id").argInt(kind).argText(text).number()
	if err == nil {
		p.newNames[k] = id
	}
	return id, err
}
