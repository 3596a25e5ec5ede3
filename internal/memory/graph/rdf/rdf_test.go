package rdf_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/memory/graph/rdf"
	_ "steward/test/seed"
)

func TestTurtleIsReadWithItsAbbreviations(t *testing.T) {
	got, err := rdf.Reader{Base: "http://example.org/a/b"}.Turtle(`
		PREFIX ex: <http://example.org/>
		@prefix : <#> .
		ex:ann a ex:Person ; ex:name "Ann", 'Änne'@DE ; ex:age 41, -1.5, 2e3, true ; # a comment
			ex:knows [ ex:name """two
lines""" ] ; ex:likes (1 <../c>) ; ex:x :frag, ex:a\,b, ex:v1.2 .`)
	if err != nil {
		t.Fatal(err)
	}
	text := rdf.WriteNTriples(got)
	for _, want := range []string{
		`<http://example.org/ann> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://example.org/Person> .`,
		`<http://example.org/name> "Änne"@de .`, `"-1.5"^^<http://www.w3.org/2001/XMLSchema#decimal> .`, `"2e3"^^<http://www.w3.org/2001/XMLSchema#double> .`,
		`_:b1 <http://example.org/name> "two\nlines" .`, `<http://example.org/c> .`, `<http://example.org/a/b#frag> .`, `<http://example.org/a,b> .`, `<http://example.org/v1.2> .`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func TestBadDocumentsAreRefusedWithTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"<http://a> <http://b> .":                        "line 1, column 23",
		"\n\nex:a ex:b ex:c .":                           "line 3, column 1: the prefix ex: is not declared",
		"<http://a> <http://b> \"x":                      "has no end",
		"<http://a> <http://b> \"\\x\" .":                "no escape",
		"\"x\" <http://b> <http://c> .":                  "a subject",
		strings.Repeat("[ <http://b> ", 500):             "nested",
		"<http://a> <http://b> <http://c>":               "the document ends",
		"<http://a> <http://b c> <http://d> .":           "",
		"@prefix : <http://a/> . :a :b \"\\uD800\" .":    "no character",
		"<http://a> <http://b> (" + "1 ":                 "ends",
		"@base <http://a/> . <b> <c> \"x\"^^\"y\" .":     "a datatype",
		"<http://a> <http://b> \"a\"@ .":                 "no language",
		"<http://a> <http://b> <http://c>, .":            "a term",
		"<http://a> <http://b> <http://c> <http://d> . ": `"."`,
	} {
		_, err := rdf.Reader{}.Turtle(text)
		if !fault.HasCode(err, "graph_syntax") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: want %q, got %v", text, want, err)
		}
	}
	if _, err := (rdf.Reader{Most: 1}).Turtle("<http://a> <http://b> 1, 2 ."); !fault.HasCode(err, "graph_document_too_big") {
		t.Error(err)
	}
}

func TestJSONLDIsReadAndFetchesNothing(t *testing.T) {
	got, err := rdf.Reader{}.JSONLD(`{"@context": {"name": "http://schema.org/name", "knows": {"@id": "http://schema.org/knows"}},
		"@id": "http://example.org/ann", "name": "Ann", "knows": {"name": "Bob"}}`)
	if err != nil || len(got) != 3 {
		t.Fatal(got, err)
	}
	if _, err := (rdf.Reader{}).JSONLD(`{"@context": "https://schema.org/", "name": "Ann"}`); !fault.HasCode(err, "graph_context_remote") {
		t.Error(err)
	}
	if _, err := (rdf.Reader{}).JSONLD(strings.Repeat("[", 100000)); !fault.HasCode(err, "graph_document_too_big") {
		t.Error(err)
	}
	if _, err := (rdf.Reader{}).JSONLD(`{`); !fault.HasCode(err, "graph_syntax") {
		t.Error(err)
	}
}

// TestWhatIsWrittenIsReadAgain in each format.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		iri := rapid.Custom(func(t *rapid.T) rdf.Term {
			return rdf.NewIRI("http://example.org/" + rapid.StringMatching(`[a-zA-Z0-9é/#?&=._-]{0,8}`).Draw(t, "iri"))
		})
		literal := rapid.Custom(func(t *rapid.T) rdf.Term {
			s := strings.ToValidUTF8(rapid.String().Draw(t, "text"), "")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				return rdf.NewLang(s, rapid.SampledFrom([]string{"en", "de-at"}).Draw(t, "lang"))
			case 1:
				return rdf.NewTyped(s, "http://example.org/type")
			}
			return rdf.NewString(s)
		})
		var triples []rdf.Triple
		seen := map[rdf.Triple]bool{}
		for range rapid.IntRange(1, 8).Draw(t, "n") {
			one := rdf.Triple{S: iri.Draw(t, "s"), P: iri.Draw(t, "p"), O: rapid.OneOf(iri, literal).Draw(t, "o")}
			if !seen[one] {
				seen[one] = true
				triples = append(triples, one)
			}
		}
		slices.SortFunc(triples, rdf.Compare)
		want := rdf.WriteNTriples(triples)
		doc, err := rdf.WriteJSONLD(triples)
		if err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func() ([]rdf.Triple, error){
			"turtle":   func() ([]rdf.Triple, error) { return rdf.Reader{}.Turtle(rdf.WriteTurtle(triples)) },
			"ntriples": func() ([]rdf.Triple, error) { return rdf.Reader{}.NTriples(want) },
			"jsonld":   func() ([]rdf.Triple, error) { return rdf.Reader{}.JSONLD(doc) },
		} {
			got, err := read()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			slices.SortFunc(got, rdf.Compare)
			if text := rdf.WriteNTriples(got); text != want {
				t.Fatalf("%s: got\n%s\nwant\n%s", name, text, want)
			}
		}
	})
}
