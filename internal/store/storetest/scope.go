package storetest

import (
	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
)

func zeroScope(e *env) {
	e.must(ada, put(conv("c"), ""))
	for _, sc := range []store.Scope{{}, {Actor: "ada"}} {
		_, err := e.st.Commit(e.ctx, sc, store.Batch{})
		e.wantCode(err, "scope_missing")
		_, err = e.st.Get(e.ctx, sc, conv("c"))
		e.wantCode(err, "scope_missing")
		_, err = e.st.Query(e.ctx, sc, store.Query{})
		e.wantCode(err, "scope_missing")
		_, err = e.st.Log(e.ctx, sc, store.LogQuery{})
		e.wantCode(err, "scope_missing")
	}
	_, err := e.st.Commit(e.ctx, store.Scope{Actor: "ada", Read: ada.Read}, store.Batch{Changes: []store.Change{put(conv("d"), "")}})
	e.wantCode(err, "scope_missing")
	e.missing(system, conv("d"))
}

// foreignReads: what is of another space is found in no way.
func foreignReads(e *env) {
	u, list := message("c", "m"), conv("c")
	term := store.Term{Name: "n", Value: "v"}
	r := e.must(ada, store.Change{URI: u, State: "open", Terms: []store.Term{term}, Place: &store.Place{List: list, Pos: 1}})
	queries := []store.Query{{}, {Under: list}, {Type: "common.Message"}, {List: list}, {Term: term}, {State: "open"}}
	logs := []store.LogQuery{{}, {Under: list}, {Of: u}, {Reverse: true}, {Of: u, Reverse: true}}
	e.missing(bob, u)
	for _, q := range queries {
		e.wantNames(ada, q, "m")
		e.wantNames(bob, q)
		e.wantNames(system, q, "m")
	}
	for _, q := range logs {
		e.wantLog(ada, q, "m/1")
		e.wantLog(bob, q)
		e.wantLog(system, q, "m/1")
	}
	// Nor once bob has something of his own.
	e.must(bob, store.Change{URI: message("b", "own"), State: "open", Terms: []store.Term{term}, Place: &store.Place{List: list, Pos: 2}})
	for _, q := range []store.Query{{}, {Type: "common.Message"}, {List: list}, {Term: term}, {State: "open"}} {
		e.wantNames(bob, q, "own")
		e.wantNames(ada, q, "m")
		if got := e.all(system, q); len(got) != 2 {
			e.Errorf("the node finds %v", names(got))
		}
	}
	e.wantLog(bob, store.LogQuery{Since: r.Seq}, "own/1")
	e.wantLog(ada, store.LogQuery{Since: r.Seq})
}

func foreignWrites(e *env) {
	u := conv("c")
	e.must(ada, store.Change{URI: u, Body: []byte("ada's"), State: "open"})
	for _, want := range []store.If{{}, {Absent: true}} {
		e.refused("conflict", u, bob, store.Change{URI: u, If: want})
	}
	_, err := e.st.Commit(e.ctx, bob, store.Batch{Changes: []store.Change{put(u, "")}})
	for k := range fault.Of(err).Details {
		e.failIf(k != "uri", "the conflict tells of the other's %s: %v", k, fault.Of(err).Details)
	}
	// Everything else is as if it did not exist.
	absent := conv("absent")
	for _, c := range []store.Change{
		{If: store.If{Version: 1}},
		{If: store.If{States: []string{"open"}}},
		{Op: store.Delete},
		{Op: store.Delete, If: store.If{Version: 1}},
		{Op: store.Delete, If: store.If{Absent: true}},
		{Op: store.Check, If: store.If{Version: 1}},
		{Op: store.Check, If: store.If{States: []string{"open"}}},
		{Op: store.Check, If: store.If{States: []string{""}}},
		{Op: store.Unlist, Place: &store.Place{List: u}},
	} {
		for _, c.URI = range []resource.URI{u, absent} {
			e.refused("not_found", c.URI, bob, c)
		}
	}
	for _, want := range []store.If{{}, {Absent: true}} {
		for _, v := range []resource.URI{u, absent} {
			e.must(bob, store.Change{Op: store.Check, URI: v, If: want})
		}
	}
	// Reading it does not make it writable, not for the node either.
	e.refused("conflict", u, system, put(u, ""))
	e.refused("not_found", u, system, store.Change{Op: store.Delete, URI: u})
	reader := store.Scope{Actor: "bob", Read: []resource.Space{"user:bob", "user:ada"}, Write: "user:bob"}
	e.refused("not_found", u, reader, store.Change{Op: store.Check, URI: u, If: store.If{Version: 1}})

	if got := e.get(ada, u); got.Version != 1 || string(got.Body) != "ada's" {
		e.Errorf("got %+v", got)
	}
	// A deleted resource stays in its space.
	e.must(ada, store.Change{Op: store.Delete, URI: u})
	e.refused("conflict", u, bob, put(u, ""))
	e.must(ada, put(u, ""))
}

func sharedSpaces(e *env) {
	team := store.Scope{Actor: "ada", Read: []resource.Space{"user:ada", "group:team"}, Write: "group:team"}
	e.must(ada, put(conv("own"), ""))
	e.must(team, put(conv("shared"), ""))
	e.must(bob, put(conv("bobs"), ""))
	e.wantNames(ada, store.Query{}, "own")
	e.wantNames(team, store.Query{}, "own", "shared")
	e.wantLog(team, store.LogQuery{}, "own/1", "shared/1")
	if got := e.get(team, conv("shared")); got.Space != "group:team" {
		e.Errorf("got %+v", got)
	}
	e.refused("conflict", conv("own"), team, put(conv("own"), ""))
	e.must(store.Scope{Actor: "bob", Read: bob.Read, Write: "group:team"}, store.Change{URI: conv("shared"), If: store.If{Version: 1}})
	if got := e.log(team, store.LogQuery{Of: conv("shared")}); len(got) != 2 || got[1].Actor != "bob" {
		e.Errorf("log %v", got)
	}
	e.must(store.ForNode("group:team"), store.Change{Op: store.Delete, URI: conv("shared")})
	e.wantNames(system, store.Query{}, "bobs", "own")
}
