package vector_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/llm"
	"steward/internal/resource"
	"steward/internal/search/vector"
	"steward/internal/store"
)

// modelOf returns the model with which a user's searches are made.
func (w *world) modelOf(user string) string {
	w.t.Helper()
	for _, c := range w.census() {
		if string(c.Space) == "user:"+user {
			return c.Model
		}
	}
	return ""
}

// When the model changes, searches use the old one, also for new messages, until the new
// one has everything. Then nothing is left of the old one.
func TestChangeOfModel(t *testing.T) {
	old, next := &double{name: "test/old", dims: 64}, &double{name: "test/new", dims: 128}
	w := newWorld(t, vector.Options{Model: only(old)})
	c := w.talk("ana", "x")
	for i := range 30 {
		c.say(fmt.Sprintf("message number%d", i))
	}
	w.catchUp()

	next.fail = func([]string) error { return fault.New(fault.Unavailable, "provider_down", "not now") }
	w.reopen(vector.Options{Model: only(next, old)})
	c.say("a late message")
	must(t, w.index.CatchUp(t.Context()))
	if err := w.index.Embed(t.Context()); !fault.HasCode(err, "provider_down") {
		t.Fatal(err)
	}
	if m := w.modelOf("ana"); m != "test/old" {
		t.Fatalf("searches use %s", m)
	}
	w.expect("ana", "late", "a late message")
	w.expect("ana", "number7", "message number7")

	next.fail = nil
	must(t, w.index.Embed(t.Context()))
	if m := w.modelOf("ana"); m != "test/new" {
		t.Fatalf("searches use %s", m)
	}
	w.expect("ana", "number7", "message number7")
	before := len(old.sent())
	c.say("the last one")
	w.catchUp()
	w.expect("ana", "last", "the last one")
	if n := len(old.sent()); n != before {
		t.Error("the old model is still asked")
	}
	if n := w.census()[0]; n.Vectors != 32 || n.Held != 0 {
		t.Errorf("%+v", n)
	}

	w.reopen(vector.Options{Model: only()}) // it cannot be found
	w.catchUp()
	if m := w.modelOf("ana"); m != "test/new" {
		t.Errorf("searches use %s", m)
	}
	w.reopen(vector.Options{}) // none is configured
	w.catchUp()
	if m := w.modelOf("ana"); m != vector.LexicalName {
		t.Errorf("searches use %s", m)
	}
	w.expect("ana", "number8", "message number8")
}

// A model that returns vectors of another length is not mixed with its former self.
func TestChangedDimensions(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	w := newWorld(t, vector.Options{Model: only(d)})
	c := w.talk("ana", "x")
	c.say("one")
	w.catchUp()
	d.dims = 32
	c.say("two")
	must(t, w.index.CatchUp(t.Context()))
	if err := w.index.Embed(t.Context()); !fault.HasCode(err, "embed_dimensions") {
		t.Error(err)
	}
	if _, err := w.index.Nearest(t.Context(), store.ForUser("ana"), vector.Query{Text: "one"}); !fault.HasCode(err, "embed_dimensions") {
		t.Error(err)
	}
}

// A text that the model does not take keeps no other from being embedded. A model that
// takes nothing has failed.
func TestTextsThatFail(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	d.fail = func(texts []string) error {
		if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "bad") }) {
			return fault.New(fault.Invalid, "context_too_long", "not this one")
		}
		return nil
	}
	w := newWorld(t, vector.Options{Model: only(d)})
	c := w.talk("ana", "x")
	for _, s := range []string{"good one", "bad two", "bad two", "good three"} {
		c.say(s)
	}
	w.catchUp()
	if n := w.census()[0]; n.Vectors != 2 || n.Held != 2 {
		t.Errorf("%+v", n)
	}
	w.expect("ana", "three", "good three")
	d.fail = nil
	must(t, w.index.Embed(t.Context()))
	if n := w.census()[0]; n.Vectors != 4 || n.Held != 0 {
		t.Errorf("%+v", n)
	}
	d.fail = func([]string) error { return fault.New(fault.Invalid, "bad_request", "not at all") }
	for i := range 10 {
		c.say(fmt.Sprint("more ", i))
	}
	must(t, w.index.CatchUp(t.Context()))
	if err := w.index.Embed(t.Context()); !fault.HasCode(err, "bad_request") {
		t.Error(err)
	}
	if n := w.census()[0]; n.Held != 0 {
		t.Errorf("%+v", n)
	}
}

