package rdf

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"steward/internal/fault"
)

// TokenKind is what a token is.
type TokenKind uint8

// The kinds of tokens.
const (
	TokEnd      TokenKind = iota
	TokIRI                // <…>; Text is what is between
	TokPrefixed           // p:local; Text is the local part, Prefix the rest
	TokBlank              // _:label
	TokString             // "…" and its other forms
	TokLang               // @word
	TokInteger
	TokDecimal
	TokDouble
	TokVar  // ?name or $name
	TokWord // letters
	TokMark // punctuation: one character, or two of && || != <= >= ^^
)

// Token is a word or mark of Turtle or SPARQL.
type Token struct {
	Kind   TokenKind
	Text   string
	Prefix string
	At     int  // byte offset
	Glued  bool // nothing stands between this token and the one before
}

// Is reports whether the token is a mark.
func (t Token) Is(mark string) bool { return t.Kind == TokMark && t.Text == mark }

// Word reports whether the token is a word, in any case of letters.
func (t Token) Word(w string) bool { return t.Kind == TokWord && strings.EqualFold(t.Text, w) }

// Scanner splits a text into tokens.
type Scanner struct {
	src string
	pos int
}

// NewScanner returns a scanner of a text.
func NewScanner(src string) *Scanner { return &Scanner{src: strings.TrimPrefix(src, "\ufeff")} }

// Errorf returns an error about a place in the text. Error code: graph_syntax.
func (s *Scanner) Errorf(at int, format string, args ...any) error {
	before := s.src[:min(at, len(s.src))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	why := fault.New(fault.Invalid, "", format, args...)
	return fault.New(fault.Invalid, "graph_syntax", "line %d, column %d: %s", line, column, why.Message).Detail("line", line).Detail("column", column)
}

func (s *Scanner) peek() (rune, int) {
	if s.pos >= len(s.src) {
		return -1, 0
	}
	return utf8.DecodeRuneInString(s.src[s.pos:])
}

func (s *Scanner) at(i int) byte {
	if s.pos+i < len(s.src) {
		return s.src[s.pos+i]
	}
	return 0
}

// Next returns the next token.
func (s *Scanner) Next() (Token, error) {
	from := s.pos
	if from == 0 && !utf8.ValidString(s.src) {
		return Token{}, s.Errorf(0, "the text is not valid UTF-8")
	}
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if c == '#' {
			end := strings.IndexAny(s.src[s.pos:], "\n\r")
			if end < 0 {
				end = len(s.src) - s.pos
			}
			s.pos += end
		} else if c == ' ' || c == '\t' || c == '\n' || c == '\r' {
			s.pos++
		} else {
			break
		}
	}
	t := Token{At: s.pos, Glued: s.pos == from}
	r, _ := s.peek()
	var err error
	switch {
	case r < 0:
		return t, nil
	case r == '<':
		if end := s.iri(); end >= 0 {
			t.Kind = TokIRI
			t.Text, err = s.unescape(t.At+1, s.src[s.pos+1:end], false)
			if err == nil && strings.ContainsFunc(t.Text, func(r rune) bool { return r <= ' ' || strings.ContainsRune(notInIRI, r) }) {
				err = s.Errorf(t.At, "the IRI <%.100s> contains a character that must not stand in one", t.Text)
			}
			s.pos = end + 1
			return t, err
		}
		return s.mark(t)
	case r == '"' || r == '\'':
		t.Kind = TokString
		t.Text, err = s.quoted()
		return t, err
	case r == '?' || r == '$':
		if n := s.run(s.pos+1, func(r rune) bool { return nameStart(r) || digit(r) }, func(r rune) bool {
			return nameChar(r) && r != '-'
		}); n > s.pos+1 {
			t.Kind, t.Text, s.pos = TokVar, s.src[s.pos+1:n], n
			return t, nil
		}
		return s.mark(t)
	case r == '@':
		end := s.pos + 1
		for end < len(s.src) && (letter(rune(s.src[end])) || end > s.pos+1 && (s.src[end] == '-' || digit(rune(s.src[end])))) {
			end++
		}
		t.Kind, t.Text, s.pos = TokLang, s.src[s.pos+1:end], end
		if t.Text == "" || strings.HasSuffix(t.Text, "-") || strings.Contains(t.Text, "--") || digit(rune(strings.SplitN(t.Text, "-", 2)[0][len(strings.SplitN(t.Text, "-", 2)[0])-1])) {
			return t, s.Errorf(t.At, "@ is followed by no language")
		}
		return t, nil
	case digit(r) || r == '.' && digit(rune(s.at(1))):
		return s.number(t), nil
	case r == '_' && s.at(1) == ':':
		end := s.label(s.pos + 2)
		if end == s.pos+2 {
			return t, s.Errorf(t.At, "_: is followed by no label")
		}
		t.Kind, t.Text, s.pos = TokBlank, s.src[s.pos+2:end], end
		return t, nil
	case r == ':' || nameStart(r) && r != '_':
		return s.name(t)
	}
	return s.mark(t)
}

