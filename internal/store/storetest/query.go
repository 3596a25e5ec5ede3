package storetest

import (
	"fmt"

	"steward/internal/resource"
	"steward/internal/store"
)

func treeOrder(e *env) {
	e.must(ada, put(conv("b"), ""), put(message("a", "2"), ""), put(conv("a"), ""), put(message("a", "1"), ""),
		put(message("a", "1").Child("plan.Task", "t"), ""), put(resource.Root("agent.Agent", "z"), ""))
	e.wantNames(ada, store.Query{Under: conv("a")}, "a", "1", "t", "2")
	e.wantNames(ada, store.Query{Under: conv("a"), Reverse: true}, "2", "t", "1", "a")
	e.wantNames(ada, store.Query{Under: conv("a"), Type: "common.Message"}, "1", "2")
	e.wantNames(ada, store.Query{Under: conv("a"), Type: "never.Seen"})
	e.wantNames(ada, store.Query{Type: "common.Message", Reverse: true}, "2", "1")
	e.wantNames(ada, store.Query{Type: "plan.Task"}, "t")
	e.wantNames(ada, store.Query{}, "a", "1", "t", "2", "b", "z")
	e.wantNames(ada, store.Query{Under: conv("none")})
	e.must(ada, put(conv("a"), "again")) // the order stays
	e.wantNames(ada, store.Query{Type: "common.Conversation"}, "a", "b")
}

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

// listed returns a put that places the message in the list of conversation c.
func listed(c, name string, pos int64) store.Change {
	return store.Change{URI: message(c, name), Place: &store.Place{List: conv(c), Pos: pos}}
}

func listOrder(e *env) {
	for i, pos := range []int64{30, -5, 10, 1 << 62, 0, 20, -1 << 63} {
		e.must(ada, listed("c", fmt.Sprint(i), pos))
	}
	e.must(ada, listed("other", "x", 10))
	list := store.Query{List: conv("c")}
	e.wantNames(ada, list, "6", "1", "4", "2", "5", "0", "3")
	for _, it := range e.all(ada, list) {
		if want := map[string]int64{"0": 30, "1": -5, "2": 10, "3": 1 << 62, "4": 0, "5": 20, "6": -1 << 63}[it.URI.ID()]; it.Pos != want {
			e.Errorf("%s has the position %d, want %d", it.URI, it.Pos, want)
		}
	}
	list.Reverse = true
	e.wantNames(ada, list, "3", "0", "5", "2", "4", "1", "6")
	e.wantNames(ada, store.Query{List: conv("c"), From: 20}, "5", "0", "3")
	e.wantNames(ada, store.Query{List: conv("c"), From: 11}, "5", "0", "3")
	e.wantNames(ada, store.Query{List: conv("c"), From: -5}, "1", "4", "2", "5", "0", "3")
	e.wantNames(ada, store.Query{List: conv("c"), From: 20, Reverse: true}, "5", "2", "4", "1", "6")
	e.wantNames(ada, store.Query{List: conv("c"), From: -6, Reverse: true}, "6")
	e.wantNames(ada, store.Query{List: conv("c"), Type: "common.Branch"})
	e.wantNames(ada, store.Query{List: conv("c"), Under: message("c", "5")}, "5")
	e.wantNames(ada, store.Query{List: conv("none")})
	for _, c := range []struct {
		list     string
		from, to int64
		want     int
	}{{"c", 10, 20, 2}, {"c", -1 << 63, 1 << 62, 7}, {"c", 11, 19, 0}, {"other", 0, 99, 1}, {"none", 0, 99, 0}} {
		page, err := e.st.Query(e.ctx, ada, store.Query{List: conv(c.list), Count: &store.Count{From: c.from, To: c.to}})
		e.failIf(err != nil || page.Count != c.want || len(page.Items) != 0, "%v: %d, %v", c, page.Count, err)
	}
	e.wantNames(ada, store.Query{List: message("c", "5")})
}

