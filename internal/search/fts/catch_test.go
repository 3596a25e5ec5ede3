package fts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/test/storetest"

	"steward/internal/lifetime/telemetry"

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

// The index skips unreadable records and finds the rest.
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
	if n := strings.Count(w.log.String(), "skipped a record"); n != 4 {
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

// Follow reads the log when it is quiet, or when the backlog is large.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, dir)
		c := w.talk("ana", "x")
		ix := w.another(fts.Options{Quiet: 5 * time.Second, Backlog: 100})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { ix.Follow(ctx) })
		for i := range 50 { // it is never quiet for long
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
		time.Sleep(2 * time.Minute) // the file is closed meanwhile, and opened again
		if _, err := os.Stat(w.path() + "-wal"); !os.IsNotExist(err) {
			t.Errorf("the file is still open: %v", err)
		}
		c.say("more to come")
		time.Sleep(20 * time.Second)
		if n := docs(t, w.path()); n != 151 {
			t.Errorf("%d messages were taken in after a rest", n)
		}
		cancel()
		wg.Wait()
		// Follow ends when the store or the index is closed.
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

// A search returns errors of the store. It omits messages that are erased between
// reading the index and reading the store.
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
	if err := ix.CatchUp(context.Background()); !fault.HasCode(err, "store_broken") {
		t.Error(err)
	}
	d.query = nil
	must(t, ix.CatchUp(context.Background()))
	must(t, ix.Close())
}

// If only earlier versions of a conversation's record are erased, its messages are
// still found, even by a rebuilt index.
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

// With a large backlog, a search reads a few batches, reports how many entries are
// left, and wakes Follow. If Follow does not run, the search reads everything.
func TestASearchDoesNotWaitForAnImport(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := openWorld(t, dir)
		c := w.talk("ana", "x")
		const messages, read = 6000, 4 * 512
		for range messages / 500 {
			var changes []store.Change
			for range 500 {
				changes = append(changes, c.change(&message.Message{Role: message.User, Blocks: text("a word")}))
			}
			c.commit("ana", changes...)
		}
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { w.index.Follow(ctx) })
		synctest.Wait() // it waits until the log is quiet
		page := w.search("ana", search.Query{Text: "word"})
		if page.Behind < messages-read || page.Behind > messages || len(page.Hits) == 0 {
			t.Errorf("%d entries behind, %d hits", page.Behind, len(page.Hits))
		}
		time.Sleep(time.Second) // less than the usual quiet time
		if page = w.search("ana", search.Query{Text: "word"}); page.Behind != 0 || docs(t, w.path()) != messages {
			t.Errorf("%d entries behind, %d messages are indexed", page.Behind, docs(t, w.path()))
		}
		cancel()
		wg.Wait()
		w.close()

		w = openWorld(t, dir)
		defer w.close()
		if err := os.Remove(w.path()); err != nil {
			t.Fatal(err)
		}
		if page = w.search("ana", search.Query{Text: "word"}); page.Behind != 0 || docs(t, w.path()) != messages {
			t.Errorf("without Follow: %d entries behind, %d messages are indexed", page.Behind, docs(t, w.path()))
		}
	})
}

// An index that reads a large log makes progress with each batch, not only at the end.
func TestEachBatchIsProgress(t *testing.T) {
	w := newWorld(t)
	c := w.talk("ana", "x")
	for range 9 {
		c.say("elder")
	}
	storetest.Progress(t, w.store, func(ctx context.Context, st store.Store, lag *telemetry.Follower) error {
		ix := fts.New(fts.Options{Path: w.path(), Store: st, Lag: lag})
		return errors.Join(ix.CatchUp(ctx), ix.Close())
	})
}
