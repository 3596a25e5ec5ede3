package offline

import (
	"regexp"
	"strconv"
	"strings"
)

// enumOptions finds the values of an enumeration by their words.
func (f *filler) enumOptions(i int, p *param) {
	for _, ch := range p.enum {
		if o, ok := f.choose(p, ch); ok {
			o.param = i
			f.opts = append(f.opts, o)
		}
	}
}

// choose looks for one value of an enumeration in the wish.
func (f *filler) choose(p *param, ch choice) (option, bool) {
	best := option{mention: -1}
	for j := range f.c.mentions {
		m := &f.c.mentions[j]
		if v, ok := ch.value.(float64); ok && m.kind == mnNumber && m.num == v {
			return option{mention: j, first: m.first, last: m.last, value: ch.value, score: 0.6 + f.evidence(p, m)}, true
		}
		if m.kind == mnQuoted && strings.EqualFold(m.text, ch.text) && ch.text != "" {
			return option{mention: j, first: m.first, last: m.last, value: ch.value, score: 1}, true
		}
		if m.unit.code != "" && strings.EqualFold(m.unit.code, ch.text) {
			return option{mention: -1, first: m.last, last: m.last, value: ch.value, score: 0.9}, true
		}
	}
	if len(ch.words) == 0 {
		return best, false
	}
	for k := f.c.lo; k < f.c.hi; k++ {
		if s, n := f.spells(ch, k); s > 0 {
			m := mention{kind: mnPhrase, first: k, last: k + n, prep: f.c.within(k)}
			if s == 1 {
				s = 0.95
			} else {
				s *= 0.75
			}
			s += min(0.3, f.evidence(p, &m))
			if s > best.score {
				best = option{mention: -1, first: k, last: k + n, value: ch.value, score: s}
			}
		}
	}
	return best, best.score > 0
}

// spells reports how well the tokens from k on say an enumeration's value,
// and how many they are.
func (f *filler) spells(ch choice, k int) (float64, int) {
	sum, n := 0.0, 0
	for _, w := range ch.words {
		for k+n < f.c.hi && n > 0 && (f.c.toks[k+n].text == "-" || determiners[f.c.toks[k+n].low]) {
			n++
		}
		if k+n >= f.c.hi || f.c.toks[k+n].kind != tkWord && f.c.toks[k+n].kind != tkCode && f.c.toks[k+n].kind != tkNumber {
			return 0, 0
		}
		t := &f.c.toks[k+n]
		s := 0.0
		switch {
		case stem(t.low) == w:
			s = 1
		case languages[t.low] == w || strings.EqualFold(units[t.low].code, w) && units[t.low].code != "":
			s = 0.95
		case f.c.stop(t.low) || len(w) < 3 && len(ch.words) == 1:
		default:
			if s = same(t.stem, w); s > 0.65 || s > 0 && len(ch.words) > 1 {
				s *= 0.9
			} else if s > 0 && weak[t.stem] {
				s = 0
			}
		}
		if s == 0 {
			return 0, 0
		}
		sum += s
		n++
	}
	s := sum / float64(len(ch.words))
	if f.c.body > f.c.lo && k < f.c.body { // the verb itself seldom names a value
		s *= 0.6
	}
	return s, n
}

var negations = words(`not no without never off kein keine ohne nicht sans pas sin exclude excluding disable except`)

// boolOptions finds out whether a flag is wanted.
func (f *filler) boolOptions(i int, p *param) {
	best := option{param: i, mention: -1}
	for k := f.c.lo; k < f.c.hi; k++ {
		t := &f.c.toks[k]
		if t.kind != tkWord || f.c.covered[k] || f.c.stop(t.low) {
			continue
		}
		s := 0.0
		for _, w := range p.nameWord {
			if w != "is" && w != "has" && !f.e.nameWords[w] {
				s = max(s, same(t.stem, w))
			}
		}
		if s < 0.7 && p.describes(t.stem) && !f.e.nameWords[t.stem] {
			s = 0.62
		}
		if s > best.score {
			best.score, best.first, best.last, best.value = s, k, k+1, !f.negated(k)
		}
	}
	if best.score == 0 && contains(p.nameWord, "on") || contains(p.nameWord, "enabl") || contains(p.nameWord, stem("enabled")) || contains(p.nameWord, "state") || contains(p.nameWord, "activ") {
		f.onOff(&best)
	}
	if best.score >= enoughOptional || p.required && best.score > 0 {
		f.opts = append(f.opts, best)
	}
}

func (p *param) describes(s string) bool {
	return len(s) > 3 && contains(p.descWord, s) && !weak[s]
}

// onOff reads "turn … on", "switch … off", "enable", "disable".
func (f *filler) onOff(best *option) {
	for k := f.c.lo; k < f.c.hi; k++ {
		switch f.c.toks[k].low {
		case "on", "enable", "activate", "start":
			if f.c.toks[k].low != "on" || k < f.c.body || f.c.loneParticle(k) {
				best.value, best.score, best.first, best.last = true, 0.8, k, k+1
			}
		case "off", "disable", "deactivate", "stop":
			best.value, best.score, best.first, best.last = false, 0.8, k, k+1
		}
	}
}

func (f *filler) negated(k int) bool {
	for i := k - 1; i >= f.c.lo && i >= k-3; i-- {
		if negations[f.c.toks[i].low] {
			return true
		}
		if f.c.toks[i].kind == tkPunct || f.c.toks[i].low == "and" || f.c.toks[i].low == "with" {
			return false
		}
	}
	return false
}

var describedValue = regexp.MustCompile(`(\d+(?:\.\d+)?) (?:for|=|means) (?:the |a |an )?(\p{L}+)`)

// described offers the numbers that a description gives to words: "3 for the cube root".
func (f *filler) described(i int, p *param) {
	if p.shape == shString || !strings.ContainsAny(p.hint, "0123456789") {
		return
	}
	for _, m := range describedValue.FindAllStringSubmatch(p.hint, 8) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil || !p.holds(v) {
			continue
		}
		for k := f.c.lo; k < f.c.hi; k++ {
			if t := &f.c.toks[k]; t.kind == tkWord && t.stem == stem(m[2]) {
				f.opts = append(f.opts, option{i, -1, k, k + 1, v, 0.9})
			}
		}
	}
}

// expression offers the longest piece of arithmetic.
func (f *filler) expression(i int) {
	if first, last, text := f.c.arithmetics(); last > first {
		f.opts = append(f.opts, option{i, -1, first, last, text, 0.95})
	}
}
