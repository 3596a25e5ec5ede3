package offline

import (
	"slices"
	"strings"
)

// filled are a tool's parameters as far as a wish says them.
type filled struct {
	values  []any // by parameter; nil: not said
	took    []int // index of the mention, or -1
	scores  []float64
	used    []float64 // by token of the reading: how surely an argument takes it; 0: none does
	missing []int     // required parameters without a value
	refs    []int     // parameters that took a mnRef
}

// option is one way to fill one parameter.
type option struct {
	param, mention int // mention is -1 for a value found by its words
	first, last    int
	value          any
	score          float64
}

const (
	enoughRequired = 0.25 // for a parameter that must be filled
	enoughOptional = 0.6  // for one that may be left out
)

// filler fills the parameters of one tool from one wish.
type filler struct {
	c     *clause
	e     *entry
	zones map[string]string
	names map[string]bool // stems of the names of all tools at hand
	prior *priorCall      // what references point at; nil: nothing
	opts  []option
}

// priorCall is an earlier call, its arguments and, if it is there, its result.
type priorCall struct {
	name   string
	args   map[string]any
	result *outcome // nil while it is not known
}

// fill chooses the best way to fill all parameters together, greedily: the
// surest pair of parameter and mention first, each word used once.
func (f *filler) fill() *filled {
	n := len(f.e.params)
	out := &filled{values: make([]any, n), took: make([]int, n), scores: make([]float64, n), used: make([]float64, len(f.c.toks))}
	for i := range out.took {
		out.took[i] = -1
	}
	for i, p := range f.e.params {
		f.options(i, p)
	}
	f.level()
	f.sole()
	slices.SortStableFunc(f.opts, f.compare)
	for _, o := range f.opts {
		p := f.e.params[o.param]
		if out.values[o.param] != nil {
			continue
		}
		if !out.free(o.first, o.last) {
			var ok bool
			if o, ok = f.shrink(out, o); !ok {
				continue
			}
		}
		if o.score >= enoughOptional || p.required && o.score >= enoughRequired {
			f.take(out, o)
		}
	}
	f.reclaim(out)
	f.leftovers(out)
	f.defaults(out)
	f.extend(out)
	return out
}

// level takes from numbers what speaks for all the required parameters alike:
// it does not tell which is which, so their order shall.
func (f *filler) level() {
	for j := range f.c.mentions {
		if f.c.mentions[j].kind != mnNumber {
			continue
		}
		least, n := 2.0, 0
		each := func(do func(o *option)) {
			for k := range f.opts {
				p := f.e.params[f.opts[k].param]
				if f.opts[k].mention == j && p.required && (p.shape == shNumber || p.shape == shInteger) {
					do(&f.opts[k])
				}
			}
		}
		each(func(o *option) { least, n = min(least, o.score), n+1 })
		if extra := least - 0.45; n > 1 && extra > 0 {
			each(func(o *option) { o.score -= extra })
		}
	}
}

// sole trusts names and phrases more where only one required parameter wants
// words: what is left is its value.
func (f *filler) sole() {
	only := -1
	for i, p := range f.e.params {
		if p.required && p.shape == shString && p.schema.Format == "" && !p.named(roleWhen|roleZone|roleCurrency|roleLanguage) {
			if only >= 0 {
				return
			}
			only = i
		}
	}
	for k := range f.opts {
		o := &f.opts[k]
		if o.param == only && o.mention >= 0 {
			if kind := f.c.mentions[o.mention].kind; kind == mnName || kind == mnPhrase {
				o.score += 0.15
			}
		}
	}
}

// shrink cuts what other parameters have taken from the ends of a noun
// phrase: "attic lamp red" is "attic" once the color is red.
func (f *filler) shrink(out *filled, o option) (option, bool) {
	if o.mention < 0 || f.c.mentions[o.mention].kind != mnPhrase || f.e.params[o.param].shape != shString {
		return o, false
	}
	m := f.c.mentions[o.mention]
	for m.first < m.last && (out.used[m.first] > 0 || f.c.toks[m.first].low == "s" && f.c.toks[m.first].glued) {
		m.first++
	}
	for m.last > m.first && (out.used[m.last-1] > 0 || fillers[f.c.toks[m.last-1].low]) {
		m.last--
	}
	if m.first >= m.last || !out.free(m.first, m.last) {
		return o, false
	}
	m.text = f.c.source(m.first, m.last)
	v, score := f.text(f.e.params[o.param], &m)
	t, ok := v.(trimmed)
	if !ok {
		return o, false
	}
	return option{o.param, o.mention, t.first, t.last, t.text, score}, true
}

// compare orders options: the surer first; among equals in the order in which
// both parameters and mentions stand.
func (f *filler) compare(a, b option) int {
	pa, pb := a.score, b.score
	if f.e.params[a.param].required {
		pa += 0.08
	}
	if f.e.params[b.param].required {
		pb += 0.08
	}
	switch {
	case pa > pb+1e-9:
		return -1
	case pa < pb-1e-9:
		return 1
	case a.param != b.param:
		return a.param - b.param
	case a.first != b.first:
		return a.first - b.first
	}
	return b.last - a.last
}

