package fts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tamper(t *testing.T, path, statement string) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	must(t, err)
	must(t, errors.Join(sqlitex.ExecuteScript(c, statement, nil), c.Close()))
}

// The file is removed or damaged while it is open.
func TestTheFileIsLostUnderOurHands(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "fruit")
	c.say("a medlar")
	w.expect("ana", "medlar", "a [medlar]")
	must(t, os.Remove(w.path()))
	c.say("two medlars, one medlar")
	w.expect("ana", "medlar", "two medlars, one [medlar]", "a [medlar]")
	if _, err := os.Stat(w.path()); err != nil {
		t.Error(err)
	}
	must(t, w.index.CatchUp(context.Background()))
	f, err := os.OpenFile(w.path(), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xee}, 20<<10), 0)
	must(t, errors.Join(err, f.Truncate(20<<10), f.Close(), os.Remove(w.path()+"-wal"), os.Remove(w.path()+"-shm")))
	c.say("three")
	w.expect("ana", "medlar", "two medlars, one [medlar]", "a [medlar]")
	w.expect("ana", "three", "[three]")
}

func TestWhereNoFileCanBe(t *testing.T) {
	w := newWorld(t)
	w.talk("ana", "x").say("a word")
	for _, path := range []string{filepath.Join(w.dir, "no", "such", "folder", "search.db"), w.dir} {
		ix := fts.New(fts.Options{Path: path, Store: w.store})
		_, err := ix.Search(context.Background(), store.ForUser("ana"), search.Query{Text: "word"})
		if !fault.HasCode(err, "search_unavailable") || fault.Of(err).Remedy == "" {
			t.Error(err)
		}
		must(t, ix.Close())
	}
	must(t, w.index.Close())
	if err := w.index.CatchUp(context.Background()); !fault.HasCode(err, "search_closed") {
		t.Error(err)
	}
	w.index = w.another(fts.Options{})
	w.expect("ana", "word", "a [word]")
	if s, err := os.Stat(w.path()); err != nil || runtime.GOOS != "windows" && s.Mode().Perm() != 0o600 {
		t.Error(s.Mode(), err)
	}
}

// Two indexes that share a file index nothing twice.
func TestTwoIndexesOverOneFile(t *testing.T) {
	w := newWorld(t)
	other := w.another(fts.Options{})
	c := w.talk("ana", "fruit")
	must(t, w.index.CatchUp(context.Background())) // makes the file
	var wg sync.WaitGroup
	for i := range 100 {
		c.say(fmt.Sprint("damson ", i))
		if i%10 == 0 {
			for _, ix := range []*fts.Index{w.index, other} {
				wg.Go(func() {
					page, err := ix.Search(context.Background(), store.ForUser("ana"), search.Query{Text: "damson", Limit: 100})
					if err != nil || len(page.Hits) < i+1 {
						t.Errorf("%d hits, %v", len(page.Hits), err)
					}
				})
			}
		}
	}
	wg.Wait()
	for _, ix := range []*fts.Index{w.index, other} {
		page, err := ix.Search(context.Background(), store.ForUser("ana"), search.Query{Text: "damson", Limit: 100})
		if err != nil || len(page.Hits) != 100 {
			t.Errorf("%d hits, %v", len(page.Hits), err)
		}
	}
	must(t, other.Close())
}

// bytesOf returns all that the index keeps on disk.
func (w *world) bytesOf(t *testing.T) []byte {
	t.Helper()
	var all []byte
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(w.path() + suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// docs counts the messages in an index file.
func docs(t *testing.T, path string) (n int) {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	must(t, err)
	err = sqlitex.ExecuteTransient(c, "SELECT count(*) FROM doc_1", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt(0)
		return nil
	}})
	must(t, errors.Join(err, c.Close()))
	return n
}
