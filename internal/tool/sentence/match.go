package sentence

import (
	"slices"
	"strings"
	"time"
)

// Set holds the patterns of several tools.
type Set struct {
	all   [][]*Pattern
	first map[string][]pair
}

type pair struct {
	tool int
	p    *Pattern
}

// Reading is a tool with the arguments that a sentence has for it.
type Reading struct {
	Tool int // its place in the set
	Args map[string]any
	Free int // words that were left to free text

	// Each is an argument whose values are Items: each of them is a call of its own. It is empty for one call.
	Each  string
	Items []string
}

// Add adds the patterns of a tool, and returns its place in the set.
func (s *Set) Add(list []*Pattern) int {
	if s.first == nil {
		s.first = map[string][]pair{}
	}
	at := len(s.all)
	s.all = append(s.all, list)
	for _, p := range list {
		for i, w := range p.first {
			if !contains(p.first[:i], w) {
				s.first[w] = append(s.first[w], pair{at, p})
			}
		}
	}
	return at
}

func contains(list []string, w string) bool {
	for _, l := range list {
		if l == w {
			return true
		}
	}
	return false
}

// Read returns the readings of a sentence that leave the fewest words to free text, one for each pattern and
// in the order of the set. Two of them may be the same call.
func (s *Set) Read(text string, now time.Time) (best []Reading) {
	ws := stripCourtesies(split(text))
	if len(ws) == 0 {
		return nil
	}
	v := &values{words: ws, now: now}
	for _, one := range slices.Concat(s.first[ws[0].low], s.first[""]) {
		r, ok := one.p.match(text, v)
		if !ok || len(best) > 0 && r.Free > best[0].Free {
			continue
		}
		if r.Tool = one.tool; len(best) > 0 && r.Free < best[0].Free {
			best = best[:0]
		}
		best = append(best, r)
	}
	return best
}

// Match reads a whole sentence by one pattern.
func (p *Pattern) Match(text string, now time.Time) (map[string]any, bool) {
	var s Set
	s.Add([]*Pattern{p})
	r := s.Read(text, now)
	if len(r) == 0 {
		return nil, false
	}
	return r[0].Args, true
}

// machine runs a pattern over a sentence.
type machine struct {
	p    *Pattern
	v    *values
	seen []bool  // by instruction and word: it leads nowhere, or is being tried
	from []int   // by slot: the first word
	to   []int   // by slot: the word after the last one; 0: not filled
	got  []value // by slot
}

func (p *Pattern) match(text string, v *values) (Reading, bool) {
	n := len(p.slots)
	m := &machine{p: p, v: v, seen: make([]bool, len(p.program)*(len(v.words)+1)), from: make([]int, n), to: make([]int, n), got: make([]value, n)}
	if !m.run(0, 0) {
		return Reading{}, false
	}
	r := Reading{Args: make(map[string]any, n+len(p.fixed))}
	for name, value := range p.fixed {
		r.Args[name] = value
	}
	for i, s := range p.slots {
		switch {
		case m.to[i] == 0:
		case s.free():
			t, ok := v.free(text, s.kind, m.from[i], m.to[i])
			if !ok {
				return Reading{}, false
			}
			r.Args[s.names[0]] = t
			if s.kind == "items" {
				if r.Items = v.items(text, m.from[i], m.to[i]); len(r.Items) > 0 {
					r.Each = s.names[0]
				}
			}
			r.Free += m.to[i] - m.from[i]
		default:
			for k, name := range s.names {
				if k < len(m.got[i].args) {
					r.Args[name] = m.got[i].args[k]
				}
			}
		}
	}
	return r, true
}

// run reports whether the rest of the words matches from an instruction on. It visits each instruction at each
// word once: whether it leads to the end does not depend on how it was reached.
func (m *machine) run(pc, at int) bool {
	for {
		if i := pc*(len(m.v.words)+1) + at; m.seen[i] {
			return false
		} else {
			m.seen[i] = true
		}
		in := m.p.program[pc]
		switch in.op {
		case opMatch:
			return at == len(m.v.words)
		case opWord:
			if at == len(m.v.words) || m.v.words[at].low != in.word {
				return false
			}
			pc, at = pc+1, at+1
		case opSplit:
			if m.run(in.x, at) {
				return true
			}
			pc = in.y
		case opJump:
			pc = in.x
		case opValue:
			s := m.p.slots[in.x]
			for _, v := range m.v.at(s, at) {
				if m.run(pc+1, v.end) {
					m.from[in.x], m.to[in.x], m.got[in.x] = at, v.end, v
					return true
				}
			}
			return false
		case opBegin:
			if m.run(pc+1, at) {
				m.from[in.x] = at
				return true
			}
			return false
		case opText:
			if at == len(m.v.words) || !m.v.admits(m.p.slots[in.x].kind, at) {
				return false
			}
			pc, at = pc+1, at+1
		case opEnd:
			if m.run(pc+1, at) {
				m.to[in.x] = at
				return true
			}
			return false
		}
	}
}

