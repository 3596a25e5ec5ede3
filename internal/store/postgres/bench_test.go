//go:build linux

package postgres

import (
	"context"
	"testing"

	"steward/test/postgres"
	"steward/test/storetest/contract"
)

// BenchmarkWriters measures commits to a PostgreSQL that syncs, over a Unix socket.
func BenchmarkWriters(b *testing.B) {
	c, err := postgres.Start(true)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	name := c.Database(b, "")
	if err := Prepare(context.Background(), c.URL(postgres.Owner, name), postgres.App); err != nil {
		b.Fatal(err)
	}
	contract.Writers(b, open(b, c.URL(postgres.App, name)))
}
