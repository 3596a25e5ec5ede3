// Package graph keeps what a person's assistant knows as triples: Ann works at Acme, Acme is in Berlin.
//
// A triple is a resource in its owner's space (TypeTriple). It has the URI or name of its source, the labels
// of what it comes from, and the call that stated it. The same triple from two sources is two resources, so
// that one can be forgotten without the other; questions see it once. Nothing is changed in place: a triple
// is added, or erased with its source.
//
// The subjects and objects that are IRIs or blank nodes are the entities of the graph. An entity is found by
// its labels, which are triples too (rdfs:label, foaf:name and a few others). A person and a model name
// entities and relations in plain words: Entity and Relation turn these into IRIs.
//
// Each triple carries index terms for its subject, predicate and object and for each pair of them, so that a
// pattern reads its matches only. The terms hold hashes. A triple whose source is a resource is also indexed
// as being about it (store.About): whoever erases that resource erases the triple, from the log too.
// Forget erases those of a source that is no resource, such as an imported file.
//
// A graph is bounded in triples (MaxTriples). A query ends with its context, after Options.Time, and at the
// limits of package sparql. The package works alone: nothing else needs a graph to be there.
package graph

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph/rdf"
	"steward/internal/memory/graph/sparql"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// The types of the resources: a triple, and the list of all triples of an owner.
const (
	TypeTriple = "memory.Triple"
	TypeGraph  = "memory.Graph"
)

// Limits.
const (
	MaxTriples = 200_000 // of an owner
	maxSource  = 2000    // bytes
	maxTime    = 10 * time.Second
	batch      = 250 // triples in a commit
)

// Namespaces of what is named in plain words.
const (
	EntityNS   = "urn:steward:entity:"
	RelationNS = "urn:steward:relation:"
)

// Options configure an engine. Store is required.
type Options struct {
	Store store.Store
	Mask  func(string) string // hides secrets in a text; nil: nothing is hidden
	Now   func() time.Time    // nil: time.Now
	Time  time.Duration       // of a query; zero: 10 s
	// Text returns the text of a source, such as a message, with its labels; empty: it has none. nil: no
	// source has a text.
	Text func(ctx context.Context, user string, source resource.URI) (string, message.Labels, error)
}

// Engine keeps the graphs of all users. It is safe for concurrent use.
type Engine struct{ opt Options }

