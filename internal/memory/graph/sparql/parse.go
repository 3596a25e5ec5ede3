package sparql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"steward/internal/fault"
	"steward/internal/memory/graph/rdf"
)

// Limits of a query.
const (
	MaxText  = 64 << 10 // bytes
	maxDepth = 50
	maxVars  = 100
)

// parser reads a query.
type parser struct {
	s        *rdf.Scanner
	tok      rdf.Token
	base     string
	prefixes map[string]string
	q        *Query
	slots    map[string]int
	depth    int
	hidden   int // variables that stand for blank nodes without a label
	template bool
	labels   map[string]int // the pattern in which the label of a blank node is used
	pattern  int
	counts   bool // COUNT may stand here
	builtins map[string]builtin
}

// Parse reads a query. Error codes: graph_syntax, graph_query_unsupported.
func Parse(text string) (*Query, error) {
	if len(text) > MaxText {
		return nil, fault.New(fault.Exhausted, "graph_query_too_big", "the query has %d bytes; the limit is %d", len(text), MaxText)
	}
	p := &parser{s: rdf.NewScanner(text), prefixes: map[string]string{}, q: &Query{Limit: -1}, slots: map[string]int{}, labels: map[string]int{}, builtins: builtins()}
	if err := p.next(); err != nil {
		return nil, err
	}
	if err := p.query(); err != nil {
		return nil, err
	}
	if p.tok.Kind != rdf.TokEnd {
		return nil, p.bad("the end of the query")
	}
	return p.q, nil
}

func (p *parser) next() (err error) {
	p.tok, err = p.s.Next()
	return err
}

func (p *parser) bad(want string) error {
	t := p.tok.Text
	if p.tok.Kind == rdf.TokWord && refused(t) {
		return p.unsupported(strings.ToUpper(t))
	}
	if p.tok.Kind == rdf.TokEnd {
		return p.s.Errorf(p.tok.At, "the query ends where %s is expected", want)
	}
	if p.tok.Kind == rdf.TokPrefixed {
		t = p.tok.Prefix + ":" + t
	}
	return p.s.Errorf(p.tok.At, "%s is expected, not %.60q", want, t)
}

// refused reports whether a word belongs to a part of SPARQL that is not built.
func refused(w string) bool {
	return slices.Contains(strings.Fields(`DESCRIBE FROM GRAPH SERVICE MINUS BIND VALUES EXISTS HAVING INSERT DELETE LOAD CLEAR CREATE DROP ADD MOVE COPY WITH
		SUM AVG MIN MAX SAMPLE GROUP_CONCAT NOW RAND UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512 TIMEZONE TZ BNODE STRDT STRLANG ENCODE_FOR_URI`), strings.ToUpper(w))
}

func (p *parser) unsupported(what string) error {
	return fault.New(fault.Unsupported, "graph_query_unsupported", "%s is not supported", what).
		WithHint("use SELECT, ASK or CONSTRUCT with patterns, FILTER, OPTIONAL, UNION, GROUP BY, COUNT, ORDER BY, LIMIT and OFFSET")
}

// word skips a word if it stands here.
func (p *parser) word(w string) (bool, error) {
	if !p.tok.Word(w) {
		return false, nil
	}
	return true, p.next()
}

// mark skips a mark if it stands here.
func (p *parser) mark(m string) (bool, error) {
	if !p.tok.Is(m) {
		return false, nil
	}
	return true, p.next()
}

func (p *parser) need(m string) error {
	if ok, err := p.mark(m); err != nil || ok {
		return err
	}
	return p.bad(fmt.Sprintf("%q", m))
}

func (p *parser) variable(name string) (int, error) {
	if i, ok := p.slots[name]; ok {
		return i, nil
	}
	if len(p.q.vars) >= maxVars {
		return 0, p.s.Errorf(p.tok.At, "the query has more than %d variables", maxVars)
	}
	p.slots[name] = len(p.q.vars)
	p.q.vars = append(p.q.vars, name)
	return p.slots[name], nil
}