func (out *filled) free(first, last int) bool {
	for i := first; i < last; i++ {
		if out.used[i] > 0 {
			return false
		}
	}
	return true
}

func (f *filler) take(out *filled, o option) {
	out.values[o.param], out.took[o.param], out.scores[o.param] = o.value, o.mention, o.score
	if o.mention >= 0 && f.c.mentions[o.mention].kind == mnRef {
		out.refs = append(out.refs, o.param)
	}
	for i := o.first; i < o.last; i++ {
		out.used[i] = o.score
	}
}

// reclaim takes a value from an optional parameter for a required one that
// would stay empty.
func (f *filler) reclaim(out *filled) {
	for i, p := range f.e.params {
		if out.values[i] != nil || !p.required {
			continue
		}
		for _, o := range f.opts {
			if o.param != i || o.score < enoughRequired || o.mention < 0 {
				continue
			}
			k := f.holder(out, o.mention)
			if k < 0 {
				continue
			}
			out.values[k], out.took[k], out.scores[k] = nil, -1, 0
			for j := o.first; j < o.last; j++ {
				out.used[j] = 0
			}
			f.take(out, o)
			break
		}
	}
}

// holder returns the optional parameter that took a mention, or -1.
func (f *filler) holder(out *filled, mention int) int {
	for k, q := range f.e.params {
		if out.took[k] == mention && !q.required && f.c.mentions[mention].kind <= mnCode {
			return k
		}
	}
	return -1
}

// leftovers gives what was clearly said and found no parameter to the one
// optional parameter that can hold it.
func (f *filler) leftovers(out *filled) {
	for i := range f.c.mentions {
		m := &f.c.mentions[i]
		if m.kind > mnName || !out.free(m.first, m.last) {
			continue
		}
		best, rivals := -1, 0
		for j := range f.opts {
			if o := &f.opts[j]; o.mention == i && out.values[o.param] == nil && o.score >= 0.35 {
				if rivals++; best < 0 || o.score > f.opts[best].score+0.05 {
					best = j
				}
			}
		}
		if best >= 0 && (rivals == 1 || f.opts[best].score >= 0.5) {
			f.take(out, f.opts[best])
		}
	}
}

// defaults fills required parameters that leave no choice, and lists those
// that stay empty.
func (f *filler) defaults(out *filled) {
	for i, p := range f.e.params {
		if out.values[i] != nil || !p.required {
			continue
		}
		if v, ok := p.given(); ok {
			out.values[i] = v
			continue
		}
		out.missing = append(out.missing, i)
	}
}

// options lists the ways to fill parameter i.
func (f *filler) options(i int, p *param) {
	switch p.shape {
	case shEnum:
		f.enumOptions(i, p)
	case shBoolean:
		f.boolOptions(i, p)
	case shArray:
		f.listOptions(i, p)
	case shNumber, shInteger, shString:
		f.described(i, p)
		for j := range f.c.mentions {
			m := &f.c.mentions[j]
			v, score := f.single(p, m)
			if v != nil && score > 0 {
				first, last := m.first, m.last
				if m.kind == mnNumber && m.unitAt > first {
					last = m.unitAt
				}
				if t, ok := v.(trimmed); ok {
					v, first, last = t.text, t.first, t.last
				}
				f.opts = append(f.opts, option{i, j, first, last, v, score})
			}
		}
		if p.shape == shString && p.is(roleExpression) {
			f.expression(i)
		}
	}
}

// single is the value that one mention gives for a parameter of one value.
func (f *filler) single(p *param, m *mention) (any, float64) {
	if m.kind == mnRef {
		return f.reference(p, m)
	}
	if p.shape == shString {
		return f.text(p, m)
	}
	v, sure := p.asNumber(m, f.c.now)
	if sure == 0 {
		return nil, 0
	}
	if m.prep == "from" && f.takesAway() && f.e.params[0] == p {
		sure += 0.06 // "subtract 5 from 12": what is named last comes first
	}
	return v, sure + f.evidence(p, m)
}

// leadingTo is the preposition before a mention, what kind of thing it is
// skipped: "from branch release-2".
func (f *filler) leadingTo(m *mention) string {
	if m.prep != "" {
		return m.prep
	}
	for i := m.first - 1; i >= f.c.body && i >= m.first-3; i-- {
		t := &f.c.toks[i]
		if p := f.c.preposition(i); p != "" {
			return p
		}
		if f.c.covered[i] || t.kind != tkWord || !determiners[t.low] && !f.e.vocab[t.stem] && !f.e.known[t.stem] {
			return ""
		}
	}
	return ""
}

// takesAway reports a wish to subtract.
func (f *filler) takesAway() bool {
	if !f.c.verb {
		return false
	}
	w := f.c.toks[f.c.lo].stem
	return w == "subtract" || w == "deduct" || w == "take"
}

