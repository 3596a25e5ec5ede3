package rego

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"steward/internal/fault"
	"steward/internal/policy"
)

// Explained is a decision with what led to it. It has a fixed form in JSON.
type Explained struct {
	Verdict   policy.Verdict  `json:"verdict"`
	Reason    string          `json:"reason"`
	Rule      string          `json:"rule,omitzero"`
	Version   string          `json:"version"`
	Mask      []string        `json:"mask,omitzero"`
	Cap       int             `json:"cap,omitzero"`
	Approvers string          `json:"approvers,omitzero"`
	Agent     string          `json:"agent,omitzero"` // the agent of the lineage whose decision counts
	Rules     []RuleTrace     `json:"rules"`          // those about the point, in the order of the files
	Input     json.RawMessage `json:"input"`          // what the policies saw
}

// RuleTrace says what a rule contributed to a decision.
type RuleTrace struct {
	Verdict policy.Verdict `json:"verdict"` // which the rule gives
	Where   string         `json:"where"`   // file:line
	Fired   bool           `json:"fired"`
	Reasons []string       `json:"reasons,omitzero"` // if it fired
	// Failed is the text of the condition that did not hold, and FailedAt its file:line.
	Failed   string `json:"failed,omitzero"`
	FailedAt string `json:"failed_at,omitzero"`
}

// Explain decides a question as Authorize does, and traces all rules about its point. It is
// slow, because it is meant for people.
func (j *Authorizer) Explain(ctx context.Context, q policy.Question) (Explained, error) {
	d, err := j.Authorize(ctx, q)
	if err != nil {
		return Explained{}, err
	}
	q.Point = cmp.Or(q.Point, policy.PointTool)
	out := Explained{Verdict: d.Verdict, Reason: d.Reason, Rule: d.Rule, Version: d.Version, Mask: d.Mask, Cap: d.Cap, Approvers: d.Approvers}
	p := j.now.Load()
	if p.points[q.Point] == nil {
		return Explained{}, fault.New(fault.Invalid, "policy_point", "unknown decision point %q", q.Point).WithHint("the decision points are %s", pointNames())
	}
	a := &asked{Question: q, opt: &j.opt}
	if err := a.identify(ctx); err != nil {
		return Explained{}, err
	}
	for i := len(q.Lineage); ; i-- { // the agent whose verdict counts
		if out.Rules, out.Input, err = j.traced(ctx, p, a); err != nil {
			return Explained{}, err
		}
		if i == 0 || verdictOf(out.Rules) == d.Verdict {
			break
		}
		a.Agent, a.Lineage = q.Lineage[i-1], q.Lineage[:i-1]
	}
	if len(q.Lineage) > 0 {
		out.Agent = a.Agent
	}
	return out, nil
}

func pointNames() string {
	var names []string
	for _, p := range policy.Points() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

// verdictOf returns the verdict of the rules that fired.
func verdictOf(rules []RuleTrace) policy.Verdict {
	for _, v := range verdicts {
		if slices.ContainsFunc(rules, func(r RuleTrace) bool { return r.Fired && string(r.Verdict) == v }) {
			return policy.Verdict(v)
		}
	}
	return policy.Deny
}

// traced evaluates the rules with the whole input.
func (j *Authorizer) traced(ctx context.Context, p *program, a *asked) ([]RuleTrace, json.RawMessage, error) {
	at := p.points[a.Point]
	input, err := a.document(&point{term: at.term, members: members(readsAll)})
	if err != nil {
		return nil, nil, err
	}
	doc, err := ast.JSON(input.Value)
	if err != nil {
		return nil, nil, err
	}
	shown, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	var found topdown.QueryResult
	var events []*topdown.Event
	if at.query != nil {
		found, events, err = p.traced(ctx, at.query, input, 10*j.opt.Timeout)
	}
	// A rule that failed with an error is listed among the others.
	rules := p.trace(a.Point, events, found)
	if err != nil && !slices.ContainsFunc(rules, func(r RuleTrace) bool { return r.Failed != "" }) {
		return nil, nil, fault.New(fault.Invalid, "policy_failed", "policy evaluation failed: %w", err)
	}
	return rules, shown, nil
}

// trace returns the trace of each rule about a point.
func (p *program) trace(at policy.Point, events []*topdown.Event, found topdown.QueryResult) []RuleTrace {
	fired := map[string][]string{}
	for _, v := range verdicts {
		if set, ok := found[ast.Var(v)]; ok {
			for _, t := range set.Value.(ast.Set).Slice() {
				pair := t.Value.(*ast.Array) // a twin makes them so
				key := v + " " + plain(pair.Elem(0))
				fired[key] = append(fired[key], plain(pair.Elem(1)))
			}
		}
	}
	failed := failures(events)
	var out []RuleTrace
	for _, v := range verdicts {
		for _, r := range p.rules(hidden + v) {
			if !p.possible(r, at, 0) {
				continue
			}
			t := RuleTrace{Verdict: policy.Verdict(v), Where: placeOf(r.Location)}
			t.Reasons = fired[v+" "+t.Where]
			if t.Fired = t.Reasons != nil; !t.Fired {
				if e := failed[t.Where]; e != nil {
					t.Failed, t.FailedAt = written(e.Location), placeOf(e.Location)
				}
			}
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(x, y RuleTrace) int {
		fileX, lineX := split(x.Where)
		fileY, lineY := split(y.Where)
		return cmp.Or(slices.Index(verdicts, string(x.Verdict))-slices.Index(verdicts, string(y.Verdict)), strings.Compare(fileX, fileY), lineX-lineY)
	})
	return out
}

// split splits a file:line.
func split(where string) (file string, line int) {
	i := strings.LastIndexByte(where, ':')
	line, err := strconv.Atoi(where[i+1:])
	if err != nil {
		return where, 0
	}
	return where[:i], line
}

// failures returns the furthest condition of each rule that did not hold, by the rule's
// file:line.
func failures(events []*topdown.Event) map[string]*ast.Expr {
	inside := map[uint64]*ast.Rule{} // by query
	out := map[string]*ast.Expr{}
	for _, e := range events {
		switch e.Op {
		case topdown.EnterOp:
			if r, ok := e.Node.(*ast.Rule); ok {
				inside[e.QueryID] = r
			}
		case topdown.FailOp:
			x, ok := e.Node.(*ast.Expr)
			r := inside[e.QueryID]
			if !ok || r == nil || x.Location == nil || !strings.HasPrefix(string(r.Head.Name), hidden) {
				continue
			}
			if at := placeOf(r.Location); out[at] == nil || out[at].Index <= x.Index {
				out[at] = x
			}
		}
	}
	return out
}

// written returns a piece of a policy's source on one line.
func written(l *ast.Location) string {
	const most = 200
	text := strings.Join(strings.Fields(string(l.Text)), " ")
	if len(text) > most {
		text = fmt.Sprintf("%.*s…", most, text)
	}
	return text
}
