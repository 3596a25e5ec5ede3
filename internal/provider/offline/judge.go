package offline

import "steward/internal/tool"

// traits are what speaks for and against calling a tool for a wish.
type traits struct {
	coverage float64 // of the words that are no values, in [0, 1]
	subject  float64 // how well the best word of substance is found in the tool
	general  float64 // the same of words like "get" and "add"
	apt      float64 // how well the kind of a recognised thing (a file, an amount of money) fits
	share    float64 // of the tool's name that the wish says
	weakest  float64 // score of the least sure required argument; 1 if there is none
	wasted   float64 // what was recognised and is no argument, see waste
	missing  float64 // required arguments that the wish does not say
	loose    float64 // words of substance that the tool does not know
	guesses  bool    // a required text is but some noun phrase
	silent   bool    // there is no word but values
	asks     bool    // it is a question, and the tool changes something
	who      bool    // it asks who or why
}

// weigh combines what the words and what the arguments say, and decides
// whether that is enough to call the tool.
func (v *verdict) weigh(m match, share float64) {
	t := &v.traits
	t.share = share
	v.words(m)
	args := v.arguments()
	for i := range v.clause.mentions {
		if m := &v.clause.mentions[i]; v.filled.free(m.first, m.last) {
			t.wasted += waste[m.kind]
		}
	}
	t.guesses = v.guesses()
	t.asks = v.clause.question && v.tool.spec.Effect == tool.Action
	t.who = v.clause.asksWho()
	v.score = m.score + 0.5*t.coverage + args - t.wasted - 0.15*truth(t.asks) - 0.05*truth(t.guesses)
	v.accepted = t.enough()
	if v.accepted {
		v.score += 0.25
	}
}

// words compares the words of the wish with what the tool knows.
func (v *verdict) words(m match) {
	t, c, f := &v.traits, v.clause, v.filled
	said, covered := 0.0, 0.0
	for i, q := range c.words {
		h := m.hits[i]
		if q.at < 0 || c.covered[q.at] {
			if q.kind == wordCalled && (q.at < 0 || c.tells(q.at)) {
				t.apt = max(t.apt, h.weight)
			}
			continue
		}
		if h.weight == 0 && f.used[q.at] > 0 { // it is a value
			continue
		}
		if q.kind == wordMeasure || h.weight == 0 && particles[q.stem] {
			continue
		}
		known := min(1, h.weight*1.35)
		if known > 0 {
			known = max(known, 0.6)
		}
		if h.weight == 0 && c.verb && q.at < c.body {
			said += q.weight * 0.5 // there are many words for doing something
			continue
		}
		said += q.weight
		covered += q.weight * known
		switch {
		case q.weight < 0.8:
			t.general = max(t.general, h.weight)
		case h.weight < 0.2:
			t.loose++
		default:
			t.subject = max(t.subject, h.weight)
		}
	}
	if t.silent = said == 0; !t.silent {
		said += v.doubtful()
		t.coverage = covered / said
	}
}

// doubtful counts the values that are not sure as words that are not known.
func (v *verdict) doubtful() float64 {
	sum := 0.0
	for i, j := range v.filled.took {
		if j < 0 || v.filled.values[i] == nil {
			continue
		}
		s, m := v.filled.scores[i], &v.clause.mentions[j]
		if m.kind < mnName || m.kind == mnRef || s >= 0.55 || m.kind == mnName && s >= 0.4 {
			continue
		}
		sum += 1.4 * (0.9 - s)
	}
	return sum
}

// arguments scores how well the parameters are filled.
func (v *verdict) arguments() float64 {
	t, f := &v.traits, v.filled
	sum, required, extra, best := 0.0, 0.0, 0.0, 0.0
	t.weakest = 1
	for i, p := range v.tool.params {
		switch {
		case p.required:
			required++
			sum += min(1, f.scores[i])
			if j := f.took[i]; j >= 0 && v.clause.mentions[j].kind != mnRef {
				t.weakest = min(t.weakest, f.scores[i])
			}
		case f.values[i] != nil:
			extra += 0.06 * min(1, f.scores[i])
			best = max(best, min(1, f.scores[i]))
		}
	}
	t.missing = float64(len(f.missing))
	score := 0.2 + 0.15*best + extra
	if required > 0 {
		score = 0.4*sum/required + extra
	}
	if t.weakest < 0.35 {
		score -= 0.25
	}
	return score - min(0.35*t.missing, 0.55)
}

// enough decides whether a tool is called at all.
func (t *traits) enough() bool {
	if t.silent {
		return t.apt >= 0.5 && t.missing == 0 && t.wasted == 0 && !t.asks
	}
	anchor := max(t.subject, t.general*0.5)
	switch {
	case t.asks && t.coverage < 0.65+0.25*truth(t.who),
		t.subject <= weightKin && (t.weakest < 0.45 || t.missing > 0 || t.wasted > 0 || t.guesses), // only words as general as "get" and "add" agree
		t.missing > 0 && t.wasted > 0 && t.asks,
		t.weakest < 0.35 && (t.coverage < 0.8 || t.subject < 0.6), // a value that is a mere guess
		anchor <= weightKin && t.weakest < 0.6,                    // only sister tools go by these words
		t.who && (t.coverage < 0.7 || anchor < 0.55):
		return false
	}
	return t.coverage-t.wasted >= 0.5 && anchor >= 0.3 && t.loose <= 2 ||
		t.coverage >= 0.4 && anchor >= 0.75 && t.loose <= 1 && t.missing == 0 && t.wasted == 0
}

// guesses reports a required text that is but a noun phrase, for a parameter
// that does not take just any words.
func (v *verdict) guesses() bool {
	for i, p := range v.tool.params {
		j := v.filled.took[i]
		if j < 0 || !p.required || p.shape != shString || p.named(roleQuery|roleText) {
			continue
		}
		if kind := v.clause.mentions[j].kind; kind >= mnPhrase && kind != mnRef {
			return true
		}
	}
	return false
}

// waste is what it speaks against a tool that it has no use for a mention.
var waste = map[mentionKind]float64{mnNumber: 0.2, mnSpan: 0.25, mnWhen: 0.25, mnQuoted: 0.35, mnEmail: 0.4, mnLink: 0.4, mnPath: 0.4, mnCode: 0.35}
