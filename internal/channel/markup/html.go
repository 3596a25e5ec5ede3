package markup

import (
	"html"
	"strings"

	xhtml "golang.org/x/net/html"
)

// HTML converts Markdown to HTML of few elements, without white space that would matter, in parts of some
// most characters. Pictures become links: programs would load them as soon as they show the message, which
// would tell their address what was read.
func HTML(markdown string, most int) []string {
	parts := Dialect{Limit: most, Run: htmlRun, Code: htmlCode, Quote: htmlQuote}.Render(markdown)
	for i, part := range parts {
		parts[i] = breakLines(part)
	}
	return parts
}

func htmlRun(r Run, _, _ rune) string {
	text := html.EscapeString(r.Text)
	for _, style := range []struct {
		style Style
		tag   string
	}{{Code, "code"}, {Struck, "del"}, {Italic, "em"}, {Bold, "strong"}} {
		if r.Style&style.style != 0 {
			text = "<" + style.tag + ">" + text + "</" + style.tag + ">"
		}
	}
	if r.Link != "" {
		text = `<a href="` + html.EscapeString(r.Link) + `">` + text + "</a>"
	}
	return text
}

func htmlCode(lang, text string) string {
	class := ""
	if lang != "" && !strings.ContainsFunc(lang, func(r rune) bool { return r < '0' || r > 'z' }) {
		class = ` class="language-` + html.EscapeString(lang) + `"`
	}
	return "<pre><code" + class + ">" + html.EscapeString(text) + "</code></pre>"
}

func htmlQuote(inner string) string { return "<blockquote>" + inner + "</blockquote>" }

// breakLines makes elements of the ends of lines and of the spaces at their beginnings, outside of code.
func breakLines(part string) string {
	var out strings.Builder
	for part != "" {
		text, block, _ := strings.Cut(part, "<pre>")
		var pre string
		if block != "" {
			pre, part, _ = strings.Cut(block, "</pre>")
			text, part = strings.TrimRight(text, "\n"), strings.TrimLeft(part, "\n")
		} else {
			part = ""
		}
		text = strings.NewReplacer("\n\n<blockquote>", "<blockquote>", "\n<blockquote>", "<blockquote>", "</blockquote>\n\n", "</blockquote>", "</blockquote>\n", "</blockquote>").Replace(text)
		for i, line := range strings.Split(text, "\n") {
			if i > 0 {
				out.WriteString("<br>")
			}
			bare := strings.TrimLeft(line, " ")
			out.WriteString(strings.Repeat("&nbsp;", len(line)-len(bare)) + bare)
		}
		if block != "" {
			out.WriteString("<pre>" + pre + "</pre>")
		}
	}
	return out.String()
}

// Plain returns what a part of HTML shows, for programs that show no HTML and for notifications. styled says that
// the HTML shows more than that.
func Plain(part string) (text string, styled bool) {
	var out strings.Builder
	var link string
	for z := xhtml.NewTokenizer(strings.NewReader(part)); ; {
		switch kind := z.Next(); kind {
		case xhtml.ErrorToken:
			return strings.TrimSpace(strings.ReplaceAll(out.String(), "\u00a0", " ")), styled
		case xhtml.TextToken:
			out.Write(z.Text())
		case xhtml.StartTagToken, xhtml.EndTagToken, xhtml.SelfClosingTagToken:
			token := z.Token()
			switch token.Data {
			case "br":
				out.WriteString("\n")
				continue
			case "pre", "blockquote":
				if out.Len() > 0 && !strings.HasSuffix(out.String(), "\n") {
					out.WriteString("\n")
				}
			case "a":
				if kind == xhtml.EndTagToken && link != "" && !strings.HasSuffix(out.String(), link) {
					out.WriteString(" (" + link + ")")
				}
				if link = ""; kind == xhtml.StartTagToken && len(token.Attr) == 1 {
					link = token.Attr[0].Val
				}
			}
			styled = true
		}
	}
}
