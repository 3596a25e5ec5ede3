package contract

import (
	"fmt"
	"reflect"

	"steward/internal/resource"
	"steward/internal/store"
)

// sealer returns the store's other side, if it has one.
func (e *env) sealer() (store.Sealer, bool) {
	s, ok := e.st.(store.Sealer)
	return s, ok
}

// sealed returns all that is sealed now, and the head.
func (e *env) sealed(s store.Sealer, sc store.Scope, since uint64) (out []store.Sealed, head store.Head) {
	e.Helper()
	head, err := s.Seal(e.ctx)
	if err != nil {
		e.Fatalf("seal: %v", err)
	}
	for one, err := range s.Sealed(e.ctx, sc, since) {
		if err != nil {
			e.Fatalf("sealed: %v", err)
		}
		out = append(out, one)
	}
	return out, head
}

// clean wants the log to be as it was written.
func (e *env) clean(s store.Sealer, anchors ...store.Head) store.Verdict {
	e.Helper()
	v, err := s.Verify(e.ctx, anchors...)
	if err != nil {
		e.Fatalf("verify: %v", err)
	}
	if v.Flaw != nil {
		e.Errorf("entry %d (%s): %s", v.Flaw.Seq, v.Flaw.URI, v.Flaw.What)
	}
	return v
}

// sealedLog: the chain is over what the log says, in its order, and anybody
// can follow it.
func sealedLog(e *env) {
	s, ok := e.sealer()
	if !ok {
		return
	}
	if head, err := s.Seal(e.ctx); err != nil || head != (store.Head{}) {
		e.Errorf("the head of an empty log is %+v, %v", head, err)
	}
	for i := range 2*store.SealSize + 5 {
		sc := []store.Scope{ada, bob, system}[i%3]
		u := conv(fmt.Sprint(string(sc.Write), i%40))
		e.must(sc, store.Change{URI: u, Body: []byte(fmt.Sprint("body", i)), State: []string{"", "s", "t"}[i%7%3]})
		if i%50 == 49 {
			e.must(sc, store.Change{Op: store.Delete, URI: u})
		}
	}
	all, head := e.sealed(s, system, 0)
	var chain store.Hash
	i := 0
	for want, err := range store.Entries(e.ctx, e.st, system, store.LogQuery{}) {
		if err != nil || i == len(all) {
			e.Fatalf("%d entries are sealed: %v", len(all), err)
		}
		got := all[i]
		chain = chain.Link(got.Hash)
		if !reflect.DeepEqual(got.Entry, want) {
			e.Errorf("sealed is %+v, and the log says %+v", got.Entry, want)
		}
		if got.Hash != got.Sum() || got.Chain != chain || got.Salt == nil || got.Hidden {
			e.Errorf("entry %d does not prove itself: %+v", want.Seq, got)
		}
		i++
	}
	if last := all[i-1]; i != len(all) || !last.Ends || head != (store.Head{Seq: last.Seq, Hash: chain}) {
		e.Errorf("the head is %+v after %d of %d entries", head, i, len(all))
	}
	v := e.clean(s, head, store.Head{Seq: 7, Hash: all[6].Chain})
	if v.Head != head || v.Last != head.Seq || v.Open != 0 || v.Erased != 0 {
		e.Errorf("verified %+v", v)
	}
	if rest, _ := e.sealed(s, system, 300); len(rest) != len(all)-300 || rest[0].Chain != all[300].Chain {
		e.Errorf("%d entries behind 300", len(rest))
	}
	if none, _ := e.sealed(s, system, head.Seq); len(none) != 0 {
		e.Errorf("%d entries behind the head", len(none))
	}
}

// sealedScopes: what is another's is a number and a hash, and the chain holds.
func sealedScopes(e *env) {
	s, ok := e.sealer()
	if !ok {
		return
	}
	e.must(ada, put(conv("hers"), "private"))
	e.must(bob, put(conv("his"), "private too"))
	all, _ := e.sealed(s, ada, 0)
	if len(all) != 2 || all[0].Hidden || string(all[0].Body) != "private" {
		e.Fatalf("ada sees %+v", all)
	}
	other := all[1]
	if want := (store.Sealed{Entry: resource.Entry{Seq: 2}, Hash: other.Hash, Chain: all[0].Chain.Link(other.Hash), Hidden: true, Ends: true}); fmt.Sprint(other) != fmt.Sprint(want) {
		e.Errorf("of bob's entry, ada sees %+v", other)
	}
	for _, err := range s.Sealed(e.ctx, store.Scope{}, 0) {
		e.wantCode(err, "scope_missing")
	}
	for range s.Sealed(e.ctx, system, 0) {
		break // and nothing is left behind
	}
}
