package cli

import (
	"strings"
	"testing"

	"steward/test/postgres"
)

// databases returns the variables with the addresses of an empty database, if the
// commands of a document use one.
func databases(t *testing.T, block string) []string {
	t.Helper()
	if !strings.Contains(block, "STEWARD_STORE") {
		return nil
	}
	c, err := postgres.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	name := c.Database(t, "")
	return []string{"STEWARD_STORE=" + c.URL(postgres.App, name), "STEWARD_STORE_OWNER=" + c.URL(postgres.Owner, name)}
}
