package terminal

import (
	"fmt"
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// renderer turns parsed Markdown into lines for a terminal. It exists because
// the usual library loads the grammars of 250 programming languages whenever
// the program starts, even just to print its version.
type renderer struct {
	parser parser.Parser
	colour bool

	strong, emphasis, struck, heading, code, link, dim, keyword, quoted lipgloss.Style
}

func newRenderer(dark, colour bool) *renderer {
	r := &renderer{colour: colour, parser: goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList)).Parser()}
	if !colour {
		return r // the zero styles write no escape sequences
	}
	pick := lipgloss.LightDark(dark)
	tint := func(light, dark string) color.Color { return pick(lipgloss.Color(light), lipgloss.Color(dark)) }
	style := lipgloss.NewStyle()
	r.strong, r.emphasis, r.struck = style.Bold(true), style.Italic(true), style.Strikethrough(true)
	r.heading = style.Bold(true).Foreground(tint("27", "39"))
	r.code = style.Foreground(tint("161", "203"))
	r.link = style.Underline(true).Foreground(tint("30", "37"))
	r.dim = style.Foreground(tint("245", "243"))
	r.keyword = style.Foreground(tint("26", "75"))
	r.quoted = style.Foreground(tint("28", "114"))
	return r
}

// render returns the text's lines, none wider than width cells unless a single
// character is.
func (r *renderer) render(source string, width int) []string {
	src := []byte(source)
	return r.blocks(r.parser.Parse(text.NewReader(src)), src, width)
}

// blocks renders the children of a node, with a blank line between them except
// in a tight list.
func (r *renderer) blocks(parent ast.Node, src []byte, width int) (out []string) {
	tight := false
	if l, ok := parent.(*ast.List); ok {
		tight = l.IsTight
	} else if item, ok := parent.(*ast.ListItem); ok {
		l, ok := item.Parent().(*ast.List)
		tight = ok && l.IsTight
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		lines := r.block(n, src, max(width, 4))
		if len(lines) > 0 && len(out) > 0 && !tight {
			out = append(out, "")
		}
		out = append(out, lines...)
	}
	return out
}

func (r *renderer) block(n ast.Node, src []byte, width int) []string {
	switch n := n.(type) {
	case *ast.Heading:
		marks := strings.Repeat("#", n.Level) + " "
		return r.wrap(eachLine(r.heading, marks+r.inline(n, src)), width)
	case *ast.Blockquote:
		return indent(r.blocks(n, src, width-2), r.dim.Render("│ "), r.dim.Render("│ "))
	case *ast.List:
		return r.list(n, src, width)
	case *ast.FencedCodeBlock:
		return r.codeLines(n, src, width, r.highlighter(string(n.Language(src))))
	case *ast.CodeBlock:
		return r.codeLines(n, src, width, nil)
	case *ast.ThematicBreak:
		return []string{r.dim.Render(strings.Repeat("─", min(width, 40)))}
	case *ast.HTMLBlock:
		return r.wrap(strings.TrimRight(string(n.Lines().Value(src)), "\n"), width)
	case *extast.Table:
		return r.table(n, src, width)
	}
	return r.wrap(r.inline(n, src), width)
}

func (r *renderer) list(l *ast.List, src []byte, width int) (out []string) {
	number := l.Start
	for item := l.FirstChild(); item != nil; item = item.NextSibling() {
		mark := "• "
		if l.IsOrdered() {
			mark = fmt.Sprintf("%d. ", number)
			number++
		}
		if len(out) > 0 && !l.IsTight {
			out = append(out, "")
		}
		room := strings.Repeat(" ", len([]rune(mark)))
		lines := r.blocks(item, src, width-len(room))
		if len(lines) == 0 {
			lines = []string{""}
		}
		out = append(out, indent(lines, mark, room)...)
	}
	return out
}

