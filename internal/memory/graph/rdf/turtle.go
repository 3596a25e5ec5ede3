package rdf

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"steward/internal/fault"
)

// Limits of a document.
const (
	MaxBytes   = 16 << 20
	MaxTriples = 100_000
	maxDepth   = 100 // of nested blank nodes and lists
)

// Reader reads triples from a text. The zero Reader reads without a base.
type Reader struct {
	Base string // what relative IRIs are relative to
	Most int    // triples; zero: MaxTriples
}

func (r Reader) most() int {
	if r.Most > 0 {
		return r.Most
	}
	return MaxTriples
}

func (r Reader) size(n int) error {
	if n > MaxBytes {
		return fault.New(fault.TooLarge, "graph_document_too_big", "the document has %d bytes; the limit is %d", n, MaxBytes).WithHint("split it")
	}
	return nil
}

func (r Reader) full() error {
	return fault.New(fault.TooLarge, "graph_document_too_big", "the document has more than %d triples", r.most()).WithHint("split it")
}

// turtle parses Turtle and, if lines is set, N-Triples.
type turtle struct {
	r        Reader
	s        *Scanner
	tok      Token
	lines    bool
	base     string
	prefixes map[string]string
	labels   map[string]string // of blank nodes, in the document and here
	blanks   int
	depth    int
	out      []Triple
}

// Turtle reads a document in Turtle. Blank nodes are renamed b1, b2 and so on. Error codes: graph_syntax,
// graph_document_too_big.
func (r Reader) Turtle(text string) ([]Triple, error) { return r.parse(text, false) }

// NTriples reads a document in N-Triples. Blank nodes are renamed, and the codes are those of Turtle.
func (r Reader) NTriples(text string) ([]Triple, error) { return r.parse(text, true) }

func (r Reader) parse(text string, lines bool) ([]Triple, error) {
	if err := r.size(len(text)); err != nil {
		return nil, err
	}
	p := &turtle{r: r, s: NewScanner(text), base: r.Base, prefixes: map[string]string{}, labels: map[string]string{}, lines: lines}
	if err := p.next(); err != nil {
		return nil, err
	}
	for p.tok.Kind != TokEnd {
		var err error
		if lines {
			err = p.line()
		} else {
			err = p.statement()
		}
		if err != nil {
			return nil, err
		}
	}
	return p.out, nil
}

func (p *turtle) next() (err error) {
	p.tok, err = p.s.Next()
	return err
}

func (p *turtle) bad(want string) error {
	got := p.tok.Text
	if p.tok.Kind == TokPrefixed {
		got = p.tok.Prefix + ":" + got
	}
	if p.tok.Kind == TokEnd {
		return p.s.Errorf(p.tok.At, "the document ends where %s is expected", want)
	}
	return p.s.Errorf(p.tok.At, "%s is expected, not %.60q", want, got)
}

func (p *turtle) mark(m string) error {
	if !p.tok.Is(m) {
		return p.bad(fmt.Sprintf("%q", m))
	}
	return p.next()
}

func (p *turtle) emit(s, pr, o Term) error {
	if len(p.out) >= p.r.most() {
		return p.r.full()
	}
	p.out = append(p.out, Triple{s, pr, o})
	return nil
}

// line parses a triple of N-Triples, which has a line for itself.
func (p *turtle) line() error {
	from := p.tok.At
	var t [3]Term
	for i := range t {
		switch k := p.tok.Kind; {
		case k == TokIRI && Absolute(p.tok.Text):
		case k == TokBlank && i != 1:
		case k == TokString && i == 2 && p.s.src[p.tok.At] == '"' && !strings.HasPrefix(p.s.src[p.tok.At:], `"""`) || k == TokString && i == 2 && strings.HasPrefix(p.s.src[p.tok.At:], `"" `):
		default:
			return p.bad([]string{"the subject, an absolute IRI or a blank node,", "the predicate, an absolute IRI,", "the object of the triple"}[i])
		}
		var err error
		if t[i], err = p.term(); err != nil {
			return err
		}
	}
	if !p.tok.Is(".") {
		return p.bad(`"."`)
	}
	if strings.ContainsAny(p.s.src[from:p.tok.At], "\n\r") {
		return p.s.Errorf(from, "the triple is on more than one line")
	}
	end := p.tok.At
	if err := p.next(); err != nil {
		return err
	}
	if p.tok.Kind != TokEnd && !strings.ContainsAny(p.s.src[end:p.tok.At], "\n\r") {
		return p.s.Errorf(p.tok.At, "a triple begins on the line of another")
	}
	return p.emit(t[0], t[1], t[2])
}