// excludedWords are words that free text does not take: what they say would be lost in it.
const excludedWords = " then dann if unless wenn falls sobald every each daily weekly monthly hourly jeden jede jedes täglich wöchentlich monatlich stündlich whenever immer danach anschließend afterwards "

// nothing are texts that say nothing by themselves.
const nothing = " it that this them these those something anything everything him her es das dies sie ihn etwas alles one "

// quotationNouns are words before a quotation that say what it is the name of.
const quotationNouns = " event task meeting appointment reminder note file to-do todo timer list item entry called named titled termin aufgabe erinnerung notiz datei namens "

// admits reports whether free text may have the word at a place.
func (v *values) admits(kind string, at int) bool {
	w := v.words[at]
	switch {
	case w.quoted:
		return kind != "place"
	case kind == "any":
		return true
	case kind == "label" || kind == "place":
		return !strings.Contains(" the my a an to on in of for and or der die das den dem mein meine meiner meinen auf in im am und with mit ", " "+w.low+" ") &&
			!strings.Contains(excludedWords, " "+w.low+" ") && !v.startsTime(at) && (kind == "label" || strings.IndexFunc(w.low, isDigit) < 0)
	}
	another := v.is(at, " list liste einkaufsliste ") && v.is(at+1, " and und ") // "to the shopping list and …" goes on to something else
	return !strings.Contains(excludedWords, " "+w.low+" ") && !v.startsTime(at) && !another
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// free returns the words of free text as they were written.
func (v *values) free(text, kind string, from, to int) (string, bool) {
	ws := v.words[from:to]
	for i, w := range ws {
		if w.stops && from+i+1 < len(v.words) { // a sentence ends within it
			return "", false
		}
	}
	if kind != "any" && len(ws) == 2 && ws[1].quoted && strings.Contains(quotationNouns, " "+ws[0].low+" ") { // the quotation is the text
		return "", false
	}
	const joins = " or and oder und "
	if !ws[0].quoted && strings.Contains(joins, " "+ws[0].low+" ") || strings.Contains(joins, " "+ws[len(ws)-1].low+" ") { // half of what was said is elsewhere
		return "", false
	}
	if len(ws) == 1 && ws[0].quoted {
		return ws[0].text, strings.TrimSpace(ws[0].text) != ""
	}
	most := map[string]int{"label": 3, "place": 4}[kind]
	if most > 0 && len(ws) > most || len(ws) == 1 && strings.Contains(nothing, " "+ws[0].low+" ") {
		return "", false
	}
	for _, w := range ws[:len(ws)-1] {
		if kind == "label" && w.ends {
			return "", false
		}
	}
	return text[ws[0].lo:ws[len(ws)-1].hi], true
}

// maxItems is how many things a sentence may list.
const maxItems = 20

// items returns the things of a list, or nil if it is not certainly one: each thing has at most three words, and
// none that may belong to several of them ("sausages with mustard and ketchup").
func (v *values) items(text string, from, to int) (out []string) {
	const relations = " with for from of to in on at by without mit für von aus zu zum zur in im auf bei ohne "
	begin := from
	for at := from; at < to; at++ {
		w := v.words[at]
		switch {
		case w.quoted || strings.Contains(relations, " "+w.low+" "):
			return nil
		case v.is(at, " and und "):
			if begin == at { // "milk, and eggs"
				begin = at + 1
				continue
			}
		case !w.ends && at+1 < to:
			continue
		}
		end := at + 1
		if v.is(at, " and und ") {
			end = at
		}
		if end-begin < 1 || end-begin > 3 || len(out) == maxItems {
			return nil
		}
		out = append(out, text[v.words[begin].lo:v.words[end-1].hi])
		begin = at + 1
	}
	if begin < to || len(out) < 2 {
		return nil
	}
	return out
}
