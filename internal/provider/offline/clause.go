package offline

import (
	"strings"
)

// clause is one wish: the tokens [lo, hi) of a reading, its verb, and all
// that may become an argument.
type clause struct {
	*reading
	lo, hi   int // without politeness
	body     int // the first token after the verb and its particle
	verb     bool
	question bool
	then     bool // to be done after the one before
	mentions []mention
	words    []queryWord

	to     *entry // the tool that asks the agent whom it is for
	joined int    // where it ends with those that go along with it; 0: none do
	lost   bool   // no tool fits it
}

// politeness that may open a wish, longest first.
var politeness = [][]string{
	{"i", "would", "like", "you", "to"}, {"i", "'d", "like", "you", "to"}, {"i", "would", "like", "to"}, {"i", "d", "like", "you", "to"}, {"i", "d", "like", "to"},
	{"i", "want", "you", "to"}, {"i", "need", "you", "to"}, {"do", "you", "mind"}, {"would", "you", "mind"}, {"is", "it", "possible", "to"},
	{"i", "want", "to"}, {"i", "need", "to"}, {"i", "have", "to"}, {"could", "you"}, {"can", "you"}, {"would", "you"}, {"will", "you"}, {"can", "i"}, {"could", "i"},
	{"i", "wanna"}, {"let", "us"}, {"let", "s"}, {"go", "ahead", "and"}, {"go", "and"}, {"make", "sure", "to"}, {"be", "sure", "to"}, {"do", "not", "forget", "to"},
	{"kannst", "du"}, {"könntest", "du"}, {"ich", "möchte"}, {"peux", "tu"}, {"pourrais", "tu"}, {"puedes"}, {"quiero"}, {"je", "veux"},
	{"please"}, {"kindly"}, {"hey"}, {"hi"}, {"hello"}, {"ok"}, {"okay"}, {"so"}, {"well"}, {"now"}, {"just"}, {"also"}, {"bitte"}, {"steward"}, {"alright"}, {"great"}, {"thanks"},
	{"and"}, {"then"}, {"plus"}, {"und"}, {"dann"}, {"et"}, {"puis"}, {"y"}, {"luego"}, {"afterwards"}, {"finally"}, {"after", "that"}, {"try", "to"}, {"help", "me", "to"}, {"help", "me"}, {"danach"}, {"ensuite"}, {"first"}, {"next"},
}

// newClause reads the tokens [lo, hi) as one wish. isVerb knows the verbs of
// the tools besides the general ones.
func newClause(r *reading, lo, hi int, isVerb func(stem string) bool) *clause {
	c := &clause{reading: r, lo: lo, hi: hi}
	c.trim()
	c.body = c.lo
	if c.lo < c.hi {
		t := &r.toks[c.lo]
		switch {
		case openers[t.low]:
			c.question = true
		case t.kind == tkWord && !r.covered[c.lo] && (verbs[t.stem] || isVerb(t.stem) || c.imperative()):
			c.verb = true
			c.body++
			if c.body < c.hi && particles[r.toks[c.body].low] {
				c.body++
			}
		}
	}
	c.collect()
	c.query()
	c.kinds()
	return c
}

// imperative reports an unknown first word that must be a verb by what
// follows it: "hand the ticket …".
func (c *clause) imperative() bool {
	if c.lo+1 >= c.hi || c.stop(c.toks[c.lo].low) {
		return false
	}
	n := &c.toks[c.lo+1]
	return determiners[n.low] || n.low == "me" || n.kind == tkQuoted || n.kind == tkCode || n.kind == tkPath
}

// statement reports a clause that tells something and asks for nothing.
func (c *clause) statement() bool {
	if c.question || c.verb && verbs[c.toks[c.lo].stem] {
		return false
	}
	for i := c.lo + 1; i < c.hi; i++ {
		switch c.toks[i].low {
		case "is", "are", "was", "were", "has", "have", "wants", "needs", "need", "want", "did", "do", "not", "gets", "ist", "est", "es", "am", "m":
			return true
		}
	}
	return false
}

