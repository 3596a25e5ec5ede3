package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"steward/internal/fault"
	"steward/internal/store"
)

// fill commits until the disk is full and returns how many batches were
// acknowledged.
func fill(t *testing.T, s *Store, from int) int {
	t.Helper()
	body := bytes.Repeat([]byte("x"), 5000)
	for n := from; ; n++ {
		_, err := s.Commit(t.Context(), ada, batch(
			store.Change{URI: conv(strconv.Itoa(n)), Body: body, State: "s", Place: &store.Place{List: conv("list"), Pos: int64(n)}},
			put(conv("count"), strconv.Itoa(n))))
		if err != nil {
			wantCode(t, err, "disk_full")
			if fault.Of(err).Kind != fault.NoSpace || !fault.Of(err).Recoverable() {
				t.Errorf("the kind is %s, recoverable %v", fault.Of(err).Kind, fault.Of(err).Recoverable())
			}
			return n
		}
		if n > from+10000 {
			t.Fatal("the disk does not fill")
		}
	}
}

// wantAll wants the batches up to n, and nothing of later ones.
func wantAll(t *testing.T, s *Store, n int) {
	t.Helper()
	if got, err := s.Get(t.Context(), ada, conv("count")); err != nil || string(got.Body) != strconv.Itoa(n-1) {
		t.Errorf("%d batches were acknowledged; the last is %q, %v", n, got.Body, err)
	}
	i := 0
	for it, err := range store.Items(t.Context(), s, ada, store.Query{List: conv("list")}) {
		if err != nil || it.URI != conv(strconv.Itoa(i)) || len(it.Body) != 5000 {
			t.Fatalf("member %d: %v, %v", i, it.URI, err)
		}
		i++
	}
	if i != n {
		t.Errorf("%d batches were acknowledged, %d are there", n, i)
	}
	if log, _ := contents(t, s); len(log) != 2*n || n > 0 && log[2*n-1].Seq != uint64(2*n) {
		t.Errorf("%d entries for %d batches", len(log), n)
	}
}

func TestDatabaseFull(t *testing.T) {
	path := dbPath(t)
	s := open1(t, path)
	limit := func(pages int) {
		t.Helper()
		if err := s.writer.c.exec(fmt.Sprint("PRAGMA max_page_count=", pages)); err != nil {
			t.Fatal(err)
		}
	}
	limit(50)
	n := fill(t, s, 0)
	if n == 0 || fill(t, s, n) != n {
		t.Errorf("full after %d", n)
	}
	wantAll(t, s, n)
	// One that is too big does not keep a small one of its group out.
	jobs := group(s, ada, batch(put(conv("big"), string(make([]byte, 100000)))), batch(store.Change{Op: store.Unlist, URI: conv("0"), Place: &store.Place{List: conv("x")}}))
	wantCode(t, jobs[0].err, "disk_full")
	if jobs[1].err != nil {
		t.Errorf("the small one: %v", jobs[1].err)
	}
	limit(100)
	more := fill(t, s, n)
	if more <= n {
		t.Errorf("with more room: %d after %d", more, n)
	}
	wantAll(t, s, more)
	close1(t, s)
	wantAll(t, open1(t, path), more)
}

// The same on a file system that is full.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	err := unix.Mount("steward-test", dir, "tmpfs", 0, "size=2m")
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Logf("no file system can be mounted here (%v); TestDatabaseFull stands for it", err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "steward.db")
	s := open1(t, path)
	n := fill(t, s, 0)
	wantAll(t, s, n)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	more := fill(t, s, n)
	if n == 0 || more <= n {
		t.Errorf("full after %d, with more room after %d", n, more)
	}
	wantAll(t, s, more)
	close1(t, s)
	s = open1(t, path)
	wantAll(t, s, more)
	close1(t, s)
	// Too full to open, and then not any more.
	rest := filepath.Join(dir, "rest")
	f := must(os.Create(rest))
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) || f.Close() != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), Options{Path: path}); err == nil {
		close1(t, s)
	} else {
		wantCode(t, err, "disk_full")
	}
	if err := os.Remove(rest); err != nil {
		t.Fatal(err)
	}
	wantAll(t, open1(t, path), more)
}
