// Package markup converts Markdown, which models write, to what messengers show, and cuts it into
// messages that fit.
//
// Markdown is parsed once into a list of blocks (Parse). A block is a list of runs, and a run is a piece of
// plain text in one style. A messenger is a Dialect: how it writes a run, a block of code and a quotation,
// and how it counts characters. Since each run carries its whole style, a text can be cut anywhere between
// two characters and both halves are still well-formed: there is no tag that would have to be closed.
//
// Cut prefers to cut between blocks, then between lines, then between words, and never inside of what a
// person sees as one character. A block of code that is cut becomes two blocks of code.
package markup

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Style is a set of styles.
type Style uint8

// The styles.
const (
	Bold Style = 1 << iota
	Italic
	Struck
	Code
)

// Run is a piece of text in one style.
type Run struct {
	Text  string
	Style Style
	Link  string // where a press on it leads; empty: nowhere
}

// Block is a paragraph, a heading, an item of a list, or a block of code.
type Block struct {
	Runs    []Run
	Code    bool   // a block of code: one run without style
	Lang    string // of code, as its author named it
	Quote   bool
	Heading bool
	Tight   bool // no empty line before it
}

// maxNesting bounds how deeply lists, quotations and styles are followed. What is deeper is shown as plain
// text of the level above.
const maxNesting = 40

// Parse converts Markdown to blocks.
func Parse(markdown string) []Block {
	p := &reader{src: []byte(clean(markdown))}
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList), goldmark.WithParserOptions(parser.WithASTTransformers()))
	p.blocks(md.Parser().Parse(text.NewReader(p.src)), place{})
	return p.out
}

// clean removes what no messenger shows: invalid UTF-8 and control characters.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// reader collects the blocks of a parsed text.
type reader struct {
	src []byte
	out []Block
}

// place is where a block stands.
type place struct {
	depth  int
	quote  bool
	tight  bool
	indent string  // before each line, in a list
	mark   *string // before the first line of an item; empty once it is written
}

func (p *reader) blocks(parent ast.Node, at place) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		p.block(n, at)
	}
}

func (p *reader) block(n ast.Node, at place) {
	at.depth++
	if at.depth > maxNesting {
		p.add(Block{Runs: []Run{{Text: p.plainText(n, 0)}}}, at)
		return
	}
	switch n := n.(type) {
	case *ast.Heading:
		runs := p.inline(n, Bold, "", 0)
		p.add(Block{Runs: runs, Heading: true}, at)
	case *ast.Blockquote:
		at.quote = true
		p.blocks(n, at)
	case *ast.List:
		p.list(n, at)
	case *ast.FencedCodeBlock:
		p.add(Block{Code: true, Lang: string(n.Language(p.src)), Runs: []Run{{Text: codeOf(n, p.src)}}}, at)
	case *ast.CodeBlock:
		p.add(Block{Code: true, Runs: []Run{{Text: codeOf(n, p.src)}}}, at)
	case *ast.ThematicBreak:
		p.add(Block{Runs: []Run{{Text: "———"}}}, at)
	case *ast.HTMLBlock:
		html := string(n.Lines().Value(p.src))
		if n.HasClosure() {
			html += string(n.ClosureLine.Value(p.src))
		}
		p.add(Block{Runs: []Run{{Text: strings.TrimRight(html, "\n")}}}, at)
	case *extast.Table:
		p.add(Block{Code: true, Runs: []Run{{Text: p.table(n)}}}, at)
	default:
		p.add(Block{Runs: p.inline(n, 0, "", 0)}, at)
	}
}

func codeOf(n ast.Node, src []byte) string {
	return strings.TrimRight(string(n.Lines().Value(src)), "\n")
}

// add appends a block, with the mark of the list item that it begins.
func (p *reader) add(b Block, at place) {
	b.Quote, b.Tight = at.quote && !b.Code, at.tight && len(p.out) > 0
	if !b.Code {
		lead := at.indent
		if at.mark != nil && *at.mark != "" {
			lead, *at.mark = *at.mark, ""
		}
		if at.indent != "" {
			for i := range b.Runs {
				b.Runs[i].Text = strings.ReplaceAll(b.Runs[i].Text, "\n", "\n"+at.indent)
			}
		}
		if lead != "" {
			b.Runs = append([]Run{{Text: lead}}, b.Runs...)
		}
	}
	b.Runs = joined(b.Runs)
	if !blank(b.text()) {
		p.out = append(p.out, b)
	}
}

func (b Block) text() string {
	var s strings.Builder
	for _, r := range b.Runs {
		s.WriteString(r.Text)
	}
	return s.String()
}

// blank reports whether people see nothing of a text; messengers refuse such messages.
func blank(s string) bool {
	return strings.TrimFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me) || r == '\u3164' || r == '\u115f' || r == '\u1160' || r == '\uffa0' || r == '\u2800'
	}) == ""
}