// trim drops politeness and punctuation from the ends.
func (c *clause) trim() {
	for again := true; again; {
		again = false
		for c.lo < c.hi && (c.toks[c.lo].kind == tkPunct && !hasKey(currencies, c.toks[c.lo].low) && c.toks[c.lo].low != "(") {
			c.lo++
		}
		for _, p := range politeness {
			if c.opens(p) && !(len(p) == 1 && c.covered[c.lo]) {
				c.then = c.then || sequencers[p[0]] || len(p) == 2 && p[1] == "that"
				c.lo += len(p)
				again = true
				break
			}
		}
	}
	for c.hi > c.lo && !c.covered[c.hi-1] && (c.toks[c.hi-1].kind == tkPunct && c.toks[c.hi-1].low != "%" && c.toks[c.hi-1].low != ")" && !hasKey(currencies, c.toks[c.hi-1].low) ||
		c.toks[c.hi-1].low == "please" || c.toks[c.hi-1].low == "bitte" || c.toks[c.hi-1].low == "thanks") {
		c.hi--
	}
}

func (c *clause) opens(p []string) bool {
	if c.lo+len(p) >= c.hi && len(p) > 1 || c.lo+len(p) > c.hi {
		return false
	}
	for i, w := range p {
		if c.toks[c.lo+i].low != w {
			return false
		}
	}
	return true
}

// collect gathers the mentions of the wish.
func (c *clause) collect() {
	for _, m := range c.strong {
		if m.first >= c.lo && m.last <= c.hi {
			c.mentions = append(c.mentions, m)
		}
	}
	c.names()
	c.phrases()
	c.texts()
	c.deeds()
	c.references()
}

func (c *clause) note(kind mentionKind, first, last int) {
	for first < last && (determiners[c.toks[first].low] && kind != mnName || fillers[c.toks[first].low]) && !c.toks[first].capitalInside(first, c.lo) {
		first++
	}
	for last > first && (fillers[c.toks[last-1].low] || c.toks[last-1].kind == tkPunct && c.toks[last-1].low != "%" && c.toks[last-1].low != ")") {
		last--
	}
	if first < last {
		c.mentions = append(c.mentions, mention{kind: kind, first: first, last: last, text: c.source(first, last), prep: c.within(first)})
	}
}

// within is leading, but not beyond the wish's beginning.
func (c *clause) within(i int) string {
	for j := i - 1; j >= c.lo && j >= c.body; j-- {
		if p := c.preposition(j); p != "" {
			if j > c.lo && c.toks[j-1].low == "because" {
				return "because"
			}
			return p
		}
		if !determiners[c.toks[j].low] && c.toks[j].low != ":" {
			return ""
		}
	}
	return ""
}

func (t *token) capitalInside(i, lo int) bool { return t.capital && i > lo && len(t.low) > 1 }

var nameJoiners = words(`of the de la del der von van du des le and & di da al bin`)

var titleJoiners = words(`of on in and to for`) // before "the" and a capital

// names finds runs of capitalised words.
func (c *clause) names() {
	for i := c.lo; i < c.hi; {
		if !c.proper(i) {
			i++
			continue
		}
		j := i + 1
		for j < c.hi {
			switch {
			case c.proper(j) || c.toks[j].text == "-" && c.toks[j].glued && j+1 < c.hi && c.toks[j+1].glued && !c.covered[j+1]:
				j++
				continue
			case j+1 < c.hi && c.toks[j].low == "s" && c.toks[j].glued && (c.proper(j+1) || c.ends(j+1)):
				j++
				continue
			case j+1 < c.hi && nameJoiners[c.toks[j].low] && c.toks[j].low != "and" && c.proper(j+1):
				j += 2
				continue
			case j+2 < c.hi && titleJoiners[c.toks[j].low] && c.toks[j+1].low == "the" && c.proper(j+2):
				j += 3
				continue
			}
			break
		}
		if j == i+1 && determiners[c.toks[i].low] {
			i = j
			continue
		}
		c.note(mnName, i, j)
		i = j
	}
}

