package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	sqlite3 "zombiezen.com/go/sqlite"

	"steward/internal/resource"
	"steward/internal/store"
)

// meddle changes a database behind Steward's back.
func meddle(t testing.TB, path string, sql string, args ...any) {
	t.Helper()
	c := must(openConn(path, sqlite3.OpenReadWrite))
	defer c.close()
	err := c.prepare(sql).args(args).run()
	if err == nil && c.db.Changes() == 0 {
		err = errors.New("nothing was changed")
	}
	if err != nil {
		t.Fatalf("%s %v: %v", sql, args, err)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func verify(t testing.TB, path string, anchors ...store.Head) store.Verdict {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: path, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	v := must(s.Verify(t.Context(), anchors...))
	return v
}

// tampering is a way to change the log behind Steward's back. It returns what
// was done, and the entry that is wrong then; 0: it could not be done here.
type tampering func(t testing.TB, path string, r *rand.Rand, last uint64) (what string, seq uint64)

// at picks an entry of which a condition holds.
func at(t testing.TB, path string, r *rand.Rand, last uint64, cond string) int64 {
	t.Helper()
	c := must(openConn(path, sqlite3.OpenReadOnly))
	defer c.close()
	from := 1 + r.Int64N(int64(last))
	for _, sql := range []string{"SELECT min(seq) FROM log WHERE seq >= ? AND ", "SELECT max(seq) FROM log WHERE seq < ? AND "} {
		n := must(c.prepare(sql + cond).argInt(from).numbers(nil))
		if n[0] > 0 {
			return n[0]
		}
	}
	return 0
}

func tamperings() map[string]tampering {
	update := func(set, cond string) tampering {
		return func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, cond)
			if seq > 0 {
				meddle(t, path, "UPDATE log SET "+set+" WHERE seq = ?", seq)
			}
			return set, uint64(seq)
		}
	}
	out := map[string]tampering{
		"at":       update("at = at + 1", "1"),
		"space":    update("space = (SELECT max(id) FROM name WHERE kind = 1 AND id <> space)", "1"),
		"actor":    update("actor = (SELECT max(id) FROM name WHERE kind = 2 AND id <> actor)", "1"),
		"no actor": update("actor = 99999", "1"),
		"op":       update("op = 2", "op = 1"),
		"odd op":   update("op = op | 64", "1"),
		"type":     update("type = (SELECT max(id) FROM name WHERE id <> type)", "1"),
		"version":  update("version = version + 1", "1"),
		"prev":     update("prev = prev + 1", "1"),
		"state":    update("state = (SELECT max(id) FROM name WHERE kind = 3 AND id IS NOT state)", "op & 15 = 1"),
		"request":  update("request = randomblob(16)", "1"),
		"key":      update("key = (SELECT max(key) FROM log l WHERE l.key <> log.key)", "1"),
		"bad key":  update("key = x'00'", "1"),
		"body":     update("body = CAST(body || 'x' AS BLOB)", "body NOT NULL AND op = 1"),
		"a byte":   update("body = CAST(substr(body, 1, length(body) - 1) || x'07' AS BLOB)", "length(body) > 1 AND op = 1"),
		"packed":   update("body = CAST(substr(body, 1, length(body) - 3) || x'070707' AS BLOB)", "op = 17"),
		"no body":  update("body = NULL", "body NOT NULL AND op = 1"),
		"a body":   update("body = x'00'", "op IN (2, 3)"),
		"revived":  update("body = x'00'", "op = 1 AND body IS NULL"),
		"deleted": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "1")
			meddle(t, path, "DELETE FROM log WHERE seq = ?", seq)
			return "deleted", uint64(seq)
		},
		"many deleted": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "1")
			meddle(t, path, "DELETE FROM log WHERE seq BETWEEN ? AND ?", seq, seq+r.Int64N(300))
			return "deleted", uint64(seq)
		},
		"truncated": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "1")
			meddle(t, path, "DELETE FROM log WHERE seq >= ?", seq)
			return "deleted", uint64(seq)
		},
		"swapped": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			a, b := at(t, path, r, last, "1"), at(t, path, r, last, "1")
			if a == b {
				return "", 0
			}
			for _, m := range [][2]int64{{a, -7}, {b, a}, {-7, b}} {
				meddle(t, path, "UPDATE log SET seq = ? WHERE seq = ?", m[1], m[0])
			}
			return fmt.Sprint("swapped ", a, b), uint64(min(a, b))
		},
		"shifted": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "1")
			meddle(t, path, "UPDATE log SET seq = -seq - 1 WHERE seq >= ?", seq)
			meddle(t, path, "UPDATE log SET seq = -seq WHERE seq < 0")
			meddle(t, path, `INSERT INTO log SELECT ?, at, space, actor, op, type, version, prev, state, request, key, body
				FROM log ORDER BY seq LIMIT 1`, seq)
			return "an entry put in", uint64(seq)
		},
		"appended": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			meddle(t, path, `INSERT INTO log SELECT seq + 1, at, space, actor, op, type, version + 1, seq, state, request, key, body
				FROM log ORDER BY seq DESC LIMIT 1`)
			return "an entry put behind", last + 1
		},
		"word": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "actor = (SELECT max(actor) FROM log) AND seq = (SELECT min(seq) FROM log WHERE actor = (SELECT max(actor) FROM log))")
			meddle(t, path, "UPDATE name SET text = CAST('mallory' AS BLOB) WHERE id = (SELECT actor FROM log WHERE seq = ?)", seq)
			return "an actor renamed", uint64(seq)
		},
		"scar": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "seq IN (SELECT seq FROM scar)")
			if seq > 0 {
				meddle(t, path, "UPDATE scar SET hash = randomblob(32) WHERE seq = ?", seq)
			}
			return "a kept hash", uint64(seq)
		},
		"tree": func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "prev > 0 AND seq IN (SELECT seq FROM tree)")
			meddle(t, path, "UPDATE tree SET seq = (SELECT prev FROM log WHERE seq = ?) WHERE seq = ?", seq, seq)
			return "the tree shows an older version", uint64(seq)
		},
	}
	seal := func(sql string) tampering {
		return func(t testing.TB, path string, r *rand.Rand, last uint64) (string, uint64) {
			seq := at(t, path, r, last, "1")
			first := (seq-1)/store.SealSize*store.SealSize + 1
			meddle(t, path, sql, first)
			return sql, uint64(first)
		}
	}
	out["seal's hash"] = seal("UPDATE seal SET hash = randomblob(32) WHERE first = ?")
	out["seal's tags"] = seal("UPDATE seal SET tags = randomblob(length(tags)) WHERE first = ?")
	out["seal cut"] = seal("UPDATE seal SET tags = CAST(substr(tags, 1, 7) AS BLOB) WHERE first = ?")
	out["seal deleted"] = seal("DELETE FROM seal WHERE first = ?")
	out["seal moved"] = seal("UPDATE seal SET first = first - 1 WHERE first = ?")
	out["salts"] = seal("UPDATE salt SET key = CAST(substr(key, 1, 2) || randomblob(16) AS BLOB) WHERE id = (SELECT salt FROM seal WHERE first = ?)")
	out["no salts"] = seal("UPDATE salt SET key = NULL WHERE id = (SELECT salt FROM seal WHERE first = ?)")
	return out
}