// New returns an engine.
func New(opt Options) *Engine {
	if opt.Mask == nil {
		opt.Mask = func(s string) string { return s }
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Time = cmp.Or(opt.Time, maxTime)
	return &Engine{opt}
}

// Origin says where triples come from.
type Origin struct {
	Source string         // the URI of a resource, or another name such as file:team.ttl
	Labels message.Labels // of what the triples come from
	Call   id.ID          // the call that states them; zero: none
}

// Statement is a triple as it is stored.
type Statement struct {
	rdf.Triple
	Source string
	Labels message.Labels
	At     time.Time
	Call   id.ID
}

// body is the JSON form of a statement.
type body struct {
	S      term           `json:"s"`
	P      term           `json:"p"`
	O      term           `json:"o"`
	Source string         `json:"source"`
	Labels message.Labels `json:"labels,omitzero"`
	At     time.Time      `json:"at"`
	Call   id.ID          `json:"call,omitzero"`
}

type term struct {
	Kind     rdf.Kind `json:"kind"`
	Value    string   `json:"value"`
	Lang     string   `json:"lang,omitzero"`
	Datatype string   `json:"datatype,omitzero"`
}

func decode(it resource.Resource) (Statement, error) {
	var b body
	if err := json.Unmarshal(it.Body, &b); err != nil {
		return Statement{}, fault.New(fault.Internal, "graph_broken", "the triple %s cannot be read: %w", it.URI, err)
	}
	return Statement{rdf.Triple{S: rdf.Term(b.S), P: rdf.Term(b.P), O: rdf.Term(b.O)}, b.Source, b.Labels, b.At, b.Call}, nil
}

// The names of the index terms.
const (
	termSubject   = "graph.s"
	termPredicate = "graph.p"
	termObject    = "graph.o"
	termSP        = "graph.sp"
	termPO        = "graph.po"
	termSO        = "graph.so"
	termWord      = "graph.word" // a word of a label, and the whole label
	termSource    = "graph.source"
	termCall      = "graph.call"
)

// index returns an index term for some texts.
func index(name string, parts ...string) store.Term {
	return store.Term{Name: name, Value: id.Derive(append([]string{name}, parts...)...).String()}
}

// maxWords are the words of a label that are indexed.
const maxWords = 8

func labelWords(s string) []string {
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return words[:min(len(words), maxWords)]
}

// isLabel reports whether the objects of a predicate are names of its subject.
func isLabel(predicate string) bool {
	switch predicate {
	case rdf.Label, "http://xmlns.com/foaf/0.1/name", "http://xmlns.com/foaf/0.1/nick", "https://schema.org/name", "http://schema.org/name",
		"http://www.w3.org/2004/02/skos/core#prefLabel", "http://www.w3.org/2004/02/skos/core#altLabel", "http://purl.org/dc/terms/title", "http://purl.org/dc/elements/1.1/title":
		return true
	}
	return false
}

func triplesOf(user string) resource.URI {
	return resource.Root(TypeGraph, id.Derive("graph", user).String())
}

// statementURI returns the URI of a triple from a source.
func statementURI(user, source string, t rdf.Triple) (resource.URI, id.ID) {
	x := id.Derive("graph", "triple", user, source, t.S.String(), t.P.String(), t.O.String())
	return triplesOf(user).ChildID(TypeTriple, x), x
}

func (e *Engine) terms(user string, t rdf.Triple, o Origin) []store.Term {
	s, p, obj := t.S.String(), t.P.String(), t.O.String()
	out := []store.Term{index(termSubject, s), index(termPredicate, p), index(termObject, obj),
		index(termSP, s, p), index(termPO, p, obj), index(termSO, s, obj), index(termSource, o.Source)}
	if !o.Call.Zero() {
		out = append(out, index(termCall, o.Call.String()))
	}
	if isLabel(t.P.Value) && t.O.Kind == rdf.Literal {
		words := labelWords(t.O.Value)
		words = append(words, strings.Join(words, " ")) // the whole label finds it at once
		slices.Sort(words)
		for _, w := range slices.Compact(words) {
			out = append(out, index(termWord, w))
		}
	}
	if u, err := resource.Parse(o.Source); err == nil && !u.Zero() {
		out = append(out, store.About([]resource.Space{resource.UserSpace(user)}, u)...)
	}
	return out
}

// Assert adds triples from a source to a user's graph, and returns how many were new. Those that the source
// has stated before stay as they are, so a repeated call changes nothing. Blank nodes get names of their own
// for each source. Secrets in texts are masked. Error codes: graph_triple_invalid, graph_source_invalid,
// graph_full, and those of the store.
func (e *Engine) Assert(ctx context.Context, user string, triples []rdf.Triple, o Origin) (added int, err error) {
	if o.Source == "" || len(o.Source) > maxSource {
		return 0, fault.New(fault.Invalid, "graph_source_invalid", "a triple needs a source of at most %d bytes", maxSource)
	}
	have, err := e.Count(ctx, user)
	if err != nil {
		return 0, err
	}
	if have+len(triples) > MaxTriples {
		return 0, fault.New(fault.Exhausted, "graph_full", "the graph has %d triples; with %d more it would be over its limit of %d", have, len(triples), MaxTriples).
			WithHint("forget a source: steward graph forget SOURCE")
	}
	ready := make([]rdf.Triple, len(triples))
	for i, t := range triples {
		own := func(x rdf.Term) rdf.Term {
			switch x.Kind {
			case rdf.Blank:
				if !strings.HasPrefix(x.Value, "n-") {
					x.Value = "n-" + id.Derive("graph", "blank", user, o.Source, x.Value).String()
				}
			case rdf.Literal:
				x.Value = e.opt.Mask(x.Value)
			}
			return x
		}
		ready[i] = rdf.Triple{S: own(t.S), P: t.P, O: own(t.O)}
		if err := ready[i].Check(); err != nil {
			return 0, err
		}
	}
	for part := range slices.Chunk(ready, batch) {
		n, err := e.add(ctx, user, part, o)
		added += n
		if err != nil {
			return added, err
		}
	}
	return added, nil
}

// add commits a batch of triples. If another call adds one of them meanwhile, it looks again.
func (e *Engine) add(ctx context.Context, user string, triples []rdf.Triple, o Origin) (int, error) {
	for try := 1; ; try++ {
		var changes []store.Change
		seen := map[resource.URI]bool{}
		for _, t := range triples {
			u, x := statementURI(user, o.Source, t)
			if seen[u] {
				continue
			}
			seen[u] = true
			if _, err := e.opt.Store.Get(ctx, store.ForUser(user), u); err == nil {
				continue
			} else if !fault.Is(err, fault.NotFound) {
				return 0, err
			}
			b, err := json.Marshal(body{term(t.S), term(t.P), term(t.O), o.Source, o.Labels, e.opt.Now().UTC().Truncate(time.Millisecond), o.Call})
			if err != nil {
				return 0, err
			}
			pos := int64(binary.BigEndian.Uint64(x[8:]) >> 1)
			changes = append(changes, store.Change{URI: u, Body: b, If: store.If{Absent: true}, Terms: e.terms(user, t, o), Place: &store.Place{List: triplesOf(user), Pos: pos}})
		}
		if len(changes) == 0 {
			return 0, nil
		}
		_, err := e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: changes})
		if !fault.Is(err, fault.Conflict) || try == 5 {
			if err != nil {
				return 0, err
			}
			return len(changes), nil
		}
	}
}

// Count returns how many triples a user's graph has.
func (e *Engine) Count(ctx context.Context, user string) (int, error) {
	page, err := e.opt.Store.Query(ctx, store.ForUser(user), store.Query{List: triplesOf(user), Count: &store.Count{From: 0, To: math.MaxInt64}})
	if fault.Is(err, fault.NotFound) {
		return 0, nil
	}
	return page.Count, err
}

