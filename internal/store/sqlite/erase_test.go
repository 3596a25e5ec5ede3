package sqlite

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
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

// Once an erasure is acknowledged, nothing of the bodies is in the database
// file or in the write-ahead log: neither of what was put, nor of what it was
// packed to, whatever their sizes and whatever came before; and all else is there.
func TestErasedBytesAreGone(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s, r := open1(t, dbPath(t)), rand.New(rand.NewPCG(seed, 0))
			kept := make(map[resource.URI][]written)
			var uris []resource.URI
			for i := range 120 {
				uris = append(uris, conv(fmt.Sprint(i, strings.Repeat("k", r.IntN(400)))))
			}
			for range 40 {
				var b []store.Change
				for range 1 + r.IntN(8) {
					u := uris[r.IntN(len(uris))]
					switch op := r.IntN(10); {
					case op < 6 || kept[u] == nil:
						body := randomBody(r)
						kept[u] = append(kept[u], written{body, marks(body)})
						b = append(b, store.Change{URI: u, Body: body})
					case op < 9:
						b = append(b, store.Change{Op: store.Pack, URI: u})
					}
				}
				commit(t, s, b...)
				for u := range kept {
					if r.IntN(20) == 0 {
						eraseAndLook(t, s, u, kept[u])
						delete(kept, u)
					}
				}
			}
			for u, all := range kept {
				i := len(all)
				for e, err := range store.Entries(t.Context(), s, ada, store.LogQuery{Of: u, Reverse: true}) {
					if err != nil {
						t.Fatal(err)
					}
					if i--; i < 0 {
						break // of before an erasure
					}
					if !bytes.Equal(e.Body, all[i].body) {
						t.Fatalf("version %d of %s has %d other bytes", e.Version, u, len(e.Body))
					}
				}
				if i > 0 {
					t.Fatalf("%d versions of %s are missing", i, u)
				}
			}
			if got, err := s.writer.c.number("SELECT count(*) FROM pack WHERE body NOT NULL AND id NOT IN (SELECT body FROM log WHERE op & 32)"); err != nil || got != 0 {
				t.Errorf("%d packed bodies belong to nobody (%v)", got, err)
			}
		})
	}
}

// randomBody makes text in which no 24 bytes are like others, and which zstd
// makes half as long; mostly short, at times longer than a page or ten.
func randomBody(r *rand.Rand) []byte {
	n := []int{100, 600, 2000, 3500, 4500, 9000, 40000}[r.IntN(7)]
	b := make([]byte, 50+r.IntN(n/2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return []byte(`{"text":"` + hex.EncodeToString(b) + `"}`)
}

// frameHead is how much of a frame may be like others': its header, and how
// often which character occurs in it.
const frameHead = 48

func eraseAndLook(t *testing.T, s *Store, u resource.URI, was []written) {
	t.Helper()
	looked := false
	before := files(t, s)
	for _, raw := range rawBodies(t, s, u) {
		was = append(was, written{raw, marks(raw[min(len(raw), frameHead):])})
	}
	for _, w := range was {
		for _, m := range w.marks {
			looked = looked || bytes.Contains(before, m)
		}
	}
	if !looked {
		t.Fatalf("nothing of %s is in the files to begin with", u)
	}
	commit(t, s, store.Change{Op: store.Erase, URI: u})
	after := files(t, s)
	for _, w := range was {
		for i, m := range w.marks {
			if at := bytes.Index(after, m); at >= 0 {
				t.Fatalf("mark %d of a body of %d bytes of %s is at byte %d", i, len(w.body), u, at)
			}
		}
	}
}

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
