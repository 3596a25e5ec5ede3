package rdf_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/memory/graph/rdf"
	_ "steward/test/seed"
)

// TestTheSuitesOfW3C runs the tests of the W3C for Turtle and N-Triples. They are not part of this
// repository: STEWARD_RDF_TESTS names a checkout of https://github.com/w3c/rdf-tests.
func TestTheSuitesOfW3C(t *testing.T) {
	root := os.Getenv("STEWARD_RDF_TESTS")
	if root == "" {
		t.Skip("STEWARD_RDF_TESTS names no checkout of https://github.com/w3c/rdf-tests")
	}
	all, failed := 0, 0
	for _, suite := range []string{"rdf-turtle", "rdf-n-triples"} {
		dir := filepath.Join(root, "rdf/rdf11", suite)
		text, err := os.ReadFile(filepath.Join(dir, "manifest.ttl"))
		if err != nil {
			t.Fatal(err)
		}
		const mf = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
		manifest, err := rdf.Reader{Base: "file:///"}.Turtle(string(text))
		if err != nil {
			t.Fatal(err)
		}
		of := func(s rdf.Term, p string) string {
			for _, tr := range manifest {
				if tr.S == s && tr.P.Value == p {
					return tr.O.Value[strings.LastIndexAny(tr.O.Value, "/#")+1:]
				}
			}
			return ""
		}
		for _, tr := range manifest {
			if tr.P.Value != mf+"action" {
				continue
			}
			all++
			kind, action := of(tr.S, rdf.Type), of(tr.S, mf+"action")
			if !t.Run(suite+"/"+action, func(t *testing.T) {
				b, err := os.ReadFile(filepath.Join(dir, action))
				if err != nil {
					t.Fatal(err)
				}
				r := rdf.Reader{Base: "https://w3c.github.io/rdf-tests/rdf/rdf11/" + suite + "/" + action}
				read := r.Turtle
				if suite == "rdf-n-triples" {
					read = rdf.Reader{}.NTriples
				}
				got, err := read(string(b))
				for i := range got {
					if err == nil {
						err = got[i].Check()
					}
				}
				if strings.Contains(kind, "Negative") {
					if err == nil {
						t.Errorf("accepted: %s", b)
					}
					return
				}
				if err != nil {
					t.Fatalf("%v: %s", err, b)
				}
				if result := of(tr.S, mf+"result"); result != "" {
					b, err := os.ReadFile(filepath.Join(dir, result))
					if err != nil {
						t.Fatal(err)
					}
					want, err := rdf.Reader{}.NTriples(string(b))
					if err != nil {
						t.Fatal(err)
					}
					if g, w := shape(got), shape(want); g != w {
						t.Errorf("got\n%s\nwant\n%s", g, w)
					}
				}
			}) {
				failed++
			}
		}
	}
	t.Logf("%d tests: %d fail", all, failed)
}

// shape writes triples so that graphs that differ in the labels of blank nodes only are the same: a node is
// named by what is said of it, for as many rounds as these small graphs need.
func shape(triples []rdf.Triple) string {
	names := map[string]string{}
	name := func(t rdf.Term) string {
		if t.Kind == rdf.Blank {
			return "_:[" + names[t.Value] + "]"
		}
		return t.String()
	}
	for range 4 {
		next := map[string][]string{}
		for _, t := range triples {
			if t.S.Kind == rdf.Blank {
				next[t.S.Value] = append(next[t.S.Value], "> "+t.P.String()+name(t.O))
			}
			if t.O.Kind == rdf.Blank {
				next[t.O.Value] = append(next[t.O.Value], "< "+t.P.String()+name(t.S))
			}
		}
		for k, v := range next {
			slices.Sort(v)
			names[k] = strings.Join(v, ",")
			if len(names[k]) > 4000 {
				names[k] = names[k][:4000]
			}
		}
	}
	lines := map[string]bool{}
	for _, t := range triples {
		lines[name(t.S)+" "+t.P.String()+" "+name(t.O)] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}

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
