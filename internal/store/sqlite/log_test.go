package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"steward/internal/resource"
	"steward/internal/store"
)

// A page of the log that finds little looks over one window, says how far it
// came, and that there is more; in both directions, whatever the filter.
func TestLogWindow(t *testing.T) {
	s := open1(t, dbPath(t))
	s.window = 50
	rare := conv("c").Child("plan.Task", "rare")
	for i := range 20 {
		var b []store.Change
		for k := range 49 {
			b = append(b, put(conv("c").Child("common.Message", fmt.Sprint(i, " ", k)), ""))
		}
		if i%10 == 5 {
			b = append(b, put(rare, ""))
		} else {
			b = append(b, put(conv("d"), ""))
		}
		commit(t, s, b...) // 50 entries
	}
	foreign := store.ForUser("bob")
	if _, err := s.Commit(t.Context(), foreign, store.Batch{Changes: []store.Change{put(conv("bob's"), "")}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		sc           store.Scope
		q            store.LogQuery
		pages, found int
		first        int // entries of the first page
	}{
		{"type", ada, store.LogQuery{Type: "plan.Task"}, 21, 2, 0},
		{"type, from the end", ada, store.LogQuery{Type: "plan.Task", Reverse: true}, 21, 2, 0},
		{"type and place", ada, store.LogQuery{Type: "plan.Task", Under: conv("c")}, 21, 2, 0},
		{"since", ada, store.LogQuery{Type: "plan.Task", Since: 900}, 3, 0, 0},
		{"what is common", ada, store.LogQuery{Type: "common.Message", Limit: 10}, 98 + 1, 980, 10},
		{"what is unknown", ada, store.LogQuery{Type: "never.Seen"}, 1, 0, 0},
		{"all", ada, store.LogQuery{Limit: 1000}, 21, 1000, 50},
		{"another's", foreign, store.LogQuery{}, 21, 1, 0},
		{"one resource", ada, store.LogQuery{Of: rare, Type: "plan.Task"}, 1, 2, 2},
		{"one resource, its newest", ada, store.LogQuery{Of: rare, Reverse: true, Limit: 1}, 2, 2, 1},
	} {
		pages, found, first := 0, 0, -1
		for more := true; more; pages++ {
			p, err := s.Log(t.Context(), c.sc, c.q)
			if err != nil || pages > 200 {
				t.Fatalf("%s: page %d: %v", c.name, pages, err)
			}
			if first < 0 {
				first = len(p.Entries)
			}
			found += len(p.Entries)
			c.q.After, more = p.Next, p.More
		}
		if found != c.found || first != c.first || pages < c.pages-3 || pages > c.pages {
			t.Errorf("%s: %d entries on %d pages, %d on the first; want %d, about %d, %d", c.name, found, pages, first, c.found, c.pages, c.first)
		}
	}
}

// Terms that many bear, of spaces that many are.
func TestTermsOfManySpaces(t *testing.T) {
	s := open1(t, dbPath(t))
	term := store.Term{Name: "k", Value: "v"}
	twice := store.Scope{Actor: "ada"}
	for i := range 60 {
		user := fmt.Sprint("u", i%12)
		sc := store.ForUser(user)
		c := store.Change{URI: conv(fmt.Sprint(i)), Terms: []store.Term{term}}
		if _, err := s.Commit(t.Context(), sc, store.Batch{Changes: []store.Change{c}}); err != nil {
			t.Fatal(err)
		}
		twice.Read = append(twice.Read, resource.UserSpace(user), resource.UserSpace(user))
	}
	for _, sc := range []store.Scope{twice, store.ForNode(resource.System)} {
		for _, q := range []store.Query{{Term: term, Limit: 7}, {Term: term, Limit: 100}, {Term: term, Limit: 7, Reverse: true}} {
			var seqs []uint64
			for it, err := range store.Items(t.Context(), s, sc, q) {
				if err != nil {
					t.Fatal(err)
				}
				seqs = append(seqs, it.Seq)
			}
			for i, seq := range seqs {
				if want := uint64(i + 1); !q.Reverse && seq != want || q.Reverse && seq != 61-want {
					t.Fatalf("%+v gives %v", q, seqs)
				}
			}
			if len(seqs) != 60 {
				t.Errorf("%+v gives %d items", q, len(seqs))
			}
		}
	}
}

// Large bodies make short pages, in which nothing is missing.
func TestLogPagesOfLargeBodies(t *testing.T) {
	s := open1(t, dbPath(t))
	body := strings.Repeat("x", pageBytes/3)
	for range 8 {
		commit(t, s, put(conv("c"), body), put(conv("d"), "small"))
	}
	for name, c := range map[string]struct {
		q    store.LogQuery
		want int
	}{
		"all": {store.LogQuery{}, 16}, "from the end": {store.LogQuery{Reverse: true}, 16},
		"one": {store.LogQuery{Of: conv("c")}, 8}, "one from the end": {store.LogQuery{Of: conv("c"), Reverse: true}, 8},
	} {
		found, last := 0, uint64(0)
		for more := true; more; {
			p := must(s.Log(t.Context(), ada, c.q))
			size := 0
			for _, e := range p.Entries {
				if last != 0 && (e.Seq > last) == c.q.Reverse || e.Seq == last {
					t.Fatalf("%s: %d after %d", name, e.Seq, last)
				}
				found, last, size = found+1, e.Seq, size+len(e.Body)
			}
			if size >= pageBytes+len(body) {
				t.Errorf("%s: a page of %d bytes", name, size)
			}
			more, c.q.After = p.More, p.Next
		}
		if found != c.want {
			t.Errorf("%s: %d entries, want %d", name, found, c.want)
		}
	}
}
