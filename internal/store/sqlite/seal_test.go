package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
	"pgregory.net/rapid"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// What is derived from punctured salts is what was derived before, without
// those that were forgotten; and its stored form is the same.
func TestSalts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSalts()
		want := *s.leaves()
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, store.SealSize-1), 0, 40).Draw(t, "forgotten") {
			s = s.without(i)
			want[i] = nil
		}
		again, err := decodeSalts(s.encode())
		if err != nil {
			t.Fatal(err)
		}
		got := again.leaves()
		for i, w := range want {
			if (got[i] == nil) != (w == nil) || w != nil && *got[i] != *w {
				t.Fatalf("salt %d is %v, was %v", i, got[i], w)
			}
		}
	})
}

func TestAllSaltsForgotten(t *testing.T) {
	s := newSalts()
	for i := range store.SealSize {
		s = s.without(i)
	}
	if len(s) != 0 || *s.leaves() != [store.SealSize]*store.Salt{} {
		t.Errorf("%d nodes are left", len(s))
	}
}

func FuzzSalts(f *testing.F) {
	f.Add([]byte{})
	f.Add(newSalts().encode())
	f.Add(newSalts().without(7).encode())
	f.Add(make([]byte, 18))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decodeSalts(b)
		if err != nil {
			return
		}
		s.leaves()
		if again := s.encode(); !bytes.Equal(again, b) {
			t.Errorf("%x becomes %x", b, again)
		}
	})
}

// written fills a store with a random log: several people, states, deletions,
// erasures, packed bodies. It returns the number of entries.
func randomLog(t testing.TB, s *Store, r *rand.Rand, batches int) uint64 {
	t.Helper()
	last := uint64(0)
	for range batches {
		sc := []store.Scope{store.ForUser("ada"), store.ForUser("bob"), store.ForNode(resource.System)}[r.IntN(3)]
		b := store.Batch{Request: id.New()}
		if r.IntN(3) == 0 {
			b.Request = id.ID{}
		}
		for range 1 + r.IntN(4) {
			u := conv(string(sc.Write)).Child("common.Message", fmt.Sprint(r.IntN(60)))
			c := store.Change{URI: u, Body: bytes.Repeat([]byte(fmt.Sprint(r.IntN(1000), " ")), r.IntN(60)), State: []string{"", "", "open", "done"}[r.IntN(4)]}
			switch n := r.IntN(20); {
			case n == 0:
				c = store.Change{Op: store.Delete, URI: u}
			case n == 1:
				c = store.Change{Op: store.Erase, URI: u}
			case n == 2:
				c = store.Change{Op: store.Pack, URI: u}
			}
			b.Changes = append(b.Changes, c)
		}
		got, err := s.Commit(t.Context(), sc, b)
		if err == nil { // else something was not there to be deleted
			last = got.Seq
		}
	}
	return last
}