func (p *turtle) statement() error {
	at := p.tok.Kind == TokLang
	switch {
	case at && (p.tok.Text == "prefix" || p.tok.Text == "base") || p.tok.Word("prefix") || p.tok.Word("base"):
		if err := p.directive(strings.EqualFold(p.tok.Text, "prefix")); err != nil {
			return err
		}
		if at {
			return p.mark(".")
		}
		return nil
	}
	var subject Term
	var err error
	if p.tok.Is("[") {
		n := len(p.out)
		if subject, err = p.object(); err != nil {
			return err
		}
		if p.tok.Is(".") && len(p.out) > n {
			return p.next()
		}
	} else {
		if p.tok.Kind == TokString || p.tok.Kind == TokInteger || p.tok.Kind == TokDecimal || p.tok.Kind == TokDouble || p.tok.Kind == TokWord || p.tok.Is("+") || p.tok.Is("-") {
			return p.bad("a subject")
		}
		if subject, err = p.object(); err != nil {
			return err
		}
	}
	if err := p.predicates(subject); err != nil {
		return err
	}
	return p.mark(".")
}

func (p *turtle) directive(prefix bool) error {
	if err := p.next(); err != nil {
		return err
	}
	name := p.tok
	if prefix {
		if name.Kind != TokPrefixed || name.Text != "" {
			return p.bad("a prefix such as ex:")
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	if p.tok.Kind != TokIRI {
		return p.bad("an IRI in < and >")
	}
	iri := Resolve(p.base, p.tok.Text)
	if prefix {
		if len(p.prefixes) >= 1000 {
			return p.s.Errorf(name.At, "there are more than 1000 prefixes")
		}
		p.prefixes[name.Prefix] = iri
	} else {
		p.base = iri
	}
	return p.next()
}

// predicates parses the predicates and objects of a subject.
func (p *turtle) predicates(subject Term) error {
	for {
		predicate := NewIRI(Type)
		if p.tok.Kind == TokWord && p.tok.Text == "a" {
			if err := p.next(); err != nil {
				return err
			}
		} else {
			if p.tok.Kind != TokIRI && p.tok.Kind != TokPrefixed {
				return p.bad("a predicate")
			}
			var err error
			if predicate, err = p.term(); err != nil {
				return err
			}
		}
		for {
			object, err := p.object()
			if err != nil {
				return err
			}
			if err := p.emit(subject, predicate, object); err != nil {
				return err
			}
			if !p.tok.Is(",") {
				break
			}
			if err := p.next(); err != nil {
				return err
			}
		}
		if !p.tok.Is(";") {
			return nil
		}
		for p.tok.Is(";") {
			if err := p.next(); err != nil {
				return err
			}
		}
		if p.tok.Is(".") || p.tok.Is("]") {
			return nil
		}
	}
}

func (p *turtle) blank() Term {
	p.blanks++
	return NewBlank(fmt.Sprintf("b%d", p.blanks))
}

// object parses a term, a blank node with its properties, or a list.
func (p *turtle) object() (Term, error) {
	if !p.tok.Is("[") && !p.tok.Is("(") {
		return p.term()
	}
	if p.depth++; p.depth > maxDepth {
		return Term{}, p.s.Errorf(p.tok.At, "there are more than %d nested blank nodes and lists", maxDepth)
	}
	defer func() { p.depth-- }()
	list := p.tok.Is("(")
	if err := p.next(); err != nil {
		return Term{}, err
	}
	if !list {
		node := p.blank()
		if !p.tok.Is("]") {
			if err := p.predicates(node); err != nil {
				return node, err
			}
		}
		return node, p.mark("]")
	}
	head, last := NewIRI(Nil), Term{}
	for !p.tok.Is(")") {
		if p.tok.Kind == TokEnd {
			return head, p.bad(`")"`)
		}
		cell := p.blank()
		item, err := p.object()
		if err != nil {
			return head, err
		}
		if last.Kind == None {
			head = cell
		} else if err := p.emit(last, NewIRI(Rest), cell); err != nil {
			return head, err
		}
		if err := p.emit(cell, NewIRI(First), item); err != nil {
			return head, err
		}
		last = cell
	}
	if last.Kind != None {
		if err := p.emit(last, NewIRI(Rest), NewIRI(Nil)); err != nil {
			return head, err
		}
	}
	return head, p.next()
}

// term parses an IRI, a blank node's label or a literal.
func (p *turtle) term() (Term, error) {
	tok := p.tok
	var sign string
	if (tok.Is("+") || tok.Is("-")) && !p.lines {
		sign = tok.Text
		if err := p.next(); err != nil {
			return Term{}, err
		}
		if tok = p.tok; !tok.Glued || tok.Kind != TokInteger && tok.Kind != TokDecimal && tok.Kind != TokDouble {
			return Term{}, p.bad("a number")
		}
	}
	var t Term
	switch tok.Kind {
	case TokIRI:
		t = NewIRI(Resolve(p.base, tok.Text))
	case TokPrefixed:
		ns, ok := p.prefixes[tok.Prefix]
		if !ok {
			return t, p.s.Errorf(tok.At, "the prefix %s: is not declared", tok.Prefix)
		}
		t = NewIRI(ns + tok.Text)
	case TokBlank:
		label, ok := p.labels[tok.Text]
		if !ok {
			label = p.blank().Value
			p.labels[tok.Text] = label
		}
		t = NewBlank(label)
	case TokInteger:
		t = NewTyped(sign+tok.Text, Integer)
	case TokDecimal:
		t = NewTyped(sign+tok.Text, Decimal)
	case TokDouble:
		t = NewTyped(sign+tok.Text, Double)
	case TokString:
		return p.literal()
	case TokWord:
		if tok.Text != "true" && tok.Text != "false" {
			return t, p.bad("a term")
		}
		t = NewTyped(tok.Text, Boolean)
	default:
		return t, p.bad("a term")
	}
	return t, p.next()
}

func (p *turtle) literal() (Term, error) {
	t := NewString(p.tok.Text)
	if err := p.next(); err != nil {
		return t, err
	}
	if p.tok.Kind == TokLang && p.tok.Glued {
		t = NewLang(t.Value, p.tok.Text)
		return t, p.next()
	}
	if !p.tok.Is("^^") {
		return t, nil
	}
	if err := p.next(); err != nil {
		return t, err
	}
	if p.tok.Kind != TokIRI && p.tok.Kind != TokPrefixed || p.lines && !(p.tok.Kind == TokIRI && Absolute(p.tok.Text)) {
		return t, p.bad("a datatype")
	}
	d, err := p.term()
	return NewTyped(t.Value, d.Value), err
}

// WriteNTriples writes triples, a line each.
func WriteNTriples(triples []Triple) string {
	var b strings.Builder
	for _, t := range triples {
		b.WriteString(t.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// prefixes are those that WriteTurtle declares where they are used.
func wellKnown() map[string]string {
	return map[string]string{"rdf": NS, "rdfs": "http://www.w3.org/2000/01/rdf-schema#", "xsd": XSD, "foaf": "http://xmlns.com/foaf/0.1/",
		"schema": "https://schema.org/", "dc": "http://purl.org/dc/elements/1.1/", "dct": "http://purl.org/dc/terms/", "owl": "http://www.w3.org/2002/07/owl#",
		"skos": "http://www.w3.org/2004/02/skos/core#", "prov": "http://www.w3.org/ns/prov#"}
}

// WriteTurtle writes triples in Turtle, grouped by subject, with the prefixes that are well known.
func WriteTurtle(triples []Triple) string {
	known := wellKnown()
	used := map[string]bool{}
	short := func(t Term) string {
		write := func(iri string) string {
			for name, ns := range known {
				local, ok := strings.CutPrefix(iri, ns)
				if ok && local != "" && !strings.ContainsFunc(local, func(r rune) bool { return !letter(r) && !digit(r) && r != '_' }) {
					used[name] = true
					return name + ":" + local
				}
			}
			return NewIRI(iri).String()
		}
		switch {
		case t.Kind == IRI:
			return write(t.Value)
		case t.Kind == Literal && t.Datatype != "":
			return `"` + escape(t.Value) + `"^^` + write(t.Datatype)
		}
		return t.String()
	}
	sorted := slices.SortedFunc(slices.Values(triples), Compare)
	var b strings.Builder
	for i, t := range sorted {
		p := short(t.P)
		if t.P.Value == Type {
			p = "a"
		}
		switch {
		case i == 0 || sorted[i-1].S != t.S:
			fmt.Fprintf(&b, "\n%s %s %s", short(t.S), p, short(t.O))
		case sorted[i-1].P != t.P:
			fmt.Fprintf(&b, "    %s %s", p, short(t.O))
		default:
			b.WriteString("        " + short(t.O))
		}
		switch {
		case i+1 == len(sorted) || sorted[i+1].S != t.S:
			b.WriteString(" .\n")
		case sorted[i+1].P != t.P:
			b.WriteString(" ;\n")
		default:
			b.WriteString(" ,\n")
		}
	}
	var head strings.Builder
	for _, name := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(&head, "@prefix %s: <%s> .\n", name, known[name])
	}
	return head.String() + b.String()
}

// Compare orders triples by their text.
func Compare(a, b Triple) int { return strings.Compare(a.String(), b.String()) }
