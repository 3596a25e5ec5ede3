package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"steward/internal/resource"
	"steward/internal/store"
)

// written is a body that was put, by what is to be found of it in the files.
type written struct {
	body  []byte
	marks [][]byte
}

// marks are pieces of a body, of as many bytes as occur nowhere else.
func marks(b []byte) (out [][]byte) {
	const size = 24
	for i := 0; i+size <= len(b); i += max(size, len(b)/20) {
		out = append(out, b[i:i+size])
	}
	return out
}

// files returns the database file and its write-ahead log.
func files(t testing.TB, s *Store) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{s.path, s.path + "-wal"} {
		b := must(os.ReadFile(name))
		all = append(all, b...)
	}
	return all
}

// rawBodies returns the bodies of all versions of a resource as they are kept.
func rawBodies(t testing.TB, s *Store, u resource.URI) (out [][]byte) {
	t.Helper()
	must(s.Seal(t.Context())) // then the writer rests, and its connection can be used
	st := s.writer.c.prepare("SELECT CASE WHEN op & 32 THEN (SELECT body FROM pack WHERE id = log.body) ELSE body END FROM log WHERE key = ?")
	defer st.reset()
	st.argBlob(u.Key())
	for {
		ok := must(st.step())
		if !ok {
			return out
		}
		out = append(out, bytes.Clone(st.view(0)))
	}
}

// frameHead is how much of a frame may be like others': its header, and how
// often which character occurs in it.
const frameHead = 48

// An erasure is acknowledged once no reader is in the way any more and the
// write-ahead log is empty; other changes do not wait for it.
func TestErasureBesideAReader(t *testing.T) {
	s := open1(t, dbPath(t))
	commit(t, s, put(conv("c"), "a secret that is looked at"))
	c := must(s.readers.get(t.Context()))
	if err := c.prepare("BEGIN").run(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.number("SELECT count(*) FROM log"); err != nil {
		t.Fatal(err)
	}
	erased := make(chan error, 1)
	go func() {
		_, err := s.Commit(context.Background(), ada, store.Batch{Changes: []store.Change{{Op: store.Erase, URI: conv("c")}}})
		erased <- err
	}()
	if _, err := s.Wait(t.Context(), 1); err != nil { // it is committed
		t.Fatal(err)
	}
	commit(t, s, put(conv("d"), "something else"))
	select {
	case err := <-erased:
		t.Fatalf("acknowledged beside a reader: %v", err)
	default:
	}
	s.readers.put(c) // which ends what it reads
	if err := <-erased; err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(files(t, s), []byte("a secret that")) {
		t.Error("the body is there still")
	}
}

// What nobody can read any more is gone after Close, too.
func TestErasureByClose(t *testing.T) {
	s := open1(t, dbPath(t))
	commit(t, s, put(conv("c"), "a secret that is looked at"), store.Change{Op: store.Delete, URI: conv("c")})
	commit(t, s, store.Change{Op: store.Erase, URI: conv("c")})
	close1(t, s)
	b := must(os.ReadFile(s.path))
	if _, err := os.Stat(s.path + "-wal"); !os.IsNotExist(err) || bytes.Contains(b, []byte("a secret that")) {
		t.Error("the body is there still", err)
	}
}

// A connection that comes back in a transaction is lent without it.
func TestPoolEndsTransactions(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: dbPath(t), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	for i := range 3 {
		commit(t, s, store.Change{URI: conv(fmt.Sprint(i)), Terms: []store.Term{{Name: "k", Value: "v"}}})
		if _, err := s.Commit(t.Context(), store.ForUser("bob"), store.Batch{Changes: []store.Change{{URI: conv(fmt.Sprint("bob's", i)), Terms: []store.Term{{Name: "k", Value: "v"}}}}}); err != nil {
			t.Fatal(err)
		}
		p, err := s.Query(t.Context(), store.ForNode(resource.System), store.Query{Term: store.Term{Name: "k", Value: "v"}})
		if err != nil || len(p.Items) != 2*i+2 {
			t.Fatalf("got %v, %v", p.Items, err)
		}
		c, err := s.readers.get(t.Context())
		if err != nil || c.inTransaction() {
			t.Fatal("the connection still looks at an old state", err)
		}
		s.readers.put(c)
	}
}
