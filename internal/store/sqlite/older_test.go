package sqlite

import (
	"compress/gzip"
	"io"
	"os"
	"slices"
	"testing"

	"steward/internal/store"
)

// A database of the version before: 300 puts to 100 resources, of which two
// were packed and three erased, under two seals. Of those salts it kept what
// they could be derived from and the erased ones could not.
func TestOlderDatabase(t *testing.T) {
	path := dbPath(t)
	unzip(t, "testdata/older.db.gz", path)
	head := store.Head{Seq: 303}
	if err := head.Hash.UnmarshalText([]byte("c80f561e7511fd6d21c31e2842eb1a66e262d48e5c8b39b3488b13452f14d6c2")); err != nil {
		t.Fatal(err)
	}
	s := open1(t, path)
	gone := []string{"3", "8", "99"}
	look := func() {
		t.Helper()
		if v, err := s.Verify(t.Context(), head); err != nil || v.Flaw != nil || v.Erased != uint64(3*len(gone)) {
			t.Fatalf("%+v %+v, %v", v, v.Flaw, err)
		}
		for p, err := range s.Sealed(t.Context(), ada, 0) {
			erased := p.Seq <= 300 && slices.Contains(gone, p.URI.ID())
			if err != nil || p.Seq <= 300 && ((p.Salt == nil) != erased || (p.Body == nil) != erased) {
				t.Fatalf("entry %d: salt %v, body %q, %v", p.Seq, p.Salt, p.Body, err)
			}
		}
	}
	look()
	for _, name := range []string{"4", "17", "98"} {
		commit(t, s, store.Change{Op: store.Erase, URI: conv(name)})
		gone = append(gone, name)
	}
	if _, err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	look()
}

func unzip(t *testing.T, from, to string) {
	t.Helper()
	f := must(os.Open(from))
	defer f.Close()
	z := must(gzip.NewReader(f))
	b := must(io.ReadAll(z))
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
