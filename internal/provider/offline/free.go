package offline

// freeText is prose for a parameter that takes prose.
func (f *filler) freeText(p *param, m *mention) (any, float64) {
	score := 0.0
	switch {
	case m.prep == deed && p.named(roleText|roleTitle):
		score = 0.9
	case m.prep == deed:
		return nil, 0
	case m.marked && (m.prep == "to" || m.prep == "") && p.named(roleTitle) && !f.has(roleText):
		score = 0.9
	case m.marked && p.named(roleText):
		score = 0.75
	case m.marked && p.is(roleText|roleTitle|roleQuery):
		score = 0.55
	case p.named(roleText|roleQuery) && m.prep != "" && m.prep == "about":
		score = 0.45
	case p.named(roleQuery) && m.prep == "for":
		score = 0.6
	case p.named(roleText) && m.prep == "":
		score = 0.36
	case p.is(roleTitle|roleQuery|roleText) && m.prep == "about":
		score = 0.45
	default:
		return nil, 0
	}
	first := m.first
	if !m.marked { // the tool's own words before the text: "the text good morning"
		for first < m.last-1 && f.e.vocab[f.c.toks[first].stem] && !f.c.toks[first].capital {
			first++
		}
	}
	if len(p.nameWord) > 0 && first > f.c.lo {
		score += min(0.2, f.keyword(p, m))
	}
	last := m.last
	if m.prep == deed || m.prep == "to" && m.marked {
		last = f.without(first, last)
	}
	return trimmed{f.c.source(first, last), first, last}, score
}

// has reports a parameter of a role among those of the tool.
func (f *filler) has(r role) bool {
	for _, p := range f.e.params {
		if p.named(r) {
			return true
		}
	}
	return false
}

// without is where a text ends when what it says of the tool itself is left
// out: "pay the rent to my list" of a tool of lists.
func (f *filler) without(first, last int) int {
	for i := last - 1; i > first; i-- {
		if f.c.preposition(i) == "" {
			continue
		}
		own := false
		for j := i + 1; j < last; j++ {
			t := &f.c.toks[j]
			if determiners[t.low] || f.c.stop(t.low) {
				continue
			}
			if own = t.kind == tkWord && !t.capital && (f.e.known[t.stem] || f.e.calls(t.stem)); !own {
				break
			}
		}
		if own {
			return i
		}
	}
	return last
}
