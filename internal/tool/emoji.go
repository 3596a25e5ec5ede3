package tool

import (
	"unicode"
	"unicode/utf8"
)

// symbols are the characters that emoji are made of, as far as they stand before or after a joiner.
var symbols = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2190, Hi: 0x21ff, Stride: 1}, {Lo: 0x2300, Hi: 0x23ff, Stride: 1}, {Lo: 0x2600, Hi: 0x27bf, Stride: 1}, {Lo: 0x2b00, Hi: 0x2bff, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1f000, Hi: 0x1f3fa, Stride: 1}, {Lo: 0x1f400, Hi: 0x1faff, Stride: 1}},
}

const (
	joiner    = '\u200d'
	emojiForm = '\ufe0f' // asks for the emoji form of the character before it
)

func isSkinTone(r rune) bool { return 0x1f3fb <= r && r <= 0x1f3ff }

// inEmoji reports whether the character at s[i:] is a part of an emoji that is seen as such: a joiner
// between two symbols, as in a family, or the selector of the emoji form behind a symbol. Anywhere else
// they are invisible.
func inEmoji(s string, i int) bool {
	r, n := utf8.DecodeRuneInString(s[i:])
	before, size := utf8.DecodeLastRuneInString(s[:i])
	switch r {
	case emojiForm:
		return unicode.Is(symbols, before)
	case joiner:
		if after, _ := utf8.DecodeRuneInString(s[i+n:]); !unicode.Is(symbols, after) {
			return false
		}
		if before == emojiForm || isSkinTone(before) {
			before, _ = utf8.DecodeLastRuneInString(s[:i-size])
		}
		return unicode.Is(symbols, before)
	}
	return false
}
