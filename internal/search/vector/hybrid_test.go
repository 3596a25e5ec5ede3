package vector_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/search/fts"
	"steward/internal/search/vector"
	"steward/internal/store"
)

func (w *world) wordsPath() string { return filepath.Join(w.dir, "search.db") }

// hybrid returns a search in words and vectors of the world.
func (w *world) hybrid(t *testing.T) *vector.Hybrid {
	text := fts.New(fts.Options{Path: w.wordsPath(), Store: w.store})
	t.Cleanup(func() { must(t, text.Close()) })
	return &vector.Hybrid{Text: text, Vectors: w.index}
}

func texts(p search.Page) (out []string) {
	for _, h := range p.Hits {
		out = append(out, h.Text)
	}
	return out
}

func TestHybrid(t *testing.T) {
	w := newWorld(t, vector.Options{})
	h := w.hybrid(t)
	c := w.talk("ana", "cars and soup")
	car := c.say("my car is blue")
	c.say("I washed it")
	w.talk("ana", "fair").add(&message.Text{Common: message.Common{Labels: message.Untrusted}, Text: "the automobile fair was on a page"})
	w.talk("ana", "soup").say("the soup needs more salt")
	w.talk("ben", "y").say("his automobile is red")
	ask := func(q search.Query) search.Page {
		t.Helper()
		page, err := h.Search(t.Context(), store.ForUser("ana"), q)
		must(t, err)
		return page
	}
	page := ask(search.Query{Text: "automobile", Limit: 2, Around: 1})
	if got := texts(page); !slices.Equal(got, []string{"the automobile fair was on a page", "my car is blue"}) {
		t.Fatalf("%q", got)
	}
	if hit := page.Hits[1]; hit.Message != car || hit.Title != "cars and soup" || len(hit.After) != 1 || page.By != search.ByLexical || page.Hits[0].Score != 1 {
		t.Errorf("%+v", page)
	}
	first := ask(search.Query{Text: "automobile", Limit: 1})
	next := ask(search.Query{Text: "automobile", Limit: 1, After: first.Next})
	if got := texts(next); !slices.Equal(got, []string{"my car is blue"}) || next.Next != "" {
		t.Errorf("%q %q", got, next.Next)
	}
	if page := ask(search.Query{Text: "xylophone"}); len(page.Hits) != 0 {
		t.Errorf("%q", texts(page))
	}
	for _, q := range []struct {
		q    search.Query
		want []string
	}{
		{search.Query{Text: "automobile", Limit: 1, Without: message.Untrusted}, []string{"my car is blue"}},
		{search.Query{Text: "automobile", Mode: search.ByVectors, Limit: 1, Labels: message.Untrusted, Around: 1}, []string{"the automobile fair was on a page"}},
		{search.Query{Text: "automobile", Order: search.Newest}, []string{"the automobile fair was on a page"}},
		{search.Query{Text: `"automobile"`}, []string{"the automobile fair was on a page"}},
		{search.Query{Text: "car", Mode: search.ByVectors, Threshold: 0.4}, []string{"my car is blue"}},
		{search.Query{Text: "car", Tool: "none"}, nil},
	} {
		if got := texts(ask(q.q)); !slices.Equal(got, q.want) {
			t.Errorf("%+v finds %q", q.q, got)
		}
	}
	for _, q := range []search.Query{{Text: "x", Mode: "odd"}, {Text: "?"}, {Text: "x", Mode: search.ByVectors, Tool: "y"}, {Text: "x", After: "bad"}} {
		if _, err := h.Search(t.Context(), store.ForUser("ana"), q); fault.Of(err) == nil || err == nil {
			t.Errorf("%+v: %v", q, err)
		}
	}
	must(t, h.CatchUp(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Follow(ctx) }()
	cancel()
	<-done
}

// When the model cannot be asked, the words are searched, and the answer says so.
func TestHybridWithoutItsModel(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	w := newWorld(t, vector.Options{Model: only(d)})
	h := w.hybrid(t)
	c := w.talk("ana", "x")
	for i := range 10 {
		c.say(fmt.Sprintf("message number%d", i))
	}
	w.catchUp()
	page, err := h.Search(t.Context(), store.ForUser("ana"), search.Query{Text: "number7"})
	if err != nil || page.By != search.BySemantic || page.Notice != "" || page.Hits[0].Text != "message number7" {
		t.Errorf("%+v %v", page, err)
	}
	d.fail = func([]string) error { return fault.New(fault.Unavailable, "provider_down", "not now") }
	page, err = h.Search(t.Context(), store.ForUser("ana"), search.Query{Text: "number7"})
	if err != nil || page.By != "" || page.Notice != "only words were searched: not now" || page.Hits[0].Text != "message number7" {
		t.Errorf("%+v %v", page, err)
	}
	if _, err := h.Search(t.Context(), store.ForUser("ana"), search.Query{Text: "number7", Mode: search.ByVectors}); !fault.HasCode(err, "provider_down") {
		t.Error(err)
	}
}
