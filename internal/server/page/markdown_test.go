package page

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// hostile are answers that try to run something, to load something, or to look like something else.
func hostile() []string {
	return []string{
		`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `<svg onload=alert(1)>`, `<svg><script>alert(1)</script></svg>`, `<iframe src="javascript:alert(1)">`,
		"text <b onmouseover=alert(1)>x</b> more", `<a href="javascript:alert(1)">x</a>`, `[x](javascript:alert(1))`, `[x](JaVaScRiPt:alert(1))`, `[x](data:text/html,<script>alert(1)</script>)`,
		`[x](vbscript:x)`, `![x](javascript:alert(1))`, `![x](https://evil.example/track.png)`, `<https://evil.example/"onclick=alert(1)>`, "[x]: javascript:alert(1)\n\n[x]",
		"```html\n<script>alert(1)</script>\n```", "```\"><script>alert(1)</script>\nx\n```", "`<script>`", `<style>*{display:none}</style>`, `<form action="https://evil.example"><input name=a></form>`,
		`<div id="composer" data-do="answer" class="question">Allow?</div>`, `<meta http-equiv=refresh content="0;url=https://evil.example">`, `<base href="https://evil.example/">`, `<math><mtext></mtext><img src=x onerror=alert(1)></math>`,
		"\u202ereversed\u202c", "a\u2066b", "\U000e0041\U000e0042", strings.Repeat("*_", 20000), strings.Repeat("> ", 5000) + "x", strings.Repeat("[", 20000), strings.Repeat("a", 1<<20), "<" + strings.Repeat("div ", 30000) + ">",
		"| a | b |\n|---|---|\n| <script>alert(1)</script> | <img src=x onerror=alert(1)> |", "\x00\x01\x1b[31mred", "- [ ] task <script>alert(1)</script>", "<!-- <script>alert(1)</script> -->", "<![CDATA[<script>alert(1)</script>]]>", "<?php x ?>",
	}
}

// checkHarmless parses HTML as a browser does and looks for anything that could run, load or pretend.
func checkHarmless(t *testing.T, source string, blocks []string) {
	t.Helper()
	allowed := map[string]string{"p": "", "br": "", "hr": "", "h1": "", "h2": "", "h3": "", "h4": "", "h5": "", "h6": "", "strong": "", "em": "", "del": "", "blockquote": "", "ul": "", "li": "",
		"table": "", "thead": "", "tbody": "", "tr": "", "html": "", "head": "", "body": "", "ol": "start", "code": "class", "pre": "class", "th": "align", "td": "align", "a": "href rel target", "span": "class", "input": "type checked disabled"}
	doc, err := html.Parse(strings.NewReader(strings.Join(blocks, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type == html.CommentNode {
			t.Errorf("%.80q has a comment: %s", source, n.Data)
		}
		if n.Type == html.TextNode && strings.ContainsAny(n.Data, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x1b\x00") {
			t.Errorf("%.80q has invisible characters", source)
		}
		if n.Type != html.ElementNode {
			continue
		}
		attributes, ok := allowed[n.Data]
		if !ok {
			t.Errorf("%.80q has the element %s", source, n.Data)
		}
		for _, a := range n.Attr {
			if !strings.Contains(" "+attributes+" ", " "+a.Key+" ") {
				t.Errorf("%.80q: the element %s has %s=%q", source, n.Data, a.Key, a.Val)
			}
			if a.Key == "href" && !strings.HasPrefix(a.Val, "https://") && !strings.HasPrefix(a.Val, "http://") && !strings.HasPrefix(a.Val, "mailto:") {
				t.Errorf("%.80q links to %q", source, a.Val)
			}
		}
	}
}

func TestHostileMarkdownIsText(t *testing.T) {
	m := newMarkdown()
	for _, s := range hostile() {
		checkHarmless(t, s, m.blocks(s))
	}
}

// The sanitiser alone is enough: it is given the HTML itself, as if goldmark had let it through.
func TestTheSanitiserAloneIsEnough(t *testing.T) {
	m := newMarkdown()
	for _, s := range hostile() {
		checkHarmless(t, s, []string{m.policy.Sanitize(visible(strings.ToValidUTF8(s, "")))})
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range hostile() {
		if len(s) < 1000 {
			f.Add(s)
		}
	}
	m := newMarkdown()
	f.Fuzz(func(t *testing.T, s string) { checkHarmless(t, s, m.blocks(s)) })
}

func TestMarkdownIsShown(t *testing.T) {
	m := newMarkdown()
	for _, c := range [][2]string{
		{"**bold** and `code`", "<p><strong>bold</strong> and <code>code</code></p>"},
		{"```go\nx := 1\n```", `<pre><code class="language-go">x := 1`},
		{"| a |\n|:-:|\n| 1 |", "<td align=\"center\">1</td>"},
		{"3. x", `<ol start="3">`},
		{"- [x] done", `<input checked="" disabled="" type="checkbox"`},
		{"see https://example.com/a?b=1", `<a href="https://example.com/a?b=1" rel="nofollow noreferrer noopener" target="_blank">`},
		{"<b>x</b>", "&lt;b&gt;x&lt;/b&gt;"},
		{"![a cat](https://example.com/cat.png)", `>a cat</a> <span class="host">(example.com)</span>`},
		{"[my bank](https://bank.example@evil.example/x)", `>my bank</a> <span class="host">(evil.example)</span>`},
		{"[https://bank.example/](https://evil.example/)", `>https://bank.example/</a> <span class="host">(evil.example)</span>`},
		{"[bank.example.evil.example](https://bank.example)", `<span class="host">(bank.example)</span>`},
		{"[pay](https://b\u0430nk.example)", `(b\u0430nk.example)`},
		{"[bank.example/pay](https://www.bank.example/pay)", `>bank.example/pay</a></p>`},
		{"<https://bank.example/>", `>https://bank.example/</a></p>`},
	} {
		if got := strings.Join(m.blocks(c[0]), ""); !strings.Contains(got, c[1]) {
			t.Errorf("%s: %s", c[0], got)
		}
	}
	// While a text grows, the blocks before the last one stay as they are.
	text := "# Title\n\nOne.\n\n- a\n- b\n\nTwo."
	all := m.blocks(text)
	for i := range text {
		now := m.blocks(text[:i])
		for n := 0; n < len(now)-1; n++ {
			if now[n] != all[n] && n != 2 { // a list may still grow
				t.Errorf("after %q, block %d is %s and later %s", text[:i], n, now[n], all[n])
			}
		}
	}
}

// Arguments are shown exactly as they are judged, and do not become much more than they are.
func TestJSONIsShownExactly(t *testing.T) {
	for in, want := range map[string]string{
		`{"n":12345678901234567890,"x":"<b>"}`:                "{\n  \"n\": 12345678901234567890,\n  \"x\": \"<b>\"\n}",
		`{"a":"}\"]{[","b":[]}`:                               "{\n  \"a\": \"}\\\"]{[\",\n  \"b\": []\n}",
		`{"b":1.10,"a":"é\u202e","b":2}`:                      "{\n  \"b\": 1.10,\n  \"a\": \"é\\u202e\",\n  \"b\": 2\n}",
		"{\"a\":\"x\u202ey\u200b\"}":                          "{\n  \"a\": \"x\\u202ey\\u200b\"\n}", // the characters themselves
		`not JSON`:                                            `not JSON`,
		strings.Repeat("[", 9000) + strings.Repeat("]", 9000): strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
	} {
		if got := indented(in); got != want {
			t.Errorf("%.100s became %.200s", in, got)
		}
	}
}

// Texts that would become much more than they are, or take much longer than their size, are shown as they are.
func TestMarkdownIsBounded(t *testing.T) {
	m := newMarkdown()
	wide := "|" + strings.Repeat("a|", 7000) + "\n|" + strings.Repeat("-|", 7000) + "\n" + strings.Repeat("|b\n", 40000) // 280 million cells
	for name, s := range map[string]string{"a table": wide, "a table in a quote": "> " + strings.ReplaceAll(wide, "\n", "\n> "), "headings": strings.Repeat("# x\n", 5000)} {
		if out := m.blocks(s[:min(len(s), maxMarkdown)]); len(out) != 1 || !strings.HasPrefix(out[0], `<pre class="plain">`) || len(out[0]) > 5*maxMarkdown {
			t.Errorf("%s: %d blocks, which begin with %.80s", name, len(out), out[0])
		}
	}
	if out := strings.Join(m.blocks("|a|b|c|\n|-|-|-|\n"+strings.Repeat("|1|2|3|\n", 1000)), ""); strings.Count(out, "<tr>") != 1001 {
		t.Errorf("a long table has %d rows", strings.Count(out, "<tr>"))
	}
	for _, s := range []string{strings.Repeat("[a](", 60000), strings.Repeat("*a **b ", 35000), strings.Repeat("`", 250000), strings.Repeat("- ", 8000) + "x", strings.Repeat("|a", 8000) + "\n" + strings.Repeat("|-", 8000)} {
		checkHarmless(t, s[:40], m.blocks(s))
	}
}
