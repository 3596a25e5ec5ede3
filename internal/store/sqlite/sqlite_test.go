package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/leak"
	_ "steward/test/seed"
)

// TestMain also serves the tests that need another process: they start this
// binary again with the name of a part to play.
func TestMain(m *testing.M) {
	if part := os.Getenv(childPart); part != "" {
		os.Exit(playChild(part, os.Getenv(childPath)))
	}
	leak.Main(m)
}

// OpenForTest opens an empty store. Of a forgetful one the writer remembers
// next to nothing, and a page of the log does not look far.
func OpenForTest(t *testing.T, forgetful bool) *Store {
	s := open1(t, dbPath(t))
	if forgetful {
		s.writer.p.nodes.size, s.writer.p.lists.size = 1, 1
		s.window = 3
	}
	return s
}

func dbPath(t testing.TB) string { return filepath.Join(t.TempDir(), "steward.db") }

// open1 opens a store and closes it when the test ends.
func open1(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close1(t, s) })
	return s
}

func close1(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

var ada = store.ForUser("ada")

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

// contents returns the whole log and tree of a store.
func contents(t testing.TB, s *Store) (log []resource.Entry, tree []store.Item) {
	t.Helper()
	sc := store.ForNode(resource.System)
	for e, err := range store.Entries(context.Background(), s, sc, store.LogQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		log = append(log, e)
	}
	for it, err := range store.Items(context.Background(), s, sc, store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		tree = append(tree, it)
	}
	return log, tree
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

// must returns v. An error ends the tests.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