// ends reports whether nothing of a name can follow at i.
func (c *clause) ends(i int) bool {
	return i >= c.hi || c.toks[i].kind == tkPunct || c.preposition(i) != "" || c.covered[i]
}

// proper reports whether token i is a capitalised word that is not just the
// first of its sentence.
func (c *clause) proper(i int) bool {
	t := &c.toks[i]
	if t.kind != tkWord || !t.capital || c.covered[i] || t.low == "i" {
		return false
	}
	first := i == 0 || c.toks[i-1].kind == tkPunct && strings.Contains(".!?", c.toks[i-1].low)
	if i < c.body {
		return false
	}
	return !first || !c.stop(t.low) && c.body > c.lo || i+1 < c.hi && c.toks[i+1].capital && !c.stop(t.low) && !verbs[t.stem]
}

// phrases finds noun phrases: what lies between prepositions, function words
// and punctuation.
func (c *clause) phrases() {
	for i := c.body; i < c.hi; {
		if c.boundary(i) {
			i++
			continue
		}
		j := i + 1
		title := determiners[c.toks[i].low] && c.toks[i].capitalInside(i, c.lo) // "The new office"
		for j < c.hi && !c.boundary(j) && (title || !determiners[c.toks[j].low]) {
			j++
		}
		if j < c.hi && c.toks[j].text == "-" && c.toks[j].glued { // a hyphen within a word
			for j+1 < c.hi && c.toks[j].text == "-" && c.toks[j].glued && c.toks[j+1].kind == tkWord {
				j += 2
				for j < c.hi && !c.boundary(j) && !determiners[c.toks[j].low] {
					j++
				}
			}
		}
		c.note(mnPhrase, i, j)
		i = j
	}
}

// boundary reports whether token i ends a noun phrase.
func (c *clause) boundary(i int) bool {
	t := &c.toks[i]
	if _, _, n := c.operator(i); n > 0 {
		return true
	}
	if c.covered[i] || t.kind == tkPunct && !(t.text == "-" && t.glued && i > 0 && c.toks[i-1].kind == tkWord) || t.kind == tkOp {
		return true
	}
	if t.low == "s" && t.glued {
		return i+1 >= c.hi || c.boundary(i+1) || openers[wordAt(c.toks, i-1)]
	}
	if c.preposition(i) != "" {
		return true
	}
	if t.capital && i > c.lo && len(t.low) > 1 && !c.stop(t.low) || determiners[t.low] {
		return false
	}
	if (particles[t.low] || speaks[t.low]) && !t.capital && i > c.body {
		return true
	}
	if measures[t.low] && i > c.lo && c.toks[i-1].low == "how" {
		return true
	}
	return c.stop(t.low) && t.low != "first" && t.low != "last" && t.low != "next"
}

var measures = words(`much many long far old often big tall deep heavy`)

// texts finds free text: after a colon, "saying", "to" with a verb, "about",
// and the object as a whole.
func (c *clause) texts() {
	for i := c.body; i < c.hi-1; i++ {
		low := c.toks[i].low
		switch {
		case c.toks[i].low == ":" && !c.toks[i+1].glued:
			c.free(i+1, c.hi, true, "")
		case (low == "saying" || low == "stating" || low == "reading" || low == "says" || low == "dass") && !c.covered[i+1]:
			j := i + 1
			if c.toks[j].low == "that" {
				j++
			}
			c.free(j, c.hi, true, "")
		case low == "that" && i >= c.body && i > c.lo && !c.covered[i-1] && (c.preposition(i-1) == "" || pronounish(wordAt(c.toks, i-1))) && c.clauseLike(i+1):
			c.free(i+1, c.hi, true, "")
		case (low == "to" || low == "zu") && c.infinitive(i+1):
			c.free(i+1, c.cut(i+1), true, "to")
		case c.preposition(i) == "about" || c.preposition(i) == "for":
			c.free(i+1, c.cut(i+1), false, c.preposition(i))
		}
	}
	c.object()
}

