package graph

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph/rdf"
	"steward/internal/memory/graph/sparql"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// document commits a document with what it states, as package documents does. Without content, it is erased.
func (w *world) document(name, content string, labels message.Labels) record.Document {
	w.t.Helper()
	d := record.Document{ID: id.Derive("document", name), User: "ana", Name: name, Title: "Notes", Labels: labels, Added: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), Status: record.DocumentReady}
	var data []byte
	last := store.Change{Op: store.Erase, URI: d.URI()}
	if content != "" {
		data = []byte(content)
	}
	changes, err := w.DocumentChanges(w.t.Context(), &d, data)
	if err != nil {
		w.t.Fatal(err)
	}
	if content != "" {
		last = store.Change{URI: d.URI(), Body: record.Encode(d)}
	}
	if _, err := w.st.Commit(w.t.Context(), store.ForUser("ana"), store.Batch{Changes: append(changes, last)}); err != nil {
		w.t.Fatal(err)
	}
	return d
}

func TestDocumentsStateWhatTheySay(t *testing.T) {
	w := newWorld(t)
	private := message.Private
	w.document("team.ttl", `@prefix : <http://example.org/> . :ann :worksAt :acme . <> :about :ann .`, private)
	w.document("more.nt", `<http://example.org/ann> <http://example.org/knows> <http://example.org/bob> .`, private)
	w.document("x.jsonld", `{"@id": "http://example.org/bob", "http://example.org/age": 41}`, private)
	w.document("notes.md", "---\ntitle: The plan\nauthor: Ann Miller\ntags: [red, blue]\ndate: 2026-03-01\n---\n\nText.\n", private)
	const p = "PREFIX r: <urn:steward:relation:> "
	for query, want := range map[string]string{
		`SELECT ?x { :ann :worksAt ?x }`:                                                                "acme",
		`SELECT ?x { :ann :knows ?x . ?x :age ?age }`:                                                   "bob",
		p + `SELECT ?t ?k { ?d r:author ?a ; r:title ?t ; r:tags ?k } ORDER BY ?t ?k`:                   "Notes blue\nNotes red\nThe plan blue\nThe plan red",
		p + `SELECT ?a ?on { ?d r:author ?a ; r:date ?on }`:                                             "urn:steward:entity:ann-miller 2026-03-01",
		p + `SELECT ?n { ?d a <urn:steward:class:document> ; r:file_name ?n ; r:added ?x } ORDER BY ?n`: "more.nt\nnotes.md\nteam.ttl\nx.jsonld",
	} {
		if got := w.rows("ana", query); got != want {
			t.Errorf("%s\ngot %q, want %q", query, got, want)
		}
	}
	d := w.document("team.ttl", `@prefix : <http://example.org/> . :ann :worksAt :other .`, private)
	if got := w.rows("ana", `SELECT ?x { :ann :worksAt ?x }`); got != "other" || d.Triples != 1 {
		t.Errorf("replaced: got %q, %d triples", got, d.Triples)
	}
	for _, name := range []string{"team.ttl", "more.nt", "x.jsonld", "notes.md"} {
		w.document(name, "", private)
	}
	if n, err := w.Count(t.Context(), "ana"); n != 0 || err != nil {
		t.Errorf("%d triples are left, %v", n, err)
	}
}

