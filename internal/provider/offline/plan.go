package offline

import (
	"slices"
)

// verdict is how a wish is understood.
type verdict struct {
	tool     *entry
	filled   *filled
	clause   *clause
	score    float64
	traits   traits
	accepted bool
}

// step is one call that the request asks for, or what stands in its way.
type step struct {
	tool    *entry
	args    map[string]any
	missing []*param
	waits   bool // for an earlier step's result, or for its turn
	broken  bool // it needs a result that an earlier step did not give
	done    *doneCall
	wish    string // as it was said
}

// plan is a request taken apart.
type plan struct {
	steps   []*step
	others  []*doneCall // made in this turn though no wish leads to them: another model's
	unknown []string    // wishes that no tool fits
	last    *verdict    // how the last wish was understood
}

// planner takes a request apart for one toolset.
type planner struct {
	x     *index
	zones map[string]string
	only  *entry // the tool that must be used, if any
	force bool   // some tool must be used
}

const considered = 6 // tools whose parameters are filled before one is chosen

// judge finds the tool that a wish means.
func (pl *planner) judge(c *clause, prior *priorCall) verdict {
	best := verdict{clause: c, score: -1e9}
	var list []match
	if pl.only != nil {
		list = []match{{tool: pl.only, hits: make([]hit, len(c.words))}}
	} else if list = pl.x.rank(c.words, considered); len(list) == 0 && pl.force && len(pl.x.tools) > 0 {
		list = []match{{tool: pl.x.tools[0], hits: make([]hit, len(c.words))}}
	} else if pl.x.delegates && c.asksFrom() >= 0 {
		list = pl.x.answering(list, len(c.words))
	}
	for _, m := range list {
		if c.to != nil && m.tool != c.to {
			continue
		}
		if m.tool.ask != nil && pl.only == nil {
			if v := pl.asked(c, m); v.score > best.score+1e-9 && (v.accepted || !best.accepted) || v.accepted && !best.accepted {
				best = v
			}
			continue
		}
		f := filler{c: c, e: m.tool, zones: pl.zones, names: pl.x.names, prior: prior}
		v := verdict{tool: m.tool, filled: f.fill(), clause: c}
		v.weigh(m, pl.x.nameShare(m.tool, c.words))
		if best.tool != nil && best.tool.ask != nil && best.accepted && !v.accepted {
			continue
		}
		if v.score > best.score+1e-9 {
			best = v
		}
	}
	if c.to != nil {
		best.tool, best.clause, best.accepted = c.to, c, true
		if best.filled == nil {
			best.filled = (&filler{c: c, e: &entry{}}).fill()
		}
		return best
	}
	if !best.accepted && pl.only == nil {
		if v, ok := pl.inquiry(c); ok {
			best = v
		}
	}
	if best.tool != nil && (pl.only != nil || pl.force) {
		best.accepted = true
	}
	return best
}

// make takes a reading apart into steps, with what has been done already.
func (pl *planner) make(r *reading, prior *priorCall, done []*doneCall) *plan {
	p := &plan{}
	b := &builder{planner: pl, plan: p, prior: prior, done: slices.Clone(done)}
	parts := pl.gather(pl.divide(r))
	b.sole = len(parts) == 1
	for _, part := range parts {
		b.add(part)
	}
	p.others = b.done
	return p
}

// divide cuts a request into wishes: at the ends of sentences always, at
// "and" and commas where a wish of its own follows that some tool can grant.
func (pl *planner) divide(r *reading) []*clause {
	var out []*clause
	if pl.only != nil {
		return []*clause{newClause(r, 0, len(r.toks), pl.isVerb)}
	}
	for _, s := range sentences(r) {
		out = append(out, pl.wishes(r, s[0], s[1])...)
	}
	return grounded(out)
}

// grounded joins what is only told to the wish that follows: "room 5 wants
// tea, order it".
func grounded(list []*clause) []*clause {
	var out []*clause
	for i, c := range list {
		if !c.statement() || i+1 == len(list) || list[i+1].statement() {
			out = append(out, c)
			continue
		}
		next := list[i+1]
		next.words = append(next.words, c.words...)
		next.mentions = append(c.mentions, slices.DeleteFunc(next.mentions, func(m mention) bool { return m.kind == mnRef })...)
	}
	return out
}

func (pl *planner) isVerb(s string) bool { return pl.x.isVerb(s) }

// sentences returns the token ranges between full stops, question marks,
// semicolons and words like "then".
func sentences(r *reading) [][2]int {
	var out [][2]int
	lo := 0
	for i := range r.toks {
		t := &r.toks[i]
		ends := t.kind == tkPunct && (t.low == "." || t.low == "!" || t.low == "?" || t.low == ";") && !r.covered[i]
		if !ends && i > lo && sequencers[t.low] && !r.covered[i] && i+1 < len(r.toks) {
			ends = true
		}
		if ends {
			if i > lo {
				out = append(out, [2]int{lo, i})
			}
			lo = i
		}
	}
	if lo < len(r.toks) {
		out = append(out, [2]int{lo, len(r.toks)})
	}
	return out
}