func (p *reader) list(l *ast.List, at place) {
	number, first := l.Start, true
	for item := l.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "• "
		if l.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		mark = at.indent + mark
		inner := at
		inner.mark, inner.indent = &mark, at.indent+"   "
		// Items of a tight list follow each other without an empty line; so does a list inside of an item.
		inner.tight = l.IsTight && (!first || at.mark != nil)
		for n := item.FirstChild(); n != nil; n = n.NextSibling() {
			p.block(n, inner)
			inner.tight = l.IsTight
		}
		first = false
	}
}

// table renders a table as aligned text.
func (p *reader) table(t *extast.Table) string {
	var rows [][]string
	var widths []int
	for row := t.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			s := strings.ReplaceAll(p.plainText(cell, 0), "\n", " ")
			if len(cells) == len(widths) {
				widths = append(widths, 0)
			}
			// One huge cell does not make all others as wide.
			widths[len(cells)] = max(widths[len(cells)], min(utf8.RuneCountInString(s), 60))
			cells = append(cells, s)
		}
		rows = append(rows, cells)
	}
	var b strings.Builder
	for i, cells := range rows {
		var line strings.Builder
		for k, c := range cells {
			if k > 0 {
				line.WriteString("  ")
			}
			line.WriteString(c + strings.Repeat(" ", max(0, widths[k]-utf8.RuneCountInString(c))))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if i == 0 {
			for k, w := range widths {
				if k > 0 {
					b.WriteString("  ")
				}
				b.WriteString(strings.Repeat("-", max(w, 1)))
			}
			b.WriteString("\n")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// plainText returns the text below a node without styles.
func (p *reader) plainText(n ast.Node, depth int) string {
	if depth > 4*maxNesting {
		return ""
	}
	var b strings.Builder
	for _, r := range p.inline(n, 0, "", 0) {
		b.WriteString(r.Text)
	}
	if b.Len() == 0 && n.Type() == ast.TypeBlock && n.Lines() != nil {
		return strings.TrimRight(string(n.Lines().Value(p.src)), "\n")
	}
	return b.String()
}

func (p *reader) inline(parent ast.Node, style Style, link string, depth int) (out []Run) {
	if depth > maxNesting {
		return nil
	}
	put := func(s string) { out = append(out, Run{Text: s, Style: style, Link: link}) }
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			put(plain(n.Value(p.src)))
			if n.HardLineBreak() || n.SoftLineBreak() { // models end a line where they mean it
				put("\n")
			}
		case *ast.String:
			put(plain(n.Value))
		case *ast.CodeSpan:
			var code string
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok { // code has neither escapes nor entities
					code += strings.ReplaceAll(string(t.Value(p.src)), "\n", " ")
				}
			}
			out = append(out, Run{Text: code, Style: Code, Link: link})
		case *ast.Emphasis:
			more := Italic
			if n.Level > 1 {
				more = Bold
			}
			out = append(out, p.inline(n, style|more, link, depth+1)...)
		case *extast.Strikethrough:
			out = append(out, p.inline(n, style|Struck, link, depth+1)...)
		case *extast.TaskCheckBox:
			put(map[bool]string{true: "☑ ", false: "☐ "}[n.IsChecked])
		case *ast.Link:
			out = append(out, p.link(n, string(n.Destination), style, depth)...)
		case *ast.Image:
			out = append(out, p.link(n, string(n.Destination), style, depth)...)
		case *ast.AutoLink:
			put(string(n.URL(p.src)))
		case *ast.RawHTML:
			put(string(n.Segments.Value(p.src)))
		default:
			out = append(out, p.inline(n, style, link, depth+1)...)
		}
	}
	return out
}

// link returns a link as its text. A target that a messenger would not open stands behind the text.
func (p *reader) link(n ast.Node, target string, style Style, depth int) []Run {
	label := p.inline(n, style, "", depth+1)
	text := Block{Runs: label}.text()
	switch {
	case target == "" || text == target:
		return label
	case blank(text):
		return append(label, Run{Text: target, Style: style})
	case !opens(target):
		return append(label, Run{Text: " (" + target + ")", Style: style})
	}
	for i := range label {
		label[i].Link = target
	}
	return label
}

// opens reports whether messengers open such an address.
func opens(target string) bool {
	lower := strings.ToLower(target)
	good := strings.HasPrefix(lower, "https://") || strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "mailto:")
	return good && len(target) < 1000 && !strings.ContainsFunc(target, func(r rune) bool { return unicode.IsSpace(r) || r == '<' || r == '>' || r == '|' || r == '"' })
}

// plain resolves escapes and entities. The result may be a control character, such as that of &#27;.
func plain(text []byte) string {
	return clean(string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(text)))))
}

// joined joins neighbours of the same style.
func joined(runs []Run) (out []Run) {
	for _, r := range runs {
		if r.Text == "" {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].Style == r.Style && out[k].Link == r.Link {
			out[k].Text += r.Text
			continue
		}
		out = append(out, r)
	}
	return out
}