// TestTwoChangesOfADocumentDoNotMix what they state: the later one is refused.
func TestTwoChangesOfADocumentDoNotMix(t *testing.T) {
	w := newWorld(t)
	d := record.Document{ID: id.Derive("document"), User: "ana", Name: "a.nt", Status: record.DocumentReady}
	var batches []store.Batch
	for _, who := range []string{"bob", "carl"} {
		changes, err := w.DocumentChanges(t.Context(), &d, []byte("<http://example.org/ann> <http://example.org/knows> <http://example.org/"+who+"> ."))
		if err != nil {
			t.Fatal(err)
		}
		batches = append(batches, store.Batch{Changes: append(changes, store.Change{URI: d.URI(), Body: record.Encode(d)})})
	}
	if _, err := w.st.Commit(t.Context(), store.ForUser("ana"), batches[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := w.st.Commit(t.Context(), store.ForUser("ana"), batches[0]); !fault.Is(err, fault.Conflict) {
		t.Error(err)
	}
	if got := w.rows("ana", `SELECT ?x { :ann :knows ?x }`); got != "carl" {
		t.Errorf("got %q", got)
	}
}

// TestABrokenDocumentIsKeptAsAText and says why it states nothing.
func TestABrokenDocumentIsKeptAsAText(t *testing.T) {
	w := newWorld(t)
	for content, want := range map[string]string{
		"<http://a> <http://b> .": "line 1, column 23",
		strings.Repeat("<http://a> <http://b> 1 .\n", 1) + "ex:a ex:b ex:c .": "prefix",
		rdf.WriteNTriples(bulk(maxDocument + 5)):                              "20005 statements",
	} {
		d := w.document("bad.ttl", content, 0)
		if d.Triples != 0 || !strings.Contains(d.Notice, want) {
			t.Errorf("%.40q: %d triples, %q", content, d.Triples, d.Notice)
		}
		if got := w.rows("ana", `SELECT ?n { ?d <urn:steward:relation:file_name> ?n }`); got != "bad.ttl" {
			t.Errorf("got %q", got)
		}
	}
}

// TestAForeignNameTakesNobodysPlace: a document of others that names something Ann changes neither what the user
// states about Ann, nor what the facts say of Ann.
func TestAForeignNameTakesNobodysPlace(t *testing.T) {
	w := newWorld(t)
	w.document("evil.ttl", `@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . <http://evil.example/> rdfs:label "Ann" ; <http://evil.example/iban> "666" .`, message.Private|message.Untrusted)
	w.facts = []record.Fact{fact("Ann", "Ann works at Acme", 3, 0)}
	e, _, err := w.Neighbours(t.Context(), "ana", "Ann", 0, id.ID{})
	if err != nil || e.ID != "urn:steward:entity:ann" || len(e.Relations) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	_, labels, err := w.Query(t.Context(), "ana", `SELECT ?x { <http://evil.example/> ?p ?x }`, sparql.Limits{})
	if err != nil || !labels.Has(message.Untrusted) {
		t.Errorf("labels %v, %v", labels, err)
	}
}

// TestNothingIsLeftOfAForgottenSource in any file of the data folder.
func TestNothingIsLeftOfAForgottenSource(t *testing.T) {
	w := newWorld(t)
	w.add("ana", "file:a", 0, `:ann :secretWord "kumquat" . :kumquatling :is :here .`)
	w.add("ana", "cld:common.Conversation.c1/common.Message.m1", 0, `:ann :said "kumquat again" .`)
	w.document("kumquat.ttl", `<http://example.org/ann> <http://example.org/likes> "kumquat" .`, 0)
	w.add("ana", "file:b", 0, `:ann :knows :bob .`)
	if !w.holds("kumquat") {
		t.Fatal("the search over the bytes finds nothing")
	}
	if _, err := w.Forget(t.Context(), "ana", "file:a"); err != nil {
		t.Fatal(err)
	}
	conversation := resource.Root("common.Conversation", "c1")
	if err := store.EraseAbout(t.Context(), w.st, "ana", resource.UserSpace("ana"), conversation); err != nil {
		t.Fatal(err)
	}
	w.document("kumquat.ttl", "", 0)
	if w.holds("kumquat") {
		t.Error("a forgotten triple is left in a file")
	}
	if got := w.rows("ana", `SELECT ?x { :ann ?p ?x }`); got != "bob" {
		t.Errorf("got %q", got)
	}
}

// holds reports whether a file of the data folder has a text.
func (w *world) holds(text string) bool {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(f string) bool {
		b, err := os.ReadFile(f)
		return err == nil && bytes.Contains(b, []byte(text))
	})
}