// codeLines renders code as it is, indented by two cells. h is nil if its language is unknown.
func (r *renderer) codeLines(n ast.Node, src []byte, width int, h *highlighter) (out []string) {
	code := strings.TrimRight(string(n.Lines().Value(src)), "\n")
	for line := range strings.SplitSeq(code, "\n") {
		paint := func(s string) string { return r.code.Render(s) }
		if h != nil {
			line, paint = h.line(line), func(s string) string { return s }
		}
		for _, part := range r.wrap(line, width-2) {
			out = append(out, "  "+paint(part))
		}
	}
	return out
}

// table renders a table as wide as its content, or as the screen.
func (r *renderer) table(n *extast.Table, src []byte, width int) []string {
	t := table.New().Border(lipgloss.NormalBorder()).BorderStyle(r.dim).
		StyleFunc(func(row, _ int) lipgloss.Style {
			if row == table.HeaderRow {
				return r.strong.Padding(0, 1)
			}
			return lipgloss.NewStyle().Padding(0, 1)
		})
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, r.inline(cell, src))
		}
		if row.Kind() == extast.KindTableHeader {
			t.Headers(cells...)
		} else {
			t.Row(cells...)
		}
	}
	out := t.String()
	if lipgloss.Width(out) > width {
		out = t.Width(width).String()
	}
	return strings.Split(out, "\n")
}

// inline renders the inline content of a node.
func (r *renderer) inline(parent ast.Node, src []byte) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			b.WriteString(plain(n.Value(src)))
			if n.HardLineBreak() || n.SoftLineBreak() { // models end a line where they mean it
				b.WriteByte('\n')
			}
		case *ast.String:
			b.WriteString(plain(n.Value))
		case *ast.CodeSpan:
			var code string
			for c := n.FirstChild(); c != nil; c = c.NextSibling() {
				if t, ok := c.(*ast.Text); ok { // code has neither escapes nor entities
					code += strings.ReplaceAll(string(t.Value(src)), "\n", " ")
				}
			}
			if !r.colour {
				code = "`" + code + "`"
			}
			b.WriteString(r.code.Render(code))
		case *ast.Emphasis:
			style := r.emphasis
			if n.Level > 1 {
				style = r.strong
			}
			b.WriteString(eachLine(style, r.inline(n, src)))
		case *extast.Strikethrough:
			b.WriteString(eachLine(r.struck, r.inline(n, src)))
		case *extast.TaskCheckBox:
			b.WriteString(map[bool]string{true: "[x] ", false: "[ ] "}[n.IsChecked])
		case *ast.Link:
			b.WriteString(r.linked(r.inline(n, src), string(n.Destination)))
		case *ast.Image:
			b.WriteString(r.linked("image: "+r.inline(n, src), string(n.Destination)))
		case *ast.AutoLink:
			b.WriteString(r.link.Render(string(n.URL(src))))
		case *ast.RawHTML:
			b.Write(n.Segments.Value(src))
		default:
			b.WriteString(r.inline(n, src))
		}
	}
	return b.String()
}

// eachLine styles the lines of a text. Render would pad them to the same width.
func eachLine(s lipgloss.Style, text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		lines[i] = s.Render(l)
	}
	return strings.Join(lines, "\n")
}

// plain resolves escapes and entities. The result may be a control character, such as
// that of &#27;, which must not reach the terminal either.
func plain(text []byte) string {
	return safe(string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(text)))))
}

// linked renders a link, with its target unless the text is the target.
func (r *renderer) linked(label, target string) string {
	if label == target || label == "" {
		return r.link.Render(target)
	}
	return label + " (" + r.link.Render(target) + ")"
}

func (r *renderer) wrap(s string, width int) []string {
	width = max(width, 1)
	out := lipgloss.Wrap(s, width, "")
	for less := width - 1; less > 0 && lipgloss.Width(out) > width; less-- {
		out = lipgloss.Wrap(s, less, "") // Wrap may put a hyphen beyond the width
	}
	return strings.Split(out, "\n")
}

// indent puts one text before the first line and another before all others.
func indent(lines []string, first, others string) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		switch {
		case i == 0:
			out[i] = first + l
		case l == "" && strings.TrimSpace(others) == "":
		default:
			out[i] = others + l
		}
	}
	return out
}
