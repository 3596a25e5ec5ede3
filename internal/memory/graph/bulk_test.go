package graph

import (
	"fmt"
	"testing"

	"steward/internal/memory/graph/rdf"
	"steward/internal/store"
)

// bulk returns n triples about people who know each other.
func bulk(n int) (out []rdf.Triple) {
	const each = 5
	person := func(i int) rdf.Term { return rdf.NewIRI(fmt.Sprintf("http://example.org/person/%d", i%(n/each+1))) }
	for i := range n {
		t := rdf.Triple{S: person(i / each), P: rdf.NewIRI(fmt.Sprintf("http://example.org/knows%d", i%each)), O: person(i * 7)}
		if i%each == 0 {
			t.P, t.O = rdf.NewIRI(rdf.Label), rdf.NewString(fmt.Sprintf("Person %d", i/each))
		}
		out = append(out, t)
	}
	return out
}

// BenchmarkImport measures the import of a document with 50,000 triples; an operation is one triple.
func BenchmarkImport(b *testing.B) {
	const size = 50_000
	list := bulk(size)
	for done := 0; done < b.N; done += size {
		w := newWorld(b)
		if _, err := w.Assert(b.Context(), "ana", list[:min(size, b.N-done)], Origin{Source: "file:a"}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestManyTriplesAreStoredTogether in few resources: each of them costs an entry in the log.
func TestManyTriplesAreStoredTogether(t *testing.T) {
	w := newWorld(t)
	list := bulk(1000)
	for _, want := range []int{1000, 0} { // the second time, all are known
		if n, err := w.Assert(t.Context(), "ana", list, Origin{Source: "file:a"}); n != want || err != nil {
			t.Fatal(n, err)
		}
	}
	if n, err := w.Assert(t.Context(), "ana", list[:3], Origin{Source: "file:b"}); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := w.Count(t.Context(), "ana"); n != 1003 || err != nil {
		t.Errorf("%d triples, %v", n, err)
	}
	entries, err := w.st.Log(t.Context(), store.ForUser("ana"), store.LogQuery{Limit: 1000})
	if most := 1000/chunkSize + 2; err != nil || len(entries.Entries) > most {
		t.Errorf("%d entries in the log, want at most %d; %v", len(entries.Entries), most, err)
	}
	if n, err := w.Forget(t.Context(), "ana", "file:a"); n != 1000 || err != nil {
		t.Errorf("%d forgotten, %v", n, err)
	}
	if n, err := w.Count(t.Context(), "ana"); n != 3 || err != nil {
		t.Errorf("%d triples are left, %v", n, err)
	}
}
