package search

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lengths of what is shown, in bytes.
const (
	snippetLen  = 240 // about
	snippetLead = 60  // before the match
	lineLen     = 160
)

// matches calls f for each occurrence of a phrase in a text, with the phrase's number
// and the range of bytes, ordered by the ends of the ranges, until f returns false.
func matches(text string, phrases []Phrase, f func(phrase int, s Span) bool) {
	longest, stemmed := 0, false
	for _, p := range phrases {
		longest, stemmed = max(longest, len(p.Words)), stemmed || len(p.Stems) > 0
	}
	if longest == 0 {
		return
	}
	var stems *stemmer
	if stemmed {
		stems = newStemmer(LanguageOf(text))
	}
	last := make([]Token, longest) // a ring
	n := 0
	for t := range Tokens(text) {
		last[n%longest] = t
		n++
		for i, p := range phrases {
			s, ok := p.endsAt(last, n)
			if !ok && len(p.Stems) > 0 && slices.Contains(p.Stems, stems.stem(t.Text)) {
				s, ok = Span{t.From, t.To}, true
			}
			if ok && !f(i, s) {
				return
			}
		}
	}
}

// endsAt reports whether the phrase ends at the last of n tokens, and returns its range.
func (p *Phrase) endsAt(ring []Token, n int) (Span, bool) {
	k := len(p.Words)
	if n < k {
		return Span{}, false
	}
	at := func(i int) *Token { return &ring[(n-k+i)%len(ring)] }
	end := at(k - 1)
	if p.Prefix && !strings.HasPrefix(end.Text, p.Words[k-1]) || !p.Prefix && end.Text != p.Words[k-1] {
		return Span{}, false
	}
	for i, w := range p.Words[:k-1] {
		if at(i).Text != w {
			return Span{}, false
		}
	}
	s := Span{at(0).From, end.To}
	if p.Prefix && end.Dense && end.Text != p.Words[k-1] {
		s.To = end.Head // the query has one character
	}
	return s, true
}

// Snippet returns the part of a text that shows the matches best, on one line, and the
// matches in it.
func (t *Terms) Snippet(text string) (string, []Span) {
	var phrases []Phrase
	for _, g := range t.All {
		phrases = append(phrases, g...)
	}
	place := 0
	if len(text) > snippetLen {
		place = bestPlace(text, phrases)
	}
	line := part(text, place-snippetLead, snippetLen)
	var spans []Span
	matches(line, phrases, func(_ int, s Span) bool {
		spans = append(spans, s)
		return true
	})
	return line, joined(spans)
}

// bestPlace returns the offset at which most of the phrases occur close together. It
// examines only the first 64 matches.
func bestPlace(text string, phrases []Phrase) int {
	const most = 64
	type match struct{ phrase, at int }
	var found []match
	best, place := 0, 0
	matches(text, phrases, func(i int, s Span) bool {
		found = append(found, match{i, s.From})
		var seen []int
		for _, m := range slices.Backward(found) {
			if s.From-m.at > snippetLen-2*snippetLead {
				break
			}
			if !slices.Contains(seen, m.phrase) {
				seen = append(seen, m.phrase)
			}
			if len(seen) > best {
				best, place = len(seen), m.at
			}
		}
		return best < len(phrases) && len(found) < most
	})
	return place
}

// joined sorts spans and merges those that touch.
func joined(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return a.From - b.From })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// First returns the beginning of a text on one line.
func First(text string) string { return part(text, 0, lineLen) }

// part returns about n bytes of a text on one line. It cuts between words if there are
// spaces, or else between characters.
func part(text string, from, n int) string {
	from = boundary(text, max(from, 0))
	to := len(text)
	if from+n < to {
		to = boundary(text, from+n)
	}
	s := strings.Join(strings.Fields(text[from:to]), " ")
	if from > 0 && strings.TrimSpace(text[:from]) != "" {
		s = "…" + s
	}
	if to < len(text) && strings.TrimSpace(text[to:]) != "" {
		s += "…"
	}
	return s
}

// boundary returns the beginning of a word at or shortly before an offset, or the
// beginning of a character if the word is long.
func boundary(text string, at int) int {
	const near = 24
	if at == 0 || at >= len(text) {
		return min(at, len(text))
	}
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	for i := at; i > 0 && at-i < near; {
		r, n := utf8.DecodeLastRuneInString(text[:i])
		if unicode.IsSpace(r) {
			return i
		}
		i -= n
	}
	for at > 0 { // do not separate a letter from its marks
		r, _ := utf8.DecodeRuneInString(text[at:])
		if !unicode.IsMark(r) {
			break
		}
		_, n := utf8.DecodeLastRuneInString(text[:at])
		at -= n
	}
	return at
}
