package graph

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/memory/graph/rdf"
	"steward/internal/message"
)

// The formats of documents.
const (
	Turtle   = "turtle"
	NTriples = "ntriples"
	JSONLD   = "jsonld"
)

// State adds a triple that is given in words. An entity that has no name yet gets it. Error codes:
// graph_triple_invalid, those of Entity and of Assert.
func (e *Engine) State(ctx context.Context, user string, t client.NewTriple, labels message.Labels, call id.ID) (int, error) {
	if (t.Object == "") == (t.Value == "") {
		return 0, fault.New(fault.Invalid, "graph_triple_invalid", "a triple needs either an object or a value")
	}
	s, triples, err := e.Entity(ctx, user, t.Subject)
	if err != nil {
		return 0, err
	}
	p := Relation(t.Predicate)
	if p.Value == RelationNS {
		return 0, fault.New(fault.Invalid, "graph_name_invalid", "%.100q is not a name of a relation", t.Predicate).WithHint("give a name with letters, or an IRI")
	}
	o := value(t.Value)
	if t.Object != "" {
		var named []rdf.Triple
		if o, named, err = e.Entity(ctx, user, t.Object); err != nil {
			return 0, err
		}
		triples = append(triples, named...)
	}
	// What was asked for comes last: StatedIn shows it.
	return e.Assert(ctx, user, append(triples, rdf.Triple{S: s, P: p, O: o}), Origin{Source: t.Source, Labels: labels, Call: call})
}

// value returns the literal that a text means: a number, a day, or the text.
func value(s string) rdf.Term {
	if _, err := strconv.ParseInt(s, 10, 64); err == nil {
		return rdf.NewTyped(s, rdf.Integer)
	}
	if whole, frac, ok := strings.Cut(s, "."); ok && frac != "" && strings.Trim(strings.TrimPrefix(whole, "-")+frac, "0123456789") == "" && len(s) < 100 {
		return rdf.NewTyped(s, rdf.Decimal)
	}
	if _, err := time.Parse(time.DateOnly, s); err == nil {
		return rdf.NewTyped(s, rdf.Date)
	}
	return rdf.NewString(s)
}

// StatedIn says in words what a call has stated. Error code: not_found.
func (e *Engine) StatedIn(ctx context.Context, user string, call id.ID) (string, error) {
	list, err := e.StatedBy(ctx, user, call)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", fault.New(fault.NotFound, "not_found", "this call has stated nothing")
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Statement) int { // names of new entities come first
		return map[bool]int{true: 0, false: 1}[isLabel(a.P.Value)] - map[bool]int{true: 0, false: 1}[isLabel(b.P.Value)]
	})
	r, err := e.read(ctx, user)
	if err != nil {
		return "", err
	}
	known := map[rdf.Term]string{}
	st := list[len(list)-1]
	s, err := r.label(ctx, st.S, known)
	if err != nil {
		return "", err
	}
	o, err := r.label(ctx, st.O, known)
	return "Stated: " + s + " " + Words(st.P.Value) + " " + o + ".", err
}

// Import adds the triples of a document. Error codes: graph_format_unsupported, graph_syntax,
// graph_document_too_big, and those of Assert.
func (e *Engine) Import(ctx context.Context, user, format, text string, o Origin) (int, error) {
	triples, err := read(rdf.Reader{}, format, text)
	if err != nil {
		return 0, err
	}
	return e.Assert(ctx, user, triples, o)
}

func read(r rdf.Reader, format, text string) ([]rdf.Triple, error) {
	switch format {
	case Turtle:
		return r.Turtle(text)
	case NTriples:
		return r.NTriples(text)
	case JSONLD:
		return r.JSONLD(text)
	}
	return nil, badFormat(format)
}

func badFormat(format string) error {
	return fault.New(fault.Unsupported, "graph_format_unsupported", "the format %.50q is not supported", format).WithHint("use turtle, ntriples or jsonld")
}

// Write writes triples in a format. Error code: graph_format_unsupported.
func Write(format string, triples []rdf.Triple) (string, error) {
	switch format {
	case Turtle:
		return rdf.WriteTurtle(triples), nil
	case NTriples:
		return rdf.WriteNTriples(triples), nil
	case JSONLD:
		return rdf.WriteJSONLD(triples)
	}
	return "", badFormat(format)
}
