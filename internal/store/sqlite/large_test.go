//go:build long

package sqlite

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"steward/internal/resource"
	"steward/internal/store"
)

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

// The log of an older Steward is sealed in the background once it is opened;
// what was erased before that is no flaw.
func TestOldLogIsSealed(t *testing.T) {
	t.Parallel()
	path := dbPath(t)
	s := open1(t, path)
	last := randomLog(t, s, rand.New(rand.NewPCG(3, 1)), 2500)
	if _, err := s.Seal(t.Context()); err != nil { // then the writer rests
		t.Fatal(err)
	}
	if err := s.writer.c.exec("DROP TABLE seal; DROP TABLE salt; DROP TABLE scar; PRAGMA user_version=2"); err != nil {
		t.Fatal(err)
	}
	close1(t, s)
	s = open1(t, path)
	more := randomLog(t, s, rand.New(rand.NewPCG(4, 1)), 20)
	head, err := s.Seal(t.Context())
	if err != nil || head.Seq != more || more <= last {
		t.Fatalf("sealed to %d of %d and %d, %v", head.Seq, last, more, err)
	}
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil || v.Erased == 0 {
		t.Errorf("%+v %+v, %v", v, v.Flaw, err)
	}
}
