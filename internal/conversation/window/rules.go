package window

import (
	"cmp"
	"context"
	"slices"

	"steward/internal/tool"
)

// rules holds what the tracker has learned from a tool's spec.
type rules struct {
	strategies []tool.Strategy
	params     []string // the parameters that the strategies compare
	about      []string // the parameters that say what a call is about
	secret     []string // the parameters that are never shown
	optimizer  tool.Optimizer
	action     bool
}

// known says how a tool's results are indexed.
type known struct {
	params [][]string // lists of parameters; each is a lookup key
	shown  bool       // optimizers receive the results
}

// LoadRules loads the rules of tools. From then on the tracker indexes the results that
// these rules can make obsolete. LoadRules ignores tools that it knows already; a tool
// that lookup does not find is looked up again at the next call.
func (t *Tracker) LoadRules(names ...string) {
	for _, name := range names {
		if t.rules[name] != nil {
			continue
		}
		x, ok := t.lookup(name)
		if !ok {
			continue
		}
		spec := x.Spec()
		r := &rules{strategies: spec.Tidy, secret: spec.Log.Secret, about: spec.Log.Impact, action: spec.Effect == tool.Action}
		r.optimizer, _ = tool.OptimizerOf(x)
		t.rules[name] = r
		for i := range spec.Tidy {
			r.params = union(r.params, spec.Tidy[i].Parameters)
			t.remember(name, &spec.Tidy[i])
		}
	}
}

// remember registers the results that a strategy of a tool can make obsolete.
func (t *Tracker) remember(name string, s *tool.Strategy) {
	of := func(name string) *known {
		if t.known[name] == nil {
			t.known[name] = &known{}
		}
		return t.known[name]
	}
	switch s.Kind {
	case tool.ByParameters:
		of(name).lookFor(s.Parameters)
	case tool.ByTool:
		for _, n := range s.Tools {
			of(n).lookFor(s.Parameters)
		}
	case tool.ByAge:
		of(name)
		t.aging = union(t.aging, []string{name})
	case tool.Custom:
		for _, n := range append([]string{name}, s.Tools...) {
			of(n).shown = true
		}
	}
	for _, n := range s.Cascade {
		of(n)
	}
}

func (k *known) lookFor(params []string) {
	same := func(p []string) bool { return slices.Equal(p, params) }
	if len(params) > 0 && !slices.ContainsFunc(k.params, same) {
		k.params = append(k.params, params)
	}
}

func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

// cause is why results become obsolete.
type cause struct {
	by       string // the tool whose rule it is
	call     *entry // the call that triggered it; nil: age
	strategy *tool.Strategy
	before   uint64 // only entries with a lower seq cascade
}

// verdict is an entry that became obsolete.
type verdict struct {
	Obsolete
	seq uint64
}

// inOrder returns the obsolete results, oldest first.
func inOrder(vs []verdict) []Obsolete {
	slices.SortFunc(vs, func(a, b verdict) int { return cmp.Compare(a.seq, b.seq) })
	var out []Obsolete
	for _, v := range vs {
		out = append(out, v.Obsolete)
	}
	return out
}

// trigger applies the strategies of a tool after a successful call.
func (t *Tracker) trigger(ctx context.Context, e *entry) []verdict {
	var out []verdict
	r := t.rules[e.tool]
	if r == nil {
		return nil // the tool does not exist (any more)
	}
	for i := range r.strategies {
		s := &r.strategies[i]
		c := cause{by: e.tool, call: e, strategy: s, before: e.seq}
		switch s.Kind {
		case tool.ByParameters:
			out = append(out, t.dropObsolete(c, t.matching(e.tool, s.Parameters, e))...)
		case tool.ByTool:
			var hit []*entry
			for _, name := range s.Tools {
				hit = append(hit, t.matching(name, s.Parameters, e)...)
			}
			out = append(out, t.dropObsolete(c, hit)...)
		case tool.Custom:
			hit, reasons := t.askOptimizer(ctx, r.optimizer, e, s.Tools)
			vs := t.dropObsolete(c, hit)
			for j := range reasons { // vs begins with hit; cascading entries follow
				if why := oneLine(reasons[j], maxReason); why != "" && !secretValue(why) {
					vs[j].Reason = t.because(vs[j].Tool, why)
				}
			}
			out = append(out, vs...)
		}
	}
	return out
}

// matching returns the entries of a tool that have the same values as e in the
// given parameters; without parameters, all of them.
func (t *Tracker) matching(name string, params []string, e *entry) []*entry {
	k := indexKey{tool: name}
	if len(params) > 0 {
		v, ok := e.values.key(params)
		if !ok {
			return nil
		}
		k.params, k.values = joined(params), v
	}
	return slices.Clone(t.index[k])
}

// dropObsolete drops the entries in hit and those that the strategy's cascade adds. It
// returns a verdict for each, in this order.
func (t *Tracker) dropObsolete(c cause, hit []*entry) []verdict {
	var out []verdict
	for _, e := range hit {
		if e.keys != nil { // otherwise dropped already: a strategy may name a tool twice
			out = append(out, t.verdict(c, e, c.reason(e)))
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, name := range c.strategy.Cascade {
		for _, e := range slices.Clone(t.index[indexKey{tool: name}]) {
			if e.seq < c.before {
				out = append(out, t.verdict(c, e, c.cascadeReason(e, hit[0])))
			}
		}
	}
	return out
}

// because adds to the reason for an action's result that the action was done: without its result, the model
// might do it again.
func (t *Tracker) because(name, reason string) string {
	if r := t.rules[name]; r != nil && !r.action {
		return reason
	}
	return "this was done, and is not to be repeated; " + reason
}

func (t *Tracker) verdict(c cause, e *entry, reason string) verdict {
	t.drop(e)
	o := Obsolete{Message: e.message, Pos: e.pos, Ref: e.ref, Tool: e.tool, By: c.by, Strategy: string(c.strategy.Kind), Reason: t.because(e.tool, reason)}
	if c.call != nil {
		o.Call = c.call.ref
	}
	return verdict{o, e.seq}
}

// Related returns the tools whose earlier results are worth keeping in view when
// the given tools are about to be used: these tools themselves, the tools that
// their strategies name, and those of names whose strategies name one of them.
// names are the tools that may be called.
func Related(lookup func(name string) (tool.Tool, bool), tools []string, names ...string) map[string]bool {
	out := map[string]bool{}
	targets := func(name string) (all []string) {
		if x, ok := lookup(name); ok {
			for _, s := range x.Spec().Tidy {
				all = append(append(all, s.Tools...), s.Cascade...)
			}
		}
		return all
	}
	for _, name := range tools {
		out[name] = true
		for _, n := range targets(name) {
			out[n] = true
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(targets(name), func(n string) bool { return slices.Contains(tools, n) }) {
			out[name] = true
		}
	}
	return out
}
