package identity_test

import (
	"context"
	"strings"
	"sync"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/storetest"
)

// watched is a store that counts reads, and fails as a test specifies.
type watched struct {
	store.Store
	mu     sync.Mutex
	reads  int
	looked int                   // of these, queries for a secret
	then   func()                // called once, after a query
	fail   func(op string) error // asked before each call; nil: none fails
}

func newWatched() *watched { return &watched{Store: storetest.NewModel()} }

// failing returns a function that fails one kind of calls, or all for "".
func failing(op string, err error) func(string) error {
	return func(o string) error {
		if strings.HasPrefix(op, o) || op == "" {
			return err
		}
		return nil
	}
}

func (w *watched) before(op string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if op != "commit" {
		w.reads++
	}
	if w.fail == nil {
		return nil
	}
	return w.fail(op)
}

func (w *watched) Get(ctx context.Context, sc store.Scope, uri resource.URI) (resource.Resource, error) {
	if err := w.before("get"); err != nil {
		return resource.Resource{}, err
	}
	return w.Store.Get(ctx, sc, uri)
}

func (w *watched) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if err := w.before("query"); err != nil {
		return store.Page{}, err
	}
	if q.Term.Name == "key_hash" {
		w.looked++
	}
	p, err := w.Store.Query(ctx, sc, q)
	if then := w.then; then != nil {
		w.then = nil
		then()
	}
	return p, err
}

func (w *watched) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	if err := w.before("commit"); err != nil {
		return store.Receipt{}, err
	}
	return w.Store.Commit(ctx, sc, b)
}
