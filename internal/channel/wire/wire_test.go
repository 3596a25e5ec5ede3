package wire_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/channel/wire"
	_ "steward/test/seed"
)

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name, text string
		most       int
		want       []string
	}{
		{"nothing", " \n ", 100, nil},
		{"short", "Hello", 100, []string{"Hello"}},
		{"paragraphs", strings.Repeat("a", 50) + "\n\n" + strings.Repeat("b", 60) + "\n\n" + strings.Repeat("c", 30), 100,
			[]string{strings.Repeat("a", 50), strings.Repeat("b", 60) + "\n\n" + strings.Repeat("c", 30)}},
		{"lines", strings.Repeat("a", 30) + "\n" + strings.Repeat("b", 90), 100, []string{strings.Repeat("a", 30), strings.Repeat("b", 90)}},
		{"words", strings.TrimSpace(strings.Repeat("word ", 30)), 100, []string{strings.TrimSpace(strings.Repeat("word ", 20)), strings.TrimSpace(strings.Repeat("word ", 10))}},
		{"characters", strings.Repeat("é", 150), 100, []string{strings.Repeat("é", 100), strings.Repeat("é", 50)}},
		{"code", "```go\n" + strings.Repeat("x := 1\n", 20) + "```", 100,
			[]string{"```go\n" + strings.Repeat("x := 1\n", 12) + "```", "```go\n" + strings.Repeat("x := 1\n", 8) + "```"}},
	} {
		if got := wire.Cut(c.text, c.most, wire.Runes); !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", c.name, got, c.want)
		}
	}
}

// TestCutKeepsAll cuts texts at random: each part fits, is whole, and closes its code; nothing is lost.
func TestCutKeepsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"word", " ", "\n", "\n\n", "```\n", "```go\n", "~~~~\n", "👩‍👩‍👧", "é", "e\u0301", "`", "# ", "\x00", "\xff", strings.Repeat("x", 90), strings.Repeat("\u0301", 150)})
		text := strings.Join(rapid.SliceOfN(piece, 0, 80).Draw(t, "text"), "")
		most := rapid.IntRange(100, 300).Draw(t, "most")
		size := rapid.SampledFrom([]func(string) int{wire.Runes, wire.UTF16}).Draw(t, "size")
		var letters strings.Builder
		for _, part := range wire.Cut(text, most, size) {
			if n := size(part); n > most || n == 0 || !utf8.ValidString(part) {
				t.Fatalf("a part has %d units of at most %d: %q", n, most, part)
			}
			letters.WriteString(part)
		}
		only := func(s string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune("wordx👩👧é", r) {
					return r
				}
				return -1
			}, s)
		}
		got := strings.ReplaceAll(only(strings.ReplaceAll(letters.String(), "```go", "")), " ", "")
		if want := only(strings.ReplaceAll(wire.Clean(text), "```go", "")); got != want {
			t.Fatalf("got  %q\nwant %q", got, want)
		}
	})
}
