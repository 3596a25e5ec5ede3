//go:build race

package effect

import (
	"testing"

	"steward/internal/store"
	"steward/test/storetest"
)

// openStore is the store's model in memory: under the race detector SQLite's
// own code would take most of the time.
func openStore(testing.TB) store.Store { return storetest.NewModel() }