// wishes cuts one sentence.
func (pl *planner) wishes(r *reading, lo, hi int) []*clause {
	cuts := []int{lo}
	for i := lo + 1; i < hi-1; i++ {
		if pl.opensWish(r, lo, i, hi) {
			cuts = append(cuts, i)
		}
	}
	cuts = append(cuts, hi)
	var out []*clause
	start := lo
	for k := 1; k < len(cuts); k++ {
		c := newClause(r, start, cuts[k], pl.isVerb)
		if c.lo >= c.hi {
			continue
		}
		if k < len(cuts)-1 {
			// what follows must be a wish that stands alone
			next := newClause(r, cuts[k], cuts[k+1], pl.isVerb)
			if next.lo >= next.hi || !pl.parts(c, next) {
				continue
			}
		}
		out = append(out, c)
		start = cuts[k]
	}
	return out
}

// parts reports whether two pieces of a sentence are wishes of their own: the
// second one stands alone, and does not just say more of what the first is
// about ("and share it with Anna").
func (pl *planner) parts(c, next *clause) bool {
	if next.statement() || c.statement() && next.verb {
		return true
	}
	v := pl.judge(next, &priorCall{})
	if !v.accepted || !next.refers() {
		return v.accepted
	}
	w := pl.judge(c, &priorCall{})
	return !w.accepted || w.tool != v.tool
}

// opensWish reports whether a new wish may open at the connective i.
func (pl *planner) opensWish(r *reading, lo, i, hi int) bool {
	t := &r.toks[i]
	if r.covered[i] || !(t.low == "," || connectives[t.low]) || (i > lo && (r.toks[i-1].low == "," || connectives[r.toks[i-1].low])) {
		return false
	}
	j := i + 1
	for j < hi && (connectives[r.toks[j].low] || r.toks[j].low == "," || r.toks[j].low == "please" || r.toks[j].low == "could" || r.toks[j].low == "can" || r.toks[j].low == "you" || r.toks[j].low == "i" && wordAt(r.toks, j+1) != "am" || r.toks[j].low == "to" || r.toks[j].low == "need" || r.toks[j].low == "want" || r.toks[j].low == "finally" || r.toks[j].low == "bitte") {
		j++
	}
	if j >= hi || r.covered[j] || r.toks[j].kind != tkWord {
		return false
	}
	w := &r.toks[j]
	return openers[w.low] || verbs[w.stem] || !w.capital && pl.isVerb(w.stem)
}

// builder turns wishes into steps.
type builder struct {
	*planner
	plan  *plan
	prior *priorCall
	done  []*doneCall // not yet matched to a step
	sole  bool        // the request is one wish
}

// add understands one wish.
func (b *builder) add(c *clause) {
	if len(c.words) == 0 && len(c.mentions) == 0 && b.only == nil {
		return
	}
	prior := b.prior
	if !c.refers() {
		prior = nil
	}
	v := b.judge(c, prior)
	if b.prior != nil && (!v.accepted || len(v.filled.missing) > 0) && c.builds() && (len(b.plan.steps) > 0 || c.elliptic()) {
		v = b.implied(c, v)
	}
	b.plan.last = &v
	if !v.accepted {
		if b.again(c) {
			return
		}
		if c.verb || c.question || len(b.plan.steps) == 0 {
			b.plan.unknown = append(b.plan.unknown, c.source(c.lo, c.hi))
		}
		return
	}
	if v.tool.ask != nil && b.only == nil {
		b.step(&v, v.filled)
		return
	}
	for _, f := range b.spread(&v) {
		b.step(&v, f)
	}
}

// implied reads a wish as one that goes on from the result before it.
func (b *builder) implied(c *clause, v verdict) verdict {
	d := *c
	d.mentions = append(slices.Clone(c.mentions), mention{kind: mnRef, first: c.lo, last: c.lo})
	if w := b.judge(&d, b.prior); w.accepted && len(w.filled.missing) == 0 {
		return w
	}
	return v
}

// builds reports a wish that may go on from a result without naming it:
// "then add 5".
func (c *clause) builds() bool {
	if c.then || c.elliptic() && !c.verb {
		return true
	}
	for i := range c.mentions {
		if c.mentions[i].kind == mnNumber {
			return c.verb
		}
	}
	return false
}

// elliptic reports a wish that only makes sense after another: "and times 3?".
func (c *clause) elliptic() bool {
	if c.lo >= c.hi {
		return false
	}
	t := &c.toks[c.lo]
	if t.kind == tkOp || t.low == "times" || t.low == "plus" || t.low == "minus" || t.low == "divided" || t.low == "multiplied" || c.then {
		return true
	}
	return c.lo > 0 && connectives[c.toks[c.lo-1].low]
}

