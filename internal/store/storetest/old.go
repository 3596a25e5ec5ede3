package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"steward/internal/resource"
	"steward/internal/store"
)

func erasing(u resource.URI) store.Change { return store.Change{Op: store.Erase, URI: u} }

func packing(u resource.URI) store.Change { return store.Change{Op: store.Pack, URI: u} }

// wantBodies wants the bodies of a resource's entries, oldest first; "-" is none.
func (e *env) wantBodies(u resource.URI, want ...string) {
	e.Helper()
	var got []string
	for _, en := range e.log(system, store.LogQuery{Of: u}) {
		if en.Body == nil {
			got = append(got, "-")
		} else {
			got = append(got, string(en.Body))
		}
	}
	e.failIf(fmt.Sprint(got) != fmt.Sprint(want), "%s has the bodies %.200q, want %.200q", u, got, want)
}

// erase: the resource is gone, with its places, terms and state; of its
// versions the log tells all but the bodies.
func erase(e *env) {
	u, list, other := message("c", "m"), conv("c"), message("c", "other")
	term := store.Term{Name: "n", Value: "v"}
	full := store.Change{URI: u, Body: []byte("1"), State: "open", Terms: []store.Term{term}, Place: &store.Place{List: list, Pos: 7}}
	e.must(ada, full, put(other, "theirs"))
	full.Body, full.Place = []byte("2"), nil
	e.must(ada, full)
	before := e.log(ada, store.LogQuery{})
	r := e.must(ada, erasing(u))
	e.failIf(r.Versions[0] != 0 || r.Seq != 4, "receipt %+v", r)
	e.missing(ada, u)
	for _, q := range []store.Query{{List: list}, {Term: term}, {State: "open"}, {Under: u}} {
		e.wantNames(ada, q)
	}
	e.wantNames(ada, store.Query{}, "other")
	e.wantLog(ada, store.LogQuery{}, "m/1", "other/1", "m/2", "m/3")
	e.wantLog(ada, store.LogQuery{Of: u, Reverse: true}, "m/3", "m/2", "m/1")
	e.wantLog(ada, store.LogQuery{Type: "common.Message", Under: list}, "m/1", "other/1", "m/2", "m/3")
	e.wantBodies(u, "-", "-", "-")
	e.wantBodies(other, "theirs")
	after := e.log(ada, store.LogQuery{})
	for i := range before {
		if before[i].URI == u {
			before[i].Body = nil
		}
		e.failIf(fmt.Sprint(before[i]) != fmt.Sprint(after[i]), "entry %v has become %v", before[i], after[i])
	}
	last := after[3]
	e.failIf(last.Op != resource.OpErase || last.Version != 3 || last.State != "" || last.Actor != "ada" || !last.At.Equal(r.At),
		"the erasure is %+v", last)

	// It can come back, and then is new: the position is free, versions go on.
	e.must(ada, store.Change{URI: other, Body: []byte("theirs"), Place: &store.Place{List: list, Pos: 7}})
	r = e.must(ada, store.Change{URI: u, If: store.If{Absent: true}, Body: []byte("4")})
	e.failIf(r.Versions[0] != 4, "put again, it has version %d", r.Versions[0])
	e.wantNames(ada, store.Query{List: list}, "other")
	e.wantBodies(u, "-", "-", "-", "4")
	e.must(ada, erasing(u))
	e.wantBodies(u, "-", "-", "-", "-", "-")
}

func eraseWhatIsDeleted(e *env) {
	u := conv("c")
	e.must(ada, put(u, "1"), put(u, "2"), store.Change{Op: store.Delete, URI: u}, put(u, "4"))
	e.must(ada, store.Change{Op: store.Delete, URI: u})
	e.wantBodies(u, "1", "2", "-", "4", "-")
	e.refused("not_found", u, bob, erasing(u))
	e.refused("not_found", u, system, erasing(u))
	e.wantBodies(u, "1", "2", "-", "4", "-")
	e.must(ada, erasing(u))
	e.missing(ada, u)
	e.wantBodies(u, "-", "-", "-", "-", "-", "-")
	e.must(ada, erasing(u)) // and once more: there is nothing to be lost
	e.wantLog(ada, store.LogQuery{Of: u}, "c/1", "c/2", "c/3", "c/4", "c/5", "c/6", "c/7")
	e.refused("not_found", conv("never"), ada, erasing(conv("never")))
	e.refused("conflict", u, bob, put(u, "")) // it stays in its space
	if r := e.must(ada, put(u, "8")); r.Versions[0] != 8 {
		e.Errorf("receipt %+v", r)
	}
}

