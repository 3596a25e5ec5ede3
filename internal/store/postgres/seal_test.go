//go:build linux

package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"steward/internal/store"
	"steward/internal/store/chain"
	"steward/test/postgres"
)

// sealedProofs returns the proofs of all that is sealed now.
func sealedProofs(t testing.TB, s *Store) (out []store.Sealed) {
	t.Helper()
	if _, err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	for p, err := range s.Sealed(t.Context(), system, 0) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func verified(t testing.TB, s *Store, anchors ...store.Head) store.Verdict {
	t.Helper()
	v, err := s.Verify(t.Context(), anchors...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// An erasure empties the bodies, destroys their salts, and leaves a log that
// verifies; whether they were sealed before or not.
func TestErasure(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	s := open(t, c.URL(postgres.App, name), quiet)
	for i := range 300 {
		commit(t, s, put(conv(fmt.Sprint(i)), fmt.Sprint("body", i)))
	}
	before := sealedProofs(t, s)
	commit(t, s, put(conv("3"), "again"), put(conv("new"), "unsealed")) // entries 301 and 302
	commit(t, s, store.Change{Op: store.Erase, URI: conv("3")}, store.Change{Op: store.Erase, URI: conv("299")}, store.Change{Op: store.Erase, URI: conv("new")})
	if v := verified(t, s); v.Flaw != nil || v.Erased != 4 || v.Open != 5 {
		t.Errorf("%+v %+v", v, v.Flaw)
	}
	after := sealedProofs(t, s)
	for _, i := range []int{3, 299} {
		if p := after[i]; p.Salt != nil || p.Mark != before[i].Mark || p.Body != nil || p.Chain != before[i].Chain {
			t.Errorf("entry %d: %+v", i+1, p)
		}
	}
	for _, i := range []int{4, 298} {
		if p := after[i]; p.Salt == nil || *p.Salt != *before[i].Salt {
			t.Errorf("entry %d has lost its salt", i+1)
		}
	}
	conn := connected(t, c.Super(name))
	var rest int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM log WHERE body IN ('body3', 'body299', 'again', 'unsealed')").Scan(&rest); err != nil || rest != 0 {
		t.Errorf("%d bodies are left (%v)", rest, err)
	}
	var salts []byte
	if err := conn.QueryRow(t.Context(), "SELECT salts FROM seal WHERE first = 1").Scan(&salts); err != nil {
		t.Fatal(err)
	}
	if keys, err := chain.DecodeSalts(salts); err != nil || keys.Leaves()[3] != nil || bytes.Contains(salts, before[3].Salt[:]) {
		t.Errorf("the salt of what was erased is there still (%v)", err)
	}
}

// Whatever of the log is changed behind Steward's back, Verify finds it.
func TestTampering(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	s := open(t, c.URL(postgres.App, name), quiet)
	const entries = 600
	for i := range entries / 4 {
		var changes []store.Change
		for k := range 4 {
			changes = append(changes, store.Change{URI: conv(fmt.Sprint(i%50, k)), Body: []byte(fmt.Sprint("body", i, k)), State: "open"})
		}
		commit(t, s, changes...)
	}
	sealedProofs(t, s)
	commit(t, s, put(conv("open end"), ""))
	if v := verified(t, s); v.Flaw != nil || v.Open != 1 {
		t.Fatalf("%+v %+v", v, v.Flaw)
	}
	r := rand.New(rand.NewPCG(1, 2))
	conn := connected(t, c.Super(name))
	for what, sql := range map[string]string{
		"body":             "UPDATE log SET body = 'forged' WHERE seq = $1",
		"a missing body":   "UPDATE log SET body = NULL WHERE seq = $1",
		"actor":            "UPDATE log SET actor = 'eve' WHERE seq = $1",
		"time":             "UPDATE log SET at = at + 1 WHERE seq = $1",
		"version":          "UPDATE log SET version = version + 1 WHERE seq = $1",
		"type":             "UPDATE log SET type = 'x.Y' WHERE seq = $1",
		"operation":        "UPDATE log SET op = 7 WHERE seq = $1",
		"space":            "UPDATE log SET space = 'user:eve' WHERE seq = $1",
		"a missing entry":  "DELETE FROM log WHERE seq = $1",
		"a missing seal":   "DELETE FROM seal WHERE first = (SELECT max(first) FROM seal) AND $1 > 0",
		"a changed seal":   "UPDATE seal SET hash = sha256(hash) WHERE first = (SELECT max(first) FROM seal) AND $1 > 0",
		"changed salts":    "UPDATE seal SET salts = substr(salts, 1, 2) || substr(sha256(salts), 1, 16) WHERE first <= $1",
		"missing salts":    "UPDATE seal SET salts = NULL WHERE first <= $1",
		"an older version": "UPDATE tree SET seq = (SELECT prev FROM log l WHERE l.seq = tree.seq) WHERE seq = (SELECT max(seq) FROM tree WHERE seq < 600 AND $1 > 0)",
		"a hidden one":     "DELETE FROM tree WHERE seq = (SELECT max(seq) FROM tree WHERE $1 > 0)",
		"a missing end":    "DELETE FROM log WHERE seq > 590 AND $1 > 0",
		"the open end":     "DELETE FROM log WHERE seq = 601 AND $1 > 0",
	} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seq := int64(r.IntN(entries-100) + 50)
		tag, err := tx.Exec(t.Context(), sql, seq)
		if err != nil || tag.RowsAffected() == 0 {
			t.Fatalf("%s: %v, %v", what, tag, err)
		}
		l := &ledger{ctx: t.Context(), tx: tx}
		v := chain.NewVerifier(l, 1)
		v.Unsealed = 1 << 62
		if err = v.Verify(nil, l.tree); err == nil {
			err = l.missing(v)
		}
		if err != nil || v.Flaw == nil {
			t.Errorf("%s of entry %d: %+v, %v", what, seq, v.Verdict, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if v := verified(t, s); v.Flaw != nil {
		t.Errorf("%+v", v.Flaw)
	}
	// A log that is cut and sealed again does not fit an earlier head.
	head, err := s.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	head.Hash[0]++
	if v := verified(t, s, head); v.Flaw == nil {
		t.Error("a head of another log fits")
	}
}

// Two nodes seal the same log at once: the chain is one.
func TestTwoNodesSeal(t *testing.T) {
	t.Parallel()
	c, name := database(t)
	one, two := open(t, c.URL(postgres.App, name), quiet), open(t, c.URL(postgres.App, name), quiet)
	for i := range 20 {
		commit(t, one, put(conv(fmt.Sprint(i)), ""))
		heads := make(chan store.Head, 2)
		for _, s := range []*Store{one, two} {
			go func() {
				h, err := s.Seal(t.Context())
				if err != nil {
					t.Error(err)
				}
				heads <- h
			}()
		}
		if a, b := <-heads, <-heads; a != b || a.Seq != uint64(i+1) {
			t.Fatalf("%+v and %+v", a, b)
		}
	}
	if v := verified(t, two); v.Flaw != nil || v.Open != 0 {
		t.Errorf("%+v %+v", v, v.Flaw)
	}
}
