// Package storetest provides a store for tests.
package storetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// Model is the simplest implementation of the contract: a store in memory that
// scans everything at every call. Tests compare other stores with it.
type Model struct {
	mu      sync.Mutex
	entries []resource.Entry
	nodes   map[resource.URI]*node
	grown   chan struct{}
	closed  bool
}

var _ store.Store = (*Model)(nil)

// node is a resource. A deleted one stays in its space, and its version continues
// to increase.
type node struct {
	resource.Resource
	gone   bool
	terms  []store.Term
	places map[resource.URI]int64
}

// NewModel returns an empty model.
func NewModel() *Model {
	return &Model{nodes: make(map[resource.URI]*node), grown: make(chan struct{})}
}

// Close ends waiting calls and refuses new ones.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.closed = true
		close(m.grown)
	}
	return nil
}

// open refuses calls after Close. The caller holds the lock.
func (m *Model) open() error {
	if m.closed {
		return fault.New(fault.Unavailable, "store_closed", "the store is closed")
	}
	return nil
}

// Commit implements store.Store.
func (m *Model) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	if err := cmp.Or(ctx.Err(), sc.CanWrite(), b.Check()); err != nil {
		return store.Receipt{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(); err != nil {
		return store.Receipt{}, err
	}
	at := time.Now().UTC().Truncate(time.Microsecond)
	if n := len(m.entries); n > 0 && at.Before(m.entries[n-1].At) {
		at = m.entries[n-1].At
	}
	d := &draft{m: m, sc: sc, request: b, at: at,
		nodes: make(map[resource.URI]*node), erased: make(map[resource.URI]int)}
	r := store.Receipt{At: at, Versions: make([]uint64, len(b.Changes))}
	for i := range b.Changes {
		v, err := d.change(&b.Changes[i])
		if err != nil {
			return store.Receipt{}, err
		}
		r.Versions[i] = v
	}
	for u, n := range d.nodes {
		m.nodes[u] = n
	}
	if len(d.erased) > 0 {
		d.erase()
	}
	m.entries = append(m.entries, d.entries...)
	r.Seq = uint64(len(m.entries))
	if len(d.entries) > 0 {
		close(m.grown)
		m.grown = make(chan struct{})
	}
	return r, nil
}

// draft is a batch that can still be refused.
type draft struct {
	m       *Model
	sc      store.Scope
	request store.Batch
	at      time.Time
	nodes   map[resource.URI]*node
	entries []resource.Entry
	erased  map[resource.URI]int // the number of the batch's entries at the erasure
}

// node returns a copy of a resource.
func (d *draft) node(u resource.URI) *node {
	n := d.nodes[u]
	if n == nil {
		n = d.m.nodes[u]
	}
	if n == nil {
		return &node{Resource: resource.Resource{URI: u}, gone: true, places: map[resource.URI]int64{}}
	}
	c := *n
	c.places = make(map[resource.URI]int64)
	for k, v := range n.places {
		c.places[k] = v
	}
	return &c
}

func (d *draft) change(c *store.Change) (uint64, error) {
	n := d.node(c.URI)
	exists := !n.gone && n.Space == d.sc.Write
	if c.If.Absent && exists {
		return 0, refuse(fault.Conflict, "conflict", c.URI)
	}
	if c.If.Version != 0 || len(c.If.States) > 0 {
		switch {
		case !exists:
			return 0, refuse(fault.NotFound, "not_found", c.URI)
		case c.If.Version != 0 && c.If.Version != n.Version,
			len(c.If.States) > 0 && !slices.Contains(c.If.States, n.State):
			return 0, refuse(fault.Conflict, "conflict", c.URI)
		}
	}
	switch {
	case c.Op == store.Check:
		return 0, nil
	case c.Op == store.Put && n.Version > 0 && n.Space != d.sc.Write:
		return 0, refuse(fault.Conflict, "conflict", c.URI)
	case c.Op == store.Put:
		return d.put(c, n)
	case c.Op == store.Erase && n.Version > 0 && n.Space == d.sc.Write: // deleted already or not
		d.remove(n, resource.OpErase)
		d.erased[c.URI] = len(d.entries)
		return 0, nil
	case !exists:
		return 0, refuse(fault.NotFound, "not_found", c.URI)
	case c.Op == store.Unlist:
		delete(n.places, c.Place.List)
		d.nodes[c.URI] = n
		return 0, nil
	case c.Op == store.Pack:
		return 0, nil // how bodies are stored is not visible
	}
	d.remove(n, resource.OpDelete)
	return 0, nil
}

func (d *draft) remove(n *node, op resource.Op) {
	n.gone, n.State, n.terms, n.Body, n.places = true, "", nil, nil, map[resource.URI]int64{}
	d.record(n, op)
}

// erase removes the bodies from the earlier log, and from the batch's own entries
// before the erasure.
func (d *draft) erase() {
	for i := range d.m.entries {
		if _, ok := d.erased[d.m.entries[i].URI]; ok {
			d.m.entries[i].Body = nil
		}
	}
	for i := range d.entries {
		if i < d.erased[d.entries[i].URI] {
			d.entries[i].Body = nil
		}
	}
}

func (d *draft) put(c *store.Change, n *node) (uint64, error) {
	if c.Place != nil {
		if d.taken(c) {
			return 0, refuse(fault.Conflict, "conflict", c.URI)
		}
		n.places[c.Place.List] = c.Place.Pos
	}
	n.gone, n.Space, n.State = false, d.sc.Write, c.State
	n.terms, n.Body = slices.Clone(c.Terms), bytes.Clone(c.Body)
	d.record(n, resource.OpPut)
	return n.Version, nil
}

// taken reports whether another resource of the space has the position.
func (d *draft) taken(c *store.Change) bool {
	for u := range d.m.nodes {
		if _, ok := d.nodes[u]; !ok && d.sits(d.m.nodes[u], c) {
			return true
		}
	}
	for _, n := range d.nodes {
		if d.sits(n, c) {
			return true
		}
	}
	return false
}

func (d *draft) sits(n *node, c *store.Change) bool {
	pos, ok := n.places[c.Place.List]
	return ok && pos == c.Place.Pos && n.URI != c.URI && n.Space == d.sc.Write
}

func (d *draft) record(n *node, op resource.Op) {
	n.Version++
	n.Seq, n.At = uint64(len(d.m.entries)+len(d.entries)+1), d.at
	d.nodes[n.URI] = n
	d.entries = append(d.entries, resource.Entry{
		Seq: n.Seq, At: n.At, Space: n.Space, Actor: d.sc.Actor, Request: d.request.Request,
		Op: op, URI: n.URI, Version: n.Version, State: n.State, Body: n.Body,
	})
}

func refuse(kind fault.Kind, code string, u resource.URI) error {
	return fault.New(kind, code, "%s: %s", u, code).Detail("uri", u.String())
}

// Get implements store.Store.
func (m *Model) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	if err := cmp.Or(ctx.Err(), sc.CanRead()); err != nil {
		return resource.Resource{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(); err != nil {
		return resource.Resource{}, err
	}
	n := m.nodes[u]
	if n == nil || n.gone || !sc.Sees(n.Space) {
		return resource.Resource{}, refuse(fault.NotFound, "not_found", u)
	}
	return n.Resource, nil
}

// Query implements store.Store.
func (m *Model) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	order, err := q.Order()
	if err := cmp.Or(ctx.Err(), sc.CanRead(), err); err != nil {
		return store.Page{}, err
	}
	after, more, err := q.Position()
	if err != nil {
		return store.Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(); err != nil {
		return store.Page{}, err
	}
	var found []store.Item
	for _, n := range m.nodes {
		if it, ok := n.item(sc, &q); ok {
			found = append(found, it)
		}
	}
	if q.Count != nil {
		within := slices.DeleteFunc(found, func(it store.Item) bool { return it.Pos < q.Count.From || it.Pos > q.Count.To })
		return store.Page{Count: len(within)}, nil
	}
	direction := 1
	if q.Reverse {
		direction = -1
	}
	slices.SortFunc(found, func(a, b store.Item) int {
		return direction * compare(where(order, a), where(order, b))
	})
	page := store.Page{}
	for _, it := range found {
		if more && direction*compare(where(order, it), after) <= 0 {
			continue
		}
		if len(page.Items) == store.PageSize(q.Limit) {
			page.Next = q.Cursor(where(order, page.Items[len(page.Items)-1]))
			break
		}
		page.Items = append(page.Items, it)
	}
	return page, nil
}

// item returns the resource as q's answer has it, if q selects it.
func (n *node) item(sc store.Scope, q *store.Query) (store.Item, bool) {
	it := store.Item{Resource: n.Resource}
	if q.NoBody {
		it.Body = nil
	}
	if n.gone || !sc.Sees(n.Space) || !n.URI.Under(q.Under) || q.Type != "" && n.URI.Type() != q.Type {
		return it, false
	}
	switch {
	case !q.List.Zero():
		var listed bool
		it.Pos, listed = n.places[q.List]
		outside := q.From != 0 && (!q.Reverse && it.Pos < q.From || q.Reverse && it.Pos > q.From)
		return it, listed && !outside
	case q.Term.Name != "":
		return it, slices.Contains(n.terms, q.Term)
	case q.State != "":
		return it, n.State == q.State
	}
	return it, true
}

func where(order store.Order, it store.Item) store.Position {
	switch order {
	case store.ByList:
		return store.Position{Num: it.Pos, Key: []byte(it.Space)}
	case store.ByTerm:
		return store.Position{Num: int64(it.Seq)}
	}
	return store.Position{Key: it.URI.Key()}
}

func compare(a, b store.Position) int {
	return cmp.Or(cmp.Compare(a.Num, b.Num), bytes.Compare(a.Key, b.Key))
}

// Log implements store.Store.
func (m *Model) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	after, more, err := q.Position()
	if err := cmp.Or(ctx.Err(), sc.CanRead(), err); err != nil {
		return store.LogPage{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(); err != nil {
		return store.LogPage{}, err
	}
	entries := slices.Clone(m.entries)
	next := max(q.Since, uint64(len(entries)))
	if q.Reverse {
		slices.Reverse(entries)
		next = q.Since + 1
	}
	var page store.LogPage
	for _, e := range entries {
		if e.Seq <= q.Since || more && (!q.Reverse && e.Seq <= after || q.Reverse && e.Seq >= after) ||
			!sc.Sees(e.Space) || !e.URI.Under(q.Under) || q.Type != "" && e.URI.Type() != q.Type || !q.Of.Zero() && e.URI != q.Of {
			continue
		}
		if page.More = len(page.Entries) == store.PageSize(q.Limit); page.More {
			next = page.Entries[len(page.Entries)-1].Seq
			break
		}
		page.Entries = append(page.Entries, e)
	}
	if !page.More && !q.Reverse {
		next = max(next, after)
	}
	page.Next = q.Cursor(next)
	return page, nil
}

// Wait implements store.Store.
func (m *Model) Wait(ctx context.Context, after uint64) (uint64, error) {
	for {
		m.mu.Lock()
		head, grown, closed := uint64(len(m.entries)), m.grown, m.open()
		m.mu.Unlock()
		if err := cmp.Or(ctx.Err(), closed); err != nil {
			return 0, err
		}
		if head > after {
			return head, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
		}
	}
}
