package rego

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"steward/internal/fault"
	"steward/internal/policy"
)

// point prepares a point of decision: the rules that can matter to it, and the fields of the
// input that they read.
func (p *program) point(name policy.Point) (*point, error) {
	out := &point{term: ast.StringTerm(string(name))}
	var parts []string
	var open []*ast.Rule
	for _, v := range append(slices.Clone(verdicts), obligations...) {
		rule := v
		if slices.Contains(verdicts, v) {
			rule = hidden + v
		}
		rules := slices.DeleteFunc(slices.Clone(p.rules(rule)), func(r *ast.Rule) bool { return !p.possible(r, name, 0) })
		if len(rules) == 0 {
			continue
		}
		open = append(open, rules...)
		if rule == v {
			parts = append(parts, fmt.Sprintf("%s = {x | x = data.%s.%s}", v, packageName, rule))
		} else {
			parts = append(parts, fmt.Sprintf("%s = data.%s.%s", v, packageName, rule))
		}
	}
	out.reads = p.readBy(open, name)
	out.members = members(out.reads)
	if parts == nil {
		return out, nil
	}
	body, err := ast.ParseBody(strings.Join(parts, "; "))
	if err == nil {
		out.query, err = p.compiler.QueryCompiler().Compile(body)
	}
	if err != nil {
		return nil, fault.New(fault.Internal, "policy_query", "the question of the point %s: %w", name, err)
	}
	return out, nil
}

// rules returns the rules with a name in the deciding package.
func (p *program) rules(name string) []*ast.Rule {
	return p.compiler.GetRulesExact(decidingPath.Append(ast.StringTerm(name)))
}

// maxDepth bounds how many rules deep possible looks.
const maxDepth = 16

// possible reports whether a rule can hold at a point. It cannot if one of its conditions,
// itself or through a rule without arguments, requires another point.
func (p *program) possible(r *ast.Rule, at policy.Point, depth int) bool {
	if depth > maxDepth || r.Else != nil {
		return true
	}
	return !slices.ContainsFunc(r.Body, func(e *ast.Expr) bool { return p.excludes(e, at, depth) })
}

// excludes reports whether an expression cannot hold at a point.
func (p *program) excludes(e *ast.Expr, at policy.Point, depth int) bool {
	if e.Negated || len(e.With) > 0 {
		return false
	}
	if t, ok := e.Terms.(*ast.Term); ok {
		ref, ok := t.Value.(ast.Ref)
		return ok && p.never(ref, at, depth)
	}
	if !e.IsCall() || len(e.Operands()) != 2 {
		return false
	}
	x, y := e.Operand(0), e.Operand(1)
	switch e.Operator().String() {
	case ast.Equality.Name, ast.Equal.Name:
		if isPoint(y) {
			x, y = y, x
		}
		s, ok := y.Value.(ast.String)
		return isPoint(x) && ok && string(s) != string(at)
	case ast.Member.Name:
		return isPoint(x) && lacks(y, at)
	}
	return false
}

// never reports whether a reference to rules without arguments is undefined or false at a
// point.
func (p *program) never(ref ast.Ref, at policy.Point, depth int) bool {
	if !ref.IsGround() {
		return false
	}
	rules := p.compiler.GetRulesExact(ref)
	return len(rules) > 0 && !slices.ContainsFunc(rules, func(r *ast.Rule) bool {
		if r.Head.RuleKind() != ast.SingleValue || len(r.Head.Args) > 0 {
			return true
		}
		if r.Default {
			return !r.Head.Value.Equal(ast.InternedTerm(false))
		}
		return p.possible(r, at, depth+1)
	})
}

func isPoint(t *ast.Term) bool {
	ref, ok := t.Value.(ast.Ref)
	return ok && len(ref) == 2 && ref[0].Equal(ast.InputRootDocument) && ref[1].Equal(ast.InternedTerm("point"))
}

