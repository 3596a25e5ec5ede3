package graph

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/memory/graph/rdf"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// Limits of neighbours.
const (
	maxNeighbours = 500
	maxNamed      = 50   // entities of the same name that are looked at
	maxSources    = 20   // whose texts are shown
	maxText       = 1500 // characters of a text
)

// slug turns words into the last part of an IRI.
func slug(words, between string) string {
	parts := strings.FieldsFunc(strings.ToLower(words), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(parts, between)
}

// Relation returns the predicate that words mean: "works at" and works_at are the same. An IRI stays.
func Relation(words string) rdf.Term {
	if iri(words) {
		return rdf.NewIRI(words)
	}
	if l := strings.ToLower(words); l == "label" || l == "name" || l == "is called" {
		return rdf.NewIRI(rdf.Label)
	}
	if l := strings.ToLower(words); l == "is a" || l == "type" {
		return rdf.NewIRI(rdf.Type)
	}
	return rdf.NewIRI(RelationNS + slug(words, "_"))
}

// iri reports whether words are an IRI and no words.
func iri(s string) bool { return rdf.Absolute(s) && !strings.ContainsAny(s, " \t\n<>\"") }

// Words returns a relation in plain words.
func Words(iri string) string {
	local := iri[strings.LastIndexAny(iri, "#/:")+1:]
	if s, err := url.PathUnescape(local); err == nil {
		local = s
	}
	return strings.ReplaceAll(cmp.Or(local, iri), "_", " ")
}

// Entity returns the entity that a name means: an IRI stays, a name that one entity has is that entity, and
// any other gets an IRI of its own. labels are the triples that name a new entity. Error codes:
// graph_entity_ambiguous, graph_name_invalid.
func (e *Engine) Entity(ctx context.Context, user, name string) (t rdf.Term, labels []rdf.Triple, err error) {
	name = strings.Join(strings.Fields(name), " ")
	if iri(name) {
		return rdf.NewIRI(name), nil, nil
	}
	if slug(name, "-") == "" {
		return t, nil, fault.New(fault.Invalid, "graph_name_invalid", "%.100q is no name of an entity", name).WithHint("give a name with letters, or an IRI")
	}
	found, _, err := e.named(ctx, user, name)
	if err != nil {
		return t, nil, err
	}
	found = slices.DeleteFunc(found, func(n namedEntity) bool { return !n.whole })
	if len(found) > 1 {
		return t, nil, ambiguous(name, found)
	}
	if len(found) == 1 {
		return found[0].term, nil, nil
	}
	t = rdf.NewIRI(EntityNS + slug(name, "-"))
	return t, []rdf.Triple{{S: t, P: rdf.NewIRI(rdf.Label), O: rdf.NewString(name)}}, nil
}

type namedEntity struct {
	term  rdf.Term
	label string
	whole bool // the label is the name, not only words of it
}

func ambiguous(name string, found []namedEntity) error {
	var list []string
	for _, f := range found[:min(5, len(found))] {
		list = append(list, f.label+" "+f.term.String())
	}
	return fault.New(fault.Invalid, "graph_entity_ambiguous", "%.100q names %d entities: %s", name, len(found), strings.Join(list, ", ")).WithHint("give more of the name, or the IRI")
}

// named returns the entities one of whose labels is a name, or else has all words of it.
func (e *Engine) named(ctx context.Context, user, name string) (out []namedEntity, labels message.Labels, err error) {
	words := labelWords(name)
	if len(words) == 0 {
		return nil, 0, nil
	}
	full := strings.Join(words, " ")
	longest := slices.MaxFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	add := func(st Statement) error {
		have := labelWords(st.O.Value)
		if slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(have, w) }) {
			return nil
		}
		labels |= st.Labels
		whole := strings.Join(have, " ") == full
		if i := slices.IndexFunc(out, func(n namedEntity) bool { return n.term == st.S }); i >= 0 {
			if whole && !out[i].whole {
				out[i].whole, out[i].label = true, st.O.Value
			}
			return nil
		}
		if out = append(out, namedEntity{st.S, st.O.Value, whole}); len(out) >= maxNamed {
			return errEnough
		}
		return nil
	}
	for _, words := range []string{full, longest} { // words of a name count only where no whole name is
		if err = e.each(ctx, user, store.Query{Type: TypeTriple, Term: index(termWord, words)}, add); err != nil || len(out) > 0 {
			break
		}
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	slices.SortStableFunc(out, func(a, b namedEntity) int {
		if a.whole != b.whole {
			return map[bool]int{true: -1, false: 1}[a.whole]
		}
		return strings.Compare(a.label, b.label)
	})
	return out, labels, err
}

var errEnough = errors.New("there is enough")

