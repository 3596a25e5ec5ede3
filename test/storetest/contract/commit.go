package contract

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

func putAndGet(e *env) {
	u := message("c", "m")
	e.missing(ada, u)
	request := id.New()
	body := []byte("hello \x00 \xff")
	r, err := e.st.Commit(e.ctx, ada, store.Batch{Request: request, Changes: []store.Change{
		{URI: u, Body: body, State: "open", Terms: []store.Term{{Name: "call", Value: "1"}}},
		{URI: message("c", "n")},
	}})
	if err != nil {
		e.Fatal(err)
	}
	e.failIf(r.Seq != 2 || r.Versions[0] != 1 || r.Versions[1] != 1 || r.At.IsZero(), "receipt %+v", r)
	body[0] = 'X' // the caller's own again
	got := e.get(ada, u)
	if got.URI != u || got.Space != "user:ada" || got.Version != 1 || got.Seq != 1 || got.State != "open" ||
		!got.At.Equal(r.At) || string(got.Body) != "hello \x00 \xff" {
		e.Errorf("got %+v", got)
	}
	if n := e.get(ada, message("c", "n")); len(n.Body) != 0 || n.State != "" || n.Seq != 2 {
		e.Errorf("got %+v", n)
	}
	entries := e.log(ada, store.LogQuery{})
	if len(entries) != 2 {
		e.Fatalf("%d entries", len(entries))
	}
	en := entries[0]
	if en.Seq != 1 || !en.At.Equal(r.At) || en.Space != "user:ada" || en.Actor != "ada" || en.Request != request ||
		en.Op != resource.OpPut || en.URI != u || en.Version != 1 || en.State != "open" || string(en.Body) != "hello \x00 \xff" {
		e.Errorf("entry %+v", en)
	}
}

func bigBody(e *env) {
	body := make([]byte, 20<<20)
	r := rand.NewChaCha8([32]byte{1})
	if _, err := r.Read(body); err != nil {
		e.Fatal(err)
	}
	u := conv("big")
	e.must(ada, store.Change{URI: u, Body: body}, put(conv("small"), "x"))
	if got := e.get(ada, u); !bytes.Equal(got.Body, body) {
		e.Errorf("got %d other bytes", len(got.Body))
	}
	if got := e.log(ada, store.LogQuery{Of: u}); len(got) != 1 || !bytes.Equal(got[0].Body, body) {
		e.Error("the log has another body")
	}
	for _, it := range e.all(ada, store.Query{NoBody: true}) {
		e.failIf(it.Body != nil, "%s came with its body", it.URI)
	}
}

func oddIDs(e *env) {
	ids := []string{
		"a", "A", "a ", " ", ".", "..", "a.b", "%", "_", "*", ">", "?", "'", `"`, "\\", ";--", "a\nb", "\x01", "\x7f", "\U0010ffff", "\U0010ffff\U0010ffff",
		"ä", "a\u0308", "日本語", "🦊", "\u202e", strings.Repeat("x", 512), "00000000-0000-0000-0000-000000000000",
		"0192f7a0-0000-7000-8000-000000000000", "0192F7A0-0000-7000-8000-000000000000", "NULL", "0", "-1", "1e3",
	}
	for i, s := range ids {
		u := resource.Root("odd.Thing", s).Child("odd.Part", s)
		term := store.Term{Name: s, Value: s}
		e.must(store.Scope{Actor: s, Read: []resource.Space{resource.UserSpace(s)}, Write: resource.UserSpace(s)},
			store.Change{URI: u, Body: []byte(s), State: s, Terms: []store.Term{term}, Place: &store.Place{List: resource.Root("odd.Thing", s), Pos: int64(i)}})
	}
	for i, s := range ids {
		sc := store.ForUser(s)
		list := resource.Root("odd.Thing", s)
		want := store.Item{Resource: e.get(sc, list.Child("odd.Part", s))}
		e.failIf(string(want.Body) != s || want.State != s || want.Space != resource.UserSpace(s) || want.URI.ID() != s, "%q: got %+v", s, want)
		for _, q := range []store.Query{{}, {Under: list}, {List: list}, {State: s}, {Term: store.Term{Name: s, Value: s}}} {
			got := e.all(sc, q)
			want.Pos = 0
			if !q.List.Zero() {
				want.Pos = int64(i)
			}
			e.failIf(len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want), "%q: query %+v gives %v", s, q, got)
		}
		if got := e.log(sc, store.LogQuery{Under: list}); len(got) != 1 || got[0].Actor != s || got[0].State != s {
			e.Errorf("%q: log gives %v", s, got)
		}
	}
}

