package sqlite

import (
	"os"
	"testing"

	"steward/internal/store"
	"steward/test/storetest/contract"
)

// BenchmarkWriters measures commits to a database file, as that of package
// postgres measures them there.
func BenchmarkWriters(b *testing.B) { contract.Writers(b, open1(b, dbPath(b))) }

// BenchmarkMessages measures 100,000 messages in a database file, as that of package
// postgres measures them there.
func BenchmarkMessages(b *testing.B) {
	path := dbPath(b)
	open := func(readOnly bool) store.Store {
		s, err := Open(b.Context(), Options{Path: path, ReadOnly: readOnly})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { close1(b, s) })
		return s
	}
	contract.Messages(b, open, func() (all int64) {
		for _, name := range []string{"", "-wal"} {
			if info, err := os.Stat(path + name); err == nil {
				all += info.Size()
			}
		}
		return all
	})
}
