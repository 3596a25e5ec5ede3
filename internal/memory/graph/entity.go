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
	"steward/internal/id"
	"steward/internal/memory"
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
	maxFacts      = 30
	maxPassages   = 5
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
// any other gets an IRI of its own. Names that only facts use get the same IRI here and there. What others
// have named does not count: a foreign document must not take the place of a person by their name. labels are the
// triples that name a new entity. Error codes:
// graph_entity_ambiguous, graph_name_invalid.
func (e *Engine) Entity(ctx context.Context, user, name string) (t rdf.Term, labels []rdf.Triple, err error) {
	name = strings.Join(strings.Fields(name), " ")
	if iri(name) {
		return rdf.NewIRI(name), nil, nil
	}
	if slug(name, "-") == "" {
		return t, nil, fault.New(fault.Invalid, "graph_name_invalid", "%.100q is not a name of an entity", name).WithHint("give a name with letters, or an IRI")
	}
	found, _, err := e.named(ctx, user, name, nil)
	if err != nil {
		return t, nil, err
	}
	found = slices.DeleteFunc(found, func(n namedEntity) bool { return !n.whole || !n.own })
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
	own   bool // a label does not come from others
}

func ambiguous(name string, found []namedEntity) error {
	var list []string
	for _, f := range found[:min(5, len(found))] {
		list = append(list, f.label+" "+f.term.String())
	}
	return fault.New(fault.Invalid, "graph_entity_ambiguous", "%.100q names %d entities: %s", name, len(found), strings.Join(list, ", ")).WithHint("give more of the name, or the IRI")
}

