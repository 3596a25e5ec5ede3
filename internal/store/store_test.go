package store_test

import (
	"errors"
	"testing"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/storetest"
)

var c = resource.Root("common.Conversation", "c")

func TestScope(t *testing.T) {
	team := store.Scope{Actor: "ada", Read: []resource.Space{"user:ada", "group:team"}}
	for _, x := range []struct {
		name        string
		sc          store.Scope
		read, write bool
		sees        map[resource.Space]bool
	}{
		{"zero", store.Scope{}, false, false, map[resource.Space]bool{"user:ada": false, "": false}},
		{"user", store.ForUser("ada"), true, true, map[resource.Space]bool{"user:ada": true, "user:adam": false, "system": false}},
		{"reader", team, true, false, map[resource.Space]bool{"user:ada": true, "group:team": true, "user:bob": false}},
		{"node", store.ForNode(resource.System), true, true, map[resource.Space]bool{"user:ada": true, "system": true}},
		{"node that only looks", store.ForNode(""), true, false, map[resource.Space]bool{"user:ada": true}},
	} {
		if err := x.sc.CanRead(); (err == nil) != x.read || err != nil && !fault.HasCode(err, "scope_missing") {
			t.Errorf("%s: reading: %v", x.name, err)
		}
		if err := x.sc.CanWrite(); (err == nil) != x.write || err != nil && !fault.HasCode(err, "scope_missing") {
			t.Errorf("%s: writing: %v", x.name, err)
		}
		for sp, want := range x.sees {
			if x.sc.Sees(sp) != want {
				t.Errorf("%s: sees %q is %v", x.name, sp, !want)
			}
		}
	}
}

func TestBatchCheck(t *testing.T) {
	good := store.Batch{Changes: []store.Change{
		{URI: c, Terms: []store.Term{{Name: "n"}}, Place: &store.Place{List: c}},
		{Op: store.Delete, URI: c}, {Op: store.Check, URI: c}, {Op: store.Unlist, URI: c, Place: &store.Place{List: c}},
	}}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	place := &store.Place{List: c}
	for name, wrong := range map[string]store.Change{
		"no uri":         {},
		"unknown op":     {Op: 99, URI: c},
		"unlist nothing": {Op: store.Unlist, URI: c},
		"deleted place":  {Op: store.Delete, URI: c, Place: place},
		"erased place":   {Op: store.Erase, URI: c, Place: place},
		"packed place":   {Op: store.Pack, URI: c, Place: place},
		"checked place":  {Op: store.Check, URI: c, Place: place},
		"no list":        {URI: c, Place: &store.Place{Pos: 1}},
		"unlist no list": {Op: store.Unlist, URI: c, Place: &store.Place{}},
		"nameless term":  {URI: c, Terms: []store.Term{{Value: "v"}}},
	} {
		bad := store.Batch{Changes: append(good.Changes[:4:4], wrong)}
		if err := bad.Check(); !fault.HasCode(err, "batch_invalid") || fault.Of(err).Details["change"] != 4 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOrderAndPageSize(t *testing.T) {
	for want, q := range map[store.Order]store.Query{
		store.ByTree: {Under: c}, store.ByList: {List: c}, store.ByTerm: {Term: store.Term{Name: "n"}}, store.ByState: {State: "s", Under: c},
	} {
		if got, err := q.Order(); err != nil || got != want {
			t.Errorf("%+v is in order %c, %v", q, got, err)
		}
	}
	q := store.Query{List: c, State: "s"}
	if _, err := q.Order(); !fault.HasCode(err, "query_invalid") {
		t.Errorf("got %v", err)
	}
	for limit, want := range map[int]int{-1: store.DefaultLimit, 0: store.DefaultLimit, 1: 1, store.MaxLimit + 1: store.MaxLimit} {
		if got := store.PageSize(limit); got != want {
			t.Errorf("%d gives pages of %d, want %d", limit, got, want)
		}
	}
}

// FuzzCursor: what is no cursor of a query is refused with a code, and a
// cursor gives back what was put into it.
func FuzzCursor(f *testing.F) {
	f.Add("", int64(0), []byte(nil), "", false)
	f.Add("dQAAAAAA", int64(-1), []byte{0xff, 0}, "a", true)
	f.Add("!", int64(1)<<62, []byte("key"), "common.Message", false)
	f.Fuzz(func(t *testing.T, text string, num int64, key []byte, typ string, reverse bool) {
		q := store.Query{Type: typ, Reverse: reverse, Under: c}
		q.After = store.Cursor(text)
		if _, ok, err := q.Position(); err != nil && !fault.HasCode(err, "cursor_invalid") || err == nil && ok != (text != "") {
			t.Errorf("%q: %v, %v", text, ok, err)
		}
		q.After = q.Cursor(store.Position{Num: num, Key: key})
		q.Limit, q.NoBody = 7, true // do not matter to a cursor
		if p, ok, err := q.Position(); err != nil || !ok || p.Num != num || string(p.Key) != string(key) {
			t.Errorf("%q holds %+v, %v, %v", q.After, p, ok, err)
		}
		q.Type += "x"
		if _, _, err := q.Position(); !fault.HasCode(err, "cursor_invalid") {
			t.Errorf("another query takes it: %v", err)
		}
		l := store.LogQuery{Reverse: reverse}
		l.After = l.Cursor(uint64(num))
		l.Under, l.Since, l.Limit = c, 7, 7
		if seq, ok, err := l.Position(); err != nil || !ok || seq != uint64(num) {
			t.Errorf("%q holds %d, %v, %v", l.After, seq, ok, err)
		}
		l.Reverse = !reverse
		if _, _, err := l.Position(); !fault.HasCode(err, "cursor_invalid") {
			t.Errorf("the other direction takes it: %v", err)
		}
	})
}

// The iterators go through all pages, stop when asked to, and pass errors on.
func TestPages(t *testing.T) {
	st, sc := storetest.NewModel(), store.ForUser("ada")
	var b store.Batch
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		b.Changes = append(b.Changes, store.Change{URI: c.Child("common.Message", name)})
	}
	if _, err := st.Commit(t.Context(), sc, b); err != nil {
		t.Fatal(err)
	}
	for stop := range 6 {
		n := 0
		for it, err := range store.Items(t.Context(), st, sc, store.Query{Limit: 2}) {
			if err != nil || it.URI != b.Changes[n].URI {
				t.Fatalf("item %d: %v, %v", n, it.URI, err)
			}
			if n++; n == stop {
				break
			}
		}
		m := 0
		for e, err := range store.Entries(t.Context(), st, sc, store.LogQuery{Limit: 2}) {
			if err != nil || e.URI != b.Changes[m].URI {
				t.Fatalf("entry %d: %v, %v", m, e.URI, err)
			}
			if m++; m == stop {
				break
			}
		}
		want := stop
		if stop == 0 {
			want = 5
		}
		if n != want || m != want {
			t.Errorf("stopping at %d, there were %d items and %d entries", stop, n, m)
		}
	}
	var errs []error
	for _, err := range store.Items(t.Context(), st, store.Scope{}, store.Query{}) {
		errs = append(errs, err)
	}
	for _, err := range store.Entries(t.Context(), st, store.Scope{}, store.LogQuery{}) {
		errs = append(errs, err)
	}
	if len(errs) != 2 || errors.Join(errs...) == nil || !fault.HasCode(errs[0], "scope_missing") || !fault.HasCode(errs[1], "scope_missing") {
		t.Errorf("got %v", errs)
	}
}
