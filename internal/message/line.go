package message

import (
	"strings"
	"unicode"
)

// OneLine returns a text on one line. A text of more than most characters is cut
// and ends in "…". OneLine removes what could disturb a terminal: control
// characters and those that change the direction of writing.
func OneLine(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case r == unicode.ReplacementChar, 0x200e <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069, r == 0xfeff:
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	runes := 0
	for i := range s {
		if runes++; runes > most {
			return strings.TrimSpace(s[:i]) + "…"
		}
	}
	return s
}
