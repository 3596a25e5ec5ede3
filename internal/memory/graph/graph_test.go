package graph

import (
	"context"
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
	"steward/internal/store/sqlite"
)

type world struct {
	*Engine
	t     testing.TB
	dir   string
	st    store.Store
	texts map[string]string
	facts []record.Fact
	said  []Mention
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: dir + "/db"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, dir: dir, st: st, texts: map[string]string{}}
	w.Engine = New(Options{Store: st, Now: func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) },
		Mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[masked]") },
		Text: func(_ context.Context, _ string, u resource.URI) (string, message.Labels, error) {
			return w.texts[u.String()], message.Private, nil
		},
		Facts:    func(context.Context, string) ([]record.Fact, error) { return slices.Clone(w.facts), nil },
		Mentions: func(context.Context, string, string, id.ID, int) ([]Mention, error) { return w.said, nil }})
	return w
}

// add states triples that are written in Turtle.
func (w *world) add(user, source string, labels message.Labels, turtle string) int {
	w.t.Helper()
	triples, err := rdf.Reader{}.Turtle("@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . " + turtle)
	if err != nil {
		w.t.Fatal(err)
	}
	n, err := w.Assert(w.t.Context(), user, triples, Origin{Source: source, Labels: labels, Call: id.Derive("call", source)})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// rows answers a query with a line for each row.
func (w *world) rows(user, query string) string {
	w.t.Helper()
	a, _, err := w.Query(w.t.Context(), user, "PREFIX : <http://example.org/> "+query, sparql.Limits{})
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, r := range a.Rows {
		var one []string
		for _, t := range r {
			one = append(one, strings.TrimPrefix(t.Value, "http://example.org/"))
		}
		lines = append(lines, strings.Join(one, " "))
	}
	return strings.Join(lines, "\n")
}

func TestQueryJoinsTriples(t *testing.T) {
	w := newWorld(t)
	w.add("ana", "file:a", 0, `:ann :worksAt :acme ; :age 41 . :acme :in :berlin . :bob :worksAt :other .`)
	if n := w.add("ana", "file:a", 0, `:ann :worksAt :acme .`); n != 0 {
		t.Errorf("a repeated triple was added: %d", n)
	}
	w.add("ana", "file:b", 0, `:ann :worksAt :acme .`)
	if got := w.rows("ana", "SELECT ?who ?city { ?who :worksAt ?x . ?x :in ?city }"); got != "ann berlin" {
		t.Errorf("got %q", got)
	}
	if got := w.rows("bob", "SELECT * { ?s ?p ?o }"); got != "" {
		t.Errorf("another user sees %q", got)
	}
	if n, err := w.Count(t.Context(), "ana"); n != 5 || err != nil {
		t.Errorf("%d triples, %v", n, err)
	}
}

func TestForgettingASourceLeavesTheOthers(t *testing.T) {
	w := newWorld(t)
	w.add("ana", "file:a", 0, `:ann :knows :bob, :carl .`)
	w.add("ana", "file:b", 0, `:ann :knows :bob .`)
	if n, err := w.Forget(t.Context(), "ana", "file:a"); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if got := w.rows("ana", "SELECT ?x { :ann :knows ?x }"); got != "bob" {
		t.Errorf("got %q", got)
	}
	if n, _ := w.Forget(t.Context(), "bob", "file:b"); n != 0 {
		t.Error("a user forgot the source of another")
	}
}

func TestErasingAResourceErasesItsTriples(t *testing.T) {
	w := newWorld(t)
	conversation := resource.Root("common.Conversation", "c1")
	said := conversation.Child("common.Message", "m1")
	w.add("ana", said.String(), 0, `:ann :knows :bob .`)
	w.add("ana", "file:a", 0, `:ann :knows :carl .`)
	if err := store.EraseAbout(t.Context(), w.st, "ana", resource.UserSpace("ana"), conversation); err != nil {
		t.Fatal(err)
	}
	if got := w.rows("ana", "SELECT ?x { :ann :knows ?x }"); got != "carl" {
		t.Errorf("got %q", got)
	}
}

func TestNeighboursTellsWhoAnnIsAndWhatWasAgreed(t *testing.T) {
	w := newWorld(t)
	said := resource.Root("common.Conversation", "c1").Child("common.Message", "m1").String()
	w.texts[said] = "We agreed with Ann that she sends the offer by Friday."
	w.add("ana", said, message.Untrusted, `:ann rdfs:label "Ann Miller" ; :agreedTo :offer . :offer rdfs:label "the offer" . :acme :employs :ann .`)
	e, labels, err := w.Neighbours(t.Context(), "ana", "ann", 0, id.ID{})
	if err != nil {
		t.Fatal(err)
	}
	if e.Label != "Ann Miller" || len(e.Relations) != 2 || len(e.Texts) != 1 || !strings.Contains(e.Texts[0].Text, "by Friday") {
		t.Errorf("%+v", e)
	}
	if labels != message.Untrusted|message.Private {
		t.Errorf("labels %v", labels)
	}
	found := false
	for _, n := range e.Relations {
		found = found || n.Words == "agreedTo" && n.Label == "the offer" && n.Sources[0] == said
	}
	if !found {
		t.Errorf("%+v", e.Relations)
	}
	if _, _, err := w.Neighbours(t.Context(), "ana", "nobody", 0, id.ID{}); !fault.HasCode(err, "graph_entity_not_found") {
		t.Error(err)
	}
	w.add("ana", "file:b", 0, `:ann2 rdfs:label "Ann Smith" .`)
	if _, _, err := w.Neighbours(t.Context(), "ana", "ann", 0, id.ID{}); !fault.HasCode(err, "graph_entity_ambiguous") {
		t.Error(err)
	}
	if e, _, err := w.Neighbours(t.Context(), "ana", "Smith", 0, id.ID{}); err != nil || e.Label != "Ann Smith" {
		t.Error(e, err)
	}
}

func TestNamesBecomeEntities(t *testing.T) {
	w := newWorld(t)
	ann, named, err := w.Entity(t.Context(), "ana", "Ann  Miller")
	if err != nil || ann.Value != EntityNS+"ann-miller" || len(named) != 1 {
		t.Fatal(ann, named, err)
	}
	if _, err := w.Assert(t.Context(), "ana", named, Origin{Source: "file:a"}); err != nil {
		t.Fatal(err)
	}
	again, named, err := w.Entity(t.Context(), "ana", "ann miller")
	if err != nil || again != ann || named != nil {
		t.Error(again, named, err)
	}
	if r := Relation("Works at"); r.Value != RelationNS+"works_at" || Words(r.Value) != "works at" {
		t.Error(r)
	}
}

func TestSecretsAreMaskedAndRefusalsAreCoded(t *testing.T) {
	w := newWorld(t)
	w.add("ana", "file:a", 0, `:ann :says "my password is hunter2" .`)
	if got := w.rows("ana", "SELECT ?x { :ann :says ?x }"); got != "my password is [masked]" {
		t.Errorf("got %q", got)
	}
	ann := rdf.NewIRI("http://example.org/ann")
	for code, call := range map[string]func() error{
		"graph_triple_invalid": func() error {
			_, err := w.Assert(t.Context(), "ana", []rdf.Triple{{S: rdf.NewString("x"), P: ann, O: ann}}, Origin{Source: "file:a"})
			return err
		},
		"graph_source_invalid": func() error {
			_, err := w.Assert(t.Context(), "ana", []rdf.Triple{{S: ann, P: ann, O: ann}}, Origin{})
			return err
		},
		"graph_syntax": func() error {
			_, _, err := w.Query(t.Context(), "ana", "SELECT ?x {", sparql.Limits{})
			return err
		},
		"graph_query_unsupported": func() error {
			_, _, err := w.Query(t.Context(), "ana", "DESCRIBE <http://example.org/ann>", sparql.Limits{})
			return err
		},
		"graph_query_too_big": func() error {
			_, _, err := w.Query(t.Context(), "ana", "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }", sparql.Limits{Steps: 2})
			return err
		},
	} {
		if err := call(); !fault.HasCode(err, code) {
			t.Errorf("want %s, got %v", code, err)
		}
	}
}

func TestACallIsUndone(t *testing.T) {
	w := newWorld(t)
	w.add("ana", "file:a", 0, `:ann :knows :bob .`)
	w.add("ana", "file:b", 0, `:ann :knows :carl .`)
	if n, err := w.ForgetCall(t.Context(), "ana", id.Derive("call", "file:a")); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if got := w.rows("ana", "SELECT ?x { :ann :knows ?x }"); got != "carl" {
		t.Errorf("got %q", got)
	}
}
