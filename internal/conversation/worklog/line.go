package worklog

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// line makes one line of a text, cut after n characters, without anything
// that does something to a terminal.
func line(s string, n int) string {
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
		if runes++; runes > n {
			return strings.TrimSpace(s[:i]) + "…"
		}
	}
	return s
}

// inline writes any value on one line.
func inline(v any, n int) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return line(v, n)
	case []any:
		var parts []string
		for _, sub := range v {
			parts = append(parts, inline(sub, n))
		}
		return line(strings.Join(parts, ", "), n)
	case map[string]any:
		b, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return line(string(b), n)
	}
	return line(fmt.Sprint(v), n)
}
