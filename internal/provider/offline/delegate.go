package offline

import (
	"math"
	"slices"
	"strings"

	"steward/internal/tool"
)

// A tool by which another agent is asked takes a wish as it was said: there is
// nothing to fill. Whether it is meant is told by its description, which says
// in words and examples what the agent is for; what the wish names (people,
// texts, dates) the agent's own tools will know what to do with.

// agentOrigin opens the origin of tools by which agents are asked.
const agentOrigin = "agent:"

// delegate is what an entry has beyond others if it asks an agent.
type delegate struct {
	param    string            // the argument that takes the wish
	examples []map[string]bool // the stems of each example's words
	answers  bool              // it is for questions of knowledge
}

// newDelegate looks at a tool that asks an agent; nil for any other, and for
// one with arguments of its own beside the wish.
func newDelegate(s tool.Spec, params []*param) *delegate {
	if !strings.HasPrefix(s.Origin, agentOrigin) || len(params) != 1 || len(params[0].path) != 1 || params[0].shape != shString || !params[0].required {
		return nil
	}
	d := &delegate{param: params[0].name}
	for _, text := range quotations(s.Description) {
		set := map[string]bool{}
		for _, w := range subjectStems(text) {
			set[w] = true
		}
		if len(set) > 0 {
			d.examples = append(d.examples, set)
		}
	}
	for _, w := range wordStems(s.Description) {
		d.answers = d.answers || w == questionStem
	}
	return d
}

// quotations are the texts between quotation marks.
func quotations(text string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(text, "“")
		if !ok {
			return out
		}
		inside, after, ok := strings.Cut(rest, "”")
		if !ok {
			return out
		}
		out = append(out, inside)
		text = after
	}
}

// subjectStems are the stems of a text's words that say what it is about:
// those of names, of free text and of what is recognised as a value are not.
func subjectStems(text string) []string {
	toks := tokenize(text)
	end := len(toks)
	for i := range toks {
		if speaks[toks[i].low] && i > 0 {
			end = i
			break
		}
	}
	var out []string
	for i := range toks[:end] {
		if i > 0 && prepositions[toks[i-1].low] == "called" {
			continue
		}
		if t := &toks[i]; t.kind == tkWord && !stopwords[t.low] && !(t.capital && i > 0) && !weak[t.stem] {
			out = append(out, t.stem)
		}
	}
	return out
}

var speaks = words(`saying stating reading says`)

// posts enters the words of a tool that asks an agent: the agent's name, what
// it is said to do, and less its examples. How it is asked says nothing.
func (e *entry) posts(put func(s string, w float32)) {
	for _, w := range e.nameWord {
		if w != "ask" {
			put(w, 1)
		}
	}
	for line := range strings.Lines(e.spec.Description) {
		switch {
		case strings.HasPrefix(line, "Asks the agent "):
			continue
		case strings.HasPrefix(line, "For example: "):
			for _, text := range quotations(line) {
				for _, w := range subjectStems(text) {
					put(w, 0.5)
				}
			}
			continue
		}
		weight := float32(0.6)
		if strings.HasPrefix(line, "Capabilities: ") {
			weight = 0.75
		}
		for _, w := range wordStems(strings.ReplaceAll(line, "-", " ")) {
			put(w, weight)
		}
	}
}

// does are the stems of the words with which what the agent can do begins.
func (e *entry) does() []string {
	var out []string
	for line := range strings.Lines(e.spec.Description) {
		list, ok := strings.CutPrefix(line, "Capabilities: ")
		if !ok {
			continue
		}
		for part := range strings.SplitSeq(list, ",") {
			if f := strings.Fields(part); len(f) > 1 {
				out = append(out, stem(strings.ToLower(f[0])))
			}
		}
	}
	return out
}

// asked names the agent that a tool asks.
func (e *entry) asked() string {
	return strings.ReplaceAll(strings.TrimSuffix(e.spec.Name, ".ask"), "_", " ")
}

// resemblance is how much a wish is like the nearest of the examples, in [0, 1].
func (d *delegate) resemblance(words []queryWord, weights []float64) float64 {
	best := 0.0
	for _, ex := range d.examples {
		both, said := 0.0, 0.0
		for i, q := range words {
			if q.at < 0 || weights[i] == 0 {
				continue
			}
			w := weights[i]
			said += w * w
			if ex[q.stem] {
				both += w
			}
		}
		if said > 0 {
			best = max(best, both/math.Sqrt(said*float64(len(ex))))
		}
	}
	return min(1, best)
}

