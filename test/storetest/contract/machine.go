package contract

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
	_ "steward/test/seed"
	"steward/test/storetest"
)

// machine compares the store with the model: the same random batches and
// queries must have the same outcome. All rounds share one store; each has
// spaces and a root of its own, and sees what the others left as foreign.
func machine(e *env) {
	rapid.Check(e.T, func(t *rapid.T) {
		m := newPair(e, t)
		t.Repeat(map[string]func(*rapid.T){
			"commit": m.commit,
			"get":    func(t *rapid.T) { m.one(t, m.scope(t), m.uri(t)) },
			"query":  m.query,
			"log":    m.log,
		})
	})
}

// tb is a test of either kind.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// pair is a store and the model that says what it should do. The store's
// sequence numbers run ahead by base.
type pair struct {
	ctx    context.Context
	real   store.Store
	model  *storetest.Model
	base   uint64
	uris   []resource.URI
	lists  []resource.URI
	scopes []store.Scope
}

func newPair(e *env, t *rapid.T) *pair {
	name := id.New().String()
	root := conv(name)
	p := &pair{ctx: e.ctx, real: e.st, model: storetest.NewModel()}
	r, err := p.real.Commit(p.ctx, system, store.Batch{})
	if err != nil {
		t.Fatal(err)
	}
	p.base = r.Seq
	p.uris = append(p.uris, root, conv(name+"!"))
	p.lists = p.uris[:2]
	for i := range 4 {
		u := root.Child("common.Message", fmt.Sprint(i))
		p.uris = append(p.uris, u, u.ChildID("plan.Task", id.Derive(name)))
	}
	one, two := resource.Space("user:1"+name), resource.Space("group:2"+name)
	p.scopes = []store.Scope{
		{Actor: "one", Read: []resource.Space{one}, Write: one},
		{Actor: "two", Read: []resource.Space{two}, Write: two},
		{Actor: "one", Read: []resource.Space{two, one}, Write: two},
	}
	return p
}

func (p *pair) uri(t *rapid.T) resource.URI { return rapid.SampledFrom(p.uris).Draw(t, "uri") }

func (p *pair) list(t *rapid.T) resource.URI { return rapid.SampledFrom(p.lists).Draw(t, "list") }

func (p *pair) scope(t *rapid.T) store.Scope { return rapid.SampledFrom(p.scopes).Draw(t, "scope") }

var (
	typeWords  = []string{"", "", "common.Message", "plan.Task", "never.Seen"}
	stateWords = []string{"", "open", "done"}
	termWords  = []store.Term{{Name: "a", Value: "1"}, {Name: "a", Value: "2"}, {Name: "b", Value: "1"}, {Name: "b", Value: ""}}
)

func (p *pair) change(t *rapid.T) store.Change {
	c := store.Change{URI: p.uri(t), Op: rapid.SampledFrom([]store.Op{
		store.Put, store.Put, store.Put, store.Put, store.Delete, store.Check, store.Unlist, store.Erase, store.Pack}).Draw(t, "op")}
	switch rapid.IntRange(0, 7).Draw(t, "if") {
	case 0:
		c.If.Absent = true
	case 1:
		c.If.Version = rapid.Uint64Range(1, 4).Draw(t, "version")
	case 2:
		c.If.States = rapid.SliceOfN(rapid.SampledFrom(stateWords), 1, 2).Draw(t, "states")
	}
	if c.Op == store.Put {
		c.Body = rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "body")
		if times := rapid.SampledFrom([]int{1, 1, 100, 2000}).Draw(t, "times"); times > 1 {
			c.Body = bytes.Repeat(c.Body, times) // worth packing
		}
		c.State = rapid.SampledFrom(stateWords).Draw(t, "state")
		c.Terms = rapid.SliceOfN(rapid.SampledFrom(termWords), 0, 3).Draw(t, "terms")
	}
	if c.Op == store.Unlist || c.Op == store.Put && rapid.Bool().Draw(t, "placed") {
		c.Place = &store.Place{List: p.list(t), Pos: rapid.Int64Range(-2, 3).Draw(t, "pos")}
	}
	return c
}

func (p *pair) commit(t *rapid.T) {
	sc := p.scope(t)
	b := store.Batch{Request: id.New()}
	for range rapid.IntRange(0, 4).Draw(t, "changes") {
		b.Changes = append(b.Changes, p.change(t))
	}
	p.batch(t, sc, b)
}

// batch commits on both sides, with the same outcome.
func (p *pair) batch(t tb, sc store.Scope, b store.Batch) {
	t.Helper()
	got, err := p.real.Commit(p.ctx, sc, b)
	want, wantErr := p.model.Commit(p.ctx, sc, b)
	p.agree(t, err, wantErr)
	if err == nil && (!reflect.DeepEqual(got.Versions, want.Versions) || got.Seq-p.base != want.Seq) {
		t.Fatalf("receipt %+v (base %d), want %+v", got, p.base, want)
	}
}

// agree wants the same code about the same resource.
func (p *pair) agree(t tb, got, want error) {
	t.Helper()
	switch {
	case got == nil && want == nil:
	case got == nil || want == nil || fault.Of(got).Code != fault.Of(want).Code ||
		fault.Of(got).Details["uri"] != fault.Of(want).Details["uri"]:
		t.Fatalf("got error %v, want %v", got, want)
	}
}

