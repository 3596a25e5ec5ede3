package sqlite

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

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
	out := must(cmd.StdoutPipe())
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
	head := must(s.Seal(t.Context()))
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
