package sparql_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/memory/graph/rdf"
	"steward/internal/memory/graph/sparql"
)

const people = `@prefix : <http://example.org/> .
:ann :name "Ann" ; :age 41 ; :knows :bob, :carl ; :mail "ann@example.org" .
:bob :name "Bob"@en ; :age 30 ; :knows :carl .
:carl :name "Carl" ; :age 35.5 .
:dora :name "Dora" ; :phone "123" .`

func data(t *testing.T) memory {
	t.Helper()
	m, err := rdf.Reader{}.Turtle(people)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSelect(t *testing.T) {
	m := data(t)
	for query, want := range map[string]string{
		`SELECT ?n { ?p :name ?n } ORDER BY ?n`:                                                                      "Ann\nBob\nCarl\nDora",
		`SELECT ?n { ?p :name ?n ; :age ?a FILTER(?a > 33 && ?a < 40) }`:                                             "Carl",
		`SELECT ?n ?m { ?p :name ?n OPTIONAL { ?p :mail ?m } } ORDER BY STR(?n)`:                                     "Ann ann@example.org\nBob \nCarl \nDora ",
		`SELECT ?n { ?p :name ?n { ?p :mail ?x } UNION { ?p :phone ?x } } ORDER BY ?n`:                               "Ann\nDora",
		`SELECT (COUNT(*) AS ?c) { ?p :age ?a }`:                                                                     "3",
		`SELECT (COUNT(DISTINCT ?o) AS ?c) { ?p :knows ?o }`:                                                         "2",
		`SELECT ?p (COUNT(?o) AS ?c) { ?p :knows ?o } GROUP BY ?p ORDER BY DESC(COUNT(?o))`:                          "ann 2\nbob 1",
		`SELECT DISTINCT ?p { ?p :knows ?o }  ORDER BY DESC(?p) LIMIT 1`:                                             "bob",
		`SELECT ?a { ?p :age ?a } ORDER BY ?a OFFSET 1 LIMIT 1`:                                                      "35.5",
		`SELECT ?n { ?p :name ?n FILTER(REGEX(?n, "^[ab]", "i") && LANG(?n) != "") }`:                                "Bob",
		`SELECT ?n { ?p :name ?n FILTER(!BOUND(?x)) FILTER(STRSTARTS(STR(?n), "D") || ?n IN ("Carl")) } ORDER BY ?n`: "Carl\nDora",
		`SELECT (?a * 2 AS ?d) (IF(?a > 40, "old", "young") AS ?w) { :ann :age ?a }`:                                 "82 old",
		// The variable of an inner filter is not seen from outside.
		`SELECT ?n { :ann :age ?a . { ?p :name ?n FILTER(?a = 41) } }`: "",
		// An OPTIONAL in an OPTIONAL is evaluated by itself.
		`SELECT ?x ?y { :ann :knows ?x OPTIONAL { ?x :knows ?y OPTIONAL { ?y :phone ?z } } } ORDER BY ?x`: "bob carl\ncarl ",
	} {
		q, err := sparql.Parse("PREFIX : <http://example.org/> " + query)
		if err != nil {
			t.Errorf("%s: %v", query, err)
			continue
		}
		a, err := q.Eval(t.Context(), m, sparql.Limits{})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		var lines []string
		for _, r := range a.Rows {
			var cells []string
			for _, c := range r {
				cells = append(cells, strings.TrimPrefix(c.Value, "http://example.org/"))
			}
			lines = append(lines, strings.Join(cells, " "))
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

func TestAskAndConstruct(t *testing.T) {
	m := data(t)
	for query, want := range map[string]bool{"ASK { :ann :knows :bob }": true, "ASK { :bob :knows :ann }": false} {
		q, err := sparql.Parse("PREFIX : <http://example.org/> " + query)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := q.Eval(t.Context(), m, sparql.Limits{}); err != nil || a.Yes != want {
			t.Errorf("%s: %v, %v", query, a.Yes, err)
		}
	}
	q, err := sparql.Parse("PREFIX : <http://example.org/> CONSTRUCT { ?b :knownBy ?a ; :via [ :is ?b ] } { ?a :knows ?b }")
	if err != nil {
		t.Fatal(err)
	}
	if a, err := q.Eval(t.Context(), m, sparql.Limits{}); err != nil || len(a.Triples) != 9 {
		t.Errorf("%v, %v", a.Triples, err)
	}
}

func TestWhatIsNotBuiltIsRefusedByName(t *testing.T) {
	for query, name := range map[string]string{
		"DESCRIBE <http://a>":                                                      "DESCRIBE",
		"SELECT * FROM <http://a> { ?a ?b ?c }":                                    "FROM",
		"SELECT * { GRAPH ?g { ?a ?b ?c } }":                                       "GRAPH",
		"SELECT * { SERVICE <http://a> { ?a ?b ?c } }":                             "SERVICE",
		"SELECT * { ?a ?b ?c MINUS { ?a ?b 1 } }":                                  "MINUS",
		"SELECT * { BIND(1 AS ?a) }":                                               "BIND",
		"SELECT * { VALUES ?a { 1 } }":                                             "VALUES",
		"SELECT * { ?a ?b ?c FILTER NOT EXISTS { ?a ?b 1 } }":                      "NOT EXISTS",
		"SELECT * { ?a <http://a>/<http://b> ?c }":                                 "a property path",
		"SELECT * { ?a <http://a>+ ?c }":                                           "a property path",
		"SELECT * { { SELECT ?a { ?a ?b ?c } } }":                                  "a query within a query",
		"SELECT (SUM(?a) AS ?s) { ?a ?b ?c }":                                      "SUM",
		"SELECT (COUNT(?a) AS ?s) { ?a ?b ?c } GROUP BY ?b HAVING (COUNT(?a) > 1)": "HAVING",
		"INSERT DATA { <http://a> <http://b> 1 }":                                  "INSERT",
		"SELECT (NOW() AS ?n) {}":                                                  "NOW",
	} {
		if _, err := sparql.Parse(query); !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), name+" is not supported") {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestAnEvaluationIsBounded(t *testing.T) {
	var m memory
	for i := range 200 {
		m = append(m, rdf.Triple{S: rdf.NewIRI("http://a/" + strings.Repeat("x", i)), P: rdf.NewIRI("http://p"), O: rdf.NewString("o")})
	}
	cross := "SELECT * { ?a ?p ?o . ?b ?q ?o . ?c ?r ?o . ?d ?s ?o }"
	q, err := sparql.Parse(cross)
	if err != nil {
		t.Fatal(err)
	}
	a, err := q.Eval(t.Context(), m, sparql.Limits{Rows: 10})
	if err != nil || len(a.Rows) != 10 || !a.More {
		t.Errorf("%d rows, more %v, %v", len(a.Rows), a.More, err)
	}
	ordered, err := sparql.Parse(cross + " ORDER BY ?a")
	if err != nil {
		t.Fatal(err)
	}
	for name, lim := range map[string]sparql.Limits{"steps": {Steps: 1000}, "memory": {Bytes: 10000}} {
		if _, err := ordered.Eval(t.Context(), m, lim); !fault.HasCode(err, "graph_query_too_big") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ordered.Eval(ctx, m, sparql.Limits{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("SELECT * { ?a ?b ?c FILTER(?a = 1) } ORDER BY ?a LIMIT 1")
	f.Add("CONSTRUCT { [] ?a (1 2) } WHERE { { ?a ?b 'x'@en } UNION { } OPTIONAL { } }")
	f.Fuzz(func(t *testing.T, text string) {
		q, err := sparql.Parse(text)
		if err == nil {
			_, _ = q.Eval(t.Context(), memory{}, sparql.Limits{Steps: 1000})
		}
	})
}

// memory is a source of triples that it holds.
type memory []rdf.Triple

func (m memory) Match(_ context.Context, s, p, o rdf.Term, found func(rdf.Triple) error) error {
	seen := map[rdf.Triple]bool{}
	for _, t := range m {
		if (s.Kind == 0 || t.S == s) && (p.Kind == 0 || t.P == p) && (o.Kind == 0 || t.O == o) && !seen[t] {
			seen[t] = true
			if err := found(t); err != nil {
				return err
			}
		}
	}
	return nil
}
