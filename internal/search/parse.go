package search

import (
	"slices"
	"strings"
	"unicode"

	"steward/internal/fault"
)

// Bounds of a query.
const (
	maxQuery = 4096 // bytes
	maxTerms = 64   // words and phrases
)

// Terms is a parsed query. It matches messages that contain at least one phrase of each
// group in All, and no phrase in None.
type Terms struct {
	All  [][]Phrase
	None []Phrase
}

// Phrase is a sequence of adjacent words.
type Phrase struct {
	Words  []string // as in Token.Text; not empty
	Prefix bool     // the last word is a prefix
	Quoted bool     // the person wrote it in quotes

	// Stems are the stems of the only word in several languages. If there are any, a word
	// with one of these stems matches, too.
	Stems []string
}

// Parse parses a person's query. All words must occur, in any order, and "words in
// quotes" next to each other. word* matches beginnings of words; -word and -"a phrase"
// must not occur; OR between two terms requires one of them. All other characters only
// separate words, so no text is invalid. Error codes: search_empty if there is nothing
// to search for, search_too_long.
func Parse(text string) (Terms, error) {
	if len(text) > maxQuery {
		return Terms{}, tooLong("it has more than %d bytes", maxQuery)
	}
	p := parser{rest: strings.NewReplacer("“", `"`, "”", `"`, "„", `"`).Replace(text)}
	for p.next() {
	}
	n := len(p.terms.None)
	for _, g := range p.terms.All {
		n += len(g)
	}
	switch {
	case n > maxTerms:
		return Terms{}, tooLong("it has more than %d words and phrases", maxTerms)
	case len(p.terms.All) == 0 && n > 0:
		return Terms{}, fault.New(fault.Invalid, "search_empty", "the search has only excluded words").
			WithHint("add a word to search for")
	case n == 0:
		return Terms{}, fault.New(fault.Invalid, "search_empty", "the search has no words").
			WithHint("use one or more words from the messages")
	}
	return p.terms, nil
}

func tooLong(format string, args ...any) error {
	return fault.New(fault.Invalid, "search_too_long", "the search is too long: "+format, args...).
		WithHint("search for a few words")
}

type parser struct {
	rest  string
	terms Terms
	or    bool // the next term is an alternative to the last one
}

// next parses one term. It returns false at the end.
func (p *parser) next() bool {
	p.rest = strings.TrimLeftFunc(p.rest, unicode.IsSpace)
	if p.rest == "" {
		return false
	}
	not := len(p.rest) > 1 && p.rest[0] == '-' && p.rest[1] != '-' && !blank(p.rest[1:])
	if not {
		p.rest = p.rest[1:]
	}
	text, quoted := p.term()
	if text == "OR" && !quoted && !not {
		p.or = len(p.terms.All) > 0
		return true
	}
	ph, ok := phrase(text, strings.HasPrefix(p.rest, "*") || !quoted && strings.HasSuffix(text, "*"))
	if ok {
		ph.Quoted = quoted
		p.add(ph, not)
	}
	return true
}

func blank(s string) bool { return strings.TrimLeftFunc(s[:1], unicode.IsSpace) == "" }

// term takes a text in quotes, or the text up to the next space or quote.
func (p *parser) term() (text string, quoted bool) {
	if after, ok := strings.CutPrefix(p.rest, `"`); ok {
		text, p.rest, _ = strings.Cut(after, `"`) // without a closing quote it extends to the end
		return text, true
	}
	end := strings.IndexFunc(p.rest, func(r rune) bool { return r == '"' || unicode.IsSpace(r) })
	if end < 0 {
		end = len(p.rest)
	}
	text, p.rest = p.rest[:end], p.rest[end:]
	return text, false
}

func (p *parser) add(ph Phrase, not bool) {
	switch last := len(p.terms.All) - 1; {
	case not:
		p.terms.None = append(p.terms.None, ph)
	case p.or:
		p.terms.All[last] = append(p.terms.All[last], ph)
	default:
		p.terms.All = append(p.terms.All, []Phrase{ph})
	}
	p.or = false
}

// phrase makes a phrase from a text. It returns false if there are no words.
func phrase(text string, prefix bool) (Phrase, bool) {
	toks := slices.Collect(Tokens(text))
	n := len(toks)
	if n == 0 {
		return Phrase{}, false
	}
	if last := toks[n-1]; last.Dense {
		// A query may end in the middle of a word: its last character is either part
		// of the preceding pair or the beginning of any pair.
		prefix = n == 1 || !toks[n-2].Dense || toks[n-2].To != last.To
		if !prefix {
			toks = toks[:n-1]
		}
	}
	ph := Phrase{Prefix: prefix}
	for _, t := range toks {
		ph.Words = append(ph.Words, t.Text)
	}
	return ph, true
}
