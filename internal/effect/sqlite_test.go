//go:build !race

package effect

import (
	"context"
	"path/filepath"
	"testing"

	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// openStore opens the real store.
func openStore(t testing.TB) store.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
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
