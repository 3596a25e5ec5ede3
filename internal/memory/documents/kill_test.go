package documents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/extract"
	"steward/internal/search"
	"steward/internal/store/sqlite"
	"steward/test/killed"
)

// syncKilled brings the index up to date in a process that is killed.
func syncKilled(dir string, p *killed.Points) error {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "steward.db")})
	if err != nil {
		return err
	}
	e := New(Options{Store: st, Path: filepath.Join(dir, "documents.db")})
	e.index.watch = p.Watch
	for _, user := range []string{"ann", "bob"} {
		if err := e.index.sync(ctx, user); err != nil {
			return err
		}
	}
	return e.Forgotten(ctx)
}

// TestKilled kills the process at places all over indexing new, changed and removed documents of two owners. Each
// time the index must agree with the store afterwards.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.dir, "documents.db")
	text := func(n int) string {
		return strings.Repeat(fmt.Sprintf("# Part\n\nDocument %d has words%d.\n\n", n, n), 1+n%3)
	}
	for n := range 6 {
		w.add([]string{"ann", "bob"}[n%2], fmt.Sprintf("/d/%d.md", n), text(n))
	}
	w.finds("ann", "words4", "4.md:3", "4.md:7")
	w.finds("bob", "words5", "5.md:3", "5.md:7", "5.md:11")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w.open(w.opt.Reader)
	w.add("ann", "/d/0.md", text(7))
	w.add("bob", "/d/7.md", text(8))
	w.add("bob", "/d/empty.md", " ") // it is refused
	if _, err := w.Remove(t.Context(), "ann", "/d/2.md"); err != nil {
		t.Fatal(err)
	}
	for n := range 3 { // bob keeps two
		if _, err := w.Remove(t.Context(), "bob", fmt.Sprintf("/d/%d.md", 2*n+1)); err != nil {
			t.Fatal(err)
		}
	}
	want := w.agreement()
	if want.Texts != 4 {
		t.Fatalf("%+v", want)
	}
	close := func() {
		if err := errors.Join(w.Close(), w.st.Close()); err != nil { // one process at a time has the store
			t.Fatal(err)
		}
	}
	open := func() {
		st, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(w.dir, "steward.db")})
		if err != nil {
			t.Fatal(err)
		}
		w.st = st
		w.open(extract.Reader{})
	}
	reset := func() {
		if err := errors.Join(os.WriteFile(file, before, 0o600), os.RemoveAll(file+"-wal"), os.RemoveAll(file+"-shm")); err != nil {
			t.Fatal(err)
		}
	}
	close()
	reset()
	_, steps, err := killed.Run(w.dir, 0)
	if err != nil || steps < 50 {
		t.Fatalf("%d steps: %v", steps, err)
	}
	for _, at := range killed.Places(steps) {
		reset()
		if was, _, err := killed.Run(w.dir, at); err != nil || !was {
			t.Fatalf("at step %d: killed %v, %v", at, was, err)
		}
		open()
		if got := w.agreement(); got != want {
			t.Errorf("killed at step %d: %+v, want %+v", at, got, want)
		}
		close()
	}
	open()
}

// agreement brings the index up to date, and compares it with the store.
func (w *world) agreement() search.Agreement {
	w.t.Helper()
	for _, user := range []string{"ann", "bob"} {
		if err := w.index.sync(w.t.Context(), user); err != nil {
			w.t.Fatal(err)
		}
	}
	a, err := w.Verify(w.t.Context())
	if err != nil || a.Behind != 0 || !a.OK() || a.Texts == 0 {
		w.t.Errorf("%+v %v", a, err)
	}
	return a
}

// Verify finds what no crash leaves behind.
func TestVerifyFindsDifferences(t *testing.T) {
	for _, harm := range []string{
		"DELETE FROM doc_1 WHERE id = 1",
		"DELETE FROM fts_1 WHERE rowid = 65536",
		"INSERT INTO fts_1 (rowid, title, body) VALUES (99 << 16, 'x', 'y')",
		"UPDATE doc_1 SET version = 99",
	} {
		w := newWorld(t)
		w.add("ann", "/d/a.md", "A walrus, 日本語 and L'été.")
		if a, err := w.Verify(t.Context()); err != nil || !a.OK() || a.Texts != 0 {
			t.Errorf("there is no index yet: %+v %v", a, err)
		}
		if a := w.agreement(); a.Texts != 1 {
			t.Errorf("%+v", a)
		}
		if err := rows(w.index.conn, harm, nil); err != nil {
			t.Fatal(err)
		}
		if a, err := w.Verify(t.Context()); err != nil || a.OK() && a.Behind == 0 {
			t.Errorf("%s is not found: %+v %v", harm, a, err)
		}
	}
}
