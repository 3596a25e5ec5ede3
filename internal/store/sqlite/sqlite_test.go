package sqlite

import (
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"steward/internal/store"
	"steward/internal/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open1(t, filepath.Join(t.TempDir(), "steward.db")) })
}

// open1 opens a store and closes it when the test ends.
func open1(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path})
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