// match calls found for each statement that fits; zero terms fit every one.
func (e *Engine) match(ctx context.Context, user string, s, p, o rdf.Term, found func(Statement) error) error {
	q := store.Query{Type: TypeTriple, Limit: 500}
	hs, hp, ho := s.Kind != rdf.None, p.Kind != rdf.None, o.Kind != rdf.None
	switch {
	case hs && ho:
		q.Term = index(termSO, s.String(), o.String())
	case hs && hp:
		q.Term = index(termSP, s.String(), p.String())
	case hp && ho:
		q.Term = index(termPO, p.String(), o.String())
	case hs:
		q.Term = index(termSubject, s.String())
	case hp:
		q.Term = index(termPredicate, p.String())
	case ho:
		q.Term = index(termObject, o.String())
	default:
		q.Under = triplesOf(user)
	}
	return e.each(ctx, user, q, func(st Statement) error {
		if hs && st.S != s || hp && st.P != p || ho && st.O != o {
			return nil
		}
		return found(st)
	})
}

func (e *Engine) each(ctx context.Context, user string, q store.Query, found func(Statement) error) error {
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), q) {
		if err != nil {
			return err
		}
		st, err := decode(it.Resource)
		if err != nil {
			return err
		}
		if err := found(st); err != nil {
			return err
		}
	}
	return nil
}

// reading is a user's graph as a query sees it. It gathers the labels of all that is read.
type reading struct {
	*Engine
	user   string
	labels message.Labels
}

// Match implements sparql.Source.
func (r *reading) Match(ctx context.Context, s, p, o rdf.Term, found func(rdf.Triple) error) error {
	seen := map[rdf.Triple]bool{}
	return r.match(ctx, r.user, s, p, o, func(st Statement) error {
		r.labels |= st.Labels
		if seen[st.Triple] {
			return nil
		}
		seen[st.Triple] = true
		return found(st.Triple)
	})
}

// Query answers a question in SPARQL about a user's graph. The labels are those of all triples that were
// read for it. Error codes: graph_syntax, graph_query_unsupported, graph_query_too_big, graph_query_timeout,
// and those of the store.
func (e *Engine) Query(ctx context.Context, user, text string, lim sparql.Limits) (sparql.Answer, message.Labels, error) {
	q, err := sparql.Parse(text)
	if err != nil {
		return sparql.Answer{}, 0, err
	}
	late := fault.New(fault.Timeout, "graph_query_timeout", "the query took longer than %s", e.opt.Time).WithHint("make it more specific")
	ctx, cancel := context.WithTimeoutCause(ctx, e.opt.Time, late)
	defer cancel()
	r := &reading{Engine: e, user: user}
	a, err := q.Eval(ctx, r, lim)
	if err != nil && context.Cause(ctx) == error(late) {
		err = late
	}
	return a, r.labels, err
}

// Export yields all triples of a user's graph, or those of one source, each once.
func (e *Engine) Export(ctx context.Context, user, source string) (out []rdf.Triple, labels message.Labels, err error) {
	q := store.Query{Type: TypeTriple, Limit: 500, Under: triplesOf(user)}
	if source != "" {
		q.Under, q.Term = resource.URI{}, index(termSource, source)
	}
	seen := map[rdf.Triple]bool{}
	err = e.each(ctx, user, q, func(st Statement) error {
		labels |= st.Labels
		if (source == "" || st.Source == source) && !seen[st.Triple] {
			seen[st.Triple] = true
			out = append(out, st.Triple)
		}
		return nil
	})
	slices.SortFunc(out, rdf.Compare)
	return out, labels, err
}

// Forget erases all triples of a source, and returns how many there were.
func (e *Engine) Forget(ctx context.Context, user, source string) (int, error) {
	return e.erase(ctx, user, index(termSource, source))
}

// ForgetCall erases what a call has stated, and returns how many triples there were.
func (e *Engine) ForgetCall(ctx context.Context, user string, call id.ID) (int, error) {
	return e.erase(ctx, user, index(termCall, call.String()))
}

func (e *Engine) erase(ctx context.Context, user string, of store.Term) (n int, err error) {
	for {
		page, err := e.opt.Store.Query(ctx, store.ForUser(user), store.Query{Term: of, Type: TypeTriple, Limit: batch, NoBody: true})
		if err != nil || len(page.Items) == 0 {
			return n, err
		}
		var changes []store.Change
		for _, it := range page.Items {
			changes = append(changes, store.Change{Op: store.Erase, URI: it.URI})
		}
		if _, err := e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: changes}); err != nil {
			return n, err
		}
		n += len(changes)
	}
}

// StatedBy returns the triples that a call has stated.
func (e *Engine) StatedBy(ctx context.Context, user string, call id.ID) (out []Statement, err error) {
	err = e.each(ctx, user, store.Query{Type: TypeTriple, Term: index(termCall, call.String())}, func(st Statement) error {
		out = append(out, st)
		return nil
	})
	return out, err
}
