package markup_test

import (
	"slices"
	"strings"
	"testing"

	"steward/internal/channel/markup"
)

// plain is a dialect that shows how blocks and runs are divided.
func plain(limit int) markup.Dialect {
	return markup.Dialect{
		Limit: limit,
		Run: func(r markup.Run, before, after rune) string {
			s := r.Text
			for _, m := range []struct {
				style markup.Style
				mark  string
			}{{markup.Code, "`"}, {markup.Struck, "~"}, {markup.Italic, "/"}, {markup.Bold, "*"}} {
				if r.Style&m.style != 0 {
					s = m.mark + s + m.mark
				}
			}
			if r.Link != "" {
				s = "[" + s + "→" + r.Link + "]"
			}
			return s
		},
		Code:  func(lang, code string) string { return "{" + lang + "\n" + code + "\n}" },
		Quote: func(inner string) string { return "»" + inner + "«" },
	}
}

func TestRender(t *testing.T) {
	for _, c := range []struct{ markdown, want string }{
		{"# Title\n\ntext *a* **b** ***c*** ~~d~~ `e` f", "*Title*\n\ntext /a/ *b* */c/* ~d~ `e` f"},
		{"one\ntwo  \nthree", "one\ntwo\nthree"},
		{"- a\n- b\n  - c\n  - d\n\n  e\n- f", "• a\n\n• b\n   • c\n   • d\n\n   e\n\n• f"},
		{"- a\n- b\n  1. c\n  2. d\n- e", "• a\n• b\n   1. c\n   2. d\n• e"},
		{"3. three\n4. four\n   more", "3. three\n4. four\n   more"},
		{"- [x] done\n- [ ] open", "• ☑ done\n• ☐ open"},
		{"> said\n> he\n\nyes", "»said\nhe«\n\nyes"},
		{"```go\nx := 1\n\n\ty\n```", "{go\nx := 1\n\n\ty\n}"},
		{"    indented", "{\nindented\n}"},
		{"| a | b |\n|---|--:|\n| long cell | **1** |", "{\na          b\n---------  -\nlong cell  1\n}"},
		{"[x](https://example.com) <https://example.org> [https://a.b](https://a.b)", "[x→https://example.com] https://example.org https://a.b"},
		{"[x](javascript:alert(1)) [y](/path) ![cat](https://example.com/cat.png)", "x (javascript:alert(1)) y (/path) [cat→https://example.com/cat.png]"},
		{"a <b>c</b>\n\n<div>\nd\n</div>", "a <b>c</b>\n\n<div>\nd\n</div>"},
		{"a\n\n---\n\nb", "a\n\n———\n\nb"},
		{"1 \\* 2 &amp; &lt;3&gt; &#27;", "1 * 2 & <3> "},
		{"\x00\x1b[31mred\x07", "[31mred"},
	} {
		if got := strings.Join(plain(1000).Render(c.markdown), "|||"); got != c.want {
			t.Errorf("%q is rendered as\n%q, want\n%q", c.markdown, got, c.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		limit    int
		markdown string
		want     []string
	}{
		{24, "one two three\n\nfour five six\n\nseven", []string{"one two three", "four five six\n\nseven"}},
		{14, "one two three four", []string{"one two", "three four"}},
		{14, "one two\nthree four", []string{"one two", "three four"}},
		{12, "abcdefghijklmnopqrstuvwxyz", []string{"abcdefghij", "klmnopqrst", "uvwxyz"}},
		{14, "**bold and more bold**", []string{"*bold and*", "*more bold*"}},
		{20, "```\na = 1\nb = 2\nc = 3\nd = 4\n```", []string{"{\na = 1\nb = 2\n}", "{\nc = 3\nd = 4\n}"}},
		{30, "some words here\n\n# Title\n\nthe text of it", []string{"some words here", "*Title*\n\nthe text of it"}},
		{12, "👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", []string{"👩‍👩‍👧👩‍👩‍👧", "👩‍👩‍👧"}},
		{10, "e\u0301e\u0301e\u0301e\u0301e\u0301", []string{"e\u0301e\u0301e\u0301e\u0301", "e\u0301"}},
		{20, "", nil},
		{20, " \n\n\u200b\n\n", nil},
	} {
		if got := plain(c.limit).Render(c.markdown); !slices.Equal(got, c.want) {
			t.Errorf("%q is cut into\n%q, want\n%q", c.markdown, got, c.want)
		}
	}
}

// TestDeep: nesting without end is neither an endless recursion nor quadratic.
func TestDeep(t *testing.T) {
	for _, s := range []string{"> ", "- ", "**a ", "[", "*", "_a", "![", "`", "<b>", "1. ", "| a ", "~~a "} {
		plain(4000).Render(strings.Repeat(s, 5000))
	}
}
