package catalog

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/tool"
)

// visible replaces characters that a person would not see, or would see differently than a model,
// by marks such as ‹U+202E›: control, bidirectional, zero-width and tag characters, variation
// selectors, and bytes that are not UTF-8. Different texts stay different.
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
		case hidden(r) || r == '‹' && looksLikeMark(s[i+n:]):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// looksLikeMark reports whether a "‹" before rest would look like a mark that visible writes.
func looksLikeMark(rest string) bool {
	return strings.HasPrefix(rest, "U+") || strings.HasPrefix(rest, "0x")
}

func hides(s string) bool {
	if !utf8.ValidString(s) {
		return true
	}
	for i, r := range s {
		if hidden(r) || r == '‹' && looksLikeMark(s[i+len("‹"):]) {
			return true
		}
	}
	return false
}

// hidden reports whether a character is invisible or changes how others are displayed. Line feeds,
// tabs and blanks are not hidden.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.Is(unicode.Zs, r) && tool.Invisible(r)
}
