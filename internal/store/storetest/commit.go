package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

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

func versions(e *env) {
	u := conv("c")
	for v := uint64(1); v <= 5; v++ {
		r := e.must(ada, put(u, fmt.Sprint(v)))
		e.failIf(r.Versions[0] != v || r.Seq != v, "receipt %+v, want version %d", r, v)
		if got := e.get(ada, u); got.Version != v || string(got.Body) != fmt.Sprint(v) {
			e.Errorf("got %+v, want version %d", got, v)
		}
	}
	r := e.must(ada, put(u, "6"), put(conv("d"), "1"), put(u, "7"))
	e.failIf(fmt.Sprint(r.Versions) != "[6 1 7]" || r.Seq != 8, "receipt %+v", r)
	if got := e.get(ada, u); got.Version != 7 || string(got.Body) != "7" || got.Seq != 8 {
		e.Errorf("got %+v", got)
	}
}

func preconditions(e *env) {
	there, absent := conv("there"), conv("absent")
	e.must(ada, store.Change{URI: there, State: "open"})
	e.must(ada, store.Change{URI: there, State: "open"})
	e.must(ada, store.Change{URI: conv("settled")})
	for _, c := range []struct {
		u    resource.URI
		want store.If
		code string
	}{
		{there, store.If{}, ""},
		{there, store.If{Absent: true}, "conflict"},
		{there, store.If{Version: 2}, ""},
		{there, store.If{Version: 1}, "conflict"},
		{there, store.If{Version: 3}, "conflict"},
		{there, store.If{States: []string{"open"}}, ""},
		{there, store.If{States: []string{"closed", "open"}}, ""},
		{there, store.If{States: []string{"closed"}}, "conflict"},
		{there, store.If{States: []string{""}}, "conflict"},
		{there, store.If{Version: 2, States: []string{"open"}}, ""},
		{there, store.If{Version: 1, States: []string{"open"}}, "conflict"},
		{there, store.If{Version: 2, States: []string{"closed"}}, "conflict"},
		{conv("settled"), store.If{States: []string{""}}, ""},
		{conv("settled"), store.If{States: []string{"open"}}, "conflict"},
		{absent, store.If{}, ""},
		{absent, store.If{Absent: true}, ""},
		{absent, store.If{Version: 1}, "not_found"},
		{absent, store.If{States: []string{""}}, "not_found"},
		{absent, store.If{States: []string{"open"}}, "not_found"},
	} {
		check := store.Change{Op: store.Check, URI: c.u, If: c.want}
		if c.code == "" {
			if r := e.must(ada, check); r.Versions[0] != 0 {
				e.Errorf("a check has the version %d", r.Versions[0])
			}
			continue
		}
		e.refused(c.code, c.u, ada, check)
		for _, op := range []store.Op{store.Put, store.Delete} {
			e.refused(c.code, c.u, ada, store.Change{Op: op, URI: c.u, If: c.want})
		}
		e.refused(c.code, c.u, ada, store.Change{Op: store.Unlist, URI: c.u, If: c.want, Place: &store.Place{List: there}})
	}
	if got := e.get(ada, there); got.Version != 2 {
		e.Errorf("refusals and checks led to version %d", got.Version)
	}
	e.missing(ada, absent)
	if n := len(e.log(ada, store.LogQuery{})); n != 3 {
		e.Errorf("%d entries, want 3", n)
	}
	r := e.must(ada, store.Change{URI: there, If: store.If{Version: 2, States: []string{"open"}}})
	e.failIf(r.Versions[0] != 3 || e.get(ada, there).State != "", "receipt %+v", r)
	e.must(ada, store.Change{URI: absent, If: store.If{Absent: true}})
}

func preconditionsSeeTheBatch(e *env) {
	a, b := conv("a"), conv("b")
	e.must(ada,
		store.Change{URI: a, If: store.If{Absent: true}, State: "open"},
		store.Change{Op: store.Check, URI: a, If: store.If{Version: 1, States: []string{"open"}}},
		store.Change{URI: a, If: store.If{Version: 1}},
		store.Change{Op: store.Check, URI: a, If: store.If{Version: 2, States: []string{""}}},
		store.Change{Op: store.Delete, URI: a, If: store.If{Version: 2}},
		store.Change{Op: store.Check, URI: a, If: store.If{Absent: true}},
	)
	e.missing(ada, a)
	e.refused("conflict", b, ada, put(b, "1"), store.Change{URI: b, If: store.If{Absent: true}})
	e.missing(ada, b)
	e.refused("not_found", b, ada, put(b, "1"), store.Change{Op: store.Delete, URI: b},
		store.Change{Op: store.Check, URI: b, If: store.If{Version: 1}})
	e.missing(ada, b)
}

