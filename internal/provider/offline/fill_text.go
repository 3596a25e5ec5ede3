package offline

import (
	"strings"
	"unicode/utf8"
)

// trimmed is a text with the tokens that it really takes.
type trimmed struct {
	text        string
	first, last int
}

// text is the value that a mention gives for a parameter of text.
func (f *filler) text(p *param, m *mention) (any, float64) {
	v, score := f.textOf(p, m)
	if t, ok := v.(trimmed); ok && !p.fits(t.text) {
		return nil, 0
	} else if s, ok := v.(string); ok && !p.fits(s) {
		return nil, 0
	}
	return v, score
}

func (f *filler) textOf(p *param, m *mention) (any, float64) {
	typed := p.schema.Format != "" || p.named(roleLink|roleZone)
	switch m.kind {
	case mnEmail:
		return m.text, f.by(p, m, roleEmail, 0.7, 0.12)
	case mnLink:
		return m.text, f.by(p, m, roleLink, 0.7, 0.15)
	case mnPath:
		return m.text, f.by(p, m, rolePath, 0.7, 0.15)
	case mnCode:
		return f.identifier(p, m)
	case mnWhen:
		v, s := p.asWhen(m, f.c.now)
		if s == 0 {
			return nil, 0
		}
		if s += f.evidence(p, m); m.part && p.timeForm() == 0 {
			s = 0.3 // all that was said, not a part of it
		}
		return v, s
	case mnSpan:
		v, s := p.asSpan(m)
		if s == 0 {
			return nil, 0
		}
		return v, s + f.evidence(p, m)
	case mnNumber:
		return f.figure(p, m)
	case mnQuoted:
		if p.schema.Format != "" && p.named(roleWhen|roleEmail|roleLink) {
			return nil, 0
		}
		return m.text, 0.5 + 0.1*truth(p.named(roleStreet) && strings.ContainsAny(m.text, "0123456789")) + 0.15*truth(p.is(roleText|roleTitle|roleQuery)) + 0.1*truth(p.named(roleText|roleTitle|roleQuery)) + f.evidence(p, m)
	case mnName, mnPhrase:
		return f.nominal(p, m)
	case mnText:
		if typed || p.named(roleID|roleEmail|roleWhen|rolePlace) && !p.named(roleText|roleTitle|roleQuery) {
			return nil, 0
		}
		return f.freeText(p, m)
	}
	return nil, 0
}

// identifier is a mix of letters and digits for a parameter of text.
func (f *filler) identifier(p *param, m *mention) (any, float64) {
	text := m.text
	if p.named(roleID) || p.is(rolePhone) && strings.HasPrefix(text, "+") {
		return strings.TrimPrefix(text, "#"), 0.7 + f.evidence(p, m)
	}
	if p.schema.Format != "" {
		return nil, 0
	}
	s := 0.45
	if p.weak&roleID != 0 {
		s = 0.6
	}
	if letters := strings.TrimRight(strings.ToLower(text), "0123456789"); len(letters) > 1 && strings.Contains(p.hint, letters) {
		s += 0.2 // the description gives such a one as an example
	}
	return strings.TrimPrefix(text, "#"), s + f.evidence(p, m)
}