// label returns the best name of a term for people.
func (r *reading) label(ctx context.Context, t rdf.Term, known map[rdf.Term]string) (string, error) {
	if t.Kind == rdf.Literal {
		return t.Value, nil
	}
	if s, ok := known[t]; ok {
		return s, nil
	}
	name := ""
	err := r.match(ctx, r.user, t, rdf.NewIRI(rdf.Label), rdf.Term{}, func(st Statement) error {
		r.labels |= st.Labels
		name = st.O.Value
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return "", err
	}
	if name == "" && t.Kind == rdf.IRI {
		name = t.Value
		if local, ok := strings.CutPrefix(t.Value, EntityNS); ok {
			name = strings.ReplaceAll(local, "-", " ")
		}
	}
	known[t] = cmp.Or(name, t.String())
	return known[t], nil
}

// Neighbours returns an entity with all that is said of it and the texts of the sources that say it, the
// newest first. which is its IRI, its name, or words of that; if several have such a name, the one whose
// whole name it is. limit bounds the relations; zero: 50. Error codes: graph_entity_not_found,
// graph_entity_ambiguous.
func (e *Engine) Neighbours(ctx context.Context, user, which string, limit int) (client.Entity, message.Labels, error) {
	limit = min(cmp.Or(max(limit, 0), 50), maxNeighbours)
	which = strings.Join(strings.Fields(which), " ")
	r := &reading{Engine: e, user: user}
	var node rdf.Term
	label, blank := strings.CutPrefix(which, "_:")
	switch {
	case iri(which):
		node = rdf.NewIRI(which)
	case blank:
		node = rdf.NewBlank(label)
	default:
		found, labels, err := e.named(ctx, user, which)
		if err != nil {
			return client.Entity{}, 0, err
		}
		r.labels |= labels
		if len(found) == 0 {
			return client.Entity{}, 0, notFound(which)
		}
		if len(found) > 1 && (found[0].whole == found[1].whole) {
			return client.Entity{}, labels, ambiguous(which, found)
		}
		node = found[0].term
	}
	var list []Statement
	more := false
	gather := func(st Statement) error {
		if len(list) >= maxNeighbours {
			more = true
			return errEnough
		}
		list = append(list, st)
		return nil
	}
	for _, at := range [][2]rdf.Term{{node, {}}, {{}, node}} {
		if err := e.match(ctx, user, at[0], rdf.Term{}, at[1], gather); err != nil && !errors.Is(err, errEnough) {
			return client.Entity{}, 0, err
		}
	}
	if len(list) == 0 {
		return client.Entity{}, 0, notFound(which)
	}
	slices.SortStableFunc(list, func(a, b Statement) int { return b.At.Compare(a.At) })
	known := map[rdf.Term]string{}
	out := client.Entity{ID: strings.Trim(node.String(), "<>"), More: more}
	var err error
	if out.Label, err = r.label(ctx, node, known); err != nil {
		return out, 0, err
	}
	var sources []string
	at := map[rdf.Triple]int{}
	for _, st := range list {
		r.labels |= st.Labels
		i, ok := at[st.Triple]
		if !ok {
			if len(out.Relations) >= limit {
				out.More = true
				continue
			}
			n := client.Neighbour{Predicate: st.P.Value, Words: Words(st.P.Value), At: st.At}
			other := st.O
			if st.S != node {
				n.Inverse, other = true, st.S
			}
			if other.Kind != rdf.Literal {
				n.ID = strings.Trim(other.String(), "<>")
			}
			if n.Label, err = r.label(ctx, other, known); err != nil {
				return out, 0, err
			}
			i, at[st.Triple] = len(out.Relations), len(out.Relations)
			out.Relations = append(out.Relations, n)
		}
		if n := &out.Relations[i]; !slices.Contains(n.Sources, st.Source) {
			n.Sources = append(n.Sources, st.Source)
		}
		if !slices.Contains(sources, st.Source) {
			sources = append(sources, st.Source)
		}
	}
	for _, s := range sources[:min(len(sources), maxSources)] {
		u, err := resource.Parse(s)
		if err != nil || e.opt.Text == nil {
			continue
		}
		text, labels, err := e.opt.Text(ctx, user, u)
		if fault.Is(err, fault.NotFound) || err == nil && text == "" {
			continue // it has no text, or has none any more
		}
		if err != nil {
			return out, 0, err
		}
		r.labels |= labels
		if runes := []rune(text); len(runes) > maxText {
			text = string(runes[:maxText]) + "…"
		}
		out.Texts = append(out.Texts, client.SourceText{Source: s, Text: text})
	}
	out.Labels = r.labels.Names()
	return out, r.labels, nil
}

func notFound(which string) error {
	return fault.New(fault.NotFound, "graph_entity_not_found", "the graph knows no %.100q", which).WithHint("try other words of the name")
}
