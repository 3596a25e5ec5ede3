package offline

import "slices"

// deed marks a text that says what is to be done, in the place of the
// preposition: "water the plants" in "complete the task water the plants".
const deed = "~deed"

// deeds finds the verb phrases that are things, not the wish itself: right
// after the verb, or after a noun.
func (c *clause) deeds() {
	if !c.verb {
		return
	}
	for i := c.body; i < c.hi-1; i++ {
		t := &c.toks[i]
		if t.kind != tkWord || t.capital || c.covered[i] || !verbs[t.stem] && !(i == c.body && determiners[wordAt(c.toks, i+1)] && !c.toks[i+1].capital) || determiners[t.low] || speaks[t.low] || c.stop(t.low) || c.preposition(i) != "" {
			continue
		}
		if before := &c.toks[i-1]; i > c.body && (before.kind != tkWord || determiners[before.low] || c.stop(before.low) || c.preposition(i-1) != "") {
			continue
		}
		n := &c.toks[i+1]
		if n.kind != tkWord || particles[n.low] || c.preposition(i+1) != "" || c.covered[i+1] || connectives[n.low] {
			continue
		}
		if !determiners[n.low] && !n.capital && i > c.body {
			continue // "the list task": two nouns
		}
		c.free(i, c.cut(i), true, deed)
		return
	}
}

// companions are the prepositions by which a title goes on: "lunch with Carla".
var companions = words(`with of about`)

// extend lets a title that took a noun have all of it: "meeting with Bob",
// where nothing else has a use for one of the two.
func (f *filler) extend(out *filled) {
	for i, p := range f.e.params {
		if p.shape != shString || !p.named(roleTitle|roleQuery) || p.named(rolePerson|rolePlace|roleID) || out.took[i] < 0 {
			continue
		}
		m := &f.c.mentions[out.took[i]]
		if m.kind != mnName && m.kind != mnPhrase || !p.named(roleTitle) && m.prep != "for" {
			continue
		}
		first, last := out.extent(out.took[i], f.c)
		lo, hi := f.backward(out, first), f.forward(out, last)
		if lo == first && hi == last {
			continue
		}
		if text := f.c.source(lo, hi); p.fits(text) {
			out.values[i] = text
			out.scores[i] = max(out.scores[i], 0.55)
			for k := lo; k < hi; k++ {
				out.used[k] = max(out.used[k], out.scores[i])
			}
		}
	}
}

// extent is what of a mention is used.
func (out *filled) extent(mention int, c *clause) (int, int) {
	first, last := c.mentions[mention].first, c.mentions[mention].last
	for first < last && out.used[first] == 0 {
		first++
	}
	for last > first && out.used[last-1] == 0 {
		last--
	}
	return first, last
}

// forward is where a title ends with the nouns that go along with it.
func (f *filler) forward(out *filled, last int) int {
	for last+1 < f.c.hi && companions[f.c.toks[last].low] {
		j := last + 1
		for j < f.c.hi && determiners[f.c.toks[j].low] && !f.c.toks[j].capital {
			j++
		}
		end := f.nounAt(out, j)
		if end == 0 {
			break
		}
		last = end
	}
	return last
}

// backward is where a title begins with the noun that it goes along with.
func (f *filler) backward(out *filled, first int) int {
	i := first - 1
	for i > f.c.body && determiners[f.c.toks[i].low] {
		i--
	}
	if i <= f.c.body || f.c.toks[i].low != "with" {
		return first
	}
	for k := range f.c.mentions {
		m := &f.c.mentions[k]
		if m.kind == mnPhrase && m.last == i && m.first >= f.c.body && out.free(m.first, m.last) {
			return m.first
		}
	}
	return first
}

// nounAt is where a name or noun phrase ends that begins at a token and that
// no argument has; 0: there is none.
func (f *filler) nounAt(out *filled, at int) int {
	end := 0
	for k := range f.c.mentions {
		m := &f.c.mentions[k]
		if (m.kind == mnName || m.kind == mnPhrase) && m.first == at && out.free(m.first, m.last) {
			end = max(end, m.last)
		}
	}
	return end
}

// inquiry takes a question that no tool fits for one of a tool that answers
// questions: the whole of it is what is to be looked for.
func (pl *planner) inquiry(c *clause) (verdict, bool) {
	from := c.asksFrom()
	if from < 0 {
		return verdict{}, false
	}
	for _, e := range pl.x.tools {
		i := slices.IndexFunc(e.params, func(p *param) bool { return p.required })
		if i < 0 || e.ask != nil || e.params[i].shape != shString || !e.params[i].named(roleQuery) || !e.known[questionStem] {
			continue
		}
		if slices.ContainsFunc(e.params[i+1:], func(p *param) bool { return p.required }) {
			continue
		}
		out := (&filler{c: c, e: e}).fill()
		for k := range out.values {
			out.values[k], out.took[k] = nil, -1
		}
		text := c.source(from, c.hi)
		if !e.params[i].fits(text) {
			continue
		}
		out.values[i], out.scores[i], out.missing = text, 0.6, nil
		return verdict{tool: e, clause: c, filled: out, score: 0.3, accepted: true, traits: traits{coverage: 0.6}}, true
	}
	return verdict{}, false
}

var questionStem = stem("question")

// asksFrom is where the question begins that a wish is: at its beginning, or
// after a verb as in "find out how …"; -1: it is none.
func (c *clause) asksFrom() int {
	if c.question && asking[c.toks[c.lo].low] {
		return c.lo
	}
	if !c.verb {
		return -1
	}
	i := c.body
	for i < c.hi && (c.toks[i].low == "me" || c.toks[i].low == "us" || particles[c.toks[i].low] || c.preposition(i) == "about") {
		i++
	}
	if i < c.hi-1 && asking[c.toks[i].low] {
		return i
	}
	return -1
}

// asking are the words with which questions of knowledge begin.
var asking = words(`what which who whose whom when where why how wer was wann wo warum wie qui quand où pourquoi comment quién qué cuándo dónde cómo`)
