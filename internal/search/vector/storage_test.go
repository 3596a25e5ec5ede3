package vector_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/search/fts"
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
	poison(t, w.path(), others)

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

// A hybrid search reads no page of either file that holds data of another owner.
func TestHybridOwnersShareNoPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vector.Options{})
	h := w.hybrid(t)
	a, b := w.talk("ana", "x"), w.talk("ben", "y")
	for i := range 600 {
		a.say(fmt.Sprintf("hers has the number%d", i))
		b.say(fmt.Sprintf("his has the number%d", i))
	}
	must(t, h.Text.CatchUp(t.Context()))
	w.catchUp()
	must(t, h.Text.(*fts.Index).Close())
	must(t, w.index.Close())
	for _, path := range []string{w.path(), w.wordsPath()} {
		others := pagesOf(t, path, "user:ben")
		if len(others) < 20 {
			t.Fatalf("%d pages of %s are of ben", len(others), path)
		}
		poison(t, path, others)
		c, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
		must(t, err)
		if err := sqlitex.Execute(c, "SELECT sum(length(key)) FROM doc_2", nil); err == nil {
			t.Fatal("the test overwrites the wrong pages")
		}
		must(t, c.Close())
	}
	w.index = w.open(vector.Options{})
	w.index.Followed()
	h = w.hybrid(t)
	for _, mode := range []search.Mode{search.ByText, search.ByVectors, search.Hybrid} {
		for _, q := range []search.Query{{Text: "the number77"}, {Text: "has number78", Around: 2, Role: message.User, Conversation: a.ID}} {
			q.Mode, q.Limit = mode, 3
			page, err := h.Search(t.Context(), store.ForUser("ana"), q)
			if err != nil || len(page.Hits) == 0 || !strings.HasPrefix(page.Hits[0].Text, "hers has the number7") || page.Notice != "" {
				t.Errorf("%s: %+v %v", mode, page, err)
			}
		}
	}
}

// SQLite reports each table that a statement may read: those of the owner who searches, and
// those that hold nothing of a message.
func TestHybridReadsItsOwnersTablesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vector.Options{})
	for _, user := range []string{"ana", "ben", "cleo"} {
		w.talk(user, "fruit").say("an olive of " + user)
	}
	h := w.hybrid(t)
	must(t, h.Text.CatchUp(t.Context()))
	w.catchUp()
	for _, mode := range []search.Mode{search.ByText, search.ByVectors, search.Hybrid} {
		var mu sync.Mutex
		read := map[string]bool{}
		watch := func(c *sqlite.Conn) error {
			return c.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult {
				mu.Lock()
				defer mu.Unlock()
				if a.Type() == sqlite.OpRead {
					read[a.Table()] = true
				}
				return sqlite.AuthResultOK
			}))
		}
		opt := vector.Options{Watch: watch}
		must(t, w.index.Close())
		w.index = w.open(opt)
		w.index.Followed()
		words := fts.New(fts.Options{Path: w.wordsPath(), Store: w.store, Watch: watch})
		h := &vector.Hybrid{Text: words, Vectors: w.index}
		page, err := h.Search(t.Context(), store.ForUser("ben"), search.Query{Text: "olive", Mode: mode})
		if err != nil || len(page.Hits) != 1 || page.Hits[0].Text != "an olive of ben" {
			t.Errorf("%s: %+v %v", mode, page, err)
		}
		must(t, words.Close())
		own := 0
		for table := range read {
			switch {
			case strings.Contains(table, "_2"):
				own++
			case slices.Contains([]string{"", "state", "space", "part", "model", "sqlite_master", "sqlite_schema"}, table):
			default:
				t.Errorf("%s reads %s", mode, table)
			}
		}
		if own < 3 {
			t.Errorf("%s reads %v only", mode, read)
		}
	}
}

// What one person says costs no look at what all others have said.
func TestOnlyWhatIsDueIsLookedAt(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	opt := vector.Options{Model: only(d)}
	var mu sync.Mutex
	used := map[string]bool{}
	opt.Watch = func(c *sqlite.Conn) error {
		return c.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult {
			mu.Lock()
			defer mu.Unlock()
			used[a.Table()] = true
			return sqlite.AuthResultOK
		}))
	}
	w := newWorld(t, opt)
	talks := map[string]*talk{}
	for _, user := range []string{"ana", "ben", "cleo"} { // spaces 1, 2 and 3
		talks[user] = w.talk(user, "fruit")
		talks[user].say("an olive of " + user)
	}
	w.catchUp()
	clear(used)
	w.talk("dora", "fruit").say("hers") // a new table, after which SQLite compiles each statement again, and tells its tables
	d.fail = func([]string) error { return fault.New(fault.Unavailable, "away", "not now") }
	talks["ben"].say("one more")
	must(t, w.index.CatchUp(t.Context()))
	if err := w.index.EmbedDue(t.Context()); !fault.HasCode(err, "away") {
		t.Error(err)
	}
	d.fail = nil
	w.catchUp() // what has failed is due still
	for table := range used {
		if strings.HasSuffix(table, "_1") || strings.HasSuffix(table, "_3") {
			t.Errorf("%s is looked at", table)
		}
	}
	w.expect("ben", "more", "one more")
}

// poison overwrites pages of a file.
func poison(t *testing.T, path string, pages []int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	for _, page := range pages {
		_, err := f.WriteAt(slices.Repeat([]byte{0xa5}, 4096), (page-1)*4096)
		must(t, err)
	}
	must(t, f.Close())
}

// pagesOf returns the numbers of the pages of all tables of a space, in either file.
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
	ends := []string{"conv_" + id, "doc_" + id, "doc_msg_" + id, "doc_prev_" + id, "tool_" + id, "fts_" + id + "_data", "fts_" + id + "_idx", "fts_" + id + "_docsize"}
	if len(column("SELECT name FROM sqlite_schema WHERE name = 'part'")) > 0 {
		for _, p := range column("SELECT id FROM part WHERE space = ?", id) {
			ends = append(ends, "code_"+p, "code_doc_"+p, "code_hash_"+p, "vec_"+p, "held_"+p)
		}
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

// The file may be removed, overwritten or of another version or log: it is rebuilt.
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
