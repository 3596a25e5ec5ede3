package contract

import (
	"testing"

	"steward/internal/store"
	"steward/test/storetest"
)

// The model in memory, which other packages' tests use, passes the suite.
func TestModel(t *testing.T) {
	t.Parallel()
	Run(t, func(*testing.T) store.Store { return storetest.NewModel() })
}
