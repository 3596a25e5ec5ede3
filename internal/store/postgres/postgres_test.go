//go:build linux

package postgres

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/leak"
	"steward/test/postgres"
)

func TestMain(m *testing.M) {
	code := postgres.Main(m.Run)
	if err := leak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "after all tests:", err)
		code = 1
	}
	os.Exit(code)
}

// prepared are the names of empty databases with the tables, which no test uses.
var prepared struct {
	mu   sync.Mutex
	free []string
}

// database returns the cluster and an empty database with the tables. Making one
// takes longer than most tests, so they use those of earlier tests again.
func database(t testing.TB) (*postgres.Cluster, string) {
	t.Helper()
	c := postgres.Shared(t)
	prepared.mu.Lock()
	defer prepared.mu.Unlock()
	var name string
	if n := len(prepared.free); n > 0 {
		name, prepared.free = prepared.free[n-1], prepared.free[:n-1]
	} else {
		name = c.Database(t, "")
		if err := Prepare(context.Background(), c.URL(postgres.Owner, name), postgres.App); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // after the stores have been closed
		all, err := steps()
		if err == nil {
			err = c.Exec(context.Background(), name, "TRUNCATE steward.log, steward.silent, steward.tree, steward.place, steward.term, steward.space, steward.seal, steward.scar, steward.transfer",
				"UPDATE steward.sealed SET seq = 0", fmt.Sprint("UPDATE steward.version SET version = ", len(all)))
		}
		if err != nil {
			t.Error(err)
			return
		}
		prepared.mu.Lock()
		defer prepared.mu.Unlock()
		prepared.free = append(prepared.free, name)
	})
	return c, name
}

// open opens a store of a database, which several may share, and closes it when the
// test ends.
func open(t testing.TB, url string, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{URL: url, Shared: true}
	for _, f := range change {
		f(&o)
	}
	s, err := Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func openNew(t testing.TB) *Store {
	t.Helper()
	c, name := database(t)
	return open(t, c.URL(postgres.App, name))
}

var (
	ada    = store.ForUser("ada")
	bob    = store.ForUser("bob")
	system = store.ForNode(resource.System)
)

func conv(name string) resource.URI { return resource.Root("common.Conversation", name) }

func put(u resource.URI, body string) store.Change {
	return store.Change{URI: u, Body: []byte(body)}
}

func commit(t testing.TB, s *Store, changes ...store.Change) store.Receipt {
	t.Helper()
	r, err := s.Commit(context.Background(), ada, store.Batch{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if !fault.HasCode(err, code) {
		t.Fatalf("got error %v, want the code %s", err, code)
	}
	if fault.Of(err).Remedy == "" && code != "store_closed" {
		t.Errorf("the error %v does not say what to do", err)
	}
}