func pronounish(w string) bool { return determiners[w] || fillers[w] }

// clauseLike reports whether a subordinate clause may begin at i: a subject
// and something more.
func (c *clause) clauseLike(i int) bool {
	return i+1 < c.hi && (c.stop(c.toks[i].low) || c.toks[i].capital) && c.hi-i >= 2
}

// infinitive reports whether a verb with an object begins at i, so that "to"
// opens something to do.
func (c *clause) infinitive(i int) bool {
	if i >= c.hi || c.covered[i] || c.toks[i].kind != tkWord || c.toks[i].capital || determiners[c.toks[i].low] || c.stop(c.toks[i].low) {
		return false
	}
	return verbs[c.toks[i].stem] || i+1 < c.hi && (determiners[c.toks[i+1].low] || c.toks[i+1].capital)
}

// cut returns where free text from i ends: before the dates that close the wish.
func (c *clause) cut(i int) int {
	end := c.hi
	for moved := true; moved; {
		moved = false
		for _, m := range c.strong {
			if (m.kind == mnWhen || m.kind == mnSpan) && m.last == end && m.first > i {
				end, moved = m.first, true
			}
		}
		for end > i+1 && (c.preposition(end-1) != "" || fillers[c.toks[end-1].low] || determiners[c.toks[end-1].low] || c.toks[end-1].low == ",") && (moved || end < c.hi) {
			end--
		}
	}
	return end
}

func (c *clause) free(first, last int, marked bool, prep string) {
	for last > first && c.toks[last-1].kind == tkPunct && c.toks[last-1].low != ")" && c.toks[last-1].low != "%" {
		last--
	}
	if first >= last {
		return
	}
	if !marked {
		for first < last-1 && determiners[c.toks[first].low] {
			first++
		}
	}
	if prep == "" {
		prep = c.within(first)
	}
	c.mentions = append(c.mentions, mention{kind: mnText, first: first, last: last, text: c.source(first, last), prep: prep, marked: marked})
}

// object is what follows the verb up to the last preposition that leads to
// another argument.
func (c *clause) object() {
	first := c.body
	for first < c.hi && (determiners[c.toks[first].low] || fillers[c.toks[first].low]) {
		first++
	}
	last := c.cut(first)
	for i := last - 1; i > first; i-- {
		if p := c.preposition(i); p == "to" || p == "into" || p == "in" || p == "from" || p == "as" || p == "on" || p == "with" || p == "called" || p == "at" {
			c.free(first, i, false, "")
			break
		}
	}
	if first > c.lo && first < last && c.preposition(first) == "" {
		c.free(first, last, false, "")
	}
}

var resultWords = words(`result answer outcome sum product quotient difference ergebnis resultado résultat`)

// references finds what points at an earlier result.
func (c *clause) references() {
	for i := c.lo; i < c.hi; i++ {
		t := &c.toks[i]
		if t.kind != tkWord || c.covered[i] {
			continue
		}
		next := wordAt(c.toks, i+1)
		content := i+1 < c.hi && next != "" && !c.boundary(i+1)
		switch {
		case t.low == "it" || t.low == "them" || t.low == "es" || t.low == "ihn":
			if i > c.lo && c.toks[i-1].low == "is" && c.question { // what time is it
				continue
			}
		case t.low == "that" || t.low == "this" || t.low == "those" || t.low == "these":
			if content || i == c.lo && c.question {
				continue
			}
		case resultWords[t.low] && next != "of" && (wordAt(c.toks, i-1) == "the" || wordAt(c.toks, i-1) == "that" || wordAt(c.toks, i-1) == "this" || c.foreign >= 0):
		default:
			continue
		}
		c.mentions = append(c.mentions, mention{kind: mnRef, first: i, last: i + 1, text: t.text, prep: c.within(i)})
	}
}