func (c *clause) refers() bool {
	for i := range c.mentions {
		if c.mentions[i].kind == mnRef {
			return true
		}
	}
	return false
}

// again reads "and in Tokyo?" as the earlier call with another argument.
func (b *builder) again(c *clause) bool {
	if b.prior == nil || b.prior.name == "" || c.verb && c.hi-c.lo > 4 || c.hi-c.lo > 8 {
		return false
	}
	e := b.x.byName[b.prior.name]
	if e == nil {
		return false
	}
	for _, q := range c.words { // a subject of its own is another wish
		if q.weight >= 0.8 && q.at >= 0 && !c.toks[q.at].capital && !(c.elliptic() || c.about()) {
			return false
		}
	}
	f := filler{c: c, e: e, zones: b.zones, names: b.x.names}
	out := f.fill()
	changed := false
	for i, p := range e.params {
		if out.values[i] != nil && out.scores[i] > 0.3 {
			changed = true
		} else if v, ok := lookup(b.prior.args, p.path); ok {
			out.values[i] = v
		}
	}
	if !changed {
		return false
	}
	out.missing = slices.DeleteFunc(out.missing, func(i int) bool { return out.values[i] != nil })
	v := verdict{tool: e, filled: out, clause: c, accepted: true}
	b.plan.last = &v
	b.step(&v, out)
	return true
}

// about reports "what about Tokyo".
func (c *clause) about() bool {
	return (wordAt(c.toks, c.lo) == "what" || wordAt(c.toks, c.lo) == "how") && wordAt(c.toks, c.lo+1) == "about"
}

func lookup(args map[string]any, path []string) (any, bool) {
	var v any = args
	for _, name := range path {
		obj, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = obj[name]; !ok {
			return nil, false
		}
	}
	return v, true
}

// step adds one call, unless it is there already.
func (b *builder) step(v *verdict, f *filled) {
	c := v.clause
	s := &step{tool: v.tool, wish: c.source(c.lo, c.hi)}
	if v.tool.ask != nil && b.only == nil {
		s.args = map[string]any{v.tool.ask.param: b.passed(c)}
	} else {
		s.args = build(v.tool.params, f.values)
	}
	for _, i := range f.missing {
		s.missing = append(s.missing, v.tool.params[i])
	}
	s.match(b)
	if s.done == nil {
		for _, e := range b.plan.steps {
			if e.tool == s.tool && equal(e.args, s.args) {
				return
			}
			s.waits = s.waits || c.then && len(e.missing) == 0 && !e.broken && (e.done == nil || e.done.result == nil)
		}
		for _, i := range f.refs {
			if _, open := f.values[i].(pending); open {
				s.waits = true
			}
		}
		s.broken = s.waits && b.prior != nil && b.prior.result != nil && !b.prior.result.ok() && len(f.refs) > 0
		if len(s.missing) > 0 && b.prior != nil && b.prior.result != nil && !b.prior.result.ok() && (c.refers() || c.then) {
			s.broken = true
		}
	}
	b.plan.steps = append(b.plan.steps, s)
	b.prior = &priorCall{name: s.tool.spec.Name, args: s.args}
	if s.done != nil {
		b.prior.result = s.done.result
	}
	if s.broken {
		b.prior.result = &outcome{status: "broken"}
	}
}

// match finds the call of this turn that the step stands for.
func (s *step) match(b *builder) {
	for i, d := range b.done {
		if d.name == s.tool.spec.Name {
			s.done = d
			s.missing = nil
			if d.args != nil {
				s.args = d.args
			}
			b.done = slices.Delete(b.done, i, i+1)
			return
		}
	}
}

// spread makes one call for each member of a list where the tool takes one:
// "the weather in Berlin and Tokyo".
func (b *builder) spread(v *verdict) []*filled {
	out := []*filled{v.filled}
	c := v.clause
	f := filler{c: c, e: v.tool, zones: b.zones, names: b.x.names}
	for i, p := range v.tool.params {
		j := v.filled.took[i]
		if j < 0 || p.shape != shString && p.shape != shEnum {
			continue
		}
		m := &c.mentions[j]
		if m.kind == mnText || m.kind == mnRef || m.kind == mnNumber {
			continue
		}
		for last := m.last; ; {
			k := f.follower(m.kind, last)
			if k < 0 || !v.filled.free(c.mentions[k].first, c.mentions[k].last) {
				break
			}
			next := c.mentions[k]
			next.prep = m.prep
			w, s := f.single(p, &next)
			if s <= 0 || w == nil {
				break
			}
			g := *v.filled
			g.values = slices.Clone(g.values)
			g.values[i] = plain(w)
			out = append(out, &g)
			last = next.last
		}
		if len(out) > 1 {
			break
		}
	}
	return out
}
