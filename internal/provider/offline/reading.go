package offline

import (
	"time"
)

type mentionKind uint8

const (
	mnNumber mentionKind = iota + 1
	mnSpan               // a length of time
	mnWhen
	mnQuoted
	mnEmail
	mnLink
	mnPath
	mnCode
	mnName   // capitalised words
	mnPhrase // a noun phrase
	mnText   // free text up to the end of the wish
	mnRef    // a pronoun for what an earlier call gave
)

// mention is something in the request that may become an argument. It takes
// the tokens [first, last).
type mention struct {
	kind        mentionKind
	first, last int
	text        string
	prep        string // the English preposition that leads to it, or ""
	num         float64
	unit        unit
	unitWord    string
	unitAt      int // the unit's token, if it follows the number
	ordinal     bool
	when        when
	span        span
	part        bool // a longer mention holds it and more
	marked      bool // of mnText: a word like "saying" or a colon announced it
}

// reading is a request, read once: its tokens and what was recognised for
// certain. Noun phrases depend on the wish and come later.
type reading struct {
	text    string
	now     time.Time
	toks    []token
	foreign int // index into the foreign tables, or -1
	strong  []mention
	covered []bool // tokens that strong mentions take
}

func read(text string, now time.Time) *reading {
	r := &reading{text: text, now: now, toks: tokenize(text)}
	r.foreign = language(r.toks)
	r.covered = make([]bool, len(r.toks))
	for i := 0; i < len(r.toks); {
		if n := r.recognise(i); n > 0 {
			i += n
		} else {
			i++
		}
	}
	return r
}

// language returns the table of the foreign language whose function words
// outnumber the English ones, or -1.
func language(toks []token) int {
	english, counts := 0, make([]int, len(foreign))
	for i := range toks {
		if toks[i].kind != tkWord {
			continue
		}
		if stopwords[toks[i].low] || hasKey(prepositions, toks[i].low) {
			english++
		}
		for j, set := range foreign {
			if set[toks[i].low] || hasKey(foreignPrepositions[j], toks[i].low) {
				counts[j]++
			}
		}
	}
	best := -1
	for j, n := range counts {
		if n > english && (best < 0 || n > counts[best]) {
			best = j
		}
	}
	return best
}

func (r *reading) stop(low string) bool {
	return stopwords[low] || r.foreign >= 0 && foreign[r.foreign][low]
}

// preposition returns the English preposition that token i stands for, or "".
func (r *reading) preposition(i int) string {
	w := wordAt(r.toks, i)
	if w == "" {
		return ""
	}
	if r.foreign >= 0 {
		if p, ok := foreignPrepositions[r.foreign][w]; ok {
			return p
		}
	}
	if (w == "close" || w == "next") && wordAt(r.toks, i+1) == "to" {
		return "near"
	}
	return prepositions[w]
}

// leading returns the preposition before token i, articles skipped.
func (r *reading) leading(i int) string {
	for i--; i >= 0; i-- {
		if p := r.preposition(i); p != "" {
			if i > 0 && r.toks[i-1].low == "because" {
				return "because"
			}
			return p
		}
		if low := r.toks[i].low; !determiners[low] && r.toks[i].kind != tkPunct || r.toks[i].kind == tkPunct && low != "$" && low != "€" && low != "£" && low != "(" {
			return ""
		}
	}
	return ""
}

// source returns the request's own text for tokens [first, last).
func (r *reading) source(first, last int) string {
	if first >= last {
		return ""
	}
	return r.text[r.toks[first].start:r.toks[last-1].end]
}

func (r *reading) add(m mention, n int) {
	m.last = m.first + n
	if m.text == "" {
		m.text = r.source(m.first, m.last)
	}
	if m.prep == "" {
		m.prep = r.leading(m.first)
	}
	for i := m.first; i < m.last; i++ {
		r.covered[i] = true
	}
	r.strong = append(r.strong, m)
}

var whole = map[tokenKind]mentionKind{tkQuoted: mnQuoted, tkEmail: mnEmail, tkLink: mnLink, tkPath: mnPath, tkCode: mnCode}

// recognise records what certainly begins at token i and returns the number
// of tokens that it takes.
func (r *reading) recognise(i int) int {
	if kind, ok := whole[r.toks[i].kind]; ok {
		r.add(mention{kind: kind, first: i, text: r.toks[i].text}, 1)
		return 1
	}
	if n := r.point(i); n > 0 {
		return n
	}
	if d, n := spanAt(r.toks, i); n > 0 && r.meantAsSpan(i, n) {
		r.add(mention{kind: mnSpan, first: i, span: d}, n)
		return n
	}
	return r.quantity(i)
}

// meantAsSpan keeps "a day trip" from being a length of time.
func (r *reading) meantAsSpan(i, n int) bool {
	if _, n := numberAt(r.toks, i); n > 0 {
		return true
	}
	switch wordAt(r.toks, i-1) {
	case "for", "in", "after", "within", "every", "by", "of", "für", "pour", "por", "last", "takes":
		return true
	}
	next := wordAt(r.toks, i+n)
	return wordAt(r.toks, i) == "half" || wordAt(r.toks, i) == "quarter" || n > 2 || next != "" && (r.stop(next) || r.preposition(i+n) != "")
}

var hourWords = words(`at around until till before um à`)

