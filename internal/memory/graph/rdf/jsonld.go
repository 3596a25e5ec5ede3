package rdf

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/piprate/json-gold/ld"

	"steward/internal/fault"
)

// local is the loader of contexts that loads none: a document must not make Steward connect to a server.
type local struct{}

// LoadDocument implements ld.DocumentLoader.
func (local) LoadDocument(u string) (*ld.RemoteDocument, error) {
	return nil, ld.NewJsonLdError(ld.LoadingDocumentFailed, "remote:"+u)
}

// maxNesting is how deeply a JSON-LD document may be nested.
const maxNesting = 100

// JSONLD reads a document in JSON-LD 1.1. Its context must stand in it. Only the default graph counts. Error
// codes: graph_syntax, graph_context_remote, graph_document_too_big.
func (r Reader) JSONLD(text string) ([]Triple, error) {
	if err := r.size(len(text)); err != nil {
		return nil, err
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			if depth++; depth > maxNesting {
				return nil, fault.New(fault.TooLarge, "graph_document_too_big", "the document is nested more than %d deep", maxNesting)
			}
		case !quoted && (c == '}' || c == ']'):
			depth--
		}
	}
	var doc any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fault.New(fault.Invalid, "graph_syntax", "the document is not valid JSON: %w", err)
	}
	opt := ld.NewJsonLdOptions(r.Base)
	opt.DocumentLoader = local{}
	got, err := ld.NewJsonLdProcessor().ToRDF(doc, opt)
	if err != nil {
		if _, u, ok := strings.Cut(err.Error(), "remote:"); ok {
			return nil, fault.New(fault.Unsupported, "graph_context_remote", "the document names the context %.200s, which is elsewhere", u).
				WithHint("put the context itself into the document")
		}
		return nil, fault.New(fault.Invalid, "graph_syntax", "the document is not valid JSON-LD: %w", err)
	}
	set, ok := got.(*ld.RDFDataset)
	if !ok {
		return nil, fault.New(fault.Internal, "graph_broken", "the document became %T", got)
	}
	var out []Triple
	labels := map[string]string{}
	for _, q := range set.GetQuads("@default") {
		if len(out) >= r.most() {
			return nil, r.full()
		}
		out = append(out, Triple{fromNode(q.Subject, labels), fromNode(q.Predicate, labels), fromNode(q.Object, labels)})
	}
	return out, nil
}

func fromNode(n ld.Node, labels map[string]string) Term {
	switch n := n.(type) {
	case ld.IRI:
		return NewIRI(n.Value)
	case ld.BlankNode:
		label, ok := labels[n.Attribute]
		if !ok {
			label = fmt.Sprintf("b%d", len(labels)+1)
			labels[n.Attribute] = label
		}
		return NewBlank(label)
	case ld.Literal:
		if n.Language != "" {
			return NewLang(n.Value, n.Language)
		}
		return NewTyped(n.Value, n.Datatype)
	}
	return Term{}
}

func toNode(t Term) ld.Node {
	switch t.Kind {
	case IRI:
		return ld.NewIRI(t.Value)
	case Blank:
		return ld.NewBlankNode("_:" + t.Value)
	}
	return ld.NewLiteral(t.Value, t.Type(), t.Lang)
}

// WriteJSONLD writes triples in expanded JSON-LD.
func WriteJSONLD(triples []Triple) (string, error) {
	set := ld.NewRDFDataset()
	for _, t := range triples {
		set.Graphs["@default"] = append(set.Graphs["@default"], ld.NewQuad(toNode(t.S), toNode(t.P), toNode(t.O), "@default"))
	}
	opt := ld.NewJsonLdOptions("")
	opt.DocumentLoader = local{}
	doc, err := ld.NewJsonLdApi().FromRDF(set, opt)
	if err != nil {
		return "", fault.New(fault.Internal, "graph_broken", "the triples cannot be written as JSON-LD: %w", err)
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	return string(b) + "\n", err
}