// one compares what both have of a resource.
func (p *pair) one(t tb, sc store.Scope, u resource.URI) {
	t.Helper()
	got, err := p.real.Get(p.ctx, sc, u)
	want, wantErr := p.model.Get(p.ctx, sc, u)
	p.agree(t, err, wantErr)
	if err == nil {
		p.same(t, []store.Item{{Resource: got}}, []store.Item{{Resource: want}})
	}
}

func (p *pair) query(t *rapid.T) {
	sc := p.scope(t)
	all := rapid.IntRange(0, 4).Draw(t, "all spaces") == 0
	if all {
		sc = system
	}
	q := store.Query{
		Reverse: rapid.Bool().Draw(t, "reverse"),
		Limit:   rapid.IntRange(1, 4).Draw(t, "limit"),
		NoBody:  rapid.Bool().Draw(t, "no body"),
		Type:    rapid.SampledFrom(typeWords).Draw(t, "type"),
	}
	if all || rapid.Bool().Draw(t, "restricted") {
		q.Under = p.uri(t)
	}
	switch rapid.IntRange(0, 4).Draw(t, "order") {
	case 0:
		q.List, q.From = p.list(t), rapid.Int64Range(-2, 3).Draw(t, "from")
	case 1:
		q.Term = rapid.SampledFrom(termWords).Draw(t, "term")
	case 2:
		q.State = rapid.SampledFrom(stateWords).Draw(t, "state")
	case 3:
		q = store.Query{List: p.list(t)}
		q.Count = &store.Count{From: rapid.Int64Range(-2, 3).Draw(t, "from"), To: rapid.Int64Range(-2, 3).Draw(t, "to")}
	}
	p.page(t, sc, q)
}

// page compares the answers to a query, page by page.
func (p *pair) page(t tb, sc store.Scope, q store.Query) {
	t.Helper()
	if q.Count != nil {
		got, err := p.real.Query(p.ctx, sc, q)
		want, wantErr := p.model.Query(p.ctx, sc, q)
		if p.agree(t, err, wantErr); got.Count != want.Count || len(got.Items) > 0 {
			t.Fatalf("query %+v counts %d and has %d items, want %d", q, got.Count, len(got.Items), want.Count)
		}
		return
	}
	got, want := items(t, p.ctx, p.real, sc, q), items(t, p.ctx, p.model, sc, q)
	if !q.List.Zero() {
		sortTies(got, q.Reverse)
		sortTies(want, q.Reverse)
	}
	p.same(t, got, want)
}

func items(t tb, ctx context.Context, st store.Store, sc store.Scope, q store.Query) (out []store.Item) {
	t.Helper()
	for it, err := range store.Items(ctx, st, sc, q) {
		if err != nil || len(out) > 10000 {
			t.Fatalf("query %+v after %d items: %v", q, len(out), err)
		}
		out = append(out, it)
	}
	return out
}

// sortTies orders members of several spaces at one position, between which
// the contract does not decide.
func sortTies(items []store.Item, reverse bool) {
	slices.SortStableFunc(items, func(a, b store.Item) int {
		if reverse {
			a, b = b, a
		}
		return cmp.Or(cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Space, b.Space))
	})
}

func (p *pair) same(t tb, got, want []store.Item) {
	t.Helper()
	for i := range got {
		got[i].Seq -= p.base
		got[i].At = time.Time{}
	}
	for i := range want {
		want[i].At = time.Time{}
	}
	if !alike(got, want) {
		t.Fatalf("got\n%v\nwant\n%v", got, want)
	}
}

// alike takes nil and empty for the same. Printing long bodies is slow, so that
// comes second.
func alike[T any](got, want []T) bool {
	return reflect.DeepEqual(got, want) || fmt.Sprint(got) == fmt.Sprint(want)
}

func (p *pair) log(t *rapid.T) {
	q := store.LogQuery{
		Since:   p.base + rapid.Uint64Range(0, 20).Draw(t, "since"),
		Reverse: rapid.Bool().Draw(t, "reverse"),
		Limit:   rapid.IntRange(1, 5).Draw(t, "limit"),
	}
	switch rapid.IntRange(0, 2).Draw(t, "filter") {
	case 0:
		q.Under = p.uri(t)
	case 1:
		q.Of = p.uri(t)
	}
	q.Type = rapid.SampledFrom(typeWords).Draw(t, "type")
	p.entries(t, p.scope(t), q)
}

// entries compares parts of the log, page by page.
func (p *pair) entries(t tb, sc store.Scope, q store.LogQuery) {
	t.Helper()
	got := entries(t, p.ctx, p.real, sc, q)
	q.Since -= min(p.base, q.Since)
	want := entries(t, p.ctx, p.model, sc, q)
	for i := range got {
		got[i].Seq -= p.base
		got[i].At = time.Time{}
	}
	for i := range want {
		want[i].At = time.Time{}
	}
	if !alike(got, want) {
		t.Fatalf("log %+v gives\n%v\nwant\n%v", q, got, want)
	}
}

func entries(t tb, ctx context.Context, st store.Store, sc store.Scope, q store.LogQuery) (out []resource.Entry) {
	t.Helper()
	for en, err := range store.Entries(ctx, st, sc, q) {
		if err != nil || len(out) > 10000 {
			t.Fatalf("log %+v after %d entries: %v", q, len(out), err)
		}
		out = append(out, en)
	}
	return out
}