// Whatever is changed in the file, the first entry that is wrong is named, or
// the stretch of one seal that it lies in.
func TestTampering(t *testing.T) {
	t.Parallel()
	ways := tamperings()
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range ways {
			if !yield(n) {
				return
			}
		}
	})
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 1))
		path := dbPath(t)
		s := open1(t, path)
		last := randomLog(t, s, r, 20+r.IntN(350))
		head, err := s.Seal(t.Context())
		if err != nil || head.Seq != last {
			t.Fatalf("sealed %v of %d, %v", head, last, err)
		}
		close1(t, s)
		if v := verify(t, path, head); v.Flaw != nil || v.Head != head {
			t.Fatalf("seed %d: %+v %+v", seed, v, v.Flaw)
		}
		for _, name := range names {
			broken := dbPath(t)
			copyFile(t, path, broken)
			what, seq := ways[name](t, broken, r, last)
			if seq == 0 {
				continue
			}
			v := verify(t, broken)
			wantFlaw(t, v, name+" "+what, seq)
		}
	}
}

func wantFlaw(t testing.TB, v store.Verdict, what string, seq uint64) {
	t.Helper()
	f := v.Flaw
	switch {
	case f == nil:
		t.Errorf("%s at %d: not found", what, seq)
	case f.What == "":
		t.Errorf("%s at %d: nothing is said", what, seq)
	case f.Seq != seq && (f.Seq > seq || seq > f.Through || f.Through-f.Seq >= 2*store.SealSize):
		t.Errorf("%s at %d: found at %d-%d: %s", what, seq, f.Seq, f.Through, f.What)
	}
}