// evidence is what speaks for a mention besides its kind: the preposition
// before it and the words around it.
func (f *filler) evidence(p *param, m *mention) float64 {
	s := f.affinity(p, f.leadingTo(m)) + f.keyword(p, m)
	if m.prep == "in" && p.named(roleOrigin) && m.first >= 2 && f.c.covered[m.first-2] {
		s += 0.15 // "when it is 9am in Berlin": the given time is there
	}
	return s
}

// prepRoles tell what a preposition leads to.
var prepRoles = map[string]role{
	"from": roleOrigin | roleStart | rolePlace, "to": roleTarget | roleEnd | rolePerson | roleEmail, "for": rolePerson | roleSpan | roleQuery | roleAmount | roleDate,
	"in": rolePlace | roleLanguage | roleCurrency | rolePath | roleZone, "at": rolePlace | roleTime | roleMoment | roleAmount, "on": roleDate,
	"with": rolePerson | roleText, "by": rolePerson | roleEnd | roleAmount, "about": roleTitle | roleQuery, "into": roleTarget | roleLanguage | roleCurrency | rolePath,
	"of": roleTitle, "called": roleTitle, "until": roleEnd, "since": roleStart, "after": roleStart | roleMin, "before": roleEnd,
	"over": roleMin, "under": roleMax, "within": roleMax | roleSpan, "near": rolePlace, "between": roleStart | roleMin, "as": roleTitle, "because": roleText,
}

func (f *filler) affinity(p *param, prep string) float64 {
	if prep == "" {
		return 0
	}
	s := 0.0
	switch r := prepRoles[prep]; {
	case p.strong&r != 0:
		s = 0.3
	case p.weak&r != 0:
		s = 0.1
	}
	switch {
	case p.preps[prep]:
		s += 0.3
	case strings.Contains(p.hint, " "+prep+" ") || strings.HasSuffix(p.hint, " "+prep) || strings.HasPrefix(p.hint, prep+" "):
		s += 0.1
	}
	// "from" leads away from the target, "to" from the origin
	if prep == "from" && p.named(roleTarget|roleEnd) && !p.named(roleOrigin|roleStart) || prep == "to" && p.named(roleOrigin|roleStart) && !p.named(roleTarget|roleEnd) {
		s -= 0.3
	}
	return s
}

// keyword looks for the parameter's own words beside a mention.
func (f *filler) keyword(p *param, m *mention) float64 {
	best := 0.0
	steps, far := 0, 4
	for i := m.first - 1; i >= f.c.body && steps < far; i-- {
		t := &f.c.toks[i]
		if t.kind == tkPunct && t.low != ":" && t.low != "$" && t.low != "€" && t.low != "£" && t.low != "-" || f.c.covered[i] && m.kind != mnPhrase {
			break
		}
		if t.kind != tkWord || f.c.stop(t.low) && f.c.preposition(i) == "" {
			continue
		}
		if p := f.c.preposition(i); p != "" && !t.capital {
			if steps > 0 || p != "of" && p != "to" && p != "at" && p != "as" {
				break
			}
			far = 2 // "a temperature of 5", but no further
			continue
		}
		steps++
		if f.e.nameWords[t.stem] && !contains(p.nameWord, t.stem) {
			continue
		}
		best = max(best, p.wordScore(t.stem)*(1.1-0.15*float64(steps)))
	}
	for i, n := m.last, 0; i < f.c.hi && n < 2; i++ {
		t := &f.c.toks[i]
		if t.text == "-" && t.glued {
			continue
		}
		if t.kind != tkWord || f.c.covered[i] || f.c.boundary(i) {
			break
		}
		n++
		best = max(best, 0.9*p.wordScore(t.stem)*(1.1-0.15*float64(n)))
	}
	if m.unitWord != "" {
		best = max(best, 0.8*p.wordScore(stem(m.unitWord)))
	}
	return best
}

// wordScore says how much a word speaks for the parameter.
func (p *param) wordScore(s string) float64 {
	best := 0.0
	for _, w := range p.nameWord {
		switch v := same(s, w); {
		case v == 1:
			best = max(best, 0.5)
		case v >= 0.7:
			best = max(best, 0.4)
		case v > 0:
			best = max(best, 0.2)
		}
	}
	if best < 0.3 {
		for _, w := range p.descWord {
			if v := same(s, w); v == 1 {
				best = max(best, 0.28)
			} else if v >= 0.7 {
				best = max(best, 0.2)
			}
		}
	}
	return best
}

// given is the value of a parameter that leaves no choice.
func (p *param) given() (any, bool) {
	if len(p.schema.Default) > 0 {
		if v, ok := decode(p.schema.Default); ok && v != nil {
			return v, true
		}
	}
	if p.shape == shEnum && len(p.enum) == 1 {
		return p.enum[0].value, p.enum[0].value != nil
	}
	return nil, false
}
