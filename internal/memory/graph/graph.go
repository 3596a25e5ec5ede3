// Package graph keeps what a person's assistant knows as triples: Ann works at Acme, Acme is in Berlin.
//
// # Where triples come from
//
// A triple is stated by a call (graph.assert), imported from a file, read from a document that the person has
// added (document.go), or derived from a fact that is remembered (facts.go). Each has a source, the URI or name
// of what it comes from, and the labels of that.
//
// Stated triples are kept in chunks: a chunk (TypeTriples) is a resource in its owner's space that holds up to 64
// triples with the same source, labels and call. Nothing in it is changed: a chunk is added, or erased with its
// source. The same triple from two sources is kept twice, so that one can be forgotten without the other;
// questions see it once. The chunks of a document are written and erased in the commit that writes or erases
// the document.
//
// What facts say is not stored a second time. It is derived from the facts whenever the graph is asked, so it
// can neither differ from them nor outlive them.
//
// # Entities
//
// The subjects and objects that are IRIs or blank nodes are the entities of the graph. An entity is found by
// its labels, which are triples too (rdfs:label, foaf:name and a few others). A person and a model name
// entities and relations in plain words: Entity and Relation turn these into IRIs.
//
// # Reading
//
// Each chunk carries index terms for the subjects, predicates and objects of its triples, and for two pairs of
// them, so that a pattern reads only chunks with matches. The terms hold hashes. What has read triples has the
// labels of all of them.
//
// # Forgetting
//
// A chunk whose source is a resource is also indexed as being about it (store.About): whoever erases that
// resource erases the chunk, from the log too. Forget erases those of a source that is no resource, such as an
// imported file.
//
// A graph is bounded in triples (MaxTriples). A query ends with its context, after Options.Time, and at the
// limits of package sparql. The package works alone: nothing else needs a graph to be there.
package graph

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph/rdf"
	"steward/internal/memory/graph/sparql"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// The types of the resources: a chunk of triples, and the list of all chunks of an owner.
const (
	TypeTriples = "memory.Triples"
	TypeGraph   = "memory.Graph"
)

// Limits.
const (
	MaxTriples = 200_000 // of an owner
	maxSource  = 2000    // bytes
	maxTime    = 10 * time.Second
	chunkSize  = 64 // triples in a resource
	batch      = 50 // resources in a commit
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
	// Facts returns the facts of a user, with those that are no longer true. nil: there are none.
	Facts func(ctx context.Context, user string) ([]record.Fact, error)
	// Mentions returns passages of messages and documents that may mention a name, with a message and what
	// belongs to it left out. nil: there are none.
	Mentions func(ctx context.Context, user, name string, except id.ID, most int) ([]Mention, error)
}

