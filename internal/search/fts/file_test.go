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
	"strings"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
)

// The file may be removed, truncated, overwritten or replaced by another version at
// any time: searches still find the same, and a message is logged.
func TestTheFileIsMadeAnew(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"empty":   func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"cut":     func(t *testing.T, path string) { must(t, os.Truncate(path, 5000)) },
		"no database": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, bytes.Repeat([]byte("no database "), 1000), 0o600))
		},
		"overwritten": func(t *testing.T, path string) {
			b, err := os.ReadFile(path)
			must(t, err)
			for i := 4096; i < len(b); i++ {
				b[i] ^= 0x5a
			}
			must(t, os.WriteFile(path, b, 0o600))
		},
		"of another version": func(t *testing.T, path string) { tamper(t, path, "PRAGMA user_version = 99") },
		"of another program": func(t *testing.T, path string) { tamper(t, path, "PRAGMA user_version = 0") },
		"of another log":     func(t *testing.T, path string) { tamper(t, path, "UPDATE state SET key = x'00'") },
		"ahead of the log":   func(t *testing.T, path string) { tamper(t, path, "UPDATE state SET seq = 1000000") },
		"with a bad cursor":  func(t *testing.T, path string) { tamper(t, path, "UPDATE state SET cursor = 'bad'") },
		"without a table":    func(t *testing.T, path string) { tamper(t, path, "DROP TABLE doc") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.talk("ana", "fruit")
			for i := range 50 {
				c.say(fmt.Sprintf("a quince of number %d", i))
			}
			w.expect("ana", "quince 49", "a [quince] of number [49]")
			must(t, w.index.Close())
			spoil(t, w.path())
			w.index = w.another(fts.Options{})
			w.expect("ana", "quince 7", "a [quince] of number [7]")
			if told := strings.Contains(w.log.String(), "is rebuilt"); told == (name == "removed" || name == "empty") {
				t.Errorf("the log says %q", w.log.String())
			}
			c.say("a quince more")
			w.expect("ana", "more", "a quince [more]")
		})
	}
}

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
	must(t, w.index.Catch(context.Background()))
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
	if err := w.index.Catch(context.Background()); !fault.HasCode(err, "search_closed") {
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
	must(t, w.index.Catch(context.Background())) // makes the file
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

// Once Catch has returned, the file contains no byte of erased text.
func TestErasedForGood(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		w := newWorld(t)
		c, d := w.talk("ana", "kept"), w.talk("ana", "erased")
		for i := range 2000 {
			c.say(fmt.Sprintf("common words and word%d", i))
			if i%100 == 0 {
				must(t, w.index.Catch(context.Background())) // creates and merges many segments
			}
		}
		secret := d.say("the xylophonequartet plays")
		w.expect("ana", "xylophonequartet", "the [xylophonequartet] plays")
		for i := range 500 {
			c.say(fmt.Sprintf("more words and word%d", i))
		}
		must(t, w.index.Catch(context.Background()))
		if !bytes.Contains(w.bytesOf(t), []byte("xylophonequ")) {
			t.Fatal("the test looks for what is never there")
		}
		if whole {
			w.commit("ana", store.Change{Op: store.Erase, URI: record.ConversationURI(d.ID)})
		} else {
			w.commit("ana", store.Change{Op: store.Erase, URI: d.uri(secret)})
		}
		w.expect("ana", "xylophonequartet") // does not wait for expunging
		must(t, w.index.Catch(context.Background()))
		if at := bytes.Index(w.bytesOf(t), []byte("phonequ")); at >= 0 {
			t.Errorf("whole %v: it is still there at byte %d", whole, at)
		}
		w.expect("ana", "word7", "common words and [word7]"[:0]+"more words and [word7]", "common words and [word7]")
		must(t, w.index.Close())
		must(t, os.Remove(w.path()))
		w.index = w.another(fts.Options{})
		w.expect("ana", "xylophonequartet")
		w.expect("ana", "word1999", "common words and [word1999]")
	}
}

// docs counts the messages in an index file.
func docs(t *testing.T, path string) (n int) {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	must(t, err)
	err = sqlitex.ExecuteTransient(c, "SELECT count(*) FROM doc", &sqlitex.ExecOptions{ResultFunc: func(s *sqlite.Stmt) error {
		n = s.ColumnInt(0)
		return nil
	}})
	must(t, errors.Join(err, c.Close()))
	return n
}