// meddle changes a database behind Steward's back.
func meddle(t testing.TB, path string, sql string, args ...any) {
	t.Helper()
	c, err := openConn(path, sqlite3.SQLITE_OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	st, err := c.prepare(sql)
	if err == nil {
		err = st.args(args).run()
	}
	if err == nil && sqlite3.Xsqlite3_changes(c.tls, c.db) == 0 {
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
	v, err := s.Verify(t.Context(), anchors...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// tampering is a way to change the log behind Steward's back. It returns what
// was done, and the entry that is wrong then; 0: it could not be done here.
type tampering func(t testing.TB, path string, r *rand.Rand, last uint64) (what string, seq uint64)

// at picks an entry of which a condition holds.
func at(t testing.TB, path string, r *rand.Rand, last uint64, cond string) int64 {
	t.Helper()
	c, err := openConn(path, sqlite3.SQLITE_OPEN_READONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	from := 1 + r.Int64N(int64(last))
	for _, sql := range []string{"SELECT min(seq) FROM log WHERE seq >= ? AND ", "SELECT max(seq) FROM log WHERE seq < ? AND "} {
		st, err := c.prepare(sql + cond)
		if err != nil {
			t.Fatal(err)
		}
		n, err := st.argInt(from).numbers(nil)
		if err != nil {
			t.Fatal(err)
		}
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
	ways := tamperings()
	names := slices.Sorted(func(yield func(string) bool) {
		for n := range ways {
			if !yield(n) {
				return
			}
		}
	})
	for seed := range uint64(6) {
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
	head, err := s.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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

// The salts of what is erased are nowhere in the files any more, and those of
// the others can be derived.
func TestErasedSaltsAreGone(t *testing.T) {
	s := open1(t, dbPath(t))
	for i := range 600 {
		commit(t, s, put(conv(fmt.Sprint(i)), "x"))
	}
	if _, err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	proofs := func() (out []store.Sealed) {
		for p, err := range s.Sealed(t.Context(), ada, 0) {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, p)
		}
		return out
	}
	before := proofs()
	keys := func() (out [][]byte) {
		c, err := s.openReader()
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		st, err := c.prepare("SELECT key FROM salt WHERE key NOT NULL ORDER BY id")
		if err != nil {
			t.Fatal(err)
		}
		defer st.reset()
		for {
			ok, err := st.step()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return out
			}
			out = append(out, bytes.Clone(st.view(0)))
		}
	}
	was := keys()
	if len(was) != 3 {
		t.Fatalf("%d seals", len(was))
	}
	for round, i := range []int{3, 4, 300, 3 + 256, 599, 0} {
		commit(t, s, store.Change{Op: store.Erase, URI: conv(fmt.Sprint(i))})
		all := files(t, s)
		root := was[i/256]
		if bytes.Contains(all, root[2:]) {
			t.Fatalf("round %d: what the salt was derived from is there still", round)
		}
		p := proofs()
		if p[i].Salt != nil || p[i].Mark != before[i].Mark || p[i].Body != nil {
			t.Errorf("entry %d: %+v", i, p[i])
		}
		if p[(i+1)%600].Salt == nil && !slices.Contains([]int{3, 4, 300, 259, 599, 0}, (i+1)%600) {
			t.Errorf("entry %d has lost its salt", i+1)
		}
	}
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil || v.Erased != 6 {
		t.Errorf("%+v %+v, %v", v, v.Flaw, err)
	}
}

// The log of an older Steward is sealed in the background once it is opened;
// what was erased before that is no flaw.
func TestOldLogIsSealed(t *testing.T) {
	steps, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	path := dbPath(t)
	old, err := open(t.Context(), Options{Path: path}, steps[:2])
	if err != nil {
		t.Fatal(err)
	}
	last := randomLog(t, old, rand.New(rand.NewPCG(3, 1)), 2500)
	close1(t, old)
	s := open1(t, path)
	more := randomLog(t, s, rand.New(rand.NewPCG(4, 1)), 20)
	head, err := s.Seal(t.Context())
	if err != nil || head.Seq != more || more <= last {
		t.Fatalf("sealed to %d of %d and %d, %v", head.Seq, last, more, err)
	}
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil || v.Erased == 0 {
		t.Errorf("%+v %+v, %v", v, v.Flaw, err)
	}
}

// What is committed is sealed by itself when nothing comes for a while, and
// by Close.
func TestSealsWhenQuiet(t *testing.T) {
	path := dbPath(t)
	synctest.Test(t, func(t *testing.T) {
		s := open1(t, path)
		commit(t, s, put(conv("a"), "x"))
		commit(t, s, put(conv("b"), "x"))
		time.Sleep(2 * sealEvery)
		synctest.Wait()
		if h, err := s.sealHead(t.Context()); err != nil || h.Seq != 2 {
			t.Errorf("sealed to %d, %v", h.Seq, err)
		}
		commit(t, s, put(conv("c"), "x"))
		commit(t, s, put(conv("d"), "x"))
		close1(t, s)
	})
	if v := verify(t, path); v.Flaw != nil || v.Open != 0 || v.Head.Seq != 4 {
		t.Errorf("%+v", v)
	}
}

// A process that is killed between a commit and its seal leaves nothing that
// does not verify, and the next one seals it.
func TestKilledBeforeTheSeal(t *testing.T) {
	path := dbPath(t)
	cmd := child(t, "hold", path)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "open\n" {
		t.Fatalf("the child says %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}
	if v := verify(t, path); v.Flaw != nil || v.Last != 2 {
		t.Errorf("%+v %+v", v, v.Flaw)
	}
	s := open1(t, path)
	if h, err := s.Seal(t.Context()); err != nil || h.Seq != 2 {
		t.Errorf("sealed to %d, %v", h.Seq, err)
	}
}

// A failed transaction leaves no seal, and costs none.
func TestSealAfterAFailure(t *testing.T) {
	s := open1(t, dbPath(t))
	commit(t, s, put(conv("a"), "x"))
	head, err := s.Seal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writer.c.exec(`CREATE TEMP TRIGGER breaks BEFORE INSERT ON log WHEN new.seq = 4 BEGIN SELECT raise(FAIL, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), ada, store.Batch{Changes: []store.Change{put(conv("b"), "x"), put(conv("c"), "x"), put(conv("d"), "x")}}); err == nil {
		t.Fatal("the trigger does nothing")
	}
	if err := s.writer.c.exec("DROP TRIGGER breaks"); err != nil {
		t.Fatal(err)
	}
	commit(t, s, put(conv("b"), "y"), store.Change{Op: store.Erase, URI: conv("a")})
	next, err := s.Seal(t.Context())
	if err != nil || next.Seq != 3 {
		t.Fatalf("%v, %v", next, err)
	}
	if v, err := s.Verify(t.Context(), head, next); err != nil || v.Flaw != nil {
		t.Errorf("%+v, %v", v.Flaw, err)
	}
}

// What the store is told to hide is hidden before it is written, and the
// caller's batch is left alone.
func TestMaskedWrites(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: dbPath(t), Mask: func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("hunter22"), []byte("***")) }})
	if err != nil {
		t.Fatal(err)
	}
	defer close1(t, s)
	changes := []store.Change{put(conv("a"), "nothing"), put(conv("b"), "it is hunter22"), {Op: store.Check, URI: conv("a")}}
	commit(t, s, changes...)
	if string(changes[1].Body) != "it is hunter22" {
		t.Error("the caller's change was changed")
	}
	for id, want := range map[string]string{"a": "nothing", "b": "it is ***"} {
		if r, err := s.Get(t.Context(), ada, conv(id)); err != nil || string(r.Body) != want {
			t.Errorf("%s is %q, %v", id, r.Body, err)
		}
	}
	if bytes.Contains(files(t, s), []byte("hunter22")) {
		t.Error("the secret is in the files")
	}
	if _, err := s.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil {
		t.Errorf("%+v, %v", v.Flaw, err)
	}
}

// An erasure in the group that fills a seal, of what is under that seal.
func TestEraseWhileTheSealFills(t *testing.T) {
	for _, late := range [][]string{nil, {"8", "more19"}} {
		s := open1(t, dbPath(t))
		for i := range 250 {
			commit(t, s, put(conv(fmt.Sprint(i)), "x"))
		}
		changes := []store.Change{{Op: store.Erase, URI: conv("7")}, put(conv("8"), "y")}
		for i := range 20 {
			changes = append(changes, put(conv(fmt.Sprint("more", i)), "z"))
		}
		gone := map[uint64]bool{8: true}
		for _, name := range late {
			changes = append(changes, store.Change{Op: store.Erase, URI: conv(name)})
			gone[9], gone[252], gone[272] = true, true, true
		}
		commit(t, s, changes...)
		if _, err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if v, err := s.Verify(t.Context()); err != nil || v.Flaw != nil || v.Erased != uint64(len(gone)) {
			t.Errorf("%+v %+v, %v", v, v.Flaw, err)
		}
		for p, err := range s.Sealed(t.Context(), ada, 0) {
			if err != nil || (p.Salt == nil) != gone[p.Seq] {
				t.Errorf("entry %d: salt %v, %v", p.Seq, p.Salt, err)
			}
		}
	}
}
