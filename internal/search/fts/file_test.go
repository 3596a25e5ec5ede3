package fts_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

// The file may be lost, cut, written over or of another version at any time:
// what is found stays the same, and the log tells of it.
func TestTheFileIsMadeAnew(t *testing.T) {
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
			w := newWorld(t)
			c := w.talk("ana", "fruit")
			for i := range 300 {
				c.say(fmt.Sprintf("a quince of number %d", i))
			}
			w.expect("ana", "quince 299", "a [quince] of number [299]")
			must(t, w.index.Close())
			spoil(t, w.path())
			w.index = w.another(fts.Options{})
			w.expect("ana", "quince 7", "a [quince] of number [7]")
			if told := strings.Contains(w.log.String(), "made anew"); told == (name == "removed" || name == "empty") {
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
	db, err := sql.Open("sqlite", path)
	must(t, err)
	_, err = db.Exec(statement)
	must(t, errors.Join(err, db.Close()))
}

// A file that is removed, or spoiled, while it is open.
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

// What is behind, after a crash or because nobody asked, is caught up with.
func TestIndexBehind(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "fruit")
	c.say("a sloe")
	w.expect("ana", "sloe", "a [sloe]")
	must(t, w.index.Close())
	y := c.say("two sloe")
	z := c.say("three sloe")
	c.mark(y, record.Change{State: record.Deleted})
	c.commit("ana", store.Change{Op: store.Erase, URI: c.uri(z)})
	for i := range 700 { // more than a batch
		c.say(fmt.Sprint("number ", i))
	}
	c.say("four sloe")
	w.index = w.another(fts.Options{})
	w.expect("ana", "sloe", "four [sloe]", "a [sloe]")
	must(t, w.index.Catch(context.Background()))
}

// Two that use one file do not take anything in twice.
func TestTwoIndexesOverOneFile(t *testing.T) {
	w := newWorld(t)
	other := w.another(fts.Options{})
	c := w.talk("ana", "fruit")
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

// What was erased is in no byte of the file once Catch has returned.
func TestErasedForGood(t *testing.T) {
	for _, whole := range []bool{false, true} {
		w := newWorld(t)
		c, d := w.talk("ana", "kept"), w.talk("ana", "erased")
		for i := range 2000 {
			c.say(fmt.Sprintf("common words and word%d", i))
			if i%100 == 0 {
				must(t, w.index.Catch(context.Background())) // makes many segments, and merges of them
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
		w.expect("ana", "xylophonequartet") // which does not wait until it is expunged
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

func TestDeletedBranches(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "branches")
	c.say("shared fig")
	first := c.head
	c.say("own fig")
	put := func(b record.Branch) {
		c.commit("ana", store.Change{URI: record.BranchURI(c.ID, b.ID), Body: record.Encode(b)})
	}
	put(record.Branch{ID: record.MainBranch})
	w.expect("ana", "fig", "own [fig]", "shared [fig]")
	put(record.Branch{ID: "two", Parent: record.MainBranch, Rope: []record.Span{{Branch: record.MainBranch, To: 1}}, Open: 3})
	put(record.Branch{ID: record.MainBranch, Deleted: w.now})
	w.expect("ana", "fig", "shared [fig]")
	if h := w.search("ana", search.Query{Text: "shared", Around: 1}).Hits[0]; h.Message != first || len(h.After) != 0 {
		t.Errorf("%+v", h)
	}
	put(record.Branch{ID: record.MainBranch})
	w.expect("ana", "fig", "own [fig]", "shared [fig]")
	put(record.Branch{ID: "two", Deleted: w.now})
	w.expect("ana", "fig", "own [fig]", "shared [fig]")
}

// Records that cannot be read are left out, and the rest is found.
func TestBrokenRecords(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "x")
	bad := []byte(`{"role":`)
	for _, u := range []store.Change{
		{URI: c.uri(id.New()), Body: bad}, {URI: record.MarkURI(c.ID, id.New()), Body: bad}, {URI: record.BranchURI(c.ID, "b"), Body: bad},
		{URI: record.ConversationURI(id.New()), Body: bad}, {URI: record.MarkURI(c.ID, id.New()).Child("x.Y", "z"), Body: bad},
		{URI: record.ConversationURI(c.ID).Child(record.TypeMessage, "no-uuid"), Body: bad},
	} {
		w.commit("ana", u)
	}
	c.say("still found")
	w.expect("ana", "found", "still [found]")
	if n := strings.Count(w.log.String(), "left out"); n != 4 {
		t.Errorf("%d lines:\n%s", n, w.log.String())
	}
}

func TestSpacesAreApart(t *testing.T) {
	w := newWorld(t)
	w.talk("ana", "hers").say("a secret olive")
	w.talk("ben", "his").say("another olive")
	w.expect("ana", "olive", "a secret [olive]")
	w.expect("ben", "olive", "another [olive]")
	w.expect("eve", "olive")
	for _, q := range []string{"facets:s1", "s1", `"s1" OR olive`, `olive) OR facets:(s1`, `olive" OR "`, "olive NOT x", "NEAR(olive secret)", "^olive", "olive + secret", "{body}:olive"} {
		for _, h := range w.search("ben", search.Query{Text: q}).Hits {
			if h.Text != "another olive" {
				t.Errorf("%s finds %+v", q, h)
			}
		}
	}
	both := store.ForUser("ana")
	both.Read = append(both.Read, store.ForUser("ben").Read...)
	for _, sc := range []store.Scope{both, store.ForNode("user:eve")} {
		page, err := w.index.Search(context.Background(), sc, search.Query{Text: "olive", Around: 1})
		if err != nil || len(page.Hits) != 2 {
			t.Errorf("%+v %v", page, err)
		}
	}
}

// Follow reads on when the log rests, or when it has grown a lot.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, dir)
		c := w.talk("ana", "x")
		ix := w.another(fts.Options{Quiet: 5 * time.Second, Backlog: 100})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { ix.Follow(ctx) })
		for i := range 50 { // it never rests for long
			c.say(fmt.Sprint("word ", i))
			time.Sleep(time.Second)
		}
		if n := docs(t, w.path()); n != 0 {
			t.Errorf("%d messages were taken in while others wrote", n)
		}
		for i := range 100 {
			c.say(fmt.Sprint("more ", i))
			time.Sleep(time.Second)
		}
		if n := docs(t, w.path()); n < 100 || n >= 150 {
			t.Errorf("%d messages were taken in although too many waited", n)
		}
		time.Sleep(20 * time.Second)
		if n := docs(t, w.path()); n != 150 {
			t.Errorf("%d messages were taken in when the log rested", n)
		}
		cancel()
		wg.Wait()
		// It ends with the store, or with the index.
		wg.Go(func() { ix.Follow(context.Background()) })
		synctest.Wait()
		if err := ix.Close(); err != nil {
			t.Error(err)
		}
		c.say("one more")
		wg.Wait()
		wg.Go(func() { w.index.Follow(context.Background()) })
		synctest.Wait()
		w.close()
		wg.Wait()
	})
}