func listMoves(e *env) {
	e.must(ada, listed("c", "a", 1), listed("c", "b", 2))
	e.must(ada, put(message("c", "a"), "2")) // stays in its place
	items := e.all(ada, store.Query{List: conv("c")})
	e.failIf(len(items) != 2 || string(items[0].Body) != "2" || items[0].Version != 2 || items[0].Pos != 1, "got %v", items)
	e.must(ada, listed("c", "a", 1)) // again where it is
	e.must(ada, listed("c", "a", 3)) // moves within the list
	e.wantNames(ada, store.Query{List: conv("c")}, "b", "a")
	e.must(ada, listed("c", "d", 1)) // and its old position is free
	// A second list takes nothing from the first.
	e.must(ada, store.Change{URI: message("c", "a"), Place: &store.Place{List: conv("second"), Pos: 9}})
	e.wantNames(ada, store.Query{List: conv("c")}, "d", "b", "a")
	e.wantNames(ada, store.Query{List: conv("second")}, "a")
	e.must(ada, store.Change{URI: message("c", "a"), Place: &store.Place{List: conv("second"), Pos: 8}})
	e.wantNames(ada, store.Query{List: conv("c"), From: 3}, "a")
	e.wantNames(ada, store.Query{List: conv("second"), From: 9})
	// The last of two places in one batch counts.
	e.must(ada, listed("c", "a", 50), listed("c", "a", 60), listed("c", "x", 50))
	e.wantNames(ada, store.Query{List: conv("c"), From: 50}, "x", "a")
	for _, it := range e.all(ada, store.Query{List: conv("c")}) {
		if got := e.get(ada, it.URI); got.Version != it.Version || got.Seq != it.Seq {
			e.Errorf("the list has %+v of %+v", it, got)
		}
	}
}

func listConflicts(e *env) {
	e.must(ada, listed("c", "a", 1))
	e.refused("conflict", message("c", "b"), ada, listed("c", "b", 1))
	e.refused("conflict", message("c", "y"), ada, listed("c", "x", 2), listed("c", "y", 2))
	e.refused("conflict", message("c", "b"), ada, listed("c", "b", 5), listed("c", "b", 1))
	e.missing(ada, message("c", "b"))
	e.must(ada, listed("c", "b", 2))
	e.refused("conflict", message("c", "a"), ada, listed("c", "a", 2), listed("c", "b", 1))
	// One that makes room in time is welcome.
	e.must(ada, listed("c", "a", 3), listed("c", "b", 1), listed("c", "a", 2))
	e.wantNames(ada, store.Query{List: conv("c")}, "b", "a")
	e.must(ada, store.Change{Op: store.Delete, URI: message("c", "b")}, listed("c", "n", 1))
	e.must(ada, store.Change{Op: store.Unlist, URI: message("c", "a"), Place: &store.Place{List: conv("c")}}, listed("c", "m", 2))
	e.wantNames(ada, store.Query{List: conv("c")}, "n", "m")
}

// listsAndSpaces: members of other spaces are not there, so they do not take
// positions either.
func listsAndSpaces(e *env) {
	e.must(ada, listed("c", "ada", 1))
	e.must(bob, listed("c", "bob", 1))
	e.wantNames(ada, store.Query{List: conv("c")}, "ada")
	e.wantNames(bob, store.Query{List: conv("c")}, "bob")
	e.wantNames(bob, store.Query{List: conv("c"), Reverse: true, From: 1}, "bob")
	if page, err := e.st.Query(e.ctx, ada, store.Query{List: conv("c"), Count: &store.Count{From: 0, To: 9}}); err != nil || page.Count != 1 {
		e.Errorf("ada counts %d, %v", page.Count, err)
	}
	if got := e.all(system, store.Query{List: conv("c")}); len(got) != 2 {
		e.Errorf("the node finds %v", names(got))
	}
	e.must(ada, listed("c", "ada", 2))
	e.wantNames(system, store.Query{List: conv("c")}, "bob", "ada")
	e.wantNames(system, store.Query{List: conv("c"), Reverse: true}, "ada", "bob")
}

func unlist(e *env) {
	out := func(name string) store.Change {
		return store.Change{Op: store.Unlist, URI: message("c", name), Place: &store.Place{List: conv("c"), Pos: 99}}
	}
	e.must(ada, listed("c", "a", 1), listed("c", "b", 2))
	e.must(ada, store.Change{URI: message("c", "a"), Place: &store.Place{List: conv("d"), Pos: 1}})
	r := e.must(ada, out("a"))
	e.failIf(r.Versions[0] != 0 || r.Seq != 3, "receipt %+v: unlisting writes no entry", r)
	e.wantNames(ada, store.Query{List: conv("c")}, "b")
	e.wantNames(ada, store.Query{List: conv("d")}, "a")
	if got := e.get(ada, message("c", "a")); got.Version != 2 {
		e.Errorf("got %+v", got)
	}
	e.must(ada, out("a")) // it is not in the list: nothing to do
	e.refused("conflict", message("c", "b"), ada, store.Change{
		Op: store.Unlist, URI: message("c", "b"), If: store.If{Version: 7}, Place: &store.Place{List: conv("c")}})
	e.refused("not_found", message("c", "none"), ada, out("none"))
	e.must(ada, store.Change{Op: store.Unlist, URI: message("c", "b"), Place: &store.Place{List: conv("never")}})
	e.wantNames(ada, store.Query{List: conv("c")}, "b")
	e.must(ada, listed("c", "a", 1), out("b"))
	e.wantNames(ada, store.Query{List: conv("c")}, "a")
	e.wantLog(ada, store.LogQuery{Since: 3}, "a/3")
}

