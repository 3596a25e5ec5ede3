package terminal

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "steward/test/seed"
)

// spans writes what the highlighter makes of a line: k{keyword}, t{text}, c{comment}.
func (h *highlighter) spans(s string) string {
	var b strings.Builder
	for s != "" {
		n, style := h.next(s)
		mark := ""
		switch style.GetForeground() {
		case h.word.GetForeground():
			mark = "k"
		case h.text.GetForeground():
			mark = "t"
		case h.comment.GetForeground():
			mark = "c"
		}
		if mark != "" {
			b.WriteString(mark + "{" + s[:n] + "}")
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func TestHighlight(t *testing.T) {
	r := newRenderer(true, true)
	for name, lines := range map[string][]string{
		"go":     {`if x := "a\"b"; returned { // why`, `k{if} x := t{"a\"b"}; returned { c{// why}`, "a /* b", "a c{/* b}", "c */ return 1/2", "c{c */} k{return} 1/2"},
		"python": {`def f(x): return 'it''s' # note`, `k{def} f(x): k{return} t{'it'}t{'s'} c{# note}`},
		"bash":   {`for f in *.go; do echo "$f"; done`, `k{for} f k{in} *.go; k{do} k{echo} t{"$f"}; k{done}`},
		"sql":    {"SELECT a FROM b -- c", "k{SELECT} a k{FROM} b c{-- c}"},
		"json":   {`{"a": true}`, `{t{"a"}: k{true}}`},
		"yaml":   {"a: 'open", "a: t{'open}"},
	} {
		h := r.highlighter(name)
		for i := 0; i < len(lines); i += 2 {
			if got := h.spans(lines[i]); got != lines[i+1] {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	if r.highlighter("brainfuck") != nil || newRenderer(true, false).highlighter("go") != nil {
		t.Error("an unknown language, or no colours")
	}
	if out := strings.Join(r.render("```go\nfunc main() {}\n```", 40), "\n"); !strings.Contains(out, "\x1b[") || stripped(out) != "  func main() {}" {
		t.Errorf("%q", out)
	}
}

// Colours change no text.
func TestHighlightKeepsTheText(t *testing.T) {
	r := newRenderer(true, true)
	rapid.Check(t, func(t *rapid.T) {
		h := r.highlighter(rapid.SampledFrom([]string{"go", "py", "ts", "sh", "c", "java", "rust", "sql", "json", "yaml"}).Draw(t, "language"))
		for _, line := range rapid.SliceOfN(rapid.StringMatching(`([a-z]{1,6}|[ "'#/*\\<-]|ä|func|//|/\*){0,30}`), 1, 4).Draw(t, "lines") {
			if got := stripped(h.line(line)); got != line {
				t.Fatalf("%q has become %q", line, got)
			}
		}
	})
	h := r.highlighter("go")
	if long := strings.Repeat("func ", maxColoured); h.line(long) != long {
		t.Error("a long line is coloured")
	}
}