func (p *parser) query() error {
	for p.tok.Word("prefix") || p.tok.Word("base") {
		prefix := p.tok.Word("prefix")
		if err := p.next(); err != nil {
			return err
		}
		name := p.tok
		if prefix {
			if name.Kind != rdf.TokPrefixed || name.Text != "" {
				return p.bad("a prefix such as ex:")
			}
			if err := p.next(); err != nil {
				return err
			}
		}
		if p.tok.Kind != rdf.TokIRI {
			return p.bad("an IRI in < and >")
		}
		if prefix {
			p.prefixes[name.Prefix] = rdf.Resolve(p.base, p.tok.Text)
		} else {
			p.base = rdf.Resolve(p.base, p.tok.Text)
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	p.q.base = p.base
	form := p.tok
	if form.Kind != rdf.TokWord {
		return p.bad("SELECT, ASK or CONSTRUCT")
	}
	if !form.Word("select") && !form.Word("ask") && !form.Word("construct") {
		return p.bad("SELECT, ASK or CONSTRUCT")
	}
	if err := p.next(); err != nil {
		return err
	}
	switch {
	case form.Word("ask"):
		p.q.Form = Ask
	case form.Word("construct"):
		p.q.Form = Construct
		if ok, err := p.word("where"); err != nil {
			return err
		} else if ok { // the pattern is the template too
			if !p.tok.Is("{") {
				return p.bad(`"{"`)
			}
			g, err := p.group()
			if err != nil {
				return err
			}
			if len(g.filters) > 0 || len(g.parts) > 1 || len(g.parts) == 1 && g.parts[0].kind != basic {
				return p.s.Errorf(form.At, "CONSTRUCT WHERE has nothing but triples in its braces")
			}
			p.q.where = g
			for _, part := range g.parts {
				p.q.template = part.triples
			}
			return p.modifiers()
		}
		p.template = true
		if err := p.need("{"); err != nil {
			return err
		}
		triples, err := p.triples()
		if err != nil {
			return err
		}
		if err := p.need("}"); err != nil {
			return err
		}
		p.template, p.q.template = false, triples
		clear(p.labels)
	default:
		if err := p.projection(); err != nil {
			return err
		}
	}
	if p.tok.Word("from") {
		return p.unsupported("FROM")
	}
	if _, err := p.word("where"); err != nil {
		return err
	}
	if !p.tok.Is("{") {
		return p.bad(`"{"`)
	}
	g, err := p.group()
	if err != nil {
		return err
	}
	p.q.where = g
	return p.modifiers()
}

func (p *parser) projection() error {
	p.q.Form = Select
	if ok, err := p.word("distinct"); err != nil {
		return err
	} else if ok {
		p.q.distinct = true
	} else if ok, err := p.word("reduced"); err != nil {
		return err
	} else if ok {
		p.q.distinct = true
	}
	if ok, err := p.mark("*"); err != nil || ok {
		p.q.all = true
		return err
	}
	for {
		c := column{}
		switch {
		case p.tok.Kind == rdf.TokVar:
			i, err := p.variable(p.tok.Text)
			if err != nil {
				return err
			}
			c.slot = i
			if err := p.next(); err != nil {
				return err
			}
		case p.tok.Is("("):
			if err := p.next(); err != nil {
				return err
			}
			p.counts = true
			e, err := p.expression()
			if err != nil {
				return err
			}
			p.counts = false
			if ok, err := p.word("as"); err != nil || !ok {
				if err == nil {
					err = p.bad("AS")
				}
				return err
			}
			if p.tok.Kind != rdf.TokVar {
				return p.bad("a variable")
			}
			for _, other := range p.q.columns {
				if p.q.vars[other.slot] == p.tok.Text {
					return p.s.Errorf(p.tok.At, "?%s is selected twice", p.tok.Text)
				}
			}
			if c.slot, err = p.variable(p.tok.Text); err != nil {
				return err
			}
			c.expr = e
			if err := p.next(); err != nil {
				return err
			}
			if err := p.need(")"); err != nil {
				return err
			}
		case len(p.q.columns) == 0:
			return p.bad("a variable or *")
		default:
			return nil
		}
		p.q.columns = append(p.q.columns, c)
	}
}

func (p *parser) modifiers() error {
	if ok, err := p.word("group"); err != nil {
		return err
	} else if ok {
		if ok, err := p.word("by"); err != nil || !ok {
			return p.bad("BY")
		}
		for p.tok.Kind == rdf.TokVar {
			i, err := p.variable(p.tok.Text)
			if err != nil {
				return err
			}
			p.q.groupBy = append(p.q.groupBy, i)
			if err := p.next(); err != nil {
				return err
			}
		}
		if len(p.q.groupBy) == 0 {
			return p.unsupported("GROUP BY an expression")
		}
		if p.tok.Is("(") {
			return p.unsupported("GROUP BY an expression")
		}
	}
	if p.tok.Word("having") {
		return p.unsupported("HAVING")
	}
	if ok, err := p.word("order"); err != nil {
		return err
	} else if ok {
		if ok, err := p.word("by"); err != nil || !ok {
			return p.bad("BY")
		}
		for {
			k := sortKey{}
			if ok, err := p.word("desc"); err != nil {
				return err
			} else if ok {
				k.down = true
			} else if _, err := p.word("asc"); err != nil {
				return err
			}
			if !p.tok.Is("(") && p.tok.Kind != rdf.TokVar && (p.tok.Kind != rdf.TokWord || p.builtins[strings.ToUpper(p.tok.Text)].do == nil && !refused(p.tok.Text)) && p.tok.Kind != rdf.TokIRI && p.tok.Kind != rdf.TokPrefixed {
				if len(p.q.orderBy) == 0 {
					return p.bad("what to order by")
				}
				break
			}
			p.counts = true
			e, err := p.primary()
			if err != nil {
				return err
			}
			p.counts = false
			k.expr = e
			p.q.orderBy = append(p.q.orderBy, k)
		}
	}
	for range 2 { // in any order
		limit := p.tok.Word("limit")
		if !limit && !p.tok.Word("offset") {
			break
		}
		if err := p.next(); err != nil {
			return err
		}
		n, err := strconv.Atoi(p.tok.Text)
		if p.tok.Kind != rdf.TokInteger || err != nil {
			return p.bad("a number")
		}
		if limit {
			p.q.Limit = n
		} else {
			p.q.offset = n
		}
		if err := p.next(); err != nil {
			return err
		}
	}
	if p.tok.Word("values") {
		return p.unsupported("VALUES")
	}
	return p.check()
}

// check looks at what only the whole query shows.
func (p *parser) check() error {
	counting := len(p.q.groupBy) > 0
	for _, c := range p.q.columns {
		counting = counting || c.expr.counts()
	}
	p.q.grouped = counting
	if !counting {
		return nil
	}
	if p.q.all {
		return p.s.Errorf(0, "SELECT * cannot stand with GROUP BY or COUNT")
	}
	for i, c := range p.q.columns {
		if c.expr == nil && !slices.Contains(p.q.groupBy, c.slot) {
			return p.s.Errorf(0, "?%s is neither counted nor named in GROUP BY", p.q.vars[c.slot])
		}
		if c.expr != nil {
			for _, v := range c.expr.outside() {
				known := slices.Contains(p.q.groupBy, v)
				for _, before := range p.q.columns[:i] {
					known = known || before.slot == v
				}
				if !known {
					return p.s.Errorf(0, "?%s is neither counted nor named in GROUP BY", p.q.vars[v])
				}
			}
		}
	}
	return nil
}

// group parses what stands in braces, with them.
func (p *parser) group() (*group, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, p.s.Errorf(p.tok.At, "there are more than %d nested groups", maxDepth)
	}
	defer func() { p.depth-- }()
	if err := p.need("{"); err != nil {
		return nil, err
	}
	if p.tok.Word("select") {
		return nil, p.unsupported("a query within a query")
	}
	g := &group{}
	p.pattern++
	for {
		switch {
		case p.tok.Is("}"):
			g.finish()
			p.pattern++
			return g, p.next()
		case p.tok.Word("filter"):
			if err := p.next(); err != nil {
				return nil, err
			}
			if p.tok.Word("not") {
				return nil, p.unsupported("NOT EXISTS")
			}
			if !p.tok.Is("(") && p.tok.Kind != rdf.TokWord && p.tok.Kind != rdf.TokIRI && p.tok.Kind != rdf.TokPrefixed {
				return nil, p.bad("a condition in parentheses or a function")
			}
			if p.tok.Word("true") || p.tok.Word("false") {
				return nil, p.bad("a condition in parentheses or a function")
			}
			call := p.tok.Kind == rdf.TokIRI || p.tok.Kind == rdf.TokPrefixed
			e, err := p.primary()
			if err != nil {
				return nil, err
			}
			if call && e.op == "const" {
				return nil, p.bad(`"("`)
			}
			g.filters = append(g.filters, e)
			if _, err := p.mark("."); err != nil {
				return nil, err
			}
		case p.tok.Word("optional"):
			if err := p.next(); err != nil {
				return nil, err
			}
			sub, err := p.group()
			if err != nil {
				return nil, err
			}
			p.pattern++
			g.parts = append(g.parts, part{kind: optional, groups: []*group{sub}})
			if _, err := p.mark("."); err != nil {
				return nil, err
			}
		case p.tok.Is("{"):
			one := part{kind: union}
			for {
				sub, err := p.group()
				if err != nil {
					return nil, err
				}
				one.groups = append(one.groups, sub)
				if ok, err := p.word("union"); err != nil {
					return nil, err
				} else if !ok {
					break
				}
				if !p.tok.Is("{") {
					return nil, p.bad(`"{"`)
				}
			}
			p.pattern++
			g.parts = append(g.parts, one)
			if _, err := p.mark("."); err != nil {
				return nil, err
			}
		default:
			triples, err := p.triples()
			if err != nil {
				return nil, err
			}
			if len(triples) == 0 {
				return nil, p.bad("a pattern")
			}
			if n := len(g.parts); n > 0 && g.parts[n-1].kind == basic {
				g.parts[n-1].triples = append(g.parts[n-1].triples, triples...)
			} else {
				g.parts = append(g.parts, part{kind: basic, triples: triples})
			}
		}
	}
}

// triples parses triples up to what is none.
func (p *parser) triples() ([]pattern, error) {
	var out []pattern
	for {
		if p.tok.Is("}") || p.tok.Is("{") || p.tok.Kind == rdf.TokEnd || p.tok.Kind == rdf.TokWord && !p.tok.Word("true") && !p.tok.Word("false") {
			return out, nil
		}
		shape := p.tok.Is("[") || p.tok.Is("(")
		n := len(out)
		s, err := p.node(&out)
		if err != nil {
			return nil, err
		}
		if !(shape && len(out) > n && (p.tok.Is(".") || p.tok.Is("}"))) {
			if err := p.properties(s, &out); err != nil {
				return nil, err
			}
		}
		if ok, err := p.mark("."); err != nil || !ok {
			if err == nil && !p.tok.Is("}") && !p.tok.Is("{") && p.tok.Kind != rdf.TokWord {
				err = p.bad(`"." or "}"`)
			}
			return out, err
		}
	}
}

func (p *parser) properties(s place, out *[]pattern) error {
	for {
		var pr place
		switch {
		case p.tok.Kind == rdf.TokWord && p.tok.Text == "a":
			pr.term = rdf.NewIRI(rdf.Type)
			if err := p.next(); err != nil {
				return err
			}
		case p.tok.Kind == rdf.TokVar, p.tok.Kind == rdf.TokIRI, p.tok.Kind == rdf.TokPrefixed:
			var err error
			if pr, err = p.node(out); err != nil {
				return err
			}
		case p.tok.Is("^") || p.tok.Is("!") || p.tok.Is("("):
			return p.unsupported("a property path")
		default:
			return p.bad("a predicate")
		}
		if p.tok.Is("/") || p.tok.Is("|") || p.tok.Is("*") || p.tok.Is("+") && p.tok.Glued || p.tok.Is("?") || p.tok.Is("^") {
			return p.unsupported("a property path")
		}
		for {
			o, err := p.node(out)
			if err != nil {
				return err
			}
			*out = append(*out, pattern{s, pr, o})
			if len(*out) > 1000 {
				return p.s.Errorf(p.tok.At, "the pattern has more than 1000 triples")
			}
			if ok, err := p.mark(","); err != nil {
				return err
			} else if !ok {
				break
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
		if p.tok.Is(".") || p.tok.Is("]") || p.tok.Is("}") || p.tok.Kind == rdf.TokWord && p.tok.Text != "a" {
			return nil
		}
	}
}

// blank returns the place of a blank node: in a pattern it is a variable that nobody sees.
func (p *parser) blank(label string) (place, error) {
	if label == "" {
		p.hidden++
		label = fmt.Sprintf(" %d", p.hidden)
	} else if !p.template {
		if at, ok := p.labels[label]; ok && at != p.pattern {
			return place{}, p.s.Errorf(p.tok.At, "_:%s stands in two patterns", label)
		}
		p.labels[label] = p.pattern
	}
	if p.template {
		return place{term: rdf.NewBlank(label)}, nil
	}
	i, err := p.variable("_:" + label)
	return place{slot: i, open: true}, err
}

// node parses a term, a variable, a blank node with properties, or a list.
func (p *parser) node(out *[]pattern) (place, error) {
	switch {
	case p.tok.Is("["):
		if p.depth++; p.depth > maxDepth {
			return place{}, p.s.Errorf(p.tok.At, "there are more than %d nested nodes", maxDepth)
		}
		defer func() { p.depth-- }()
		if err := p.next(); err != nil {
			return place{}, err
		}
		n, err := p.blank("")
		if err != nil {
			return n, err
		}
		if !p.tok.Is("]") {
			if err := p.properties(n, out); err != nil {
				return n, err
			}
		}
		return n, p.need("]")
	case p.tok.Is("("):
		if p.depth++; p.depth > maxDepth {
			return place{}, p.s.Errorf(p.tok.At, "there are more than %d nested nodes", maxDepth)
		}
		defer func() { p.depth-- }()
		if err := p.next(); err != nil {
			return place{}, err
		}
		head := place{term: rdf.NewIRI(rdf.Nil)}
		var last place
		for first := true; !p.tok.Is(")"); first = false {
			if p.tok.Kind == rdf.TokEnd {
				return head, p.bad(`")"`)
			}
			cell, err := p.blank("")
			if err != nil {
				return head, err
			}
			item, err := p.node(out)
			if err != nil {
				return head, err
			}
			if first {
				head = cell
			} else {
				*out = append(*out, pattern{last, place{term: rdf.NewIRI(rdf.Rest)}, cell})
			}
			*out = append(*out, pattern{cell, place{term: rdf.NewIRI(rdf.First)}, item})
			last = cell
		}
		if head.open || head.term.Kind == rdf.Blank {
			*out = append(*out, pattern{last, place{term: rdf.NewIRI(rdf.Rest)}, place{term: rdf.NewIRI(rdf.Nil)}})
		}
		return head, p.next()
	case p.tok.Kind == rdf.TokVar:
		i, err := p.variable(p.tok.Text)
		if err != nil {
			return place{}, err
		}
		return place{slot: i, open: true}, p.next()
	case p.tok.Kind == rdf.TokBlank:
		n, err := p.blank(p.tok.Text)
		if err != nil {
			return n, err
		}
		return n, p.next()
	}
	t, err := p.term()
	return place{term: t}, err
}

// term parses an IRI or a literal.
func (p *parser) term() (rdf.Term, error) {
	sign := ""
	if p.tok.Is("+") || p.tok.Is("-") {
		sign = p.tok.Text
		if err := p.next(); err != nil {
			return rdf.Term{}, err
		}
		if !p.tok.Glued {
			return rdf.Term{}, p.bad("a number")
		}
	}
	var t rdf.Term
	switch tok := p.tok; tok.Kind {
	case rdf.TokInteger:
		t = rdf.NewTyped(sign+tok.Text, rdf.Integer)
	case rdf.TokDecimal:
		t = rdf.NewTyped(sign+tok.Text, rdf.Decimal)
	case rdf.TokDouble:
		t = rdf.NewTyped(sign+tok.Text, rdf.Double)
	default:
		if sign != "" {
			return t, p.bad("a number")
		}
		switch {
		case tok.Kind == rdf.TokIRI || tok.Kind == rdf.TokPrefixed:
			return p.iri()
		case tok.Word("true") || tok.Word("false"):
			t = rdf.NewTyped(strings.ToLower(tok.Text), rdf.Boolean)
		case tok.Kind == rdf.TokString:
			t = rdf.NewString(tok.Text)
			if err := p.next(); err != nil {
				return t, err
			}
			if p.tok.Kind == rdf.TokLang && p.tok.Glued {
				t = rdf.NewLang(t.Value, p.tok.Text)
				return t, p.next()
			}
			if !p.tok.Is("^^") {
				return t, nil
			}
			if err := p.next(); err != nil {
				return t, err
			}
			d, err := p.iri()
			return rdf.NewTyped(t.Value, d.Value), err
		default:
			return t, p.bad("a term or variable")
		}
	}
	return t, p.next()
}

func (p *parser) iri() (rdf.Term, error) {
	switch p.tok.Kind {
	case rdf.TokIRI:
		return rdf.NewIRI(rdf.Resolve(p.base, p.tok.Text)), p.next()
	case rdf.TokPrefixed:
		ns, ok := p.prefixes[p.tok.Prefix]
		if !ok {
			return rdf.Term{}, p.s.Errorf(p.tok.At, "the prefix %s: is not declared", p.tok.Prefix)
		}
		return rdf.NewIRI(ns + p.tok.Text), p.next()
	}
	return rdf.Term{}, p.bad("an IRI")
}