// asked weighs how surely a wish is for an agent.
func (pl *planner) asked(c *clause, m match) verdict {
	v := verdict{tool: m.tool, clause: c, filled: (&filler{c: c, e: &entry{}}).fill()}
	d, t := m.tool.ask, &v.traits
	weights := make([]float64, len(c.words))
	said, covered, found := 0.0, 0.0, 0.0
	for i, q := range c.words {
		if q.at < 0 {
			continue
		}
		w := q.weight * c.substance(q.at)
		if c.covered[q.at] && q.kind != wordCalled {
			w = 0
		}
		h := m.hits[i]
		if h.weight == 0 && q.kind == wordSaid && !pl.x.knows(q.stem) {
			w *= 0.4 // no tool knows it: a value
		}
		if q.kind == wordCalled {
			t.apt = max(t.apt, h.weight)
		}
		weights[i] = w
		said += w
		known := min(1, h.weight*1.35)
		covered += w * known
		found += w * h.tells
		if h.weight >= 0.5 && w >= 0.5 {
			t.subject = max(t.subject, h.weight*w)
		} else {
			t.general = max(t.general, h.weight*w)
		}
	}
	if said > 0 {
		t.coverage = covered / said
	}
	t.share = pl.x.nameShare(m.tool, c.words)
	like := d.resemblance(c.words, weights)
	v.score = found + 0.3*t.share + 0.5*t.coverage + 0.5*like + 0.3 - clash(m.tool, c.words)
	v.accepted = t.subject >= 0.35 && t.coverage >= 0.25 || like >= 0.6 || t.general >= 0.15 && t.coverage >= 0.6 ||
		t.general >= 0.3 && t.apt > 0 && t.coverage >= 0.4
	t.weakest = 1
	if d.answers && c.asksFrom() >= 0 {
		switch { // who else should know
		case !c.personal():
			v.accepted, v.score = true, max(v.score, 0.55)
		case !v.accepted:
			v.accepted, v.score = true, min(v.score, 0.3)
		}
	}
	if v.accepted {
		v.score += 0.25
	}
	return v
}

// answering adds the agents that answer questions to the tools that share
// words with one.
func (x *index) answering(list []match, words int) []match {
	for _, e := range x.tools {
		if e.ask == nil || !e.ask.answers || slices.ContainsFunc(list, func(m match) bool { return m.tool == e }) {
			continue
		}
		list = append(list, match{tool: e, hits: make([]hit, words)})
	}
	return list
}

// knows reports a word that a tool has, or one that may stand for it.
func (x *index) knows(s string) bool { return len(x.variants(s)) > 0 }

// personal reports a wish that speaks of the user.
func (c *clause) personal() bool {
	for i := c.lo; i < c.hi; i++ {
		switch c.toks[i].low {
		case "i", "my", "mine", "me", "we", "our", "us", "ich", "mein", "meine", "wir", "je", "mon", "ma", "mes", "yo", "mi", "mis":
			return c.toks[i].low != "me" || i > c.body // "tell me why"
		}
	}
	return false
}

// substance is how much a word says about what a wish is about: one of a name
// or of a text that is only handed on says little.
func (c *clause) substance(at int) float64 {
	if c.toks[at].capital && at > c.lo {
		return 0.3
	}
	for i := range c.mentions {
		m := &c.mentions[i]
		if at < m.first || at >= m.last {
			continue
		}
		switch {
		case m.kind == mnQuoted:
			return 0
		case m.kind == mnText && m.marked && m.prep == "to":
			return 0.4
		case m.kind == mnText && m.marked:
			return 0.1
		}
	}
	return 1
}

// gather joins wishes that go to the same agent one after the other: it sees
// nothing but what it is given, and divides that for itself. What no tool
// fits goes along with the wish beside it.
func (pl *planner) gather(list []*clause) []*clause {
	if !pl.x.delegates {
		return list
	}
	var out []*clause
	for _, c := range list {
		v := pl.judge(c, &priorCall{})
		if v.accepted && v.tool.ask != nil {
			c.to = v.tool
		}
		if len(out) > 0 {
			last := out[len(out)-1]
			if last.to != nil && (c.to == last.to || !v.accepted && !c.elliptic()) || c.to != nil && last.lost {
				last.to, last.lost = firstEntry(c.to, last.to), false
				last.joined = max(last.joined, last.hi)
				last.hi, last.joined = c.hi, c.hi
				last.mentions = append(last.mentions, c.mentions...)
				last.words = append(last.words, c.words...)
				continue
			}
		}
		c.lost = !v.accepted
		out = append(out, c)
	}
	return out
}

func firstEntry(list ...*entry) *entry {
	for _, e := range list {
		if e != nil {
			return e
		}
	}
	return nil
}

// passed is what an agent is given of a wish: the user's own words, all of
// them if there is no other wish.
func (b *builder) passed(c *clause) string {
	if b.sole {
		return strings.TrimSpace(c.text)
	}
	end := c.hi
	if end < len(c.toks) && c.toks[end].low == "?" {
		end++
	}
	return strings.TrimSpace(c.source(c.lo, end))
}