func (s *Scanner) mark(t Token) (Token, error) {
	_, n := s.peek()
	for _, m := range []string{"&&", "||", "!=", "<=", ">=", "^^"} {
		if strings.HasPrefix(s.src[s.pos:], m) {
			n = 2
		}
	}
	t.Kind, t.Text = TokMark, s.src[s.pos:s.pos+n]
	s.pos += n
	return t, nil
}

// iri returns where the IRI that begins here ends, or -1 if what begins here is none.
func (s *Scanner) iri() int {
	for i := s.pos + 1; i < len(s.src); i++ {
		switch c := s.src[i]; {
		case c == '>':
			return i
		case c <= ' ' || c != '\\' && strings.IndexByte(notInIRI, c) >= 0:
			return -1
		}
	}
	return -1
}

// run returns the end of a run of characters, the first of which is special.
func (s *Scanner) run(from int, first, rest func(rune) bool) int {
	for at := from; at < len(s.src); {
		r, n := utf8.DecodeRuneInString(s.src[at:])
		if at == from && !first(r) || at > from && !rest(r) {
			return at
		}
		at += n
	}
	return max(from, len(s.src))
}

// label returns the end of the label of a blank node or of a prefix; a dot is not its end.
func (s *Scanner) label(from int) int {
	end := s.run(from, func(r rune) bool { return nameStart(r) || digit(r) }, func(r rune) bool { return nameChar(r) || r == '.' })
	for end > from && s.src[end-1] == '.' {
		end--
	}
	return end
}

// name scans a word, or a prefixed name.
func (s *Scanner) name(t Token) (Token, error) {
	end := s.label(s.pos)
	if end == len(s.src) || s.src[end] != ':' {
		// A word has no dots and no dashes: they would be a prefix only.
		end = s.run(s.pos, nameStart, func(r rune) bool { return nameStart(r) || digit(r) })
		t.Kind, t.Text, s.pos = TokWord, s.src[s.pos:end], end
		return t, nil
	}
	t.Kind, t.Prefix = TokPrefixed, s.src[s.pos:end]
	var b strings.Builder
	at := end + 1
	whole := at // the end of the name without dots that may end a sentence
	kept := 0
	for at < len(s.src) {
		r, n := utf8.DecodeRuneInString(s.src[at:])
		first := at == end+1
		switch {
		case r == '%':
			if at+2 >= len(s.src) || !hex(s.src[at+1]) || !hex(s.src[at+2]) {
				return t, s.Errorf(at, "%% in a name is not followed by two hexadecimal digits")
			}
			n = 3
			b.WriteString(s.src[at : at+3])
		case r == '\\':
			if at+1 >= len(s.src) || strings.IndexByte("_~.-!$&'()*+,;=/?#@%", s.src[at+1]) < 0 {
				return t, s.Errorf(at, "\\ in a name is followed by a character that needs none")
			}
			n = 2
			b.WriteByte(s.src[at+1])
		case r == '.' && !first:
			b.WriteByte('.')
			at++
			continue
		case r == ':' || nameStart(r) || digit(r) || !first && nameChar(r):
			b.WriteRune(r)
		default:
			n = 0
		}
		if n == 0 {
			break
		}
		at += n
		whole, kept = at, b.Len()
	}
	t.Text, s.pos = b.String()[:kept], whole
	return t, nil
}