// nominal is a name or a noun phrase for a parameter of text.
func (f *filler) nominal(p *param, m *mention) (any, float64) {
	if p.named(roleZone) {
		if v, s := f.zone(m); s > 0 {
			return v, s + f.evidence(p, m)
		}
		return nil, 0
	}
	if p.is(roleLanguage | roleCurrency) {
		if v, s := f.coded(p, m); s > 0 {
			return v, s + f.affinity(p, m.prep)
		}
	}
	if p.named(roleLanguage|roleCurrency) && m.kind == mnPhrase {
		return nil, 0
	}
	if p.schema.Format != "" || p.named(roleLink|roleZone) || p.named(roleWhen) && !p.named(rolePerson|rolePlace|roleTitle|roleTarget|roleOrigin) {
		return nil, 0
	}
	return f.noun(p, m)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// by scores a mention whose kind belongs to one role.
func (f *filler) by(p *param, m *mention, r role, named, other float64) float64 {
	switch {
	case p.named(r):
		return named + f.evidence(p, m)
	case p.weak&r != 0:
		return named - 0.15 + f.evidence(p, m)
	case p.schema.Format != "" || p.named(roleWhen|roleZone|roleCurrency|roleLanguage):
		return 0
	case p.named(roleOrigin | roleTarget): // a source or a destination may be anything
		return named - 0.3 + f.evidence(p, m)
	}
	return other + f.evidence(p, m)
}

// figure is a number for a parameter of text: an identifier, a house number,
// an amount as it was said.
func (f *filler) figure(p *param, m *mention) (any, float64) {
	if p.schema.Format != "" || p.named(roleWhen|roleZone|roleLanguage) {
		return nil, 0
	}
	if p.is(roleCurrency) && !p.named(roleAmount) {
		if m.unit.code != "" {
			if m.unitAt == 0 {
				return trimmed{m.unit.code, m.first - 1, m.first}, 0.9
			}
			return trimmed{m.unit.code, m.unitAt, m.last}, 0.9
		}
		return nil, 0
	}
	s := 0.1
	if p.named(roleID) && !p.named(roleTitle) || p.schema.Pattern != "" && p.matches(m.text) {
		s = 0.5
	}
	return m.text, s + f.evidence(p, m)
}

// zone is the IANA name of the time zone that a place lies in.
func (f *filler) zone(m *mention) (any, float64) {
	text := strings.ToLower(m.text)
	if z, ok := f.zones[unaccent.Replace(strings.TrimSuffix(strings.TrimSuffix(text, " time zone"), " time"))]; ok {
		return z, 0.8
	}
	return nil, 0
}

var unaccent = strings.NewReplacer("á", "a", "à", "a", "â", "a", "ã", "a", "ä", "a", "å", "a", "é", "e", "è", "e", "ê", "e", "ë", "e", "í", "i", "ï", "i", "î", "i",
	"ó", "o", "ò", "o", "ô", "o", "õ", "o", "ö", "o", "ø", "o", "ú", "u", "ù", "u", "û", "u", "ü", "u", "ç", "c", "ñ", "n", "ß", "ss")

// coded is a language or a currency, as a code where one is asked for.
func (f *filler) coded(p *param, m *mention) (any, float64) {
	low := strings.ToLower(m.text)
	if code, ok := languages[low]; ok && p.is(roleLanguage) {
		if p.wantsCode() {
			return code, 0.8
		}
		return m.text, 0.8
	}
	if code, ok := currencies[low]; ok && p.is(roleCurrency) {
		return code, 0.8
	}
	return nil, 0
}

// noun is a name or a noun phrase without the words by which the tool itself
// goes: "the kitchen lamp" is "kitchen" to a tool of lamps.
func (f *filler) noun(p *param, m *mention) (any, float64) {
	t, cut := f.strip(p, m)
	if t.first >= t.last || f.bare(t) || t.last == t.first+1 && f.e.nameWords[f.c.toks[t.first].stem] {
		return nil, 0
	}
	score := 0.3
	if m.kind == mnName {
		score = 0.36
		if p.named(roleStreet) { // a name alone is rather the city's
			score -= 0.08
		}
		if p.is(rolePerson | rolePlace | roleTitle | roleOrigin | roleTarget) {
			score += 0.1
		}
	}
	if m.kind == mnName && p.named(rolePath|roleLink|roleEmail) && !p.named(rolePerson|rolePlace|roleTitle) {
		score -= 0.25
	}
	if m.kind == mnPhrase && p.named(roleTitle|roleQuery|rolePlace|rolePerson) {
		score += 0.05
	}
	if m.kind == mnPhrase && t.last > t.first+1 && f.c.toks[t.first].capital && p.named(roleTitle|roleQuery) && (leadsToTitle[m.prep] || t.first > m.first) {
		score += 0.2 // "subject Holiday plans" is more than "Holiday"
	}
	if p.named(roleText) && !p.named(roleTitle|roleQuery) {
		score -= 0.08
	}
	if p.named(rolePath|roleLink|roleEmail) && !p.named(rolePerson|rolePlace|roleTarget|roleTitle) && f.affinity(p, m.prep) <= 0 {
		score -= 0.12
	}
	if p.is(roleID) && !p.named(roleTitle|rolePerson|rolePlace|roleQuery) {
		score -= 0.1
	}
	if cut {
		score += 0.05
	}
	if m.kind == mnPhrase && f.otherwise(t) {
		score -= 0.2
	}
	if m.kind == mnPhrase && f.familiar(t) {
		if t.last < f.c.hi && f.c.covered[t.last] && f.c.toks[t.last].kind != tkNumber {
			return nil, 0 // "the branch release-2": it only says what kind of thing follows
		}
		if f.affinity(p, m.prep) <= 0 {
			score -= 0.15
		}
	}
	if p.named(roleWhen) {
		score -= 0.25
	}
	if low := strings.ToLower(t.text); hasKey(currencies, low) && t.text == strings.ToUpper(t.text) {
		score -= 0.3
	}
	return t, score + max(f.keyword(p, &mention{kind: m.kind, first: t.first, last: t.last, prep: m.prep}), f.own(p, m)) + f.affinity(p, m.prep)
}

// leadsToTitle are the prepositions that may stand before a title of several words.
var leadsToTitle = words(`for about called of`)

// familiar reports a phrase made of words of the tool's own description:
// more likely its subject than a value.
func (f *filler) familiar(t trimmed) bool {
	for i := t.first; i < t.last; i++ {
		if tok := &f.c.toks[i]; tok.kind == tkWord && !f.e.known[tok.stem] {
			return false
		}
	}
	return true
}

// otherwise reports a phrase made of words by which the tools at hand go:
// more likely another tool's subject than a value.
func (f *filler) otherwise(t trimmed) bool {
	for i := t.first; i < t.last; i++ {
		if tok := &f.c.toks[i]; tok.kind != tkWord || !f.names[tok.stem] {
			return false
		}
	}
	return true
}

// own rewards a mention that holds the parameter's own word: "track Yesterday", "bedroom lamp".
func (f *filler) own(p *param, m *mention) float64 {
	for i := m.first; i < m.last; i++ {
		if contains(p.nameWord, f.c.toks[i].stem) {
			return 0.25
		}
	}
	return 0
}

// strip cuts the tool's own words from the ends of a noun phrase.
func (f *filler) strip(p *param, m *mention) (trimmed, bool) {
	first, last := m.first, f.owner(m)
	if m.kind == mnName && m.last-m.first > 1 && last == m.last {
		return trimmed{m.text, first, last}, false
	}
	own := func(i int) bool {
		t := &f.c.toks[i]
		return t.kind == tkWord && t.low != "room" && f.e.calls(t.stem) && !(t.capital && i > f.c.lo && m.kind == mnName)
	}
	for first < last-1 && (own(first) || f.c.toks[first].kind == tkWord && contains(p.descWord, f.c.toks[first].stem)) && !f.c.toks[first].capital {
		first++
	}
	for last-1 > first && !f.c.toks[last-1].capital && (own(last-1) || last < m.last && f.c.toks[last-1].low == "s" && f.c.toks[last-1].glued) {
		last--
	}
	if first == last-1 && own(first) {
		return trimmed{}, true // nothing but the tool's own words
	}
	for last-1 > first && (f.c.toks[last-1].text == "-" || f.c.toks[last-1].low == "s" && f.c.toks[last-1].glued && last < m.last) {
		last--
	}
	for first < last-1 && f.c.toks[first].text == "-" {
		first++
	}
	return trimmed{f.c.source(first, last), first, last}, first > m.first || last < m.last
}

// owner returns where "the orchid" ends in "the orchid's soil", if the tool
// knows of soil; else where the phrase ends.
func (f *filler) owner(m *mention) int {
	for i := m.first + 1; i < m.last-1; i++ {
		if t := &f.c.toks[i]; t.low != "s" || !t.glued {
			continue
		}
		for j := i + 1; j < m.last; j++ {
			if s := f.c.toks[j].stem; f.c.toks[j].kind == tkWord && !f.e.known[s] && !f.e.calls(s) {
				return m.last
			}
		}
		return i
	}
	return m.last
}

// calls reports a word by which the tool goes: one of its name or its
// parameters' names, or another word for one of its name.
func (e *entry) calls(s string) bool {
	if e.vocab[s] {
		return true
	}
	for _, w := range e.nameWord {
		if same(s, w) >= 0.65 {
			return true
		}
	}
	return false
}

// bare reports a phrase that says nothing: only the tool's words, or weak ones.
func (f *filler) bare(t trimmed) bool {
	for i := t.first; i < t.last; i++ {
		tok := &f.c.toks[i]
		if tok.kind != tkWord || tok.capital && i > f.c.lo || !f.c.stop(tok.low) && !f.e.vocab[tok.stem] {
			return false
		}
	}
	return true
}

// fits reports whether a text is within the schema's bounds.
func (p *param) fits(s string) bool {
	n := utf8.RuneCountInString(s)
	return (p.schema.MinLength == nil || n >= *p.schema.MinLength) && (p.schema.MaxLength == nil || n <= *p.schema.MaxLength) && p.matches(s)
}

// listOptions offers the mentions of a list together.
func (f *filler) listOptions(i int, p *param) {
	item := p.item
	if item.shape == shEnum {
		f.chosen(i, p)
		return
	}
	for j := 0; j < len(f.c.mentions); j++ {
		f.listFrom(i, p, j)
	}
}

// listFrom offers the list that begins with mention j: mentions of one kind,
// joined by commas and "and".
func (f *filler) listFrom(i int, p *param, j int) {
	m := &f.c.mentions[j]
	v, score := f.single(p.item, m)
	if score <= 0 || m.kind == mnRef && p.item.shape != shNumber {
		return
	}
	first, last := m.first, m.last
	values := []any{plain(v)}
	for {
		k := f.follower(m.kind, last)
		if k < 0 {
			break
		}
		n := &f.c.mentions[k]
		w, s := f.single(p.item, n)
		if s <= 0 {
			break
		}
		values, last, m = append(values, plain(w)), n.last, n
		score = max(score, s)
	}
	if p.schema.MaxItems != nil && len(values) > *p.schema.MaxItems || p.schema.MinItems != nil && len(values) < *p.schema.MinItems {
		return
	}
	f.opts = append(f.opts, option{i, j, first, last, values, score + 0.12*float64(min(len(values)-1, 3))})
}

func plain(v any) any {
	if t, ok := v.(trimmed); ok {
		return t.text
	}
	return v
}

// follower returns the mention of the same kind that follows, after a comma
// or "and", the token last; -1 if there is none.
func (f *filler) follower(kind mentionKind, last int) int {
	i := last
	for i < f.c.hi && (f.c.toks[i].low == "," || connectives[f.c.toks[i].low] || f.c.toks[i].low == "or") {
		i++
	}
	if i == last {
		return -1
	}
	for i < f.c.hi && determiners[f.c.toks[i].low] {
		i++
	}
	best := -1
	for k := range f.c.mentions {
		m := &f.c.mentions[k]
		if m.first == i && m.kind == kind {
			if best < 0 || m.last > f.c.mentions[best].last {
				best = k
			}
		}
	}
	return best
}

// chosen offers all values of an enumeration that the wish names.
func (f *filler) chosen(i int, p *param) {
	var values []any
	first, last, score := len(f.c.toks), 0, 0.0
	for _, ch := range p.item.enum {
		if o, ok := f.choose(p, ch); ok && o.score >= enoughOptional {
			values = append(values, o.value)
			first, last, score = min(first, o.first), max(last, o.last), max(score, o.score)
		}
	}
	if len(values) > 0 {
		f.opts = append(f.opts, option{i, -1, first, last, values, score})
	}
}

// reference is what a pronoun stands for: an argument of the same name, a
// member of the result, or the result.
func (f *filler) reference(p *param, m *mention) (any, float64) {
	if f.prior == nil {
		return nil, 0
	}
	if p.shape == shString {
		if v, ok := f.prior.result.field(p); ok {
			return v, 0.75
		}
		if v, ok := f.prior.args[p.name].(string); ok && !p.named(roleText) {
			return v, 0.7 - 0.45*truth(m.first == m.last)
		}
	}
	s := 0.45
	if p.shape == shString {
		s += f.affinity(p, m.prep)
	}
	if m.first == m.last { // unsaid: only for what nothing else fills
		switch s -= 0.15; {
		case p.shape == shString && !f.c.then:
			return nil, 0
		case p.shape != shString && f.firstNumber() == p:
			s = 0.46 // "then divide by 2": the result comes before what is said
		}
	}
	if f.prior.result == nil || !f.prior.result.ok() {
		if p.shape == shString && p.schema.Format != "" {
			return nil, 0
		}
		return pending{}, s
	}
	v, ok := f.prior.result.as(p)
	if !ok {
		return nil, 0
	}
	return v, s
}

// firstNumber is the first required parameter that is a number.
func (f *filler) firstNumber() *param {
	for _, p := range f.e.params {
		if p.required && (p.shape == shNumber || p.shape == shInteger) {
			return p
		}
	}
	return nil
}

// pending stands for a value that an earlier call will give.
type pending struct{}
