package graph

import (
	"fmt"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/memory/graph/sparql"
	"steward/internal/record"
)

// BenchmarkFacts measures a query over the most facts that a user can have, about a thousand people.
func BenchmarkFacts(b *testing.B) {
	w := newWorld(b)
	for i := range 5000 {
		name := fmt.Sprintf("Person%d", i%1000)
		w.facts = append(w.facts, record.Fact{ID: id.Derive("fact", fmt.Sprint(i)), User: "ana", Subject: name, Text: fmt.Sprintf("%s lives in City%d", name, i%50), Type: record.FactPerson, From: time.Unix(int64(i), 0)})
	}
	for b.Loop() {
		if _, _, err := w.Query(b.Context(), "ana", `SELECT ?x { ?x <urn:steward:relation:lives_in> <urn:steward:entity:city7> }`, sparql.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
