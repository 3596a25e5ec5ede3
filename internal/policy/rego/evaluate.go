package rego

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"

	"steward/internal/fault"
	"steward/internal/policy"
)

// evaluate evaluates the rules within the time limit.
func (j *Authorizer) evaluate(ctx context.Context, p *program, at *point, a *asked) (d policy.Decision, err error) {
	input, err := a.document(at)
	if err != nil {
		return d, err
	}
	defer func() {
		if r := recover(); r != nil {
			j.log.ErrorContext(ctx, "a policy panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			d, err = policy.Decision{}, fault.New(fault.Internal, "policy_panicked", "the policy panicked: %v", r)
		}
	}()
	stop := topdown.NewCancel()
	late := time.AfterFunc(j.opt.Timeout, stop.Cancel)
	defer late.Stop()
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, stop.Cancel)()
	}
	d, err = p.run(at, input, stop)
	switch {
	case err == nil || !stop.Cancelled():
		return d, err
	case ctx.Err() != nil:
		return d, context.Cause(ctx)
	}
	return d, fault.New(fault.Timeout, "policy_timeout", "the policy did not decide within %s", j.opt.Timeout).
		WithHint("find expensive rules, and simplify them")
}

// run evaluates the rules once.
func (p *program) run(at *point, input *ast.Term, stop topdown.Cancel) (policy.Decision, error) {
	if at.query == nil {
		return p.verdict(topdown.QueryResult{})
	}
	var d policy.Decision
	answered := false
	err := p.ask(at.query, input).WithCancel(stop).Iter(context.Background(), func(r topdown.QueryResult) error {
		var err error
		d, err = p.verdict(r)
		answered = true
		return err
	})
	switch {
	case err != nil:
		return policy.Decision{}, fmt.Errorf("%w", err)
	case !answered:
		return policy.Decision{}, fault.New(fault.Internal, "policy_undefined", "the policy returned no decision")
	}
	return d, nil
}

// ask prepares the evaluation of a query. An error of a built-in function fails the whole
// decision; otherwise a rule that forbids could fail silently.
func (p *program) ask(query ast.Body, input *ast.Term) *topdown.Query {
	return topdown.NewQuery(query).WithCompiler(p.compiler).WithStore(p.store).WithTransaction(p.txn).
		WithInput(input).WithStrictBuiltinErrors(true).WithMetrics(metrics.NoOp())
}

// traced evaluates a query within a time limit, and returns its last result (nil: there is none)
// with the trace. It skips no rules by an index, so that the trace shows for each what did not
// hold.
func (p *program) traced(ctx context.Context, query ast.Body, input *ast.Term, most time.Duration) (topdown.QueryResult, []*topdown.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	stop := topdown.NewCancel()
	defer context.AfterFunc(ctx, stop.Cancel)()
	tracer := topdown.NewBufferTracer()
	var found topdown.QueryResult
	err := p.ask(query, input).WithCancel(stop).WithIndexing(false).WithEarlyExit(false).WithQueryTracer(tracer).
		Iter(ctx, func(r topdown.QueryResult) error { found = r; return nil })
	return found, *tracer, err
}

// verdict makes the decision from the results of the rules: denying rules take precedence over
// asking ones, and those over allowing ones.
func (p *program) verdict(r topdown.QueryResult) (policy.Decision, error) {
	d := policy.Decision{Verdict: policy.Deny, Reason: "no rule allows it", Version: p.version}
	for _, v := range verdicts {
		found, ok := r[ast.Var(v)]
		if !ok {
			continue
		}
		set, ok := found.Value.(ast.Set)
		if !ok || set.Len() == 0 {
			continue
		}
		d.Verdict = policy.Verdict(v)
		says, places := reasons(set)
		d.Reason, d.Rule = joined("; ", says...), joined(", ", places...)
		break
	}
	if d.Verdict == policy.Deny {
		d.Always = p.always(r)
		return d, nil
	}
	return d, oblige(&d.Obligations, r)
}

// always reports whether a rule has denied that does not read the arguments of the call.
func (p *program) always(r topdown.QueryResult) bool {
	denied, ok := r[ast.Var(policy.Deny)]
	if !ok {
		return false // no rule allows it, which may be for the arguments
	}
	_, places := reasons(denied.Value.(ast.Set))
	return slices.ContainsFunc(p.rules(hidden+string(policy.Deny)), func(rule *ast.Rule) bool {
		return slices.Contains(places, placeOf(rule.Location)) && p.readBy([]*ast.Rule{rule}, "")&mask("args") == 0
	})
}

// reasons returns the reasons of the rules of one verdict, and the places of these rules.
func reasons(set ast.Set) (says, places []string) {
	for _, t := range set.Slice() {
		pair, ok := t.Value.(*ast.Array)
		if !ok || pair.Len() != 2 {
			continue
		}
		places = append(places, plain(pair.Elem(0)))
		says = append(says, plain(pair.Elem(1)))
	}
	slices.Sort(says)
	return slices.Compact(says), slices.Compact(places)
}

// plain returns a text unchanged, and other values in Rego syntax.
func plain(t *ast.Term) string {
	if s, ok := t.Value.(ast.String); ok {
		return string(s)
	}
	return t.String()
}

// oblige reads the obligations. An obligation that cannot be understood is an error, because it
// could not be fulfilled.
func oblige(o *policy.Obligations, r topdown.QueryResult) error {
	for _, t := range values(r, "mask") {
		s, ok := t.Value.(ast.String)
		if !ok || string(s) != "" && s[0] != '/' {
			return obligation("mask", t, "a JSON pointer, such as /body")
		}
		o.Mask = append(o.Mask, string(s))
	}
	for _, t := range values(r, "cap") {
		n, ok := t.Value.(ast.Number)
		if !ok {
			return obligation("cap", t, "a whole number of bytes above 0")
		}
		size, ok := n.Int()
		if !ok || size <= 0 {
			return obligation("cap", t, "a whole number of bytes above 0")
		}
		if o.Cap == 0 || size < o.Cap {
			o.Cap = size
		}
	}
	for _, t := range values(r, "approvers") {
		s, ok := t.Value.(ast.String)
		switch {
		case !ok || s == "":
			return obligation("approvers", t, "the name of a group")
		case o.Approvers != "" && o.Approvers != string(s):
			return fault.New(fault.Invalid, "policy_obligation", "the policy requires approval by two groups, %s and %s, but only one can be asked", o.Approvers, string(s)).
				WithHint("make sure that only one rule sets approvers")
		}
		o.Approvers = string(s)
	}
	return nil
}

func obligation(name string, t *ast.Term, want string) error {
	return fault.New(fault.Invalid, "policy_obligation", "%s is %s; it must be %s", name, t, want).WithHint("fix the rule")
}

// values returns the values of an obligation, whether it is a set or a single value.
func values(r topdown.QueryResult, name ast.Var) []*ast.Term {
	found, ok := r[name]
	if !ok {
		return nil
	}
	var out []*ast.Term
	for _, t := range found.Value.(ast.Set).Slice() { // the query makes it a set
		if inner, ok := t.Value.(ast.Set); ok {
			out = append(out, inner.Slice()...)
			continue
		}
		out = append(out, t)
	}
	return out
}
