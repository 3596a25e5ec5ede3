package catalog

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// visible writes out what a person would not see, or would see otherwise than
// a model does: control, bidirectional, zero-width and tag characters,
// variation selectors and bytes that are no UTF-8, as ‹U+202E›. Different
// texts stay different.
func visible(s string) string {
	if !hides(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "‹0x%02X›", s[i])
		case hidden(r) || r == '‹' && marks(s[i+n:]):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// marks reports whether what follows a "‹" reads as a mark of ours.
func marks(rest string) bool {
	return strings.HasPrefix(rest, "U+") || strings.HasPrefix(rest, "0x")
}

func hides(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	for i, r := range s {
		if hidden(r) || r == '‹' && marks(s[i+len("‹"):]) {
			return true
		}
	}
	return false
}

// hidden reports whether a character is not seen as what it is.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r < 0x20 || r >= 0x7f && r < 0xa0: // control characters
		return true
	case r < 0xa0:
		return false
	case r == 0x00ad, r == 0x034f, r == 0x061c, r == 0x115f, r == 0x1160, r == 0x17b4, r == 0x17b5, r == 0x3164, r == 0xffa0:
		return true // soft hyphen, joiners and fillers that show nothing
	case r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0000 && r <= 0xe0fff, r >= 0x180b && r <= 0x180f:
		return true // variation selectors and tags
	case r == 0x2028 || r == 0x2029:
		return true // lines that are none to a terminal
	}
	return unicode.In(r, unicode.Cf, unicode.Cc, unicode.Co, unicode.Cs)
}
