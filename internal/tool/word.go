package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"steward/internal/fault"
)

// Word converts a name from outside (of a server, of a method) to a word of a tool's name: CamelCase
// becomes snake_case, and other characters than letters and digits become '_'. A name with characters
// beyond printable ASCII is refused (Invalid, tool_name_invalid), because they can look like others,
// and people approve what they see.
func Word(name string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fault.New(fault.Invalid, "tool_name_invalid", "%.80q is not a tool name: %s", name, why).
			WithHint("use ASCII letters or digits")
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c < ' ' || c > '~':
			return bad("it contains invisible or look-alike characters")
		case c >= 'A' && c <= 'Z':
			if i > 0 && startsWord(name, i) {
				b.WriteByte('_')
			}
			b.WriteByte(c + 'a' - 'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			b.WriteByte(c)
		default:
			b.WriteByte('_')
		}
	}
	word := strings.Join(strings.FieldsFunc(b.String(), func(r rune) bool { return r == '_' }), "_")
	if word == "" {
		return bad("it has no usable character")
	}
	return word, nil
}

// startsWord reports whether a word begins at the capital i: readFile, HTTPServer.
func startsWord(s string, i int) bool {
	lower := func(c byte) bool { return c >= 'a' && c <= 'z' }
	before := s[i-1]
	if lower(before) || before >= '0' && before <= '9' {
		return true
	}
	return before >= 'A' && before <= 'Z' && i+1 < len(s) && lower(s[i+1])
}

// QualifiedName returns category.word as a tool's name. If that is longer than providers accept, name is a
// shortened form with a part of its hash, which is always the same, and full is the whole name.
func QualifiedName(category, word string) (name, full string) {
	name = category + "." + word
	if len(WireName(name)) <= maxWireName {
		return name, ""
	}
	const digits = 10
	sum := sha256.Sum256([]byte(name))
	keep := max(0, min(len(word), maxWireName-len(category)-len("__")-len("_")-digits))
	short := strings.TrimRight(strings.ReplaceAll(word[:keep], ".", "_"), "_")
	return category + "." + short + "_" + hex.EncodeToString(sum[:])[:digits], name
}

// Names returns the names by which people and policies may refer to a tool.
func (s Spec) Names() []string {
	if s.FullName == "" {
		return []string{s.Name}
	}
	return []string{s.Name, s.FullName}
}