// Who makes a chain of his own is found by a head that was kept elsewhere.
func TestRewrittenChain(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	randomLog(t, s, rand.New(rand.NewPCG(1, 1)), 200)
	head := must(s.Seal(t.Context()))
	close1(t, s)
	meddle(t, path, "UPDATE log SET at = at + 1 WHERE seq = 9")
	meddle(t, path, "DELETE FROM seal")
	meddle(t, path, "DELETE FROM salt")
	meddle(t, path, "DELETE FROM scar")
	s = open1(t, path)
	again, err := s.Seal(t.Context())
	if err != nil || again.Seq != head.Seq || again.Hash == head.Hash {
		t.Fatalf("sealed again: %v, %v", again, err)
	}
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil {
		t.Fatalf("%+v, %v", v.Flaw, err)
	}
	if v, err := s.Verify(t.Context(), head); err != nil || v.Flaw == nil || v.Flaw.Through != head.Seq {
		t.Errorf("the anchor does not hold: %+v, %v", v.Flaw, err)
	}
}

// Seals that are missing at the end are more than a crash leaves open.
func TestSealsMissing(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	last := randomLog(t, s, rand.New(rand.NewPCG(2, 1)), 400)
	close1(t, s)
	meddle(t, path, "DELETE FROM seal WHERE first > 1")
	meddle(t, path, "DELETE FROM salt WHERE id NOT IN (SELECT salt FROM seal)")
	if v := verify(t, path); v.Flaw == nil || v.Flaw.Seq != store.SealSize+1 || v.Flaw.Through != last {
		t.Errorf("%+v %+v", v, v.Flaw)
	}
}

// A log with a hole is not sealed over, nor exported: it is told.
func TestHole(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	for i := range 20 {
		commit(t, s, put(conv(fmt.Sprint(i)), "x"))
	}
	close1(t, s)
	meddle(t, path, "DELETE FROM seal")
	meddle(t, path, "DELETE FROM log WHERE seq = 5")
	s = open1(t, path)
	if _, err := s.Seal(t.Context()); err == nil {
		t.Error("a log with a hole is sealed")
	} else {
		wantCode(t, err, "log_tampered")
	}
	commit(t, s, put(conv("more"), "y")) // life goes on
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw == nil || v.Flaw.Seq != 5 {
		t.Errorf("%+v, %v", v.Flaw, err)
	}
	close1(t, s)
	other := dbPath(t)
	s = open1(t, other)
	for i := range 20 {
		commit(t, s, put(conv(fmt.Sprint(i)), "x"))
	}
	close1(t, s)
	meddle(t, other, "UPDATE log SET at = 1 WHERE seq = 7")
	s = open1(t, other)
	n := 0
	for _, err := range s.Sealed(t.Context(), store.ForNode(resource.System), 0) {
		if err != nil {
			wantCode(t, err, "log_tampered")
			break
		}
		n++
	}
	if n != 6 {
		t.Errorf("%d entries are given before the wrong one", n)
	}
}
