// Package contract is the suite that every implementation of the store passes:
// what package store says, and what it leaves to be said.
//
// A deletion takes a version of its own, so that each entry of a resource has
// another version. A deleted resource stays in its space: to others its URI
// remains taken. What needs a resource that does not exist is not_found; a
// precondition that does not hold on one that exists is a conflict. Members of
// one list that lie in different spaces do not see each other, so they may share
// a position.
package contract

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// Run runs the suite. open gives an empty store and closes it when t ends.
func Run(t *testing.T, open func(t *testing.T) store.Store) { run(t, open, true) }

// Brief is Run for a store each of whose reads is a round trip: it looks at
// everything only at the end of each scenario, not after each of its steps.
func Brief(t *testing.T, open func(t *testing.T) store.Store) { run(t, open, false) }

func run(t *testing.T, open func(t *testing.T) store.Store, often bool) {
	for _, part := range []struct {
		name string
		test func(*env)
	}{
		{"PutAndGet", putAndGet},
		{"PackedBodies", packedBodies},
		{"BigBody", bigBody},
		{"OddIDs", oddIDs},
		{"Times", times},
		{"CancelledCalls", cancelledCalls},
		{"Refusals", refusals},
		{"ForeignConflict", foreignConflict},
		{"UnderIsExact", underIsExact},
		{"ListOrder", listOrder},
		{"CursorsSurviveAdditions", cursorsSurviveAdditions},
		{"LogFollows", logFollows},
		{"Wait", wait},
		{"WaitLosesNothing", waitLosesNothing},
		{"ManyWriters", manyWriters},
		{"OneWinner", oneWinner},
		{"SealedLog", sealedLog},
		{"SealedScopes", sealedScopes},
		{"Close", closing},
		{"Machine", machine},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.test(&env{T: t, st: open(t), ctx: t.Context()})
		})
	}
	for name, steps := range scenarios() {
		t.Run(name, func(t *testing.T) {
			scenario(&env{T: t, st: open(t), ctx: t.Context()}, steps, often)
		})
	}
}

// env is what a part of the suite works with.
type env struct {
	*testing.T
	st  store.Store
	ctx context.Context
}

var (
	ada    = store.ForUser("ada")
	bob    = store.ForUser("bob")
	system = store.ForNode(resource.System)
)

// conv returns the URI of a conversation; message that of a message in one.
func conv(name string) resource.URI { return resource.Root("common.Conversation", name) }

func message(c, name string) resource.URI { return conv(c).Child("common.Message", name) }

func put(u resource.URI, body string) store.Change {
	return store.Change{URI: u, Body: []byte(body)}
}

// must commits and wants it to work.
func (e *env) must(sc store.Scope, changes ...store.Change) store.Receipt {
	e.Helper()
	r, err := e.st.Commit(e.ctx, sc, store.Batch{Request: id.New(), Changes: changes})
	if err != nil {
		e.Fatalf("commit: %v", err)
	}
	if len(r.Versions) != len(changes) {
		e.Fatalf("%d versions for %d changes", len(r.Versions), len(changes))
	}
	return r
}

func (e *env) wantCode(err error, code string) {
	e.Helper()
	if !fault.HasCode(err, code) {
		e.Fatalf("got error %v, want the code %s", err, code)
	}
	kinds := map[string]fault.Kind{"not_found": fault.NotFound, "conflict": fault.Conflict, "cursor_invalid": fault.Invalid}
	if want, ok := kinds[code]; ok && fault.Of(err).Kind != want {
		e.Fatalf("the code %s has the kind %s, want %s", code, fault.Of(err).Kind, want)
	}
}

func (e *env) get(sc store.Scope, u resource.URI) resource.Resource {
	e.Helper()
	r, err := e.st.Get(e.ctx, sc, u)
	if err != nil {
		e.Fatalf("get %v: %v", u, err)
	}
	return r
}

func (e *env) missing(sc store.Scope, u resource.URI) {
	e.Helper()
	_, err := e.st.Get(e.ctx, sc, u)
	e.wantCode(err, "not_found")
	if got := fault.Of(err).Details["uri"]; got != u.String() {
		e.Errorf("not_found names %v, not %v", got, u)
	}
}

// all returns everything that q selects, in pages of every size from 1 to 3
// and in one; they must agree.
func (e *env) all(sc store.Scope, q store.Query) []store.Item {
	e.Helper()
	var whole []store.Item
	for _, q.Limit = range []int{0, 1, 2, 3} {
		got := items(e, e.ctx, e.st, sc, q)
		if q.Limit == 0 {
			whole = got
		} else if !reflect.DeepEqual(got, whole) {
			e.Fatalf("pages of %d give\n%v\nand one page\n%v", q.Limit, names(got), names(whole))
		}
	}
	return whole
}

// names makes items short: the ids of their URIs.
func names(items []store.Item) []string {
	out := []string{}
	for _, it := range items {
		out = append(out, it.URI.ID())
	}
	return out
}

func (e *env) wantNames(sc store.Scope, q store.Query, want ...string) {
	e.Helper()
	if got := names(e.all(sc, q)); fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("query %+v gives %v, want %v", q, got, want)
	}
}

// log returns all entries that q selects, in pages of 1, 2 and all.
func (e *env) log(sc store.Scope, q store.LogQuery) []resource.Entry {
	e.Helper()
	var whole []resource.Entry
	for _, q.Limit = range []int{0, 1, 2} {
		got := entries(e, e.ctx, e.st, sc, q)
		if q.Limit == 0 {
			whole = got
		} else if !reflect.DeepEqual(got, whole) {
			e.Fatalf("pages of %d give\n%v\nand one page\n%v", q.Limit, got, whole)
		}
	}
	return whole
}

// follow returns what is there from q's cursor on, and where to continue.
func (e *env) follow(sc store.Scope, q store.LogQuery) ([]resource.Entry, store.Cursor) {
	e.Helper()
	var got []resource.Entry
	for range 10000 {
		p, err := e.st.Log(e.ctx, sc, q)
		if err != nil || p.Next == "" {
			e.Fatalf("log %+v gives %+v, %v", q, p, err)
		}
		if got = append(got, p.Entries...); !p.More {
			return got, p.Next
		}
		q.After = p.Next
	}
	e.Fatalf("log %+v finds no end", q)
	return nil, ""
}

func entryNames(entries []resource.Entry) []string {
	out := []string{}
	for _, en := range entries {
		out = append(out, fmt.Sprintf("%s/%d", en.URI.ID(), en.Version))
	}
	return out
}

func (e *env) wantLog(sc store.Scope, q store.LogQuery, want ...string) {
	e.Helper()
	if got := entryNames(e.log(sc, q)); fmt.Sprint(got) != fmt.Sprint(want) {
		e.Errorf("log %+v gives %v, want %v", q, got, want)
	}
}

// failIf reports what is wrong.
func (e *env) failIf(wrong bool, format string, args ...any) {
	e.Helper()
	if wrong {
		e.Errorf(format, args...)
	}
}

// soon is a context for what must not hang.
func (e *env) soon() context.Context {
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	e.Cleanup(cancel)
	return ctx
}

func (e *env) wantCancelled(err error) {
	e.Helper()
	if !errors.Is(err, context.Canceled) {
		e.Errorf("got %v, want the context's error", err)
	}
}
