package storetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/lifetime/telemetry"
	"steward/internal/store"
)

// ending is a store of which a reader reads one short page.
type ending struct {
	store.Store
	cancel func()
	read   bool
}

const shortPage = 3

// Log implements store.Store.
func (e *ending) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	q.Limit = shortPage
	if e.read {
		e.cancel()
	}
	e.read = true
	return e.Store.Log(ctx, sc, q)
}

// Progress checks that an index of a large log makes progress with each page that it reads, not only at the end. The
// log must have more than a short page. catchUp has an index of it read it.
func Progress(t *testing.T, st interface {
	store.Store
	Head() uint64
}, catchUp func(ctx context.Context, st store.Store, lag *telemetry.Follower) error) {
	t.Helper()
	x := telemetry.New("test", nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := catchUp(ctx, &ending{Store: st, cancel: cancel}, x.Follow("index", st.Head)); err == nil {
		t.Error("the whole log is read")
	}
	answer := httptest.NewRecorder()
	x.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := fmt.Sprintf("steward_follower_lag_entries{follower=\"index\"} %d\n", st.Head()-shortPage); !strings.Contains(answer.Body.String(), want) {
		t.Errorf("%s is missing in\n%s", want, answer.Body)
	}
}