// named returns the entities one of whose labels is a name, or else has all words of it: those that are stored,
// and those of which facts speak.
func (e *Engine) named(ctx context.Context, user, name string, facts *view) (out []namedEntity, labels message.Labels, err error) {
	words := labelWords(name)
	if len(words) == 0 {
		return nil, 0, nil
	}
	full := strings.Join(words, " ")
	longest := slices.MaxFunc(words, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	add := func(st Statement) error {
		if !isLabel(st.P.Value) || st.O.Kind != rdf.Literal { // another triple of the chunk
			return nil
		}
		have := labelWords(st.O.Value)
		if slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(have, w) }) {
			return nil
		}
		labels |= st.Labels
		whole := strings.Join(have, " ") == full
		own := !st.Labels.Has(message.Untrusted)
		if i := slices.IndexFunc(out, func(n namedEntity) bool { return n.term == st.S }); i >= 0 {
			out[i].own = out[i].own || own && (whole || !out[i].whole)
			if whole && !out[i].whole {
				out[i].whole, out[i].label = true, st.O.Value
			}
			return nil
		}
		if out = append(out, namedEntity{st.S, st.O.Value, whole, own}); len(out) >= maxNamed {
			return errEnough
		}
		return nil
	}
	if facts != nil {
		for _, st := range facts.list {
			if isLabel(st.P.Value) && err == nil {
				err = add(st)
			}
		}
	}
	for _, words := range []string{full, longest} { // words of a name count only where no whole name is
		if err != nil || slices.ContainsFunc(out, func(n namedEntity) bool { return n.whole }) && words != full {
			break
		}
		if err = e.each(ctx, user, store.Query{Type: TypeTriples, Term: index(termWord, words)}, add); err != nil {
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
		if a.whole && a.own != b.own {
			return map[bool]int{true: -1, false: 1}[a.own]
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
	err := r.match(ctx, t, rdf.NewIRI(rdf.Label), rdf.Term{}, func(st Statement) error {
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

// Neighbours tells who or what something is: its relations, the facts about it and those that mention it, the
// texts of the sources of these, and passages of messages and documents that mention its name. which is an IRI, a
// name, or words of a name; if several have such a name, the one whose whole name it is. A name that is only
// mentioned has no relations. limit bounds the relations; zero: 50. What belongs to the message except, which asks,
// is left out. Error codes: graph_entity_not_found, graph_entity_ambiguous.
func (e *Engine) Neighbours(ctx context.Context, user, which string, limit int, except id.ID) (client.Entity, message.Labels, error) {
	limit = min(cmp.Or(max(limit, 0), 50), maxNeighbours)
	which = strings.Join(strings.Fields(which), " ")
	r, err := e.read(ctx, user)
	if err != nil {
		return client.Entity{}, 0, err
	}
	node, err := r.find(ctx, which)
	if err != nil {
		return client.Entity{}, r.labels, err
	}
	out := client.Entity{Label: which}
	var sources []string
	if node.Kind != rdf.None {
		if out, sources, err = r.relations(ctx, node, limit); err != nil {
			return client.Entity{}, 0, err
		}
	}
	name := out.Label
	if iri(name) {
		name = ""
	}
	facts, labels := r.facts.about(node, name)
	r.labels |= labels
	for i := range facts {
		out.Facts = append(out.Facts, memory.View(&facts[i]))
		if s := facts[i].Source; s != "" && !slices.Contains(sources, s) {
			sources = append(sources, s)
		}
	}
	if out.Texts, err = r.texts(ctx, sources); err != nil {
		return out, 0, err
	}
	if words := labelWords(name); len(words) > 0 && e.opt.Mentions != nil {
		found, err := e.opt.Mentions(ctx, user, strings.Join(words, " "), except, maxPassages)
		if err != nil {
			return out, 0, err
		}
		for _, m := range found {
			if !mentions(m.Text, words) || slices.ContainsFunc(out.Texts, func(t client.SourceText) bool { return t.Source == m.Source }) {
				continue
			}
			r.labels |= m.Labels
			m.Text = shortened(m.Text)
			out.Passages = append(out.Passages, m.SourceText)
		}
	}
	if len(sources)+len(out.Facts)+len(out.Passages) == 0 {
		return client.Entity{}, 0, notFound(which)
	}
	out.Labels = r.labels.Names()
	return out, r.labels, nil
}

// find returns the entity with an IRI or a name. No term: nothing has the name.
func (r *reading) find(ctx context.Context, which string) (rdf.Term, error) {
	if iri(which) {
		return rdf.NewIRI(which), nil
	}
	if label, ok := strings.CutPrefix(which, "_:"); ok {
		return rdf.NewBlank(label), nil
	}
	found, labels, err := r.named(ctx, r.user, which, &r.facts)
	if err != nil || len(found) == 0 {
		return rdf.Term{}, err
	}
	r.labels |= labels
	if len(found) > 1 && found[0].whole == found[1].whole && !(found[0].whole && found[0].own && !found[1].own) {
		return rdf.Term{}, ambiguous(which, found)
	}
	return found[0].term, nil
}

// relations returns an entity with its relations, the newest first, and the sources of these. Facts are not
// among the relations.
func (r *reading) relations(ctx context.Context, node rdf.Term, limit int) (out client.Entity, sources []string, err error) {
	var list []Statement
	gather := func(st Statement) error {
		if _, ok := r.facts.facts[st.S]; ok && st.S != node {
			return nil
		}
		if len(list) >= maxNeighbours {
			out.More = true
			return errEnough
		}
		list = append(list, st)
		return nil
	}
	for _, at := range [][2]rdf.Term{{node, {}}, {{}, node}} {
		if err := r.match(ctx, at[0], rdf.Term{}, at[1], gather); err != nil && !errors.Is(err, errEnough) {
			return out, nil, err
		}
	}
	slices.SortStableFunc(list, func(a, b Statement) int { return b.At.Compare(a.At) })
	known := map[rdf.Term]string{}
	out.ID = strings.Trim(node.String(), "<>")
	if out.Label, err = r.label(ctx, node, known); err != nil {
		return out, nil, err
	}
	at := map[rdf.Triple]int{}
	for _, st := range list {
		r.labels |= st.Labels
		if !slices.Contains(sources, st.Source) {
			sources = append(sources, st.Source)
		}
		if st.S == node && st.P.Value == rdf.Label && st.O.Value == out.Label { // it is shown as the name
			continue
		}
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
				return out, nil, err
			}
			i, at[st.Triple] = len(out.Relations), len(out.Relations)
			out.Relations = append(out.Relations, n)
		}
		if n := &out.Relations[i]; !slices.Contains(n.Sources, st.Source) {
			n.Sources = append(n.Sources, st.Source)
		}
	}
	return out, sources, nil
}

// texts returns the texts of the first sources that have one.
func (r *reading) texts(ctx context.Context, sources []string) (out []client.SourceText, err error) {
	if r.opt.Text == nil {
		return nil, nil
	}
	for _, s := range sources {
		u, err := resource.Parse(s)
		if err != nil {
			continue
		}
		text, labels, err := r.opt.Text(ctx, r.user, u)
		if fault.Is(err, fault.NotFound) || err == nil && text == "" {
			continue // it has no text, or has none any more
		}
		if err != nil {
			return nil, err
		}
		r.labels |= labels
		if out = append(out, client.SourceText{Source: s, Text: shortened(text)}); len(out) == maxSources {
			break
		}
	}
	return out, nil
}

func shortened(text string) string {
	if runes := []rune(text); len(runes) > maxText {
		return string(runes[:maxText]) + "…"
	}
	return text
}

func notFound(which string) error {
	return fault.New(fault.NotFound, "graph_entity_not_found", "the graph knows no %.100q", which).WithHint("try other words of the name")
}
