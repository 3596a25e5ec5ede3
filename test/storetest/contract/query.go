package contract

import (
	"fmt"

	"steward/internal/store"
)

// underIsExact: a prefix in the text of an id is no ancestor.
func underIsExact(e *env) {
	for _, s := range []string{"x", "xy", "x.y", "x\U0010ffff", "X", "x "} {
		e.must(ada, put(conv(s), ""), put(message(s, "m"), ""))
	}
	for _, s := range []string{"x", "xy", "x.y", "x\U0010ffff", "X", "x "} {
		e.wantNames(ada, store.Query{Under: conv(s)}, s, "m")
		e.wantLog(ada, store.LogQuery{Under: conv(s)}, s+"/1", "m/1")
		e.wantLog(ada, store.LogQuery{Of: conv(s)}, s+"/1")
	}
}

// listOrder: positions are numbers, up to the largest and the smallest.
func listOrder(e *env) {
	for i, pos := range []int64{30, -5, 10, 1 << 62, 0, 20, -1 << 63} {
		e.must(ada, listed(message("c", fmt.Sprint(i)), pos))
	}
	list := store.Query{List: conv("c")}
	e.wantNames(ada, list, "6", "1", "4", "2", "5", "0", "3")
	list.Reverse = true
	e.wantNames(ada, list, "3", "0", "5", "2", "4", "1", "6")
	e.wantNames(ada, store.Query{List: conv("c"), From: -5}, "1", "4", "2", "5", "0", "3")
	e.wantNames(ada, store.Query{List: conv("c"), Under: message("c", "5")}, "5")
	page, err := e.st.Query(e.ctx, ada, store.Query{List: conv("c"), Count: &store.Count{From: -1 << 63, To: 1 << 62}})
	e.failIf(err != nil || page.Count != 7 || len(page.Items) != 0, "%d, %v", page.Count, err)
}

// cursorsSurviveAdditions: a page that follows is right, whatever was added
// since, before or behind its cursor.
func cursorsSurviveAdditions(e *env) {
	one := func(name string, pos int64) store.Change {
		c := listed(message("c", name), pos)
		c.State, c.Terms = "open", []store.Term{{Name: "k", Value: "v"}}
		return c
	}
	e.must(ada, one("b", 20), one("d", 40), one("f", 60))
	queries := []store.Query{
		{Type: "common.Message"}, {List: conv("c")}, {Term: store.Term{Name: "k", Value: "v"}}, {State: "open"},
	}
	next := make([]store.Cursor, len(queries))
	for i, q := range queries {
		q.Limit = 1
		p, err := e.st.Query(e.ctx, ada, q)
		if err != nil || len(p.Items) != 1 || p.Next == "" {
			e.Fatalf("query %+v gives %v, %v", q, p, err)
		}
		next[i] = p.Next
	}
	e.must(ada, one("a", 10), one("c", 30), one("g", 70))
	for i, want := range []string{"[c d f g]", "[c d f g]", "[d f a c g]", "[c d f g]"} {
		q := queries[i]
		q.After = next[i]
		p, err := e.st.Query(e.ctx, ada, q)
		e.failIf(err != nil || fmt.Sprint(names(p.Items)) != want || p.Next != "", "query %+v goes on with %v, want %s (%v)", q, names(p.Items), want, err)
	}
	// A page that is exactly full says that there is no more.
	for _, q := range queries {
		q.Limit = 6
		if p, err := e.st.Query(e.ctx, ada, q); err != nil || len(p.Items) != 6 || p.Next != "" {
			e.Errorf("query %+v gives %d items and the cursor %q (%v)", q, len(p.Items), p.Next, err)
		}
	}
}