// docs counts the messages in an index file.
func docs(t *testing.T, path string) (n int) {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err == nil {
		err = errors.Join(db.QueryRow("SELECT count(*) FROM doc").Scan(&n), db.Close())
	}
	if err != nil {
		t.Error(err)
	}
	return n
}

// A store that fails for a while only delays.
func TestFollowGoesOn(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, dir)
		w.talk("ana", "x").say("a word")
		st := &flaky{Store: w.store, fail: 3}
		ix := fts.New(fts.Options{Path: w.path(), Store: st})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { ix.Follow(ctx) })
		time.Sleep(time.Minute)
		if n := docs(t, w.path()); n != 1 {
			t.Errorf("%d", n)
		}
		cancel()
		wg.Wait()
		if err := ix.Close(); err != nil {
			t.Error(err)
		}
		w.close()
	})
}

// flaky is a store whose log cannot be read at first.
type flaky struct {
	*sqlite.Store
	fail int
}

func (f *flaky) Log(ctx context.Context, sc store.Scope, q store.LogQuery) (store.LogPage, error) {
	if f.fail--; f.fail >= 0 {
		return store.LogPage{}, fault.New(fault.Unavailable, "store_broken", "not now")
	}
	return f.Store.Log(ctx, sc, q)
}

// Whatever part of the file is lost while it is open, and whatever is taken in
// next, what is found is the same.
func TestAnyTableLost(t *testing.T) {
	ops := map[string]func(c *talk, first, second id.ID){
		"say":    func(c *talk, _, _ id.ID) { c.say("a third rowan") },
		"mark":   func(c *talk, first, _ id.ID) { c.mark(first, record.Change{State: record.Deleted}) },
		"delete": func(c *talk, first, _ id.ID) { c.commit("ana", store.Change{Op: store.Delete, URI: c.uri(first)}) },
		"erase":  func(c *talk, first, _ id.ID) { c.commit("ana", store.Change{Op: store.Erase, URI: c.uri(first)}) },
		"rename": func(c *talk, _, _ id.ID) { c.Title = "other"; c.put() },
		"erase it all": func(c *talk, _, _ id.ID) {
			c.commit("ana", store.Change{Op: store.Erase, URI: record.ConversationURI(c.ID)})
		},
		"nothing":       func(*talk, id.ID, id.ID) {},
		"delete branch": func(c *talk, _, _ id.ID) { c.branch(record.Branch{ID: record.MainBranch, Deleted: c.now}) },
		"keep branch":   func(c *talk, _, _ id.ID) { c.branch(record.Branch{ID: record.MainBranch}) },
	}
	for _, table := range []string{"state", "space", "tool", "conv", "doc", "fts"} {
		for name, op := range ops {
			t.Run(table+", "+name, func(t *testing.T) {
				w := newWorld(t)
				c := w.talk("ana", "fruit")
				first, second := c.say("a rowan"), c.add(&message.Message{Role: message.Tool, Blocks: []message.Block{
					&message.ToolResult{Call: message.Ref{Message: id.New()}, Name: "tree.find", Status: message.OK, Content: text("a second rowan")}}})
				q := search.Query{Text: "rowan", Tool: "tree.find", Around: 1}
				if got := len(w.search("ana", q).Hits); got != 1 {
					t.Fatal(got)
				}
				tamper(t, w.path(), "DROP TABLE "+table)
				op(c, first, second)
				must(t, w.index.Catch(context.Background()))
				got := w.find("ana", q)
				fresh := fts.New(fts.Options{Path: filepath.Join(w.dir, "fresh.db"), Store: w.store})
				page, err := fresh.Search(context.Background(), store.ForUser("ana"), q)
				must(t, errors.Join(err, fresh.Close()))
				if len(got) != len(page.Hits) {
					t.Errorf("%q, and %d hits with a fresh index", got, len(page.Hits))
				}
			})
		}
	}
}

