package storetest_test

import (
	"testing"

	"steward/internal/store"
	"steward/internal/store/storetest"
)

// The model passes the suite, so the suite asks for nothing that only one
// implementation can do.
func TestModel(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return storetest.NewModel() })
}
