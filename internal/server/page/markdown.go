package page

import (
	"bytes"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	gmhtml "github.com/yuin/goldmark/renderer/html"
	gmtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Bounds of what is read as Markdown. The rest is shown as it is. Some texts take time by the square of their size
// (many brackets, many definitions of links), and a table has a cell for each of its rows and columns, however short
// the rows are.
const (
	maxMarkdown = 128 << 10
	maxLine     = 16 << 10
	maxDepth    = 40     // of quotes and lists in each other
	maxCells    = 20_000 // of all tables
	maxBlocks   = 4000
)

// markdown turns Markdown into HTML that can be shown. Safe for concurrent use.
type markdown struct {
	md     goldmark.Markdown
	policy *bluemonday.Policy
}

func newMarkdown() *markdown {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li",
		"table", "thead", "tbody", "tr", "th", "td")
	p.AllowAttrs("start").Matching(bluemonday.Integer).OnElements("ol")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^language-[A-Za-z0-9+#_.-]{1,40}$`)).OnElements("code")
	p.AllowAttrs("align").Matching(bluemonday.CellAlign).OnElements("th", "td")
	p.AllowAttrs("type").Matching(regexp.MustCompile(`^checkbox$`)).OnElements("input")
	p.AllowAttrs("checked", "disabled").OnElements("input")
	p.AllowAttrs("href").OnElements("a")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^host$`)).OnElements("span")
	p.AllowURLSchemes("http", "https", "mailto")
	p.RequireParseableURLs(true)
	p.AllowRelativeURLs(false)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	md := goldmark.New(goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)), extension.Strikethrough, extension.TaskList, extension.Linkify),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(plain{}, 100))))
	return &markdown{md, p}
}

// blocks returns the HTML of each block of a text at the top level: a paragraph, a list, a table. While a text
// grows, only the last of them change.
func (m *markdown) blocks(s string) []string {
	s = visible(strings.ToValidUTF8(s, "\ufffd"))
	rest := ""
	if len(s) > maxMarkdown {
		cut := strings.LastIndexByte(s[:maxMarkdown], '\n') + 1
		s, rest = s[:cut], s[cut:]
	}
	if hasLongLine(s) || cells(s) > maxCells {
		s, rest = "", s+rest
	}
	src := []byte(s)
	root := m.md.Parser().Parse(gmtext.NewReader(src))
	if depth(root) > maxDepth {
		return []string{`<pre class="plain">` + html.EscapeString(s+rest) + `</pre>`}
	}
	var out []string
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if len(out) == maxBlocks {
			return []string{`<pre class="plain">` + html.EscapeString(s+rest) + `</pre>`}
		}
		var b bytes.Buffer
		if err := m.md.Renderer().Render(&b, src, n); err != nil {
			b.Reset()
			b.WriteString("<p>" + html.EscapeString(s) + "</p>")
		}
		out = append(out, m.policy.SanitizeReader(&b).String())
	}
	if rest != "" {
		out = append(out, `<pre class="plain">`+html.EscapeString(rest)+`</pre>`)
	}
	return out
}

// depth returns how deep the blocks of a document are in each other.
func depth(root ast.Node) (most int) {
	now := 0
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			now++
			most = max(most, now)
		} else {
			now--
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		panic(err) // the function above returns none
	}
	return most
}

// cells returns about how many cells the tables of a text have: the columns of each line that can stand below the
// head of a table, times the lines that follow it.
func cells(s string) (n int) {
	columns := 0
	for line := range strings.Lines(s) {
		line = strings.TrimLeft(strings.TrimSpace(line), "> \t")
		n += columns
		switch {
		case line == "":
			columns = 0
		case strings.Contains(line, "-") && strings.Trim(line, "|:- \t>*+.0123456789") == "":
			columns = max(columns, strings.Count(line, "|")+1)
		}
	}
	return n
}

func hasLongLine(s string) bool {
	for line := range strings.Lines(s) {
		if len(line) > maxLine {
			return true
		}
	}
	return false
}

// plain shows HTML in Markdown as text, and images as links: a picture of another host would tell that host who
// reads it.
type plain struct{}

func (plain) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			for i := range n.(*ast.RawHTML).Segments.Len() {
				seg := n.(*ast.RawHTML).Segments.At(i)
				w.WriteString(html.EscapeString(string(seg.Value(src)))) //nolint:errcheck // a buffer
			}
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		b := n.(*ast.HTMLBlock)
		var raw []byte
		for i := range b.Lines().Len() {
			seg := b.Lines().At(i)
			raw = append(raw, seg.Value(src)...)
		}
		if b.HasClosure() {
			raw = append(raw, b.ClosureLine.Value(src)...)
		}
		w.WriteString("<p>" + html.EscapeString(string(raw)) + "</p>") //nolint:errcheck // a buffer
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindImage, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		to := n.(*ast.Image).Destination
		label := textIn(n, src)
		if label == "" {
			label = string(to)
		}
		if gmhtml.IsDangerousURL(to) {
			w.WriteString(html.EscapeString(label)) //nolint:errcheck // a buffer
			return ast.WalkSkipChildren, nil
		}
		w.WriteString(`<a href="` + html.EscapeString(string(to)) + `">` + html.EscapeString(label) + `</a>` + hostOf(to, label)) //nolint:errcheck // a buffer
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindLink, func(w util.BufWriter, src []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		to := n.(*ast.Link).Destination
		switch {
		case gmhtml.IsDangerousURL(to):
		case entering:
			w.WriteString(`<a href="` + html.EscapeString(string(util.URLEscape(to, true))) + `">`) //nolint:errcheck // a buffer
		default:
			w.WriteString(`</a>` + hostOf(to, textIn(n, src))) //nolint:errcheck // a buffer
		}
		return ast.WalkContinue, nil
	})
}

// textIn returns the text within a node.
func textIn(n ast.Node, src []byte) string {
	var b strings.Builder
	err := ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Segment.Value(src))
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		panic(err) // the function above returns none
	}
	return b.String()
}

// hostOf shows where a link goes whose text does not say so: on a phone nothing else does, and an answer may be made
// of text by others. Letters outside of ASCII, which may look like others, are written by their numbers.
func hostOf(to []byte, label string) string {
	u, err := url.Parse(string(to))
	if err != nil || u.Host == "" {
		return ""
	}
	host := strings.ToLower(u.Host)
	exact := strings.Trim(strconv.QuoteToASCII(host), `"`)
	label = strings.ToLower(label)
	for _, before := range []string{"https://", "http://", "www."} {
		label = strings.TrimPrefix(label, before)
	}
	after, named := strings.CutPrefix(label, strings.TrimPrefix(host, "www."))
	if named && exact == host && (after == "" || strings.ContainsAny(after[:1], "/?#")) {
		return ""
	}
	return ` <span class="host">(` + html.EscapeString(exact) + `)</span>`
}
