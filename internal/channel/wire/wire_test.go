package wire_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/channel/wire"
	_ "steward/test/seed"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		" two\r\n\tlines ":       "two lines",
		"a\x00b\x1b[31m\xff":     "ab[31m\uFFFD",
		strings.Repeat("ä", 300): strings.Repeat("ä", 200) + "…",
	} {
		if got := wire.Line(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestKey: keys are short, of letters and digits, and differ as their texts do.
func TestKey(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9]{22}$`)
	rapid.Check(t, func(t *rapid.T) {
		one, two := rapid.String().Draw(t, "one"), rapid.String().Draw(t, "two")
		if a, b := wire.Key(one), wire.Key(two); !form.MatchString(a) || (a == b) != (one == two) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func TestClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got := wire.Clean(string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")))
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) || wire.Clean(got) != got {
			t.Fatalf("%q", got)
		}
	})
}
