//go:build linux && long

package postgres

import (
	"testing"

	"steward/internal/store"
	"steward/test/storetest/contract"
)

const long = true // tests take their long form

// One node passes the suite too. Without the long tests, two that share a database
// do (TestContractOfTwoNodes).
func TestContract(t *testing.T) {
	t.Parallel()
	contract.Run(t, func(t *testing.T) store.Store { return openNew(t) })
}
