package sparql

import (
	"slices"
	"strings"

	"steward/internal/fault"
	"steward/internal/memory/graph/rdf"
)

// expr is an expression: a constant, a variable, an operator or a function with its arguments.
type expr struct {
	op       string // "const", "var", an operator, or the name of a function in capitals
	term     rdf.Term
	slot     int // of a variable; where the result of a COUNT is kept
	args     []*expr
	distinct bool // COUNT
	do       func([]rdf.Term) (rdf.Term, error)
}

// errType is the error of SPARQL for an expression without a value. A filter with it does not hold.
var errType = fault.New(fault.Invalid, "graph_expression", "the expression has no value")

// vars appends the variables in an expression, but for those that are only counted.
func (x *expr) vars(to []int) []int {
	if x == nil {
		return to
	}
	if x.op == "var" && !slices.Contains(to, x.slot) {
		to = append(to, x.slot)
	}
	for _, a := range x.args {
		to = a.vars(to)
	}
	return to
}

// outside returns the variables that stand outside of each COUNT.
func (x *expr) outside() (out []int) {
	if x.op == "var" {
		return []int{x.slot}
	}
	if x.op == "COUNT" {
		return nil
	}
	for _, a := range x.args {
		out = append(out, a.outside()...)
	}
	return out
}

func (x *expr) find(op string, to []*expr) []*expr {
	if x == nil {
		return to
	}
	if x.op == op {
		to = append(to, x)
	}
	for _, a := range x.args {
		to = a.find(op, to)
	}
	return to
}

func (x *expr) counts() bool { return len(x.find("COUNT", nil)) > 0 }

// levels are the binary operators, the weakest first. Those of the third level do not associate.
func level(i int, t rdf.Token) bool {
	return t.Kind == rdf.TokMark && slices.Contains([][]string{{"||"}, {"&&"}, {"=", "!=", "<", ">", "<=", ">="}, {"+", "-"}, {"*", "/"}}[i], t.Text)
}

func (p *parser) expression() (*expr, error) { return p.binary(0) }

