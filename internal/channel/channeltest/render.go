package channeltest

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// squeezed is a text without white space: what is compared where the layout is the adapter's own affair.
func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }

// shown renders Markdown and returns what people see of all parts together.
func (w *world) shown(t rapid.TB, markdown string) (all string, code string) {
	t.Helper()
	for i, part := range w.ch.Render(markdown) {
		if !utf8.ValidString(part) {
			t.Fatalf("part %d of %q is cut inside a character: %q", i, markdown, part)
		}
		s, err := w.Shown(part)
		if err != nil {
			t.Fatalf("the service refuses part %d of %q: %v\n%q", i, markdown, err, part)
		}
		if strings.TrimSpace(s.Text) == "" {
			t.Fatalf("part %d of %q is empty: %q", i, markdown, part)
		}
		all += s.Text + "\n"
		for _, c := range s.Code {
			code += strings.TrimRight(c, "\n") + "\n"
		}
	}
	return all, code
}

// testRenderPlain: of plain text nothing is lost and nothing is added.
func testRenderPlain(t *testing.T, w *world) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc xyz,.äöüß漢字🙂𝒳é")), 1, 60, -1)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 10, 200}).Draw(t, "paragraphs")
		var paragraphs []string
		for range n {
			// A letter first: what begins with a digit and a full stop is a list.
			paragraphs = append(paragraphs, "p"+word.Draw(t, "words"))
		}
		text := strings.Join(paragraphs, "\n\n")
		if got, _ := w.shown(t, text); squeezed(got) != squeezed(text) {
			t.Fatalf("people see\n%q\nof\n%q", got, text)
		}
	})
	if parts := w.ch.Render(""); len(parts) != 0 {
		t.Errorf("nothing is rendered as %q", parts)
	}
	for _, text := range []string{"a & b <c> \"d\" 'e'", "5 > 3 and 2 < 4", "snake_case_name", "<b>no HTML</b>", "a\\*b", "&amp; &lt;", "@everyone <!channel> <@U123>"} {
		got, _ := w.shown(t, text)
		want := strings.NewReplacer("\\*", "*", "&amp; &lt;", "& <").Replace(text)
		if squeezed(got) != squeezed(want) {
			t.Errorf("people see %q of %q", got, text)
		}
	}
}

// testRenderAnything: whatever a model writes, the service accepts each part.
func testRenderAnything(t *testing.T, w *world) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"**", "*", "_", "__", "~~", "`", "```\n", "```go\n", "\n\n", "\n", "# ", "## ", "- ", "1. ", "> ", "| a | b |\n|---|---|\n", "| c | d |\n",
			"[", "](", ")", "![", "<", ">", "&", "&amp;", "<b>", "</b>", "<!-- ", "http://example.com/a_b?c=d&e", "\\", "---\n", "    ", "\t", "[x](javascript:alert(1))",
			"[link](https://example.com/?q=\"&x)", "- [ ] ", "$$", "||", "@everyone", "\x00", "\u202e", "\xff", "👩‍👩‍👧", strings.Repeat("x", 700), strings.Repeat("🙂", 300), strings.Repeat("> ", 50), strings.Repeat("**a", 40), strings.Repeat("- ", 40)}),
		rapid.String(),
	)
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 60).Draw(t, "pieces") {
			b.WriteString(piece.Draw(t, "piece"))
		}
		w.shown(t, b.String())
	})
}

// testRenderCode: a code block that does not fit is closed at the end of a part and opened again, and no
// character of it is changed.
func testRenderCode(t *testing.T, w *world) {
	var code strings.Builder
	for i := 0; code.Len() < 3*w.ch.Limits().Text; i++ {
		fmt.Fprintf(&code, "\tif a[%d] < b && c > d { *p = `x` } // _%d_ äöü\n", i, i)
	}
	all, blocks := w.shown(t, "Here it is:\n\n```go\n"+code.String()+"```\n\nThat was it.")
	if strings.TrimRight(blocks, "\n") != strings.TrimRight(code.String(), "\n") {
		t.Errorf("the code is changed:\n%s", blocks)
	}
	if !strings.Contains(all, "Here it is:") || !strings.Contains(all, "That was it.") {
		t.Error("the text around the code is lost")
	}
	if len(w.ch.Render("```go\n"+code.String()+"```")) < 2 {
		t.Error("three times as much as fits is one part")
	}
	one := w.ch.Render("```\n" + strings.Repeat("🙂", 2*w.ch.Limits().Text) + "\n```")
	if len(one) < 2 {
		t.Error("a line that does not fit is not cut")
	}
	_, blocks = w.shown(t, "```\n"+strings.Repeat("🙂", 2*w.ch.Limits().Text)+"\n```")
	if n := strings.Count(blocks, "🙂"); n != 2*w.ch.Limits().Text {
		t.Errorf("%d of %d characters of a long line are left", n, 2*w.ch.Limits().Text)
	}
}

// testRenderLong: a long answer is cut between paragraphs, and into not many more parts than necessary.
func testRenderLong(t *testing.T, w *world) {
	limit := w.ch.Limits().Text
	paragraph := strings.TrimSpace(strings.Repeat("word ", limit/20)) + "." // a quarter of a message
	text := strings.Repeat(paragraph+"\n\n", 12)
	parts := w.ch.Render(text)
	if len(parts) < 3 || len(parts) > 6 {
		t.Errorf("12 paragraphs of a quarter of a message are %d parts", len(parts))
	}
	for i, part := range parts {
		s, err := w.Shown(part)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(strings.TrimSpace(s.Text), ".") {
			t.Errorf("part %d is not cut at a paragraph", i)
		}
	}
	long := strings.Repeat("word ", limit) // one paragraph
	all, _ := w.shown(t, long)
	if n := strings.Count(all, "word"); n != limit {
		t.Errorf("%d of %d words are left, or words are cut", n, limit)
	}
}
