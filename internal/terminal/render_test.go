package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"pgregory.net/rapid"
)

func TestRenderedMarkdown(t *testing.T) {
	var p painter
	p.set(60, true, false)
	for in, want := range map[string]string{
		"# Head\n\nThe **end** of *it*, ~~gone~~.":        "# Head\n\nThe end of it, gone.",
		"- one\n- two\n  - deeper\n\n1. first\n2. second": "• one\n• two\n  • deeper\n\n1. first\n2. second",
		"- [x] done\n- [ ] open":                          "• [x] done\n• [ ] open",
		"> said\n> so":                                    "│ said\n│ so",
		"`a && b` and AT&amp;T, 2 \\* 3":                  "`a && b` and AT&T, 2 * 3",
		"```go\nif a {\n\tb()\n}\n```":                    "  if a {\n      b()\n  }",
		"[the page](https://example.org) ![pic](p.png)":   "the page (https://example.org) image: pic (p.png)",
		"<https://example.org> <b>bold</b>":               "https://example.org <b>bold</b>",
		"one  \ntwo\nthree":                               "one\ntwo\nthree",
		"| a | bee |\n|---|---|\n| 1 | 2 |":               "┌───┬─────┐\n│ a │ bee │\n├───┼─────┤\n│ 1 │ 2   │\n└───┴─────┘",
		"a\n\n---\n\nb":                                   "a\n\n────────────────────────────────────────\n\nb",
		"":                                                "",
	} {
		if got := p.markdown(in); got != want {
			t.Errorf("%q:\ngot\n%s\nwant\n%s", in, got, want)
		}
	}
}

// An entity can stand for a control character.
func TestAnEntityIsNoControlSequence(t *testing.T) {
	var p painter
	p.set(60, true, false)
	for _, in := range []string{"a&#27;[2Jb", "a&#x9b;2Jb", "`&#27;`", "[x](y&#27;)", "![&#27;]0;t](x)", "| &#27; |\n|---|\n"} {
		if got := p.markdown(in); strings.ContainsAny(got, "\x1b\u009b") {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func TestAnyMarkdownFits(t *testing.T) {
	words := []string{"text ", "\n", "\n\n", "- ", "1. ", "```\n", "> ", "    ", "averyveryverylongwordindeed", "| a | b |\n|---|---|\n| c | d |\n", "**", "`", "# ", "日本語", "&#27;", "<b>", "[a](b)"}
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 20).Draw(t, "text"), "")
		var p painter
		p.set(rapid.IntRange(20, 90).Draw(t, "width"), rapid.Bool().Draw(t, "dark"), rapid.Bool().Draw(t, "colour"))
		for line := range strings.SplitSeq(p.markdown(in), "\n") {
			if lipgloss.Width(line) >= p.width {
				t.Fatalf("a line of %d cells on a screen of %d: %q", lipgloss.Width(line), p.width, line)
			}
		}
	})
}

// TestAScreenPutsTogetherWhatWritesCut: characters and line ends that are split over
// two writes come out whole, and pieces never join to something unsafe.
func TestAScreenPutsTogetherWhatWritesCut(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "tty"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := NewScreen(f)
	for _, piece := range []string{"a\r", "\nb\r", "c\xe2\x80", "\xae", "d\xf0\x9f", "\x91\x8d", "\xc2", "\x9b", "\tok\xff\n\U000e0041", "👨‍👩‍👧\xe2"} {
		if n, err := s.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if want := "a\nb␍c<U+202E>d👍<U+009B>\tok<FF>\n<U+E0041>👨‍👩‍👧<E2>"; string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The end of a line in an answer is the end of a line on the screen, as in other chats.
func TestLinesOfAnAnswerStay(t *testing.T) {
	for source, want := range map[string]string{
		"notes/a.txt\nnotes/b.txt\n**bold\nmore** end": "notes/a.txt\nnotes/b.txt\nbold\nmore end",
		"- one\n  two\n- three":                        "• one\n  two\n• three",
		"> a\n> b":                                     "│ a\n│ b",
		"```\na\n\nb\n```":                             "  a\n\n  b",
		"hard  \nbreak":                                "hard\nbreak",
	} {
		var lines []string
		for _, l := range newRenderer(true, true).render(source, 60) {
			lines = append(lines, strings.TrimRight(stripped(l), " "))
			if l := stripped(l); l != strings.TrimRight(l, " ") && l != "  " {
				t.Errorf("%q: %q is padded", source, l)
			}
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%q: got %q, want %q", source, got, want)
		}
	}
}
