package jobs

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// quick is a store in memory for simulations of many commits. It can do what the scheduler asks for:
// preconditions, states, one term, and lists that only grow at their end.
type quick struct {
	mu     sync.Mutex
	all    map[resource.URI]*quickNode
	states map[string]map[resource.URI]*quickNode
	terms  map[store.Term]map[resource.URI]*quickNode
	lists  map[resource.URI][]*quickNode
}

type quickNode struct {
	resource.Resource
	term store.Term
	list resource.URI
	pos  int64
}

func newQuick() *quick {
	return &quick{all: map[resource.URI]*quickNode{}, states: map[string]map[resource.URI]*quickNode{}, terms: map[store.Term]map[resource.URI]*quickNode{}, lists: map[resource.URI][]*quickNode{}}
}

func (q *quick) Commit(_ context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, ch := range b.Changes {
		old := q.all[ch.URI]
		if ch.If.Absent && old != nil || ch.If.Version != 0 && old != nil && old.Version != ch.If.Version {
			return store.Receipt{}, fault.New(fault.Conflict, "conflict", "conflict")
		}
		if ch.If.Version != 0 && old == nil {
			return store.Receipt{}, fault.New(fault.NotFound, "not_found", "not found")
		}
	}
	r := store.Receipt{}
	for _, ch := range b.Changes {
		n := &quickNode{}
		if old := q.all[ch.URI]; old != nil {
			*n = *old
			q.remove(old)
		}
		if ch.Op == store.Erase {
			r.Versions = append(r.Versions, 0)
			continue
		}
		n.URI, n.Space, n.Version, n.State, n.Body = ch.URI, sc.Write, n.Version+1, ch.State, bytes.Clone(ch.Body)
		if len(ch.Terms) > 0 {
			n.term = ch.Terms[0]
		}
		if ch.Place != nil {
			n.list, n.pos = ch.Place.List, ch.Place.Pos
		}
		q.insert(n)
		r.Versions = append(r.Versions, n.Version)
	}
	return r, nil
}

func (q *quick) insert(n *quickNode) {
	q.all[n.URI] = n
	put(q.states, n.State, n)
	put(q.terms, n.term, n)
	if !n.list.Zero() {
		list := q.lists[n.list]
		i, _ := slices.BinarySearchFunc(list, n.pos, func(x *quickNode, pos int64) int { return int(x.pos - pos) })
		q.lists[n.list] = slices.Insert(list, i, n)
	}
}

func (q *quick) remove(n *quickNode) {
	delete(q.all, n.URI)
	delete(q.states[n.State], n.URI)
	delete(q.terms[n.term], n.URI)
	if !n.list.Zero() {
		q.lists[n.list] = slices.DeleteFunc(q.lists[n.list], func(x *quickNode) bool { return x == n })
	}
}

func put[K comparable](m map[K]map[resource.URI]*quickNode, k K, n *quickNode) {
	if m[k] == nil {
		m[k] = map[resource.URI]*quickNode{}
	}
	m[k][n.URI] = n
}

func (q *quick) Get(_ context.Context, _ store.Scope, u resource.URI) (resource.Resource, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := q.all[u]; n != nil {
		return n.Resource, nil
	}
	return resource.Resource{}, fault.New(fault.NotFound, "not_found", "not found")
}

func (q *quick) Query(_ context.Context, sc store.Scope, x store.Query) (out store.Page, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var from []*quickNode
	switch {
	case !x.List.Zero():
		from = slices.Clone(q.lists[x.List])
		if x.Reverse {
			slices.Reverse(from)
		}
	case x.State != "":
		for _, n := range q.states[x.State] {
			from = append(from, n)
		}
	default:
		for _, n := range q.terms[x.Term] {
			from = append(from, n)
		}
	}
	for _, n := range from {
		under := x.Under.Zero() || n.URI == x.Under || n.URI.Parent() == x.Under
		if sc.Sees(n.Space) && under && (x.Type == "" || n.URI.Type() == x.Type) && (x.Limit == 0 || len(out.Items) < x.Limit) {
			out.Items = append(out.Items, store.Item{Resource: n.Resource, Pos: n.pos})
		}
	}
	return out, nil
}

func (q *quick) Log(context.Context, store.Scope, store.LogQuery) (store.LogPage, error) {
	panic("not used")
}

func (q *quick) Wait(context.Context, uint64) (uint64, error) { panic("not used") }
