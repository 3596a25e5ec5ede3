package sqlite_test

import (
	"testing"

	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/storetest/contract"
)

// TestContract runs the suite of the store's contract on a database, and on one
// whose writer remembers next to nothing.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, forgetful := range map[string]bool{"Database": false, "Forgetful": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			contract.Run(t, func(t *testing.T) store.Store { return sqlite.OpenForTest(t, forgetful) })
		})
	}
}
