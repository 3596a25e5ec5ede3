package grpc

import (
	"strings"

	"steward/internal/tool"
)

// word returns a name as a word of a tool's name. It is empty for a name beyond ASCII, which
// descriptors and the catalog do not have.
func word(name string) string {
	w, err := tool.Word(name)
	if err != nil {
		return ""
	}
	return w
}

// clip shortens a text from outside, at a rune boundary, and makes it valid UTF-8.
func clip(s string, n int) string {
	return tool.Clip(strings.ToValidUTF8(s, "\uFFFD"), n)
}

// serviceOf returns the service of a full method name.
func serviceOf(call string) string { return call[:strings.LastIndexByte(call, '.')] }