// termed returns a put with terms, given as name, value, name, value.
func termed(name string, terms ...string) store.Change {
	c := store.Change{URI: conv(name)}
	for i := 0; i < len(terms); i += 2 {
		c.Terms = append(c.Terms, store.Term{Name: terms[i], Value: terms[i+1]})
	}
	return c
}

func byTerm(name, value string) store.Query {
	return store.Query{Term: store.Term{Name: name, Value: value}}
}

func termOrder(e *env) {
	e.must(ada, termed("c", "kind", "x"), termed("a", "kind", "x"), termed("b", "kind", "x", "other", "x"), termed("d", "kind", "y"))
	e.must(ada, store.Change{URI: message("a", "m"), Terms: []store.Term{{Name: "kind", Value: "x"}}})
	q := byTerm("kind", "x")
	e.wantNames(ada, q, "c", "a", "b", "m")
	e.must(ada, termed("a", "kind", "x")) // put again: now the newest
	e.wantNames(ada, q, "c", "b", "m", "a")
	q.Reverse = true
	e.wantNames(ada, q, "a", "m", "b", "c")
	q.Type = "common.Message"
	e.wantNames(ada, q, "m")
	q.Type, q.Under = "", conv("a")
	e.wantNames(ada, q, "a", "m")
	e.wantNames(ada, byTerm("kind", ""))
	e.wantNames(ada, byTerm("never", "x"))
	e.wantNames(ada, byTerm("other", "x"), "b")
	e.must(ada, termed("e", "kind", ""))
	e.wantNames(ada, byTerm("kind", ""), "e")
}

func termsAreReplaced(e *env) {
	e.must(ada, termed("a", "p", "1", "q", "1", "q", "2", "p", "1"))
	e.wantNames(ada, byTerm("p", "1"), "a")
	e.wantNames(ada, byTerm("q", "1"), "a")
	e.wantNames(ada, byTerm("q", "2"), "a")
	e.must(ada, termed("a", "q", "2", "r", "1"))
	e.wantNames(ada, byTerm("p", "1"))
	e.wantNames(ada, byTerm("q", "1"))
	e.wantNames(ada, byTerm("q", "2"), "a")
	e.wantNames(ada, byTerm("r", "1"), "a")
	e.must(ada, termed("a"), termed("a", "s", "1"), termed("a", "t", "1"))
	for _, gone := range []store.Query{byTerm("q", "2"), byTerm("r", "1"), byTerm("s", "1")} {
		e.wantNames(ada, gone)
	}
	e.wantNames(ada, byTerm("t", "1"), "a")
	if got := e.all(ada, byTerm("t", "1")); len(got) != 1 || got[0].Version != 5 {
		e.Errorf("got %v", got)
	}
}

func termsOfManySpaces(e *env) {
	both := store.Scope{Actor: "ada", Read: []resource.Space{"user:bob", "user:nobody", "user:ada"}, Write: "user:ada"}
	e.must(ada, termed("1", "k", "v"))
	e.must(bob, termed("2", "k", "v"))
	e.must(store.ForUser("eve"), termed("3", "k", "v"))
	e.must(ada, termed("4", "k", "v"))
	e.must(bob, termed("5", "k", "v"))
	q := byTerm("k", "v")
	e.wantNames(both, q, "1", "2", "4", "5")
	e.wantNames(system, q, "1", "2", "3", "4", "5")
	q.Reverse = true
	e.wantNames(both, q, "5", "4", "2", "1")
	e.wantNames(system, q, "5", "4", "3", "2", "1")
}

