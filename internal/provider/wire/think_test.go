package wire_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/provider/wire"
)

func TestThoughts(t *testing.T) {
	for in, want := range map[string][2]string{
		"<think>hm</think>yes":                 {"hm", "yes"},
		"\n <think>\na < b\n</think>\n\nyes\n": {"\na < b\n", "yes\n"},
		"<think></think>yes":                   {"", "yes"},
		"<think>never ends </thin":             {"never ends </thin", ""},
		"<thinking about it":                   {"", "<thinking about it"},
		"yes <think>no</think>":                {"", "yes <think>no</think>"},
		"<think>a</think>b<think>c</think>":    {"a", "b<think>c</think>"},
		" <thi":                                {"", " <thi"},
		"":                                     {"", ""},
		"  ":                                   {"", "  "},
		"<think>ü</think> \n":                  {"ü", ""},
	} {
		rapid.Check(t, func(t *rapid.T) {
			var split wire.Thoughts
			var think, text strings.Builder
			for rest := in; rest != ""; {
				n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
				a, b := split.Split([]byte(rest[:n]))
				think.Write(a)
				text.Write(b)
				rest = rest[n:]
			}
			a, b := split.Rest()
			think.Write(a)
			text.Write(b)
			if think.String() != want[0] || text.String() != want[1] {
				t.Fatalf("%q was split into %q and %q", in, think.String(), text.String())
			}
		})
	}
}
