package documents

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/extract"
	_ "steward/test/seed"
)

// TestCutKeepsEverything checks that every word is in exactly one passage, in order, and that passages are bounded
// and have the right lines.
func TestCutKeepsEverything(t *testing.T) {
	t.Parallel()
	line := rapid.OneOf(
		rapid.SampledFrom([]string{"", "", "# Heading", "## Below", "```", "~~~", "func a() {", "\tindented", "}", "  ", "#no heading"}),
		rapid.StringMatching(`[a-zäß漢.]{1,12}( [a-z.!]{1,9}){0,12}`),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(rapid.SampledFrom([]string{"word. ", "unbroken", "漢字"}).Draw(t, "unit"), rapid.IntRange(1, 900).Draw(t, "times"))
		}),
	)
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(line, 0, 40).Draw(t, "lines")
		name := rapid.SampledFrom([]string{"a.md", "a.go", "a.txt"}).Draw(t, "name")
		text := strings.Join(lines, "\n")
		parts, left := Cut(name, &extract.Document{Kind: extract.Text, Text: text})
		if left {
			t.Fatal("the end is left out")
		}
		plain := func(s string) string { return strings.Join(strings.Fields(s), "") }
		var all strings.Builder
		last := 0
		for _, p := range parts {
			all.WriteString(p.Text)
			switch {
			case len(p.Text) > mostPart || strings.TrimSpace(p.Text) == "" || !utf8.ValidString(p.Text):
				t.Fatalf("a passage of %d bytes: %.50q", len(p.Text), p.Text)
			case p.Line < last || p.Line > len(lines):
				t.Fatalf("line %d after line %d", p.Line, last)
			}
			first, _, _ := strings.Cut(p.Text, "\n")
			if !strings.Contains(plain(lines[p.Line-1]), plain(first)) {
				t.Fatalf("%.50q is not in line %d, %.50q", first, p.Line, lines[p.Line-1])
			}
			last = p.Line
		}
		if plain(all.String()) != plain(text) {
			t.Fatalf("cut into %.200q", all.String())
		}
	})
}

func TestCutByStructure(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Some words. ", 90)
	parts, _ := Cut("a.md", &extract.Document{Kind: extract.Text, Text: "# A\n## B\n" + long + "\n\n" + long + "\n# C\n```\n# no heading\n\nx\n```\n", Above: 3})
	want := []struct {
		line    int
		heading string
	}{{4, "A > B"}, {8, "A > B"}, {9, "C"}}
	if len(parts) != len(want) {
		t.Fatalf("%d passages", len(parts))
	}
	for i, w := range want {
		if parts[i].Line != w.line || parts[i].Heading != w.heading {
			t.Errorf("passage %d is at line %d below %q, want %+v", i, parts[i].Line, parts[i].Heading, w)
		}
	}
	code := strings.Repeat("\tcall()\n\n", 110)
	parts, _ = Cut("a.go", &extract.Document{Kind: extract.Text, Text: "package a\n\nfunc a() {\n" + code + "}\n\nfunc b() {\n" + code + "}\n"})
	if len(parts) != 2 || !strings.HasPrefix(parts[1].Text, "func b()") {
		t.Errorf("%d passages, the last begins %.20q", len(parts), parts[len(parts)-1].Text)
	}
	parts, left := Cut("a.txt", &extract.Document{Kind: extract.Text, Text: strings.Repeat(long+long+"\n\n", maxParts)})
	if len(parts) != maxParts || !left {
		t.Errorf("%d passages, %v", len(parts), left)
	}
}