func states(e *env) {
	set := func(name, state string) store.Change { return store.Change{URI: conv(name), State: state} }
	e.must(ada, set("b", "open"), set("a", "open"), set("c", "done"), set("d", ""))
	e.wantNames(ada, store.Query{State: "open"}, "a", "b")
	e.wantNames(ada, store.Query{State: "open", Reverse: true}, "b", "a")
	e.wantNames(ada, store.Query{State: "done"}, "c")
	e.wantNames(ada, store.Query{State: "never"})
	e.must(ada, set("a", "done"))
	e.wantNames(ada, store.Query{State: "open"}, "b")
	e.wantNames(ada, store.Query{State: "done"}, "a", "c")
	e.must(ada, set("a", "")) // a put clears it
	e.wantNames(ada, store.Query{State: "done"}, "c")
	e.wantNames(ada, store.Query{State: "done", Under: conv("c")}, "c")
	e.wantNames(ada, store.Query{State: "done", Under: conv("a")})
	e.wantNames(ada, store.Query{State: "done", Type: "common.Message"})
	e.must(ada, store.Change{URI: message("c", "m"), State: "done"})
	e.wantNames(ada, store.Query{State: "done", Type: "common.Message"}, "m")
	e.wantNames(ada, store.Query{State: "done"}, "c", "m")
}

func noBody(e *env) {
	e.must(ada, store.Change{URI: message("c", "m"), Body: []byte("body"), State: "open",
		Terms: []store.Term{{Name: "k", Value: "v"}}, Place: &store.Place{List: conv("c"), Pos: 1}})
	for _, q := range []store.Query{{}, {List: conv("c")}, byTerm("k", "v"), {State: "open"}} {
		with := e.all(ada, q)
		q.NoBody = true
		without := e.all(ada, q)
		if len(with) != 1 || len(without) != 1 || string(with[0].Body) != "body" || without[0].Body != nil {
			e.Errorf("query %+v gives %v and %v", q, with, without)
			continue
		}
		with[0].Body = nil
		e.failIf(fmt.Sprint(with) != fmt.Sprint(without), "query %+v gives %v and %v", q, with, without)
	}
}

func queryInvalid(e *env) {
	term := store.Term{Name: "k", Value: "v"}
	for _, q := range []store.Query{
		{List: conv("c"), Term: term}, {List: conv("c"), State: "s"}, {Term: term, State: "s"},
		{List: conv("c"), Term: term, State: "s"},
	} {
		_, err := e.st.Query(e.ctx, ada, q)
		e.wantCode(err, "query_invalid")
	}
}

// cursorsSurviveAdditions: a page that follows is right, whatever was added
// since, before or behind its cursor.
func cursorsSurviveAdditions(e *env) {
	one := func(name string, pos int64) store.Change {
		c := listed("c", name, pos)
		c.State, c.Terms = "open", []store.Term{{Name: "k", Value: "v"}}
		return c
	}
	e.must(ada, one("b", 20), one("d", 40), one("f", 60))
	queries := []store.Query{
		{Type: "common.Message"}, {List: conv("c")}, byTerm("k", "v"), {State: "open"},
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

func cursorInvalid(e *env) {
	e.must(ada,
		store.Change{URI: message("c", "1"), State: "s", Terms: []store.Term{{Name: "k", Value: "v"}}, Place: &store.Place{List: conv("c"), Pos: 1}},
		store.Change{URI: message("c", "2"), State: "s", Terms: []store.Term{{Name: "k", Value: "v"}}, Place: &store.Place{List: conv("c"), Pos: 2}})
	queries := []store.Query{
		{}, {Reverse: true}, {Under: conv("c")}, {Type: "common.Message"}, {List: conv("c")}, {List: conv("c"), Reverse: true},
		byTerm("k", "v"), {State: "s"},
	}
	logs := []store.LogQuery{{}, {Reverse: true}}
	var cursors []store.Cursor
	for _, q := range queries {
		q.Limit = 1
		p, err := e.st.Query(e.ctx, ada, q)
		if err != nil || p.Next == "" {
			e.Fatalf("query %+v: %v, %v", q, p, err)
		}
		cursors = append(cursors, p.Next)
	}
	for _, q := range logs {
		p, err := e.st.Log(e.ctx, ada, q)
		if err != nil || p.Next == "" {
			e.Fatalf("log %+v: %v, %v", q, p, err)
		}
		cursors = append(cursors, p.Next)
	}
	garbage := []store.Cursor{"x", "!", "AAAA", "AAAAAAAAAAAAAA", cursors[0] + "A", cursors[0][1:], " " + cursors[0]}
	for i, q := range queries {
		for j, c := range append(cursors, garbage...) {
			q.After = c
			_, err := e.st.Query(e.ctx, ada, q)
			if i == j || j == len(cursors)+4 && i == 0 {
				continue // its own, or its own with a longer key
			}
			e.wantCode(err, "cursor_invalid")
		}
	}
	for i, q := range logs {
		for j, c := range append(cursors, garbage...) {
			q.After = c
			_, err := e.st.Log(e.ctx, ada, q)
			if j == len(queries)+i {
				continue
			}
			e.wantCode(err, "cursor_invalid")
		}
	}
}