// eraseInABatch: an erasure takes what was before it, in its batch too.
func eraseInABatch(e *env) {
	u, v := conv("c"), conv("d")
	e.must(ada, put(u, "1"))
	e.must(ada, put(u, "2"), put(v, "1"), erasing(u), put(u, "4"), erasing(v))
	e.wantBodies(u, "-", "-", "-", "4")
	e.wantBodies(v, "-", "-")
	if got := e.get(ada, u); string(got.Body) != "4" || got.Version != 4 {
		e.Errorf("got %+v", got)
	}
	e.missing(ada, v)
	// A refused batch erases nothing.
	e.refused("conflict", v, ada, erasing(u), put(v, ""), store.Change{URI: v, If: store.If{Absent: true}})
	e.wantBodies(u, "-", "-", "-", "4")
	e.wantNames(ada, store.Query{}, "c")
}

func erasePreconditions(e *env) {
	u, gone := conv("c"), conv("gone")
	e.must(ada, store.Change{URI: u, Body: []byte("1"), State: "open"}, put(gone, "1"))
	e.must(ada, store.Change{Op: store.Delete, URI: gone})
	for _, op := range []store.Op{store.Erase, store.Pack} {
		for _, c := range []struct {
			u    resource.URI
			want store.If
			code string
		}{
			{u, store.If{Version: 2}, "conflict"},
			{u, store.If{States: []string{"done"}}, "conflict"},
			{u, store.If{Absent: true}, "conflict"},
			{gone, store.If{Version: 2}, "not_found"},
			{gone, store.If{States: []string{""}}, "not_found"},
			{conv("never"), store.If{}, "not_found"},
			{conv("never"), store.If{Absent: true}, "not_found"},
		} {
			e.refused(c.code, c.u, ada, store.Change{Op: op, URI: c.u, If: c.want})
		}
		e.refused("not_found", u, bob, store.Change{Op: op, URI: u})
		e.refused("not_found", u, system, store.Change{Op: op, URI: u})
		_, err := e.st.Commit(e.ctx, ada, store.Batch{Changes: []store.Change{{Op: op, URI: u, Place: &store.Place{List: u}}}})
		e.wantCode(err, "batch_invalid")
	}
	e.wantBodies(u, "1")
	e.wantBodies(gone, "1", "-")
	e.must(ada, store.Change{Op: store.Pack, URI: u, If: store.If{Version: 1, States: []string{"open"}}})
	e.must(ada, store.Change{Op: store.Erase, URI: u, If: store.If{Version: 1, States: []string{"open"}}})
	e.must(ada, store.Change{Op: store.Erase, URI: gone, If: store.If{Absent: true}})
	e.wantBodies(u, "-", "-")
	e.wantBodies(gone, "-", "-", "-")
}

// pack: nothing is to be seen of it.
func pack(e *env) {
	u := message("c", "m")
	term := store.Term{Name: "n", Value: "v"}
	long := strings.Repeat(`{"role":"user","blocks":[{"type":"text","text":"again and again"}]}`, 20)
	e.must(ada, store.Change{URI: u, Body: []byte("1" + long), Terms: []store.Term{term}, Place: &store.Place{List: conv("c"), Pos: 3}})
	e.must(ada, store.Change{URI: u, Body: []byte("2" + long), State: "open", Terms: []store.Term{term}})
	e.must(ada, put(message("c", "other"), long))
	look := func() string {
		var all []any
		for _, q := range []store.Query{{}, {List: conv("c")}, {Term: term}, {State: "open"}, {List: conv("c"), NoBody: true}} {
			all = append(all, e.all(ada, q))
		}
		for _, q := range []store.LogQuery{{}, {Of: u}, {Under: conv("c"), Reverse: true}, {Type: "common.Message"}} {
			all = append(all, e.log(ada, q))
		}
		return fmt.Sprint(append(all, e.get(ada, u))...)
	}
	want := look()
	for range 2 { // the second time there is nothing to do
		r := e.must(ada, packing(u))
		e.failIf(r.Versions[0] != 0 || r.Seq != 3, "receipt %+v: packing writes no entry", r)
		e.failIf(look() != want, "packed, the store has\n%s\nnot\n%s", look(), want)
	}
	e.refused("not_found", conv("never"), ada, packing(conv("never")))

	// A version that comes later is as good as ever, packed or not.
	e.must(ada, put(u, "3"+long), packing(u), put(u, "4"+long))
	e.wantBodies(u, "1"+long, "2"+long, "3"+long, "4"+long)
	e.must(ada, packing(u))
	e.wantBodies(u, "1"+long, "2"+long, "3"+long, "4"+long)
	e.must(ada, store.Change{Op: store.Delete, URI: u})
	e.refused("not_found", u, ada, packing(u))
	e.wantBodies(u, "1"+long, "2"+long, "3"+long, "4"+long, "-")

	// What is packed is erased like all else, whatever comes first in a batch.
	e.must(ada, put(u, "6"+long), packing(u), erasing(u), put(u, "8"+long), packing(u))
	e.wantBodies(u, "-", "-", "-", "-", "-", "-", "-", "8"+long)
	e.must(ada, packing(u), put(u, "9"+long), erasing(u))
	e.wantBodies(u, "-", "-", "-", "-", "-", "-", "-", "-", "-", "-")
}