// lacks reports whether a constant collection does not contain the point.
func lacks(t *ast.Term, at policy.Point) bool {
	if !t.IsGround() {
		return false
	}
	want := ast.StringTerm(string(at))
	switch v := t.Value.(type) {
	case ast.Set:
		return !v.Contains(want)
	case *ast.Array:
		return !v.Until(func(x *ast.Term) bool { return x.Equal(want) })
	}
	return false
}

// readBy returns the fields that rules, and the rules that they depend on, can read at a
// point, or at any if it is empty. If the policies use "with", rules about other points
// count too, because "with" can replace the point.
func (p *program) readBy(open []*ast.Rule, at policy.Point) fields {
	var reads fields
	replaced := p.replaces()
	seen := map[*ast.Rule]bool{}
	for len(open) > 0 {
		r := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[r] || at != "" && !replaced && !p.possible(r, at, 0) {
			continue
		}
		seen[r] = true
		for _, path := range inputs(r) {
			if path.text != "point" {
				reads |= mask(path.text)
			}
		}
		for d := range p.compiler.Graph.Dependencies(r) {
			if d, ok := d.(*ast.Rule); ok {
				open = append(open, d)
			}
		}
	}
	return reads
}

// replaces reports whether the policies use "with".
func (p *program) replaces() bool {
	found := false
	for _, m := range p.compiler.Modules {
		ast.WalkWiths(m, func(*ast.With) bool {
			found = true
			return true
		})
	}
	return found
}

// inputPath is a path in the input that a rule reads. Empty means the whole input.
type inputPath struct {
	text string
	loc  *ast.Location
}

// inputs returns the paths of the input that a rule reads, each as far as it is constant.
func inputs(r *ast.Rule) []inputPath {
	var out []inputPath
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Term:
			if ref, ok := x.Value.(ast.Ref); ok && ref[0].Equal(ast.InputRootDocument) {
				out = append(out, inputPath{known(ref), x.Location})
				for _, t := range ref[1:] { // references in brackets
					if inner, ok := t.Value.(ast.Ref); ok {
						out = append(out, refInputs(inner, t.Location)...)
					}
				}
				return true
			}
			if x.Equal(ast.InputRootDocument) {
				out = append(out, inputPath{"", x.Location})
			}
		case ast.Ref: // outside of a term, such as in a head
			if x[0].Equal(ast.InputRootDocument) {
				out = append(out, inputPath{known(x), r.Location})
				return true
			}
		}
		return false
	}).Walk(r)
	return out
}

// refInputs returns what a reference within another one reads.
func refInputs(ref ast.Ref, loc *ast.Location) []inputPath {
	return inputs(&ast.Rule{Head: &ast.Head{}, Body: ast.NewBody(ast.NewExpr(ast.NewTerm(ref).SetLocation(loc)))})
}

// known returns the constant beginning of a reference's path.
func known(ref ast.Ref) string {
	var steps []string
	for _, t := range ref[1:] {
		s, ok := t.Value.(ast.String)
		if !ok {
			break
		}
		steps = append(steps, string(s))
	}
	return strings.Join(steps, ".")
}

// known refuses policies that read fields that the input does not have. Such a rule would
// silently never hold.
func (p *program) known() error {
	var faults []error
	for _, name := range p.sources.names {
		for _, r := range p.compiler.Modules[name].Rules {
			for ; r != nil; r = r.Else {
				for _, in := range inputs(r) {
					if in.text != "point" && mask(in.text) == 0 {
						faults = append(faults, at(in.loc, "unknown field input.%s%s", in.text, nearPath(in.text)))
					}
				}
			}
		}
	}
	if faults != nil {
		return invalid(errors.Join(faults...))
	}
	return nil
}

// nearPath suggests a field with a similar name.
func nearPath(path string) string {
	best, far := "", 4
	for _, f := range Fields() {
		if d := fault.Distance(path, f); d < far {
			best, far = f, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean input." + best + "?"
}
