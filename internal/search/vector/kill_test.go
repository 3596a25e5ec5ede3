package vector_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/search/vector"
	"steward/internal/store"
	"steward/internal/store/sqlite"
	"steward/test/killed"
)

// builtKilled brings the index up to date in a process that is killed, also before and
// after requests to a model. The model is another one than that of killedWorld.
func builtKilled(dir string, p *killed.Points) error {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "steward.db")})
	if err != nil {
		return err
	}
	before, now := oldDouble(), newDouble()
	here := func([]string) error { p.Here(); return nil }
	before.fail, now.fail = here, here
	x := vector.New(vector.Options{Path: filepath.Join(dir, "vectors.db"), Store: st, Model: only(now, before), Log: slog.New(slog.DiscardHandler), Watch: p.Watch})
	if err := x.CatchUp(ctx); err != nil {
		return err
	}
	return x.Embed(ctx)
}

func oldDouble() *double { return &double{name: "test/old", dims: 64} }
func newDouble() *double { return &double{name: "test/new", dims: 32} }

// killedWorld is a store with messages of two owners, some of them erased. The index has
// half of them, by the old model.
func killedWorld(t *testing.T) (dir string) {
	t.Helper()
	w := openWorld(t, t.TempDir(), vector.Options{Model: only(oldDouble())})
	defer w.close()
	for half := range 2 {
		for n := range 2 {
			c := w.talk([]string{"ana", "ben"}[n], "x")
			var changes, erased []store.Change
			for i := range 150 {
				changes = append(changes, c.change(userSays(fmt.Sprintf("message %d of %d and word%d", i, n, i%50))))
			}
			for i := 0; i < 150; i += 7 {
				erased = append(erased, store.Change{Op: store.Erase, URI: changes[i].URI})
			}
			w.commit(c.Owner, changes...)
			if half == 0 {
				w.catchUp()
			}
			w.commit(c.Owner, erased...)
		}
	}
	return w.dir
}

// TestKilled kills the process at places all over reading the log, embedding with both
// models, and putting the new one in the place of the old. Each time the index must agree
// with the store afterwards, and be the one that an undisturbed process builds.
func TestKilled(t *testing.T) {
	dir := killedWorld(t)
	file := filepath.Join(dir, "vectors.db")
	before, err := os.ReadFile(file)
	must(t, err)
	_, steps, err := killed.Run(dir, 0)
	if err != nil || steps < 500 {
		t.Fatalf("%d steps: %v", steps, err)
	}
	want := builtAgain(t, dir)
	if len(want) != 2 || want[0].Messages != 256 || want[0].Vectors != 256 || want[0].Model != "test/new" {
		t.Fatalf("%+v", want)
	}
	for _, at := range killed.Places(steps) {
		must(t, errors.Join(os.WriteFile(file, before, 0o600), os.RemoveAll(file+"-wal"), os.RemoveAll(file+"-shm")))
		if was, _, err := killed.Run(dir, at); err != nil || !was {
			t.Fatalf("at step %d: killed %v, %v", at, was, err)
		}
		if got := builtAgain(t, dir); !reflect.DeepEqual(got, want) {
			t.Errorf("killed at step %d: %+v, want %+v", at, got, want)
		}
	}
}

// builtAgain brings the index up to date, and compares it with the store.
func builtAgain(t *testing.T, dir string) []vector.Census {
	t.Helper()
	w := openWorld(t, dir, vector.Options{Model: only(newDouble(), oldDouble()), Log: slog.New(slog.DiscardHandler)})
	defer w.close()
	w.catchUp()
	a, err := w.index.Verify(t.Context())
	if err != nil || a.Behind != 0 || !a.OK() || a.Texts == 0 {
		t.Errorf("%+v %v", a, err)
	}
	return w.census()
}

// Verify finds what no crash leaves behind.
func TestVerifyFindsDifferences(t *testing.T) {
	for _, harm := range []string{
		"DELETE FROM doc_1 WHERE id = 1",
		"DELETE FROM code_1 WHERE id = 1",
		"DELETE FROM vec_1 WHERE id = 1",
		"UPDATE code_1 SET hash = randomblob(32) WHERE id = 1",
		"UPDATE code_1 SET doc = 2 WHERE id = 1",
	} {
		w := newWorld(t, vector.Options{Model: only(newDouble())})
		c := w.talk("ana", "x")
		c.say("one message")
		c.say("another one")
		if a, err := w.index.Verify(t.Context()); err != nil || a.Behind == 0 {
			t.Errorf("nothing is noted yet: %+v %v", a, err)
		}
		must(t, w.index.CatchUp(t.Context()))
		if a, err := w.index.Verify(t.Context()); err != nil || !a.OK() || a.Texts != 2 {
			t.Errorf("nothing is embedded yet: %+v %v", a, err)
		}
		w.catchUp()
		if a, err := w.index.Verify(t.Context()); err != nil || !a.OK() || a.Indexed.Count != 4 {
			t.Errorf("%+v %v", a, err)
		}
		conn, err := zombie.OpenConn(w.path(), zombie.OpenReadWrite)
		must(t, err)
		must(t, errors.Join(sqlitex.ExecuteTransient(conn, harm, nil), conn.Close()))
		if a, err := w.index.Verify(t.Context()); err != nil || a.OK() {
			t.Errorf("%s is not found: %+v %v", harm, a, err)
		}
	}
}