// packedBodies: bodies of every kind and length come back as they were.
func packedBodies(e *env) {
	r := rand.NewChaCha8([32]byte{2})
	noise := make([]byte, 70_000)
	if _, err := r.Read(noise); err != nil {
		e.Fatal(err)
	}
	text := []byte(strings.Repeat("It was the best of times, it was the worst of times. ", 2000))
	var bodies [][]byte
	for _, n := range []int{0, 1, 2, 10, 63, 64, 65, 300, 1000, 3000, 3900, 4000, 4050, 4100, 5000, 8000, 9000, 20_000, 70_000} {
		bodies = append(bodies, noise[:n], text[:n], make([]byte, n), append(bytes.Clone(text[:n]), noise[:n]...))
	}
	for first := range 256 { // whatever a body begins with
		bodies = append(bodies, append([]byte{byte(first)}, text[:200]...))
	}
	bodies = append(bodies, []byte("\x28\xb5\x2f\xfd"), []byte("\x28\xb5\x2f\xfd\x00\x00"), bytes.Repeat([]byte("\x28\xb5\x2f\xfd"), 50))
	var puts, packs []store.Change
	for i, b := range bodies {
		u := message("c", fmt.Sprint(i))
		puts = append(puts, store.Change{URI: u, Body: b})
		packs = append(packs, packing(u))
	}
	e.must(ada, puts...)
	for range 2 {
		e.must(ada, packs...)
		for i, want := range bodies {
			if got := e.get(ada, message("c", fmt.Sprint(i))); !bytes.Equal(got.Body, want) {
				e.Errorf("body %d of %d bytes comes back as %d others", i, len(want), len(got.Body))
			}
		}
	}
	for i, en := range e.log(ada, store.LogQuery{}) {
		e.failIf(!bytes.Equal(en.Body, bodies[i]), "the log has another body %d", i)
	}
	for _, it := range e.all(ada, store.Query{}) {
		var i int
		if _, err := fmt.Sscan(it.URI.ID(), &i); err != nil || !bytes.Equal(it.Body, bodies[i]) {
			e.Errorf("a query has another body of %s", it.URI)
		}
	}
}

// packMany: a conversation is put away at once.
func packMany(e *env) {
	const n = 2000
	body := func(i int) string {
		return fmt.Sprintf(`{"role":"user","at":%d,"blocks":[{"type":"text","text":"message %d of many, and all of them alike"}]}`, i, i)
	}
	puts, packs := make([]store.Change, n), make([]store.Change, n)
	for i := range n {
		u := message("c", fmt.Sprint(i))
		puts[i] = listed("c", fmt.Sprint(i), int64(i))
		puts[i].Body = []byte(body(i))
		packs[i] = packing(u)
	}
	e.must(ada, puts...)
	if r := e.must(ada, packs...); r.Seq != n {
		e.Errorf("receipt %d", r.Seq)
	}
	p, err := e.st.Query(e.ctx, ada, store.Query{List: conv("c"), Limit: n})
	if err != nil || len(p.Items) != n {
		e.Fatal(len(p.Items), err)
	}
	for i, it := range p.Items {
		e.failIf(string(it.Body) != body(i) || it.Version != 1, "item %d is %v", i, it)
	}
	for i := range packs {
		packs[i].Op = store.Erase
	}
	e.must(ada, packs...)
	e.wantNames(ada, store.Query{})
	for en, err := range store.Entries(e.ctx, e.st, ada, store.LogQuery{Limit: n}) {
		if err != nil {
			e.Fatal(err)
		}
		e.failIf(en.Body != nil, "entry %d has a body", en.Seq)
	}
}
