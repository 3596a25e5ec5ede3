//go:build long && !race

package linear

import (
	"path/filepath"
	"testing"
	"time"

	"steward/internal/store/sqlite"
)

// This is the same test on the real store. The race detector makes it too slow.
func TestLinearizableOnSQLite(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	crowded(t, db, uint64(time.Now().UnixNano()))
}
