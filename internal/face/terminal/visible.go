package terminal

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// safe makes text harmless for a terminal: control characters other than line
// feed and tab, which could move the cursor, set the clipboard or hide text,
// are replaced by pictures of themselves.
func safe(s string) string {
	return visible(s, func(r rune) bool {
		return r != '\n' && r != '\t' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029')
	})
}

// bare makes text show everything that it holds, for what a person decides
// about: also what changes the direction of writing, joins or is not seen.
func bare(s string) string {
	return visible(s, func(r rune) bool {
		switch {
		case r == '\n':
			return false
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r), unicode.Is(unicode.Co, r),
			r == '\u2028', r == '\u2029', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0':
			return true
		case unicode.Is(unicode.Zs, r):
			return r != ' '
		}
		return 0xfe00 <= r && r <= 0xfe0f || 0xe0100 <= r && r <= 0xe01ef // variation selectors
	})
}

func visible(s string, hidden func(rune) bool) string {
	clean := true
	for i, r := range s {
		if hidden(r) || r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
		case !hidden(r):
			b.WriteString(s[i : i+n])
		case r < 0x20:
			b.WriteRune('\u2400' + r)
		case r == 0x7f:
			b.WriteRune('\u2421')
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
		i += n
	}
	return b.String()
}

// oneLine joins the words of a text and cuts it after so many cells.
func oneLine(s string, cells int) string {
	return cut(strings.Join(strings.Fields(safe(s)), " "), cells)
}
