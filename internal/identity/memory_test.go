package identity_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

// memory keeps what the registry needs of the store's contract in a map:
// scopes, preconditions, terms and pages.
type memory struct {
	mu   sync.Mutex
	rows map[resource.URI]row
	seq  uint64
	page int // items in a page; 0: all

	fail   func(op string) error // asked before every call
	looked int                   // queries by key_hash
}

type row struct {
	resource.Resource
	terms []store.Term
}

func newMemory() *memory { return &memory{rows: map[resource.URI]row{}} }

func (m *memory) before(op string) error {
	if m.fail == nil {
		return nil
	}
	return m.fail(op)
}

func (m *memory) Commit(_ context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	if err := m.before("commit"); err != nil {
		return store.Receipt{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var rc store.Receipt
	for _, c := range b.Changes {
		old, exists := m.rows[c.URI]
		switch {
		case exists && old.Space != sc.Write, c.If.Absent && exists, c.If.Version != 0 && c.If.Version != old.Version:
			return rc, fault.New(fault.Conflict, "conflict", "%s has changed", c.URI)
		}
		m.seq++
		res := resource.Resource{URI: c.URI, Space: sc.Write, Version: old.Version + 1, Seq: m.seq, State: c.State, At: time.Now(), Body: c.Body}
		m.rows[c.URI] = row{res, c.Terms}
		rc.Seq, rc.At = m.seq, res.At
		rc.Versions = append(rc.Versions, res.Version)
	}
	return rc, nil
}

func (m *memory) Get(_ context.Context, sc store.Scope, uri resource.URI) (resource.Resource, error) {
	if err := m.before("get"); err != nil {
		return resource.Resource{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.rows[uri]
	if !ok || !sc.Sees(r.Space) {
		return resource.Resource{}, fault.New(fault.NotFound, "not_found", "%s is not there", uri)
	}
	return r.Resource, nil
}

func (m *memory) Query(_ context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if err := m.before("query"); err != nil {
		return store.Page{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if q.Term.Name == "key_hash" {
		m.looked++
	}
	var out []row
	for _, r := range m.rows {
		if sc.Sees(r.Space) && r.URI.Type() == q.Type && (q.Term == store.Term{} || slices.Contains(r.terms, q.Term)) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b row) int { return bytes.Compare(a.URI.Key(), b.URI.Key()) })
	var page store.Page
	for _, r := range out {
		if q.After != "" && r.URI.String() <= string(q.After) {
			continue
		}
		if m.page > 0 && len(page.Items) == m.page {
			page.Next = store.Cursor(page.Items[len(page.Items)-1].URI.String())
			break
		}
		page.Items = append(page.Items, store.Item{Resource: r.Resource})
	}
	return page, nil
}

func (m *memory) Log(context.Context, store.Scope, store.LogQuery) (store.LogPage, error) {
	return store.LogPage{}, fault.New(fault.Unsupported, "unsupported", "this double keeps no log")
}

func (m *memory) Wait(ctx context.Context, _ uint64) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// overtaken answers the first look-up by a secret with what was there before
// something else happened.
type overtaken struct {
	*memory
	then func()
}

func (o *overtaken) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	page, err := o.memory.Query(ctx, sc, q)
	if then := o.then; then != nil {
		o.then = nil
		then()
	}
	return page, err
}
