package sqlite

import (
	"testing"

	"steward/test/storetest/contract"
)

// BenchmarkWriters measures commits to a database file, as that of package
// postgres measures them there.
func BenchmarkWriters(b *testing.B) { contract.Writers(b, open1(b, dbPath(b))) }
