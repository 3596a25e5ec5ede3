package vector_test

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/search"
	"steward/internal/search/vector"
	"steward/internal/store"
	"steward/internal/tool"
)

// An item says which message it is, how similar it is, and where in the message's text the similar part is.
func TestItems(t *testing.T) {
	d := &double{name: "test/e", dims: 64}
	w := newWorld(t, vector.Options{Model: only(d)})
	c := w.talk("ana", "cars")
	blue := c.say("my car is blue")
	long := c.add(&message.Text{Common: message.Common{Labels: message.Untrusted}, Text: strings.Repeat("rice and beans ", 133) + "\n\n  the zebra sleeps"})
	c.say("the soup needs salt")
	c.add(&message.Text{Common: message.Common{Labels: message.Secret}, Text: "zebra zebra zebra"})
	w.talk("ben", "his").say("my car is a zebra")
	w.catchUp()
	ask := func(user string, q search.ItemQuery) search.ItemPage {
		t.Helper()
		page, err := w.index.QueryItems(t.Context(), store.ForUser(user), q)
		must(t, err)
		return page
	}
	page := ask("ana", search.ItemQuery{Text: "my car is blue", Limit: 1})
	if x := page.Items[0]; len(page.Items) != 1 || x.Message != blue || x.URI != c.uri(blue) || x.Conversation != c.ID || x.Interaction != c.inter || x.Role != message.User ||
		x.Score < 0.95 || x.Score > 1 || x.Text != "my car is blue" || x.Place != (search.Span{From: 0, To: 14}) || x.Tokens == 0 || x.Labels != 0 || x.At.IsZero() || x.Seq == 0 {
		t.Errorf("%+v", x)
	}
	if page.By != search.BySemantic || !slices.Equal(page.Models, []string{"test/e"}) || page.Behind != 0 {
		t.Errorf("%+v", page)
	}
	zebra := ask("ana", search.ItemQuery{Text: "the zebra sleeps", Limit: 1}).Items[0]
	if zebra.Message != long || zebra.Labels != message.Untrusted || zebra.Text != "the zebra sleeps" || zebra.Place != (search.Span{From: 1999, To: 2015}) {
		t.Errorf("%+v", zebra)
	}
	if got := ask("ana", search.ItemQuery{Text: "my car is blue"}); len(got.Items) != 3 {
		t.Errorf("%d items by default", len(got.Items))
	}
	if got := ask("ana", search.ItemQuery{Text: "my car is blue", MaxTokens: page.Items[0].Tokens}); len(got.Items) != 1 {
		t.Errorf("%d items of so many tokens", len(got.Items))
	}
	if got := ask("cem", search.ItemQuery{Text: "my car is blue"}); len(got.Items) != 0 || got.By != "" {
		t.Errorf("somebody without messages finds %+v", got)
	}

	// The vector of a text finds what the text finds. Other vectors are refused.
	v, err := d.Embed(t.Context(), []string{"my car is blue"})
	must(t, err)
	if got := ask("ana", search.ItemQuery{Vector: v.Values[0], Limit: 1}); got.Items[0].Message != blue {
		t.Errorf("%+v", got)
	}
	for _, bad := range []struct {
		q    search.ItemQuery
		code string
	}{
		{search.ItemQuery{}, "search_empty"}, {search.ItemQuery{Text: "  "}, "search_empty"}, {search.ItemQuery{Text: "a", Vector: []float32{1}}, "query_ambiguous"},
		{search.ItemQuery{Vector: make([]float32, 64)}, "vector_invalid"}, {search.ItemQuery{Vector: []float32{1, 2}}, "embed_dimensions"},
		{search.ItemQuery{Vector: v.Values[0], Model: "test/other"}, "embed_dimensions"}, {search.ItemQuery{Vector: slices.Repeat([]float32{1}, 5000)}, "search_too_long"},
	} {
		if _, err := w.index.QueryItems(t.Context(), store.ForUser("ana"), bad.q); !fault.HasCode(err, bad.code) || !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", bad.code, err)
		}
	}
	if _, err := w.index.QueryItems(t.Context(), store.Scope{}, search.ItemQuery{Text: "a"}); !fault.HasCode(err, "scope_missing") {
		t.Error(err)
	}

	// The tool shows the same, with the labels of what it shows.
	similar, err := search.NewSimilarTool(w.index, func(in tool.Invocation) store.Scope { return store.ForUser(in.User) })
	must(t, err)
	res, err := similar.Call(t.Context(), tool.Invocation{User: "ana", Args: []byte(`{"text":"zebra sleeps","filter":{"limit":1}}`)})
	must(t, err)
	if text := res.Content[0].(*message.Text).Text; !strings.Contains(text, c.uri(long).String()) || !strings.Contains(text, "zebra") || res.Labels != message.Untrusted {
		t.Errorf("%q %v", text, res.Labels)
	}
	if _, err := similar.Call(t.Context(), tool.Invocation{User: "ana", Args: []byte(`{"vector":[1,2]}`)}); !fault.HasCode(err, "embed_dimensions") {
		t.Error(err)
	}
}