func (p *parser) binary(at int) (*expr, error) {
	if at == 5 {
		return p.unary()
	}
	if p.depth++; p.depth > maxDepth*6 {
		return nil, p.s.Errorf(p.tok.At, "the expression is nested too deeply")
	}
	defer func() { p.depth-- }()
	left, err := p.binary(at + 1)
	if err != nil {
		return nil, err
	}
	for {
		op := p.tok.Text
		if at == 2 && (p.tok.Word("in") || p.tok.Word("not")) {
			not := p.tok.Word("not")
			if err := p.next(); err != nil {
				return nil, err
			}
			if ok, err := p.word("in"); err != nil {
				return nil, err
			} else if not && !ok {
				return nil, p.bad("IN")
			} else if !not && ok {
				return nil, p.bad(`"("`)
			}
			args, err := p.arguments()
			if err != nil {
				return nil, err
			}
			left = &expr{op: "IN", args: append([]*expr{left}, args...)}
			if not {
				left = &expr{op: "!", args: []*expr{left}}
			}
			return left, nil
		}
		if !level(at, p.tok) {
			return left, nil
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		right, err := p.binary(at + 1)
		if err != nil {
			return nil, err
		}
		left = &expr{op: op, args: []*expr{left, right}}
		if at == 2 {
			return left, nil
		}
	}
}

func (p *parser) unary() (*expr, error) {
	for _, op := range []string{"!", "-", "+"} {
		if p.tok.Is(op) {
			if p.depth++; p.depth > maxDepth*6 {
				return nil, p.s.Errorf(p.tok.At, "the expression is nested too deeply")
			}
			defer func() { p.depth-- }()
			if err := p.next(); err != nil {
				return nil, err
			}
			a, err := p.unary()
			return &expr{op: "u" + op, args: []*expr{a}}, err
		}
	}
	return p.primary()
}

// arguments parses a list in parentheses.
func (p *parser) arguments() ([]*expr, error) {
	if err := p.need("("); err != nil {
		return nil, err
	}
	var args []*expr
	for !p.tok.Is(")") {
		if len(args) > 0 {
			if err := p.need(","); err != nil {
				return nil, err
			}
		}
		a, err := p.expression()
		if err != nil {
			return nil, err
		}
		if args = append(args, a); len(args) > 1000 {
			return nil, p.s.Errorf(p.tok.At, "there are more than 1000 arguments")
		}
	}
	return args, p.next()
}

func (p *parser) primary() (*expr, error) {
	switch t := p.tok; {
	case t.Is("("):
		if err := p.next(); err != nil {
			return nil, err
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		return e, p.need(")")
	case t.Kind == rdf.TokVar:
		i, err := p.variable(t.Text)
		if err != nil {
			return nil, err
		}
		return &expr{op: "var", slot: i}, p.next()
	case t.Word("count"):
		return p.count()
	case t.Kind == rdf.TokWord && !t.Word("true") && !t.Word("false"):
		name := strings.ToUpper(t.Text)
		f, ok := p.builtins[name]
		if !ok {
			if name == "NOT" || refused(name) {
				return nil, p.unsupported(name)
			}
			return nil, p.bad("an expression")
		}
		if err := p.next(); err != nil {
			return nil, err
		}
		args, err := p.arguments()
		if err != nil {
			return nil, err
		}
		if len(args) < f.least || f.most >= 0 && len(args) > f.most {
			return nil, p.s.Errorf(t.At, "%s has %d arguments, which is the wrong number", name, len(args))
		}
		if name == "BOUND" && args[0].op != "var" {
			return nil, p.s.Errorf(t.At, "BOUND is about a variable")
		}
		return &expr{op: name, args: args, do: f.do}, nil
	case t.Kind == rdf.TokIRI || t.Kind == rdf.TokPrefixed:
		iri, err := p.iri()
		if err != nil || !p.tok.Is("(") {
			return &expr{op: "const", term: iri}, err
		}
		kind, ok := strings.CutPrefix(iri.Value, rdf.XSD)
		if !ok || !slices.Contains([]string{"string", "boolean", "integer", "decimal", "double", "float", "dateTime"}, kind) {
			return nil, p.unsupported("the function " + iri.String())
		}
		args, err := p.arguments()
		if err == nil && len(args) != 1 {
			err = p.s.Errorf(t.At, "%s has one argument", iri.String())
		}
		return &expr{op: "cast", term: iri, args: args}, err
	case t.Is("{"), t.Is("}"), t.Kind == rdf.TokEnd:
		return nil, p.bad("an expression")
	}
	term, err := p.term()
	return &expr{op: "const", term: term}, err
}

func (p *parser) count() (*expr, error) {
	if !p.counts {
		return nil, p.s.Errorf(p.tok.At, "COUNT stands in SELECT and ORDER BY only")
	}
	p.counts = false
	defer func() { p.counts = true }()
	if err := p.next(); err != nil {
		return nil, err
	}
	if err := p.need("("); err != nil {
		return nil, err
	}
	e := &expr{op: "COUNT"}
	var err error
	if e.distinct, err = p.word("distinct"); err != nil {
		return nil, err
	}
	p.hidden++
	if e.slot, err = p.variable("_: count" + strings.Repeat("+", p.hidden)); err != nil {
		return nil, err
	}
	if ok, err := p.mark("*"); err != nil {
		return nil, err
	} else if !ok {
		a, err := p.expression()
		if err != nil {
			return nil, err
		}
		e.args = []*expr{a}
	}
	return e, p.need(")")
}

// value evaluates an expression. The zero Term with an error is no value.
func (x *expr) value(e *eval, r row) (rdf.Term, error) {
	switch x.op {
	case "const":
		return x.term, nil
	case "var", "COUNT":
		if t := r[x.slot]; t.Kind != rdf.None {
			return t, nil
		}
		return rdf.Term{}, errType
	case "||", "&&":
		or := x.op == "||"
		a, errA := x.args[0].truth(e, r)
		if errA == nil && a == or {
			return boolean(or), nil
		}
		b, errB := x.args[1].truth(e, r)
		if errB == nil && b == or {
			return boolean(or), nil
		}
		if errA != nil || errB != nil {
			return rdf.Term{}, errType
		}
		return boolean(!or), nil
	case "!", "u!":
		a, err := x.args[0].truth(e, r)
		return boolean(!a), err
	case "BOUND":
		return boolean(r[x.args[0].slot].Kind != rdf.None), nil
	case "IF":
		ok, err := x.args[0].truth(e, r)
		if err != nil {
			return rdf.Term{}, err
		}
		if ok {
			return x.args[1].value(e, r)
		}
		return x.args[2].value(e, r)
	case "COALESCE":
		for _, a := range x.args {
			if t, err := a.value(e, r); err == nil {
				return t, nil
			}
		}
		return rdf.Term{}, errType
	case "IN":
		var failed error
		a, err := x.args[0].value(e, r)
		if err != nil {
			return a, err
		}
		for _, other := range x.args[1:] {
			b, err := other.value(e, r)
			if err == nil {
				var same bool
				if same, err = equal(a, b); same {
					return boolean(true), nil
				}
			}
			if err != nil {
				failed = err
			}
		}
		return boolean(false), failed
	}
	args := make([]rdf.Term, len(x.args))
	for i, a := range x.args {
		var err error
		if args[i], err = a.value(e, r); err != nil {
			return rdf.Term{}, err
		}
	}
	switch x.op {
	case "=", "!=":
		same, err := equal(args[0], args[1])
		return boolean(same == (x.op == "=")), err
	case "<", ">", "<=", ">=":
		c, ordered, err := compare(args[0], args[1])
		ok := ordered && map[string]bool{"<": c < 0, ">": c > 0, "<=": c <= 0, ">=": c >= 0}[x.op]
		return boolean(ok), err
	case "+", "-", "*", "/":
		return calculate(x.op, args[0], args[1])
	case "u-":
		return calculate("-", rdf.NewTyped("0", rdf.Integer), args[0])
	case "u+":
		return calculate("+", rdf.NewTyped("0", rdf.Integer), args[0])
	case "IRI", "URI":
		return iri(e.q.base, args[0])
	case "cast":
		return cast(args[0], x.term.Value)
	}
	return x.do(args)
}

func boolean(b bool) rdf.Term {
	if b {
		return rdf.NewTyped("true", rdf.Boolean)
	}
	return rdf.NewTyped("false", rdf.Boolean)
}

// truth is the effective boolean value of an expression.
func (x *expr) truth(e *eval, r row) (bool, error) {
	t, err := x.value(e, r)
	if err != nil {
		return false, err
	}
	if t.Kind != rdf.Literal {
		return false, errType
	}
	if t.Datatype == rdf.Boolean {
		return t.Value == "true" || t.Value == "1", nil
	}
	if t.Lang != "" || t.Datatype == "" {
		return t.Value != "", nil
	}
	if isNumeric(t.Datatype) {
		n, err := numberOf(t)
		if err != nil {
			return false, nil // an ill-formed number is false
		}
		return !n.zero(), nil
	}
	return false, errType
}