func (c *talk) branch(b record.Branch) {
	c.t.Helper()
	c.commit(c.Owner, store.Change{URI: record.BranchURI(c.ID, b.ID), Body: record.Encode(b)})
}

// deaf is a store that cannot read some resources.
type deaf struct {
	*sqlite.Store
	get   func(resource.URI) error
	query error
}

func (d *deaf) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	if err := d.get(u); err != nil {
		return resource.Resource{}, err
	}
	return d.Store.Get(ctx, sc, u)
}

func (d *deaf) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if d.query != nil {
		return store.Page{}, d.query
	}
	return d.Store.Query(ctx, sc, q)
}

// What the store cannot tell is told by its error; what is gone between the
// look into the index and that into the store is left out.
func TestTheStoreHasTheLastWord(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "x")
	first := c.say("an elder")
	second := c.say("two elder")
	gone := fault.New(fault.NotFound, "not_found", "gone")
	bad := fault.New(fault.Unavailable, "store_broken", "not now")
	d := &deaf{Store: w.store}
	ix := fts.New(fts.Options{Path: w.path(), Store: d})
	for _, x := range []struct {
		of   string
		at   resource.URI
		err  error
		hits int
	}{
		{"a message that is gone", c.uri(first), gone, 1}, {"a message", c.uri(second), bad, -1},
		{"a conversation that is gone", record.ConversationURI(c.ID), gone, 0}, {"a conversation", record.ConversationURI(c.ID), bad, -1},
	} {
		d.get = func(u resource.URI) error {
			if u == x.at {
				return x.err
			}
			return nil
		}
		page, err := ix.Search(context.Background(), store.ForUser("ana"), search.Query{Text: "elder", Around: 1})
		if x.hits < 0 && !fault.HasCode(err, "store_broken") || x.hits >= 0 && (err != nil || len(page.Hits) != x.hits) {
			t.Errorf("%s: %+v %v", x.of, page.Hits, err)
		}
	}
	d.query = bad
	c.branch(record.Branch{ID: record.MainBranch, Deleted: w.now})
	if err := ix.Catch(context.Background()); !fault.HasCode(err, "store_broken") {
		t.Error(err)
	}
	d.query = nil
	must(t, ix.Catch(context.Background()))
	must(t, ix.Close())
}

// When only earlier versions of a conversation's own facts are erased, what
// was said in it is still found, also by an index that is made anew.
func TestErasedVersionsOfAConversation(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "the sloe")
	c.say("a sloe")
	w.expect("ana", "sloe", "a [sloe]")
	u := record.ConversationURI(c.ID)
	c.Title = ""
	w.commit("ana", store.Change{Op: store.Erase, URI: u}, store.Change{URI: u, Body: record.Encode(&c.Conversation)})
	w.expect("ana", "sloe", "a [sloe]")
	must(t, w.index.Close())
	must(t, os.Remove(w.path()))
	w.index = w.another(fts.Options{})
	w.expect("ana", "sloe", "a [sloe]")
}
