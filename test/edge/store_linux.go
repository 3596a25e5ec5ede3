package edge

import (
	"os"
	"testing"

	"steward/test/postgres"
)

// Postgres returns the variables with which a node keeps its store in an empty
// PostgreSQL database of its own.
func Postgres(t testing.TB) []string {
	t.Helper()
	c := postgres.Shared(t)
	name := c.Database(t, "")
	return []string{"STEWARD_STORE=" + c.URL(postgres.App, name), "STEWARD_STORE_OWNER=" + c.URL(postgres.Owner, name)}
}

// storeOf returns the variables of the store that all nodes are to have: PostgreSQL,
// if STEWARD_TEST_STORE is postgres.
func storeOf(t testing.TB) []string {
	t.Helper()
	if os.Getenv("STEWARD_TEST_STORE") != "postgres" {
		return nil
	}
	return Postgres(t)
}

// runTests runs the tests, and ends the PostgreSQL that they may have started.
func runTests(m *testing.M) int { return postgres.Main(m.Run) }