// times: whole microseconds in UTC that never go back.
func times(e *env) {
	before := time.Now().Truncate(time.Microsecond)
	var last time.Time
	for i := range 20 {
		r := e.must(ada, put(conv(fmt.Sprint(i)), ""), put(conv("x"), ""))
		e.failIf(r.At.Before(last) || r.At.Before(before) || r.At.Location() != time.UTC || r.At.Nanosecond()%1000 != 0, "the time %v after %v", r.At, last)
		if got := e.get(ada, conv(fmt.Sprint(i))); !got.At.Equal(r.At) || got.At.Location() != time.UTC {
			e.Errorf("stamped %v, got %v", r.At, got.At)
		}
		last = r.At
	}
	if after := time.Now(); last.After(after) {
		e.Errorf("the time %v lies before the clock's %v", after, last)
	}
}

func cancelledCalls(e *env) {
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, err := e.st.Commit(ctx, ada, store.Batch{Changes: []store.Change{put(conv("c"), "")}})
	e.wantCancelled(err)
	_, err = e.st.Get(ctx, ada, conv("c"))
	e.wantCancelled(err)
	_, err = e.st.Query(ctx, ada, store.Query{})
	e.wantCancelled(err)
	_, err = e.st.Log(ctx, ada, store.LogQuery{})
	e.wantCancelled(err)
	_, err = e.st.Wait(ctx, 0)
	e.wantCancelled(err)
	e.missing(ada, conv("c"))
}

// foreignConflict: who meets a resource of another learns no more than that
// its URI is taken.
func foreignConflict(e *env) {
	e.must(ada, store.Change{URI: conv("c"), Body: []byte("ada's"), State: "open"})
	_, err := e.st.Commit(e.ctx, bob, store.Batch{Changes: []store.Change{put(conv("c"), "")}})
	e.wantCode(err, "conflict")
	for k := range fault.Of(err).Details {
		e.failIf(k != "uri", "the conflict tells of the other's %s: %v", k, fault.Of(err).Details)
	}
}

// refusals: what no store can do, none does. What exactly that is, package
// store says and tests.
func refusals(e *env) {
	e.must(ada, put(conv("c"), ""), put(conv("d"), ""))
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
	good := put(conv("good"), "")
	_, err := e.st.Commit(e.ctx, store.Scope{Actor: "ada", Read: ada.Read}, store.Batch{Changes: []store.Change{good}})
	e.wantCode(err, "scope_missing")
	_, err = e.st.Commit(e.ctx, ada, store.Batch{Changes: []store.Change{good, {Op: store.Delete, URI: conv("c"), Place: at(1)}}})
	e.wantCode(err, "batch_invalid")
	e.missing(system, conv("good"))
	_, err = e.st.Query(e.ctx, ada, store.Query{List: conv("c"), State: "s"})
	e.wantCode(err, "query_invalid")

	page, err := e.st.Query(e.ctx, ada, store.Query{Limit: 1})
	e.failIf(err != nil || page.Next == "", "%+v, %v", page, err)
	log, err := e.st.Log(e.ctx, ada, store.LogQuery{Limit: 1})
	e.failIf(err != nil || log.Next == "", "%+v, %v", log, err)
	for _, c := range []store.Cursor{"!", page.Next[1:], log.Next} {
		_, err = e.st.Query(e.ctx, ada, store.Query{After: c})
		e.wantCode(err, "cursor_invalid")
	}
	for _, c := range []store.Cursor{"!", log.Next[1:], page.Next} {
		_, err = e.st.Log(e.ctx, ada, store.LogQuery{After: c})
		e.wantCode(err, "cursor_invalid")
	}
	_, err = e.st.Query(e.ctx, ada, store.Query{After: page.Next, Reverse: true})
	e.wantCode(err, "cursor_invalid")
	_, err = e.st.Log(e.ctx, ada, store.LogQuery{After: log.Next, Reverse: true})
	e.wantCode(err, "cursor_invalid")
}