func (s *Scanner) number(t Token) Token {
	digits := func(at int) int {
		for at < len(s.src) && digit(rune(s.src[at])) {
			at++
		}
		return at
	}
	end := digits(s.pos)
	t.Kind = TokInteger
	if end < len(s.src) && s.src[end] == '.' {
		if frac := digits(end + 1); frac > end+1 {
			t.Kind, end = TokDecimal, frac
		} else if s.exponent(frac) > frac {
			t.Kind, end = TokDouble, frac
		}
	}
	if exp := s.exponent(end); exp > end {
		t.Kind, end = TokDouble, exp
	}
	t.Text, s.pos = s.src[s.pos:end], end
	return t
}

// exponent returns the end of an exponent, or at.
func (s *Scanner) exponent(at int) int {
	i := at
	if i >= len(s.src) || s.src[i] != 'e' && s.src[i] != 'E' {
		return at
	}
	if i++; i < len(s.src) && (s.src[i] == '+' || s.src[i] == '-') {
		i++
	}
	from := i
	for i < len(s.src) && digit(rune(s.src[i])) {
		i++
	}
	if i == from {
		return at
	}
	return i
}

// quoted scans a string in one or three quotes.
func (s *Scanner) quoted() (string, error) {
	from, q := s.pos, s.src[s.pos:s.pos+1]
	long := strings.HasPrefix(s.src[s.pos:], q+q+q)
	if long {
		q = q + q + q
	}
	s.pos += len(q)
	start := s.pos
	for s.pos < len(s.src) {
		switch c := s.src[s.pos]; {
		case strings.HasPrefix(s.src[s.pos:], q):
			text := s.src[start:s.pos]
			s.pos += len(q)
			return s.unescape(start, text, true)
		case c == '\\':
			s.pos += 2
		case !long && (c == '\n' || c == '\r'):
			return "", s.Errorf(s.pos, "the line ends within a string; use three quotes")
		default:
			s.pos++
		}
	}
	s.pos = len(s.src)
	return "", s.Errorf(from, "the string that begins here has no end")
}

// unescape resolves escapes: in strings all, in IRIs numeric ones only.
func (s *Scanner) unescape(at int, text string, all bool) (string, error) {
	if !utf8.ValidString(text) {
		return "", s.Errorf(at, "the text is not valid UTF-8")
	}
	if strings.IndexByte(text, '\\') < 0 {
		return text, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		i++
		c := byte(0)
		if i < len(text) {
			c = text[i]
		}
		width := map[byte]int{'u': 4, 'U': 8}[c]
		plain := strings.IndexByte(`tbnrf"'\`, c)
		switch {
		case width > 0:
			if i+width >= len(text)+0 && i+1+width > len(text) {
				return "", s.Errorf(at+i, "\\%c is not followed by %d hexadecimal digits", c, width)
			}
			n, err := strconv.ParseUint(text[i+1:i+1+width], 16, 32)
			if err != nil || !utf8.ValidRune(rune(n)) {
				return "", s.Errorf(at+i, "\\%s is no character", text[i:i+1+width])
			}
			b.WriteRune(rune(n))
			i += width
		case all && c != 0 && plain >= 0:
			b.WriteByte("\t\b\n\r\f\"'\\"[plain])
		default:
			return "", s.Errorf(at+i, "there is no escape \\%c", max(c, ' '))
		}
	}
	return b.String(), nil
}

func hex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// nameStart reports whether a name can begin with a character (PN_CHARS_U of the grammars).
func nameStart(r rune) bool {
	return letter(r) || r == '_' ||
		r >= 0xC0 && r <= 0x2FF && r != 0xD7 && r != 0xF7 || r >= 0x370 && r <= 0x1FFF && r != 0x37E || r == 0x200C || r == 0x200D ||
		r >= 0x2070 && r <= 0x218F || r >= 0x2C00 && r <= 0x2FEF || r >= 0x3001 && r <= 0xD7FF || r >= 0xF900 && r <= 0xFDCF ||
		r >= 0xFDF0 && r <= 0xFFFD || r >= 0x10000 && r <= 0xEFFFF
}

// nameChar reports whether a name can contain a character (PN_CHARS).
func nameChar(r rune) bool {
	return nameStart(r) || digit(r) || r == '-' || r == 0xB7 || r >= 0x300 && r <= 0x36F || r == 0x203F || r == 0x2040
}
