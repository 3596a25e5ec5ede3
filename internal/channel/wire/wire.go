// Package wire cleans what people and services write, and derives the short keys that services want.
package wire

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"unicode"
)

// Clean returns what somebody wrote as valid UTF-8 without control characters other than tabs and line
// feeds.
func Clean(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

// Line returns a text of a service, such as a name or the reason of an error, as one short line.
func Line(text string) string {
	const most = 200
	text = strings.Join(strings.Fields(Clean(text)), " ")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// Key returns 22 letters and digits that derive from a text, where a service wants a short key.
func Key(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.NewReplacer("-", "a", "_", "b").Replace(base64.RawURLEncoding.EncodeToString(sum[:16]))
}
