package fts_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/killed"
)

// catchUpKilled brings the index up to date in a process that is killed.
func catchUpKilled(dir string, p *killed.Points) error {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "steward.db")})
	if err != nil {
		return err
	}
	x := fts.New(fts.Options{Path: filepath.Join(dir, "search.db"), Store: st, Log: slog.New(slog.DiscardHandler), Watch: p.Watch})
	return x.CatchUp(ctx)
}

// killedWorld is a store whose log has everything that the index reads: new, changed,
// deleted and erased messages, branches and conversations of two owners. The index holds
// the first half.
func killedWorld(t *testing.T) (dir string) {
	t.Helper()
	w := openWorld(t, t.TempDir())
	defer w.close()
	for half := range 2 {
		for n := range 4 {
			c := w.talk([]string{"ana", "ben"}[n%2], "x")
			var changes []store.Change
			for i := range 100 {
				words := fmt.Sprintf("Message %d of %d mentions the words%d, never the same.", i, n, i%50)
				changes = append(changes, c.change(&message.Message{Role: message.User, Blocks: text(words), At: w.now})) // many at one time
			}
			w.commit(c.Owner, changes...)
			var erased []store.Change
			for i := 0; i < 100; i += 9 {
				erased = append(erased, store.Change{Op: store.Erase, URI: changes[i].URI})
			}
			w.commit(c.Owner, erased...)
			w.commit(c.Owner, store.Change{URI: record.BranchURI(c.ID, record.MainBranch), Body: record.Encode(record.Branch{ID: record.MainBranch, Deleted: w.now})})
			if n == 3 { // the whole conversation
				erased = erased[:0]
				for i, ch := range changes {
					if i%9 != 0 {
						erased = append(erased, store.Change{Op: store.Erase, URI: ch.URI})
					}
				}
				w.commit(c.Owner, append(erased, store.Change{Op: store.Erase, URI: record.ConversationURI(c.ID)})...)
			}
		}
		if half == 0 {
			if err := w.index.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w.dir
}

// TestKilled kills the process at places all over the writing of a batch and of an erasure.
// Each time the index must agree with the store afterwards, and be the one that an
// undisturbed process makes.
func TestKilled(t *testing.T) {
	dir := killedWorld(t)
	file := filepath.Join(dir, "search.db")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, steps, err := killed.Run(dir, 0)
	if err != nil || steps < 500 {
		t.Fatalf("%d steps: %v", steps, err)
	}
	want := agreement(t, dir)
	for _, at := range killed.Places(steps) {
		if err := errors.Join(os.WriteFile(file, before, 0o600), os.RemoveAll(file+"-wal"), os.RemoveAll(file+"-shm")); err != nil {
			t.Fatal(err)
		}
		if was, _, err := killed.Run(dir, at); err != nil || !was {
			t.Fatalf("at step %d: killed %v, %v", at, was, err)
		}
		if got := agreement(t, dir); got != want {
			t.Errorf("killed at step %d: %+v, want %+v", at, got, want)
		}
	}
}

// agreement brings the index up to date, and compares it with the store.
func agreement(t *testing.T, dir string) search.Agreement {
	t.Helper()
	w := openWorld(t, dir)
	defer w.close()
	if err := w.index.CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := w.index.Verify(t.Context())
	if err != nil || a.Behind != 0 || !a.OK() || a.Texts == 0 {
		t.Errorf("%+v %v", a, err)
	}
	return a
}

// Verify finds what no crash leaves behind.
func TestVerifyFindsDifferences(t *testing.T) {
	for _, harm := range []string{
		"DELETE FROM doc_1 WHERE id = (SELECT min(id) FROM doc_1)",
		"DELETE FROM fts_1 WHERE rowid = (SELECT min(id) FROM doc_1)",
		"INSERT INTO fts_1 (rowid, facets, body, stem) VALUES ((SELECT min(id) FROM doc_1), 'c1 ruser', 'other words', 'other word')",
		"UPDATE doc_1 SET msg = randomblob(16) WHERE id = (SELECT min(id) FROM doc_1)",
	} {
		w := newWorld(t)
		c := w.talk("ana", "x")
		c.say("The words of one message.")
		c.say("What another one says, 日本語 and L'été too.")
		agreement := func() search.Agreement {
			a, err := w.index.Verify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if a := agreement(); a.Behind == 0 {
			t.Errorf("nothing is indexed yet: %+v", a)
		}
		if err := w.index.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := agreement(); !a.OK() || a.Texts != 2 || a.Behind != 0 {
			t.Errorf("%+v", a)
		}
		w.execute(harm)
		if a := agreement(); a.OK() {
			t.Errorf("%s is not found: %+v", harm, a)
		}
	}
}

// execute changes the index behind its back.
func (w *world) execute(query string) {
	w.t.Helper()
	c, err := zombie.OpenConn(w.path(), zombie.OpenReadWrite)
	if err == nil {
		err = errors.Join(sqlitex.ExecuteTransient(c, query, nil), c.Close())
	}
	if err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}