// A long message has a vector for each piece, and is found once.
func TestLongMessages(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	w := newWorld(t, vector.Options{Model: only(d)})
	c := w.talk("ana", "x")
	long := strings.Repeat("filling words\n", 1000) + "the needle in it\n" + strings.Repeat("ünïcödé", 1000)
	c.say(long)
	c.say("short")
	w.catchUp()
	for _, s := range d.sent() {
		if len(s) > 2000 || !strings.Contains(long, s) && s != "short" {
			t.Errorf("a piece of %d bytes: %.40q", len(s), s)
		}
	}
	a, err := w.index.Nearest(t.Context(), store.ForUser("ana"), vector.Query{Text: "filling words"})
	if err != nil || len(a.Matches) != 2 {
		t.Errorf("%+v %v", a, err)
	}
}

// Follow notes messages when the log is quiet, embeds them no faster than it may, stops
// when the day's budget is spent, goes on the next day, and tries again after errors.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := &double{name: "test/e", dims: 64}
		model := d.model()
		model.Price = 1e6 // a dollar a token
		w := openWorld(t, dir, vector.Options{PerMinute: 96, DayCost: 600, Model: func(string) (vector.Model, error) { return model, nil }})
		c := w.talk("ana", "x")
		for i := range 400 {
			c.say(fmt.Sprintf("msg %d", i)) // two tokens each
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { w.index.Follow(ctx) })
		vectors := func() int {
			synctest.Wait()
			if n := w.census(); len(n) > 0 {
				return n[0].Vectors
			}
			return 0
		}
		if n := vectors(); n != 0 {
			t.Errorf("%d vectors before the log is quiet", n)
		}
		time.Sleep(10 * time.Second)
		if n := vectors(); n != 96 {
			t.Errorf("%d vectors in the first minute", n)
		}
		time.Sleep(time.Minute)
		if n := vectors(); n != 192 {
			t.Errorf("%d vectors in the second minute", n)
		}
		time.Sleep(10 * time.Minute)
		spent := vectors()
		if spent < 192 || spent > 300 {
			t.Errorf("%d vectors for 600 dollars", spent)
		}
		failing := true
		d.mu.Lock()
		d.fail = func([]string) error {
			if failing {
				return fault.New(fault.RateLimited, "rate_limited", "slowly")
			}
			return nil
		}
		d.mu.Unlock()
		time.Sleep(24 * time.Hour)
		if n := vectors(); n != spent {
			t.Errorf("%d vectors of a model that fails", n)
		}
		d.mu.Lock()
		failing = false
		d.mu.Unlock()
		time.Sleep(time.Hour)
		if n := vectors(); n != 400 {
			t.Errorf("%d vectors in the end", n)
		}
		cancel()
		wg.Wait()
		w.close()
	})
}

// Of processes that share a store, each embeds what it holds, and all of it once it holds more.
func TestHolds(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	held := map[resource.Space]bool{resource.UserSpace("ana"): true}
	w := newWorld(t, vector.Options{Model: only(d), Holds: func(s resource.Space) bool { return held[s] }})
	w.talk("ana", "x").say("mine")
	ben := w.talk("ben", "x")
	ben.say("yours")
	w.catchUp()
	ben.say("more of yours")
	w.catchUp()
	if got := d.sent(); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("embedded before it is held: %q", got)
	}
	held[resource.UserSpace("ben")] = true
	w.catchUp()
	if got := d.sent(); !slices.Equal(got, []string{"mine", "yours", "more of yours"}) {
		t.Errorf("embedded once all is held: %q", got)
	}
	w.expect("ben", "more", "more of yours")
}

// Searches, writes and embedding go on at the same time.
func TestAtTheSameTime(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	w := newWorld(t, vector.Options{Model: only(d)})
	c := w.talk("ana", "x")
	c.say("the first")
	w.catchUp()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 20 {
				if a, err := w.index.Nearest(t.Context(), store.ForUser("ana"), vector.Query{Text: "the first"}); err != nil || len(a.Matches) == 0 {
					t.Errorf("%+v %v", a, err)
				}
			}
		})
	}
	for i := range 40 {
		id := c.say(fmt.Sprint("number ", i))
		w.catchUp()
		if i%3 == 0 {
			w.commit("ana", store.Change{Op: store.Erase, URI: c.uri(id)})
		}
	}
	wg.Wait()
	w.catchUp()
	if n := w.census()[0]; n.Vectors != 41-14 {
		t.Errorf("%+v", n)
	}
}

var _ llm.Embedder = (*double)(nil)
