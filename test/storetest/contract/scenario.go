package contract

import (
	"strings"

	"steward/internal/resource"
	"steward/internal/store"
	"steward/test/storetest"
)

// step is a batch of a scenario.
type step struct {
	sc      store.Scope
	changes []store.Change
}

func by(sc store.Scope, changes ...store.Change) step { return step{sc, changes} }

// What scenarios are about: a few resources in one list, of several people.
var (
	listC  = conv("c")
	x, y   = message("c", "x"), message("c", "y")
	task   = x.Child("plan.Task", "t")
	termA  = store.Term{Name: "a", Value: "1"}
	team   = store.Scope{Actor: "ada", Read: []resource.Space{"user:ada", "group:team"}, Write: "group:team"}
	reader = store.Scope{Actor: "bob", Read: []resource.Space{"user:bob", "user:nobody", "user:ada"}, Write: "user:bob"}
	long   = strings.Repeat(`{"role":"user","blocks":[{"type":"text","text":"again and again"}]}`, 20)
)

func full(u resource.URI, body string, pos int64) store.Change {
	return store.Change{URI: u, Body: []byte(body), State: "open", Terms: []store.Term{termA}, Place: at(pos)}
}

func at(pos int64) *store.Place { return &store.Place{List: listC, Pos: pos} }

func listed(u resource.URI, pos int64) store.Change { return store.Change{URI: u, Place: at(pos)} }

func of(op store.Op, u resource.URI) store.Change { return store.Change{Op: op, URI: u} }

func unlisted(u resource.URI) store.Change {
	return store.Change{Op: store.Unlist, URI: u, Place: at(99)}
}

func check(u resource.URI, want store.If) store.Change {
	return store.Change{Op: store.Check, URI: u, If: want}
}

// scenarios are what random changes seldom come to.
func scenarios() map[string][]step {
	absent := store.If{Absent: true}
	return map[string][]step{
		"ErasedAndBack": {
			by(ada, full(x, "1", 7)),
			by(ada, put(y, "theirs"), put(x, "2")),
			by(ada, of(store.Erase, x)),
			by(ada, listed(y, 7)),
			by(ada, put(x, "4")),
			by(ada, of(store.Erase, x)),
		},
		"ErasedInABatch": {
			by(ada, put(x, "1")),
			by(ada, put(x, "2"), put(y, "1"), of(store.Erase, x), put(x, "4"), of(store.Erase, y)),
			by(ada, of(store.Erase, x), put(y, ""), store.Change{URI: y, If: absent}),
		},
		"Packed": {
			by(ada, full(x, "1"+long, 3), put(y, long)),
			by(ada, put(x, "2"+long)),
			by(ada, of(store.Pack, x)),
			by(ada, of(store.Pack, x)),
			by(ada, put(x, "3"+long), of(store.Pack, x), put(x, "4"+long)),
			by(ada, of(store.Pack, x)),
			by(ada, of(store.Delete, x)),
			by(ada, of(store.Pack, x)),
			by(ada, put(x, "6"+long), of(store.Pack, x), of(store.Erase, x), put(x, "8"+long), of(store.Pack, x)),
			by(ada, of(store.Pack, x), put(x, "9"+long), of(store.Erase, x)),
		},
		"Spaces": {
			by(ada, full(x, "ada's", 1)),
			by(bob, full(y, "bob's", 2)),
			by(team, put(listC, "shared")),
			by(bob, of(store.Delete, x)),
			by(bob, check(x, store.If{Version: 1})),
			by(bob, check(x, absent)),
			by(bob, store.Change{URI: x, If: absent}),
			by(bob, unlisted(x)),
			by(team, put(x, "")),
			by(system, put(x, "")),
			by(system, of(store.Delete, x)),
			by(reader, check(x, store.If{Version: 1})),
			by(store.Scope{Actor: "bob", Read: bob.Read, Write: "group:team"}, store.Change{URI: listC, If: store.If{Version: 1}}),
			by(store.ForNode("group:team"), of(store.Delete, listC)),
			by(ada, of(store.Delete, x)),
			by(bob, put(x, "")),
			by(ada, put(x, "")),
		},
	}
}

// scenario carries steps out on a store and on the model, which must agree at the
// end, or after each step.
func scenario(e *env, steps []step, often bool) {
	p := &pair{ctx: e.ctx, real: e.st, model: storetest.NewModel(), uris: []resource.URI{listC, x, y, task}, lists: []resource.URI{listC, y},
		scopes: []store.Scope{ada, bob, team, reader, system}}
	for i, s := range steps {
		p.batch(e, s.sc, store.Batch{Changes: s.changes})
		if often || i == len(steps)-1 {
			p.look(e)
		}
	}
}

// look compares all that is to be seen.
func (p *pair) look(t tb) {
	t.Helper()
	for _, sc := range p.scopes {
		queries, logs := []store.Query{{}, {NoBody: true}}, []store.LogQuery{{}, {Since: p.base + 2}, {Since: 1<<64 - 1}}
		for _, u := range p.uris {
			p.one(t, sc, u)
			queries = append(queries, store.Query{Under: u})
			logs = append(logs, store.LogQuery{Under: u}, store.LogQuery{Of: u}, store.LogQuery{Of: u, Under: x})
		}
		for _, typ := range typeWords {
			queries = append(queries, store.Query{Type: typ})
			logs = append(logs, store.LogQuery{Type: typ}, store.LogQuery{Type: typ, Under: p.uris[0]})
		}
		for _, u := range p.lists {
			queries = append(queries, store.Query{List: u}, store.Query{List: u, From: 2}, store.Query{List: u, Count: &store.Count{From: 1, To: 50}})
		}
		for _, term := range termWords {
			queries = append(queries, store.Query{Term: term}, store.Query{Term: term, Type: "common.Message"})
		}
		for _, s := range stateWords {
			queries = append(queries, store.Query{State: s}, store.Query{State: s, Under: x})
		}
		for _, reverse := range []bool{false, true} {
			for _, q := range queries {
				q.Limit, q.Reverse = 2, reverse
				p.page(t, sc, q)
			}
			for _, q := range logs {
				q.Limit, q.Reverse = 2, reverse
				p.entries(t, sc, q)
			}
		}
	}
}
