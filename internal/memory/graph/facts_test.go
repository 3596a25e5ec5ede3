package graph

import (
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph/sparql"
	"steward/internal/message"
	"steward/internal/record"
)

// fact returns a fact that is true since a day of 2026.
func fact(subject, text string, day int, labels message.Labels) record.Fact {
	return record.Fact{ID: id.Derive("fact", text), User: "ana", Subject: subject, Text: text, Type: record.FactPerson, From: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC), Labels: labels,
		Source: "cld:common.Conversation.c1/common.Message.m1"}
}

func TestFactsArePartOfTheGraph(t *testing.T) {
	w := newWorld(t)
	old, now := fact("Ann", "Ann lives in Rome", 1, 0), fact("Ann", "Ann lives in Berlin", 5, 0)
	old.Until, old.Successor = now.From, now.ID
	w.facts = []record.Fact{now, old, fact("user", "My boss is Ann", 2, 0), fact("Ann", "Ann lives in Atlantis", 9, message.Untrusted)}
	w.add("ana", "file:a", 0, `<urn:steward:entity:berlin> :country :germany .`)
	const p = "PREFIX r: <urn:steward:relation:> PREFIX e: <urn:steward:entity:> "
	for query, want := range map[string]string{
		p + `SELECT ?where { e:ann r:lives_in ?where }`:                             "urn:steward:entity:berlin",
		p + `SELECT ?land { e:ann r:lives_in ?where . ?where :country ?land }`:      "germany",
		p + `SELECT ?who { e:user r:boss ?who }`:                                    "urn:steward:entity:ann",
		p + `SELECT ?text ?to { ?f r:about e:ann ; r:text ?text ; r:valid_to ?to }`: "Ann lives in Rome 2026-01-05T00:00:00Z",
		p + `SELECT (COUNT(?f) AS ?n) { ?f r:about e:ann ; r:source ?m }`:           "3",
	} {
		if got := w.rows("ana", query); got != want {
			t.Errorf("%s\ngot %q, want %q", query, got, want)
		}
	}
	if n, err := w.Count(t.Context(), "ana"); n != 1 || err != nil {
		t.Errorf("%d triples are stored, %v", n, err)
	}
	w.facts = nil // they are forgotten
	if got := w.rows("ana", p+`SELECT ?x { ?x ?y e:ann }`); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestAQuotationTaintsOnlyWhatShowsIt(t *testing.T) {
	w := newWorld(t)
	w.facts = []record.Fact{fact("Ann", "Ann lives in Atlantis", 9, message.Untrusted), fact("Ann", "Ann lives in Berlin", 5, 0)}
	for query, want := range map[string]message.Labels{
		`SELECT ?x { <urn:steward:entity:ann> <urn:steward:relation:lives_in> ?x }`: message.Private,
		`SELECT ?x { ?f <urn:steward:relation:text> ?x }`:                           message.Private | message.Untrusted,
	} {
		_, labels, err := w.Query(t.Context(), "ana", query, sparql.Limits{})
		if err != nil || labels != want {
			t.Errorf("%s: labels %v, want %v; %v", query, labels, want, err)
		}
	}
}

func TestOneQuestionTellsWhoAnnIsAndWhatWasAgreed(t *testing.T) {
	w := newWorld(t)
	agreed := fact("user", "We agreed with Ann that she sends the offer by Friday", 7, 0)
	w.facts = []record.Fact{fact("Ann", "Ann works at Acme", 3, 0), agreed, fact("Annabel", "Annabel likes tea", 4, 0)}
	w.texts[agreed.Source] = "Ann is from Acme. We agreed that she sends the offer by Friday."
	w.add("ana", "file:a", 0, `:x rdfs:label "Something else" .`)
	w.said = []Mention{
		{client.SourceText{Source: "cld:documents.Document.d1", Cite: "notes.md:3", Text: "Call Ann about the offer."}, message.Untrusted | message.Private},
		{client.SourceText{Source: "cld:documents.Document.d2", Cite: "b.md:1", Text: "The annual report."}, message.Secret},
	}
	e, labels, err := w.Neighbours(t.Context(), "ana", "Ann", 0, id.ID{})
	if err != nil {
		t.Fatal(err)
	}
	if e.ID != "urn:steward:entity:ann" || len(e.Relations) != 1 || e.Relations[0].Words != "works at" || e.Relations[0].Label != "Acme" {
		t.Errorf("relations %+v", e)
	}
	if len(e.Facts) != 2 || e.Facts[0].Text != agreed.Text || !e.Facts[0].From.Equal(agreed.From) || e.Facts[0].Source != agreed.Source {
		t.Errorf("facts %+v", e.Facts)
	}
	if len(e.Texts) != 1 || !strings.Contains(e.Texts[0].Text, "by Friday") || len(e.Passages) != 1 || e.Passages[0].Cite != "notes.md:3" {
		t.Errorf("texts %+v, passages %+v", e.Texts, e.Passages)
	}
	if labels != message.Private|message.Untrusted {
		t.Errorf("labels %v", labels)
	}
	w.facts = nil
	if e, _, err = w.Neighbours(t.Context(), "ana", "Ann", 0, id.ID{}); err != nil || e.ID != "" || len(e.Passages) != 1 {
		t.Errorf("only mentioned: %+v, %v", e, err)
	}
	w.said = nil
	if _, _, err = w.Neighbours(t.Context(), "ana", "Ann", 0, id.ID{}); !fault.HasCode(err, "graph_entity_not_found") {
		t.Error(err)
	}
}

// TestFactsAndStatementsShareEntities by their names, whatever IRI a document gives them.
func TestFactsAndStatementsShareEntities(t *testing.T) {
	w := newWorld(t)
	w.facts = []record.Fact{fact("Ann", "Ann works at Acme", 3, 0)}
	w.add("ana", "file:a", 0, `:a1 rdfs:label "Acme" ; :in :berlin .`)
	if got := w.rows("ana", `SELECT ?c { ?who <urn:steward:relation:works_at> ?x . ?x :in ?c }`); got != "berlin" {
		t.Errorf("got %q", got)
	}
	if _, err := w.State(t.Context(), "ana", client.NewTriple{Subject: "Ann", Predicate: "knows", Object: "Bob", Source: "person"}, 0, id.Derive("call")); err != nil {
		t.Fatal(err)
	}
	e, _, err := w.Neighbours(t.Context(), "ana", "ann", 0, id.ID{})
	if err != nil || len(e.Relations) != 2 {
		t.Errorf("%+v, %v", e.Relations, err)
	}
}