// Mention is a passage that mentions an entity.
type Mention struct {
	client.SourceText
	Labels message.Labels
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

// Statement is a triple with its origin.
type Statement struct {
	rdf.Triple
	Source string
	Labels message.Labels
	At     time.Time
	Call   id.ID
}

// chunk is the JSON form of triples that are stored together.
type chunk struct {
	Triples []triple       `json:"triples"`
	Source  string         `json:"source"`
	Labels  message.Labels `json:"labels,omitzero"`
	At      time.Time      `json:"at"`
	Call    id.ID          `json:"call,omitzero"`
}

type triple struct {
	S term `json:"s"`
	P term `json:"p"`
	O term `json:"o"`
}

type term struct {
	Kind     rdf.Kind `json:"kind"`
	Value    string   `json:"value"`
	Lang     string   `json:"lang,omitzero"`
	Datatype string   `json:"datatype,omitzero"`
}

// The names of the index terms.
const (
	termSubject   = "graph.s"
	termPredicate = "graph.p"
	termObject    = "graph.o"
	termSP        = "graph.sp"
	termPO        = "graph.po"
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
	words := allWords(s)
	return words[:min(len(words), maxWords)]
}

func allWords(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
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

// terms returns the index terms of a chunk, each once.
func terms(user string, triples []rdf.Triple, o Origin) []store.Term {
	out := []store.Term{index(termSource, o.Source)}
	if !o.Call.Zero() {
		out = append(out, index(termCall, o.Call.String()))
	}
	seen := map[string]bool{}
	add := func(name string, parts ...string) {
		key := name + " " + strings.Join(parts, " ")
		if !seen[key] {
			seen[key] = true
			out = append(out, index(name, parts...))
		}
	}
	for _, t := range triples {
		s, p, obj := t.S.String(), t.P.String(), t.O.String()
		add(termSubject, s)
		add(termPredicate, p)
		add(termObject, obj)
		add(termSP, s, p)
		add(termPO, p, obj)
		if isLabel(t.P.Value) && t.O.Kind == rdf.Literal {
			words := labelWords(t.O.Value)
			for _, w := range append(words, strings.Join(words, " ")) { // the whole label finds it at once
				add(termWord, w)
			}
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
	ready, err := e.prepare(user, triples, o)
	if err != nil {
		return 0, err
	}
	for try := 1; ; try++ {
		if ready, err = e.unknown(ctx, user, ready, o.Source); err != nil || len(ready) == 0 {
			return added, err
		}
		if err := e.room(ctx, user, len(ready)); err != nil {
			return added, err
		}
		changes, err := e.chunks(user, ready, o)
		if err != nil {
			return added, err
		}
		for part := range slices.Chunk(changes, batch) {
			if _, err = e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: part}); err != nil {
				break
			}
			n := min(len(ready), len(part)*chunkSize)
			added, ready = added+n, ready[n:]
		}
		if !fault.Is(err, fault.Conflict) || try == 5 { // the same call states them at the same time
			return added, err
		}
	}
}

// room returns graph_full if a graph has no room for more triples.
func (e *Engine) room(ctx context.Context, user string, more int) error {
	have, err := e.Count(ctx, user)
	if err == nil && have+more > MaxTriples {
		err = fault.New(fault.Exhausted, "graph_full", "the graph has %d triples; with %d more it would be over its limit of %d", have, more, MaxTriples).
			WithHint("forget a source: steward graph forget SOURCE")
	}
	return err
}

// prepare checks triples, names their blank nodes, masks secrets, and leaves out what occurs twice.
func (e *Engine) prepare(user string, triples []rdf.Triple, o Origin) ([]rdf.Triple, error) {
	if o.Source == "" || len(o.Source) > maxSource {
		return nil, fault.New(fault.Invalid, "graph_source_invalid", "a triple needs a source of at most %d bytes", maxSource)
	}
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
	ready := make([]rdf.Triple, 0, len(triples))
	seen := make(map[rdf.Triple]bool, len(triples))
	for _, t := range triples {
		t = rdf.Triple{S: own(t.S), P: t.P, O: own(t.O)}
		if err := t.Check(); err != nil {
			return nil, err
		}
		if !seen[t] {
			seen[t] = true
			ready = append(ready, t)
		}
	}
	return ready, nil
}

// unknown returns the triples that a source has not stated yet. If two calls state the same at the same time,
// both may find it unknown; it is then kept twice, and shown once.
func (e *Engine) unknown(ctx context.Context, user string, triples []rdf.Triple, source string) (out []rdf.Triple, err error) {
	known := map[id.ID]bool{}
	hash := func(t rdf.Triple) id.ID { return id.Derive("graph", "triple", t.String()) }
	note := func(st Statement) error {
		if st.Source == source {
			known[hash(st.Triple)] = true
		}
		return nil
	}
	if len(triples) > chunkSize {
		err = e.each(ctx, user, store.Query{Type: TypeTriples, Term: index(termSource, source)}, note)
	} else {
		for _, t := range triples {
			if err = e.stored(ctx, user, t.S, t.P, t.O, note); err != nil {
				break
			}
		}
	}
	if err != nil || len(known) == 0 {
		return triples, err
	}
	for _, t := range triples {
		if !known[hash(t)] {
			out = append(out, t)
		}
	}
	return out, nil
}

// chunks returns the changes that add triples. The URI of a chunk derives from the call and what it states, so
// that a repeated call meets itself. Its place in the list of chunks begins with its number of triples: Count
// need not read it.
func (e *Engine) chunks(user string, triples []rdf.Triple, o Origin) (changes []store.Change, err error) {
	for part := range slices.Chunk(triples, chunkSize) {
		c := chunk{Source: o.Source, Labels: o.Labels, At: e.opt.Now().UTC().Truncate(time.Millisecond), Call: o.Call}
		name := []string{"graph", "chunk", user, o.Source, o.Call.String()}
		for _, t := range part {
			c.Triples = append(c.Triples, triple{term(t.S), term(t.P), term(t.O)})
			name = append(name, t.String())
		}
		b, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		x := id.Derive(name...)
		changes = append(changes, store.Change{URI: triplesOf(user).ChildID(TypeTriples, x), Body: b, If: store.If{Absent: true}, Terms: terms(user, part, o),
			Place: &store.Place{List: triplesOf(user), Pos: int64(len(part))<<sizeShift | int64(binary.BigEndian.Uint64(x[8:])>>(64-sizeShift))}})
	}
	return changes, nil
}

// sizeShift is how many bits of a place in the list of chunks stand below the number of triples.
const sizeShift = 48

// Count returns how many triples a user's graph stores. Those that are derived from facts do not count.
func (e *Engine) Count(ctx context.Context, user string) (n int, err error) {
	list := store.Query{List: triplesOf(user), Limit: 1, NoBody: true}
	for { // the chunks with the same number of triples stand together
		page, err := e.opt.Store.Query(ctx, store.ForUser(user), list)
		if fault.Is(err, fault.NotFound) {
			return n, nil
		}
		if err != nil || len(page.Items) == 0 {
			return n, err
		}
		size := page.Items[0].Pos >> sizeShift
		list.From = (size + 1) << sizeShift
		page, err = e.opt.Store.Query(ctx, store.ForUser(user), store.Query{List: triplesOf(user), Count: &store.Count{From: size << sizeShift, To: list.From - 1}})
		if err != nil {
			return n, err
		}
		n += page.Count * int(size)
	}
}

// stored calls found for each stored statement that fits; zero terms fit every one.
func (e *Engine) stored(ctx context.Context, user string, s, p, o rdf.Term, found func(Statement) error) error {
	q := store.Query{Type: TypeTriples, Limit: 100}
	hs, hp, ho := s.Kind != rdf.None, p.Kind != rdf.None, o.Kind != rdf.None
	switch {
	case hs && hp:
		q.Term = index(termSP, s.String(), p.String())
	case hp && ho:
		q.Term = index(termPO, p.String(), o.String())
	case hs:
		q.Term = index(termSubject, s.String())
	case ho:
		q.Term = index(termObject, o.String())
	case hp:
		q.Term = index(termPredicate, p.String())
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

// each calls found for the statements of all chunks that a query selects.
func (e *Engine) each(ctx context.Context, user string, q store.Query, found func(Statement) error) error {
	for it, err := range store.Items(ctx, e.opt.Store, store.ForUser(user), q) {
		if err != nil {
			return err
		}
		var c chunk
		if err := json.Unmarshal(it.Body, &c); err != nil {
			return fault.New(fault.Internal, "graph_broken", "the triples %s cannot be read: %w", it.URI, err)
		}
		for _, t := range c.Triples {
			if err := found(Statement{rdf.Triple{S: rdf.Term(t.S), P: rdf.Term(t.P), O: rdf.Term(t.O)}, c.Source, c.Labels, c.At, c.Call}); err != nil {
				return err
			}
		}
	}
	return nil
}

// reading is a user's graph as a query sees it: what is stored, and what the facts say. It gathers the labels of
// all that is read.
type reading struct {
	*Engine
	user   string
	facts  view
	labels message.Labels
}

func (e *Engine) read(ctx context.Context, user string) (*reading, error) {
	facts, err := e.view(ctx, user)
	return &reading{Engine: e, user: user, facts: facts}, err
}

// match calls found for each statement that fits; zero terms fit every one.
func (r *reading) match(ctx context.Context, s, p, o rdf.Term, found func(Statement) error) error {
	if err := r.facts.match(s, p, o, found); err != nil {
		return err
	}
	return r.stored(ctx, r.user, s, p, o, found)
}

// Match implements sparql.Source.
func (r *reading) Match(ctx context.Context, s, p, o rdf.Term, found func(rdf.Triple) error) error {
	seen := map[rdf.Triple]bool{}
	return r.match(ctx, s, p, o, func(st Statement) error {
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
	var a sparql.Answer
	r, err := e.read(ctx, user)
	if err == nil {
		a, err = q.Eval(ctx, r, lim)
	}
	if err != nil && context.Cause(ctx) == error(late) {
		err = late
	}
	return a, r.labels, err
}

// Export returns all triples of a user's graph, or those of one source, each once.
func (e *Engine) Export(ctx context.Context, user, source string) (out []rdf.Triple, labels message.Labels, err error) {
	seen := map[rdf.Triple]bool{}
	add := func(st Statement) error {
		if source != "" && st.Source != source {
			return nil
		}
		labels |= st.Labels
		if !seen[st.Triple] {
			seen[st.Triple] = true
			out = append(out, st.Triple)
		}
		return nil
	}
	r, err := e.read(ctx, user)
	if err != nil {
		return nil, 0, err
	}
	if source == "" {
		err = r.match(ctx, rdf.Term{}, rdf.Term{}, rdf.Term{}, add)
	} else if err = r.facts.match(rdf.Term{}, rdf.Term{}, rdf.Term{}, add); err == nil {
		err = e.each(ctx, user, store.Query{Type: TypeTriples, Limit: 100, Term: index(termSource, source)}, add)
	}
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
		changes, triples, err := e.erasures(ctx, user, of, batch)
		if err != nil || len(changes) == 0 {
			return n, err
		}
		if _, err := e.opt.Store.Commit(ctx, store.ForUser(user), store.Batch{Changes: changes}); err != nil {
			return n, err
		}
		n += triples
	}
}

// erasures returns the changes that erase the first chunks with a term, and how many triples these hold.
func (e *Engine) erasures(ctx context.Context, user string, of store.Term, most int) (changes []store.Change, triples int, err error) {
	page, err := e.opt.Store.Query(ctx, store.ForUser(user), store.Query{Term: of, Type: TypeTriples, Limit: most})
	if err != nil {
		return nil, 0, err
	}
	for _, it := range page.Items {
		var c chunk
		if err := json.Unmarshal(it.Body, &c); err != nil {
			return nil, 0, fault.New(fault.Internal, "graph_broken", "the triples %s cannot be read: %w", it.URI, err)
		}
		triples += len(c.Triples)
		changes = append(changes, store.Change{Op: store.Erase, URI: it.URI})
	}
	return changes, triples, nil
}

// StatedBy returns the triples that a call has stated.
func (e *Engine) StatedBy(ctx context.Context, user string, call id.ID) (out []Statement, err error) {
	err = e.each(ctx, user, store.Query{Type: TypeTriples, Term: index(termCall, call.String())}, func(st Statement) error {
		out = append(out, st)
		return nil
	})
	return out, err
}
