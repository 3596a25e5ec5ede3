package rego

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// maxRules bounds what a point's rules may grow to when they are written out
// for it.
const maxRules = 1000

// maxEffort is how long that may take; tests give it longer.
var maxEffort = 500 * time.Millisecond

// specialise writes the rules out for one point, with what is known before any
// question: the point itself and the data (partial evaluation). That is a few
// times as fast. Where it is not certain to mean the same, or would become too
// much, the rules stay as they are.
func (p *program) specialise(out *point) {
	if out.query == nil {
		return
	}
	stop := topdown.NewCancel()
	defer time.AfterFunc(maxEffort, stop.Cancel).Stop()
	known := ast.ObjectTerm(ast.Item(pointTerm, out.term))
	bodies, support, err := p.ask(out, known).WithCancel(stop).WithUnknowns(unknowns()).WithDisableInlining(p.ambiguous()).
		WithPartialNamespace(hidden + string(out.name)).PartialRun(context.Background())
	if err != nil || len(bodies) != 1 {
		return
	}
	modules, rules := map[string]*ast.Module{}, 0
	for i, m := range support {
		modules[fmt.Sprintf("%s%d", hidden, i)] = m
		rules += len(m.Rules)
	}
	if rules > maxRules {
		return
	}
	if refersTo(decidingPath, bodies[0], support) { // what stands in comprehensions is not written out
		maps.Copy(modules, p.compiler.Modules)
	}
	c := ast.NewCompiler().WithCapabilities(capabilities()).WithDefaultRegoVersion(ast.RegoV1)
	if c.Compile(modules); c.Failed() {
		return
	}
	query, err := c.QueryCompiler().Compile(bodies[0])
	if err != nil {
		return
	}
	out.query, out.compiler = query, c
}

// refersTo reports whether a query or modules refer to what lies at a path.
func refersTo(path ast.Ref, query ast.Body, modules []*ast.Module) bool {
	found := false
	look := func(r ast.Ref) bool {
		found = found || r.HasPrefix(path) || path.HasPrefix(r)
		return found
	}
	ast.WalkRefs(query, look)
	for _, m := range modules {
		for _, r := range m.Rules {
			ast.WalkRefs(r, look)
		}
	}
	return found
}

// ambiguous are the rules with one value that have several definitions: they
// are not written out, so that definitions which contradict each other are
// still found out when it is decided.
func (p *program) ambiguous() []ast.Ref {
	values := map[string]*ast.Term{}
	again := map[string]ast.Ref{}
	for _, m := range p.compiler.Modules {
		for _, r := range m.Rules {
			if r.Head.RuleKind() != ast.SingleValue || r.Default {
				continue
			}
			path := r.Ref().GroundPrefix()
			key := path.String()
			if v, seen := values[key]; seen && (!v.Equal(r.Head.Value) || !v.IsGround()) {
				again[key] = path
			}
			values[key] = r.Head.Value
		}
	}
	return slices.Collect(maps.Values(again))
}

// writable reports whether rules can be written out for a point for certain:
// not where they look at the input as a whole or put another one in its place.
func (p *program) writable() bool {
	whole := false
	for _, m := range p.compiler.Modules {
		ast.WalkRules(m, func(r *ast.Rule) bool {
			for _, in := range inputs(r) {
				whole = whole || in.text == ""
			}
			return whole
		})
	}
	return !whole && !p.replaces()
}

// replaces reports whether something stands in place of something else while a
// condition is tried ("with").
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

// unknowns are the members of the input that only a question tells.
func unknowns() []*ast.Term {
	var out []*ast.Term
	seen := map[string]bool{"point": true}
	for _, f := range Fields() {
		top, _, _ := strings.Cut(f, ".")
		if !seen[top] {
			seen[top] = true
			out = append(out, ast.NewTerm(ast.Ref{ast.InputRootDocument, ast.StringTerm(top)}))
		}
	}
	return out
}