// point recognises a date, a time of day, or both together.
func (r *reading) point(i int) int {
	if d, n := dateAt(r.toks, i, r.now); n > 0 {
		r.relative(i, n)
		j := i + n
		if j < len(r.toks) && (r.toks[j].text == "," || r.toks[j].low == "at" || r.toks[j].low == "um" || r.toks[j].low == "à") {
			j++
		}
		c, m := clockAt(r.toks, j, j > i+n && r.toks[j-1].text != ",")
		if m == 0 || d.clock {
			r.add(mention{kind: mnWhen, first: i, when: d}, n)
			return n
		}
		r.both(mention{kind: mnWhen, first: i, when: d, last: i + n}, mention{kind: mnWhen, first: j, when: c, last: j + m}, d, c)
		return j + m - i
	}
	c, n := clockAt(r.toks, i, hourWords[wordAt(r.toks, i-1)])
	if n == 0 {
		return 0
	}
	j := i + n
	if w := wordAt(r.toks, j); w == "on" || j < len(r.toks) && r.toks[j].text == "," {
		j++
	}
	d, m := dateAt(r.toks, j, r.now)
	if m == 0 || d.clock {
		r.add(mention{kind: mnWhen, first: i, when: c}, n)
		return n
	}
	r.both(mention{kind: mnWhen, first: i, when: c, last: i + n}, mention{kind: mnWhen, first: j, when: d, last: j + m}, d, c)
	return j + m - i
}

// relative records the length of time within "in 20 minutes" besides the point that it leads to.
func (r *reading) relative(i, n int) {
	for k := i; k < i+2 && k < i+n; k++ {
		if d, m := spanAt(r.toks, k); m > 0 {
			r.add(mention{kind: mnSpan, first: k, span: d, part: true}, m)
			return
		}
	}
}

// both records a date and a time of day, apart and together.
func (r *reading) both(a, b mention, d, c when) {
	a.part, b.part = true, true
	r.add(a, a.last-a.first)
	r.add(b, b.last-b.first)
	d.hour, d.minute, d.second, d.clock, d.exactHalf = c.hour, c.minute, c.second, true, c.exactHalf
	if !c.exactHalf && r.evening(a.first, b.last) && d.hour < 12 {
		d.hour += 12
	}
	r.add(mention{kind: mnWhen, first: a.first, when: d}, b.last-a.first)
}

func (r *reading) evening(first, last int) bool {
	for i := first; i < last; i++ {
		if w := r.toks[i].low; w == "tonight" || w == "evening" || w == "afternoon" {
			return true
		}
	}
	return false
}

// quantity recognises a number with its unit.
func (r *reading) quantity(i int) int {
	v, n := numberAt(r.toks, i)
	if n == 1 && r.toks[i].kind == tkWord && r.toks[i].capital && i > 0 && r.toks[i-1].capital {
		return 0 // part of a name: "Channel One"
	}
	m := mention{kind: mnNumber, first: i, num: v}
	if n == 0 {
		o, ok := ordinals[wordAt(r.toks, i)]
		if !ok || o < 3 && wordAt(r.toks, i-1) != "the" {
			return 0
		}
		m.num, m.ordinal, n = o, true, 1
		m.text = r.toks[i].text
		r.add(m, 1)
		return 1
	}
	if r.toks[i].low == "one" && n == 1 && !r.counts(i) {
		return 0
	}
	if isOrdinalTail(r.toks, i+n) {
		m.ordinal = true
		n++
	}
	m.text = r.source(i, i+n)
	if i > 0 && r.toks[i-1].kind == tkPunct && hasKey(currencies, r.toks[i-1].low) {
		m.unit, m.unitWord = units[r.toks[i-1].low], r.toks[i-1].low
		m.prep = r.leading(i - 1)
	} else if u, word, k := r.unitAt(i + n); k > 0 {
		m.unit, m.unitWord, m.unitAt, n = u, word, i+n, n+k
	}
	r.add(m, n)
	return n
}

// counts reports whether "one" at i counts something.
func (r *reading) counts(i int) bool {
	switch wordAt(r.toks, i-1) {
	case "the", "this", "that", "which", "another", "new", "last", "first", "next":
		return false
	}
	next := wordAt(r.toks, i+1)
	return next == "" || !stopwords[next] || next == "and" || next == "to" || next == "by" || next == "from"
}

// unitAt reads a unit of measure at token i.
func (r *reading) unitAt(i int) (unit, string, int) {
	if i >= len(r.toks) {
		return unit{}, "", 0
	}
	start := i
	if r.toks[i].text == "-" && r.toks[i].glued {
		i++
	}
	if i >= len(r.toks) {
		return unit{}, "", 0
	}
	t := r.toks[i]
	u, ok := units[t.low]
	if !ok || u.dim == dimTime || len(t.low) == 1 && t.kind == tkWord && !t.glued && t.low != "g" && t.low != "l" && t.low != "m" || t.low == "ft" && t.capital {
		return unit{}, "", 0
	}
	n := i + 1 - start
	switch {
	case t.low == "°" || t.low == "degrees" || t.low == "degree":
		switch w := wordAt(r.toks, i+1); w {
		case "c", "f", "k", "celsius", "fahrenheit":
			return u, w, n + 1
		}
	case u.dim == dimMoney && t.kind == tkWord && hasKey(currencies, t.low) && t.low == "real" && !t.capital:
		return unit{}, "", 0
	}
	return u, t.low, n
}
