package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Token is a word of a text in its searched form: lower case, without the accents of
// Latin and Greek letters, with compatibility forms replaced. Its Text is not empty and
// consists of letters, numbers, marks and emoji.
//
// Text in scripts without spaces between words (Chinese, Japanese, Korean with its
// particles, Thai, Lao, Khmer, Burmese) becomes pairs: one token for each character
// together with the next one, and one for the last character alone. So a phrase of pairs
// matches any part of such a text, and a single character is the beginning of a token.
type Token struct {
	Text     string
	From, To int  // its range of bytes in the text
	Head     int  // the end of the first character of a pair; otherwise To
	Dense    bool // it is of a script without spaces
}

// class is the class of a character.
type class uint8

const (
	gap   class = iota // between words
	word               // part of a word
	dense              // part of a script without spaces
	emoji              // a word of its own
	mark               // belongs to the character before it
)

// maxToken is the maximum size of a word in bytes. Longer words (keys, encoded data) are
// cut, both in texts and in queries.
const maxToken = 128

// Tokens yields the tokens of a text in order.
func Tokens(s string) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for at := 0; at < len(s); {
			c, n := classify(s[at:])
			if c == gap || c == mark {
				at += n
				continue
			}
			end := run(s, at, c, n)
			switch c {
			case dense:
				if !pairs(s, at, end, yield) {
					return
				}
			default:
				if t := fold(s[at:end]); t != "" && !yield(Token{Text: t, From: at, To: end, Head: end}) {
					return
				}
			}
			at = end
		}
	}
}

// run returns the end of the word, or of the emoji with its modifiers, that begins at an
// offset with a character of the given class and length.
func run(s string, at int, c class, n int) int {
	for at += n; at < len(s); at += n {
		var next class
		next, n = classify(s[at:])
		if next != mark && (next != c || c == emoji) {
			break
		}
	}
	return at
}

func classify(s string) (class, int) {
	if b := s[0]; b < utf8.RuneSelf {
		if 'a' <= b && b <= 'z' || '0' <= b && b <= '9' || 'A' <= b && b <= 'Z' {
			return word, 1
		}
		return gap, 1
	}
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == softHyphen || unicode.IsMark(r):
		return mark, n
	case isDense(r):
		return dense, n
	case unicode.IsLetter(r) || unicode.IsNumber(r):
		return word, n
	case r >= 0x1f000 && unicode.IsSymbol(r) || 0x2600 <= r && r <= 0x27bf:
		if skin(r) {
			return mark, n
		}
		return emoji, n
	}
	return gap, n
}

// skin reports whether a character sets the skin tone of the emoji before it.
func skin(r rune) bool { return 0x1f3fb <= r && r <= 0x1f3ff }

const softHyphen = '\u00ad'

// isDense reports whether a character belongs to a script without spaces.
func isDense(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	if r == 'ー' || r == 'ｰ' || r == 'ﾞ' || r == 'ﾟ' {
		return true // Japanese, although not in Unicode's Japanese scripts
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// pairs yields the tokens of a stretch of a script without spaces.
func pairs(s string, from, end int, yield func(Token) bool) bool {
	var last Token // a character that is not yet paired with the next one
	for at := from; at < end; {
		c := Token{From: at, To: character(s, at, end), Dense: true}
		at, c.Head = c.To, c.To
		if c.Text = plainCharacter(s[c.From:c.To]); c.Text == "" {
			continue
		}
		if last.Text != "" {
			both := Token{Text: s[last.From:c.To], From: last.From, To: c.To, Head: last.To, Dense: true}
			if len(both.Text) != len(last.Text)+len(c.Text) || both.Text[:len(last.Text)] != last.Text || both.Text[len(last.Text):] != c.Text {
				both.Text = last.Text + c.Text
			}
			if !yield(both) {
				return false
			}
		}
		last = c
	}
	return last.Text == "" || yield(last)
}

// character returns the end of the character at an offset: a letter with its marks, or
// the letters of a Korean syllable.
func character(s string, at, end int) int {
	_, n := utf8.DecodeRuneInString(s[at:])
	for at += n; at < end; at += n {
		var r rune
		r, n = utf8.DecodeRuneInString(s[at:])
		if r != softHyphen && r != 'ﾞ' && r != 'ﾟ' && !unicode.IsMark(r) && (r < 0x1160 || r > 0x11ff) {
			break
		}
	}
	return at
}

func plainCharacter(c string) string {
	if r, n := utf8.DecodeRuneInString(c); n == len(c) && 0x3041 <= r && r <= 0xd7a3 && norm.NFKC.IsNormalString(c) {
		return c // nothing in East Asia has two cases
	}
	return plain(norm.NFKC.String(c))
}

// fold returns the searched form of a word. It may be empty.
func fold(w string) string {
	if ascii(w) {
		if len(w) > maxToken {
			w = w[:maxToken]
		}
		return strings.ToLower(w)
	}
	return cut(norm.NFC.String(plain(norm.NFKD.String(w))))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func cut(s string) string {
	if len(s) <= maxToken {
		return s
	}
	n := maxToken
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// plain folds case and removes optional marks: accents of Latin and Greek letters, the
// points of Arabic and Hebrew, and the two dots of Cyrillic ё.
func plain(s string) string {
	var b strings.Builder
	base := rune(0)
	for _, r := range s {
		switch {
		case unicode.IsMark(r):
			if !ornament(base, r) {
				b.WriteRune(r)
			}
			continue
		case r == 'ـ' || skin(r): // 'ـ' stretches an Arabic word
			continue
		case !unicode.IsLetter(r) && !unicode.IsNumber(r) && (r < utf8.RuneSelf || !unicode.IsSymbol(r)):
			continue
		}
		base = r
		writeFolded(&b, unicode.ToLower(r))
	}
	return b.String()
}

// writeFolded writes a lower-case letter, with letters that only some languages have
// replaced by the usual ones.
func writeFolded(b *strings.Builder, r rune) {
	switch r {
	case 'ß':
		b.WriteString("ss")
	case 'æ':
		b.WriteString("ae")
	case 'œ':
		b.WriteString("oe")
	case 'ø':
		b.WriteByte('o')
	case 'ł':
		b.WriteByte('l')
	case 'đ':
		b.WriteByte('d')
	case 'ı':
		b.WriteByte('i')
	case 'ς':
		b.WriteRune('σ')
	default:
		b.WriteRune(r)
	}
}

// ornament reports whether a mark after a base letter is optional.
func ornament(base, m rune) bool {
	switch {
	case 0xfe00 <= m && m <= 0xfe0f || m == 0x20e3:
		return true // a variation of how the character is drawn
	case unicode.In(base, unicode.Latin, unicode.Greek, unicode.Arabic, unicode.Hebrew):
		return true
	case unicode.Is(unicode.Cyrillic, base):
		return m == 0x308
	}
	return false
}
