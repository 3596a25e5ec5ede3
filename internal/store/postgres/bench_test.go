//go:build linux

package postgres

import (
	"context"
	"testing"

	"steward/internal/store"
	"steward/test/postgres"
	"steward/test/storetest/contract"
)

// synced returns a new database in a PostgreSQL that syncs, over a Unix socket.
func synced(b *testing.B) (c *postgres.Cluster, name string) {
	b.Helper()
	c, err := postgres.Start(true)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := c.Close(); err != nil {
			b.Error(err)
		}
	})
	name = c.Database(b, "")
	if err := Prepare(context.Background(), c.URL(postgres.Owner, name), postgres.App); err != nil {
		b.Fatal(err)
	}
	return c, name
}

// BenchmarkWriters measures commits, as that of package sqlite measures them there.
func BenchmarkWriters(b *testing.B) {
	c, name := synced(b)
	contract.Writers(b, open(b, c.URL(postgres.App, name)))
}

// BenchmarkMessages measures 100,000 messages, as that of package sqlite measures
// them there.
func BenchmarkMessages(b *testing.B) {
	c, name := synced(b)
	above := connected(b, c.Super(name))
	contract.Messages(b, func(readOnly bool) store.Store {
		return open(b, c.URL(postgres.App, name), func(o *Options) { o.ReadOnly = readOnly })
	}, func() (size int64) {
		if err := above.QueryRow(b.Context(), "SELECT pg_database_size(current_database())").Scan(&size); err != nil {
			b.Fatal(err)
		}
		return size
	})
}
