package vector_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/search/vector"
	"steward/internal/store"
)

// A search of one owner reads no page that holds data of another: it still finds the same
// when all those pages have been overwritten.
func TestOwnersShareNoPages(t *testing.T) {
	t.Parallel()
	d := &double{name: "test/e", dims: 64}
	opt := vector.Options{Model: only(d)}
	w := newWorld(t, opt)
	a, b := w.talk("ana", "x"), w.talk("ben", "y")
	for i := range 300 {
		a.say(fmt.Sprintf("hers has the number%d", i))
		b.say(fmt.Sprintf("his has the number%d", i))
	}
	w.catchUp()
	w.expect("ana", "number77", "hers has the number77")
	w.expect("ben", "number77", "his has the number77")
	must(t, w.index.Close())

	others := pagesOf(t, w.path(), "user:ben")
	if len(others) < 20 {
		t.Fatalf("%d pages are of ben", len(others))
	}
	f, err := os.OpenFile(w.path(), os.O_RDWR, 0)
	must(t, err)
	for _, page := range others {
		_, err := f.WriteAt(slices.Repeat([]byte{0xa5}, 4096), (page-1)*4096)
		must(t, err)
	}
	must(t, f.Close())

	w.index = w.open(opt)
	find := func(user string) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got, err := w.index.NearestNow(ctx, store.ForUser(user), vector.Query{Text: "number77", Limit: 1})
		if err != nil || len(got.Matches) == 0 {
			return "", err
		}
		return got.Matches[0].URI.String(), nil
	}
	if got, err := find("ana"); err != nil || got == "" {
		t.Errorf("ana finds %q: %v", got, err)
	}
	if got, err := find("ben"); err == nil && got != "" {
		t.Errorf("ben finds %q: the test overwrites the wrong pages", got)
	}
}

// pagesOf returns the numbers of the pages of all tables of a space.
func pagesOf(t *testing.T, path, space string) (pages []int64) {
	t.Helper()
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	must(t, err)
	defer func() { must(t, c.Close()) }()
	column := func(query string, args ...any) (out []string) {
		must(t, sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
			out = append(out, s.ColumnText(0))
			return nil
		}}))
		return out
	}
	column("PRAGMA wal_checkpoint(TRUNCATE)")
	if size := column("PRAGMA page_size"); size[0] != "4096" {
		t.Fatalf("the page size is %s", size)
	}
	id := column("SELECT id FROM space WHERE name = ?", space)[0]
	ends := []string{"conv_" + id, "doc_" + id, "doc_msg_" + id}
	for _, p := range column("SELECT id FROM part WHERE space = ?", id) {
		ends = append(ends, "code_"+p, "code_doc_"+p, "code_hash_"+p, "vec_"+p, "held_"+p)
	}
	for _, name := range column("SELECT name FROM sqlite_schema") {
		if !slices.Contains(ends, name) && !strings.HasPrefix(name, "sqlite_autoindex_conv_"+id) {
			continue
		}
		must(t, sqlitex.Execute(c, "SELECT pageno FROM dbstat WHERE name = ?", &sqlitex.ExecOptions{Args: []any{name}, ResultFunc: func(s *sqlite.Stmt) error {
			pages = append(pages, s.ColumnInt64(0))
			return nil
		}}))
	}
	return pages
}

// The file may be removed, overwritten or of another version or log: it is made anew.
func TestTheFileIsMadeAnew(t *testing.T) {
	t.Parallel()
	tamper := func(text string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
			must(t, err)
			must(t, sqlitex.ExecuteTransient(c, text, nil))
			must(t, c.Close())
		}
	}
	for name, spoil := range map[string]func(*testing.T, string){
		"removed":            func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"empty":              func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"no database":        func(t *testing.T, path string) { must(t, os.WriteFile(path, make([]byte, 9000), 0o600)) },
		"of another version": tamper("PRAGMA user_version = 99"),
		"of another log":     tamper("UPDATE state SET key = x'00'"),
		"ahead of the log":   tamper("UPDATE state SET seq = 1000000"),
		"with a bad cursor":  tamper("UPDATE state SET cursor = 'bad'"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vector.Options{})
			c := w.talk("ana", "fruit")
			for i := range 20 {
				c.say(fmt.Sprintf("the fruit of number%d", i))
			}
			w.expect("ana", "number7", "the fruit of number7")
			must(t, w.index.Close())
			spoil(t, w.path())
			w.index = w.open(vector.Options{})
			w.expect("ana", "number9", "the fruit of number9")
			if n := w.census()[0]; n.Vectors != 20 {
				t.Errorf("%+v", n)
			}
		})
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vector.Options{})
	must(t, w.index.Close())
	if err := w.index.CatchUp(t.Context()); !fault.HasCode(err, "search_closed") {
		t.Error(err)
	}
}