func refusedBatchesLeaveNothing(e *env) {
	old, list := conv("old"), conv("list")
	term := store.Term{Name: "n", Value: "v"}
	e.must(ada, store.Change{URI: old, Body: []byte("1"), State: "open", Terms: []store.Term{term}, Place: &store.Place{List: list, Pos: 1}})
	e.refused("conflict", conv("last"), ada,
		store.Change{URI: old, Body: []byte("2"), Place: &store.Place{List: list, Pos: 2}},
		store.Change{URI: conv("new"), State: "open", Terms: []store.Term{term}, Place: &store.Place{List: list, Pos: 1}},
		store.Change{Op: store.Delete, URI: old},
		put(conv("last"), ""),
		store.Change{URI: conv("last"), If: store.If{Absent: true}},
	)
	if got := e.get(ada, old); string(got.Body) != "1" || got.Version != 1 {
		e.Errorf("got %+v", got)
	}
	for _, q := range []store.Query{{}, {List: list}, {Term: term}, {State: "open"}} {
		e.wantNames(ada, q, "old")
	}
	// Nor in the sequence numbers.
	if r := e.must(ada, store.Change{URI: conv("new"), Place: &store.Place{List: list, Pos: 2}}); r.Seq != 2 {
		e.Errorf("receipt %+v", r)
	}
	e.wantLog(ada, store.LogQuery{}, "old/1", "new/1")
}

func emptyBatch(e *env) {
	e.must(ada)
	r := e.must(ada, put(conv("c"), ""))
	if again := e.must(ada); again.Seq < r.Seq {
		e.Errorf("an empty batch has the sequence number %d, behind %d", again.Seq, r.Seq)
	}
	if n := len(e.log(ada, store.LogQuery{})); n != 1 {
		e.Errorf("%d entries", n)
	}
}

func invalidBatches(e *env) {
	u := conv("c")
	place := &store.Place{List: u}
	for name, c := range map[string]store.Change{
		"no uri":          {},
		"unknown op":      {Op: 99, URI: u},
		"unlist nothing":  {Op: store.Unlist, URI: u},
		"deleted place":   {Op: store.Delete, URI: u, Place: place},
		"checked place":   {Op: store.Check, URI: u, Place: place},
		"no list":         {URI: u, Place: &store.Place{Pos: 1}},
		"unlist no list":  {Op: store.Unlist, URI: u, Place: &store.Place{}},
		"nameless term":   {URI: u, Terms: []store.Term{{Value: "v"}}},
		"behind good one": {},
	} {
		_, err := e.st.Commit(e.ctx, ada, store.Batch{Changes: []store.Change{put(conv("good"), ""), c}})
		if err == nil {
			e.Errorf("%s: committed", name)
			continue
		}
		e.wantCode(err, "batch_invalid")
	}
	e.missing(ada, conv("good"))
}

func deleteAndPutAgain(e *env) {
	u, list := message("c", "m"), conv("c")
	term := store.Term{Name: "n", Value: "v"}
	full := store.Change{URI: u, Body: []byte("1"), State: "open", Terms: []store.Term{term}, Place: &store.Place{List: list, Pos: 7}}
	queries := []store.Query{{}, {List: list}, {Term: term}, {State: "open"}, {Under: list, Type: "common.Message"}}
	e.refused("not_found", u, ada, store.Change{Op: store.Delete, URI: u})
	e.must(ada, full)
	for _, q := range queries {
		e.wantNames(ada, q, "m")
	}
	if r := e.must(ada, store.Change{Op: store.Delete, URI: u}); r.Versions[0] != 0 {
		e.Errorf("receipt %+v", r)
	}
	e.missing(ada, u)
	for _, q := range queries {
		e.wantNames(ada, q)
	}
	e.refused("not_found", u, ada, store.Change{Op: store.Delete, URI: u})
	e.refused("not_found", u, ada, store.Change{URI: u, If: store.If{Version: 2}})

	// Its position is free, and its terms, state and place do not come back by themselves.
	e.must(ada, store.Change{URI: message("c", "other"), Place: &store.Place{List: list, Pos: 7}})
	r := e.must(ada, store.Change{URI: u, If: store.If{Absent: true}, Body: []byte("2")})
	e.failIf(r.Versions[0] != 3, "put again, it has version %d, want 3", r.Versions[0])
	e.wantNames(ada, store.Query{List: list}, "other")
	e.wantNames(ada, store.Query{Term: term})
	e.wantNames(ada, store.Query{State: "open"})
	e.wantLog(ada, store.LogQuery{Of: u}, "m/1", "m/2", "m/3")
	entries := e.log(ada, store.LogQuery{Of: u})
	if d := entries[1]; d.Op != resource.OpDelete || d.Body != nil || d.State != "" {
		e.Errorf("the deletion is %+v", d)
	}
	e.failIf(string(entries[0].Body) != "1" || string(entries[2].Body) != "2", "bodies %q, %q", entries[0].Body, entries[2].Body)
}

func bigBody(e *env) {
	body := make([]byte, 50<<20)
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

func cancelledCommit(e *env) {
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
