package matrix

import (
	"bytes"
	"html"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	gmhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"steward/internal/channel/wire"
)

// Render implements channel.Channel. The parts stay Markdown, which is readable where HTML is not shown.
func (m *Matrix) Render(markdown string) []string { return wire.Cut(markdown, maxText, wire.Runes) }

// toHTML returns Markdown as the HTML that the specification allows in messages; empty if that shows
// nothing more than the text itself.
func toHTML(markdown string) string {
	md := goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithRendererOptions(gmhtml.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(plainParts{}, 1))))
	var b bytes.Buffer
	if err := md.Convert([]byte(markdown), &b); err != nil {
		return ""
	}
	out := strings.TrimSpace(b.String())
	if inner, ok := strings.CutPrefix(out, "<p>"); ok && strings.Count(out, "<p>") == 1 {
		if inner, ok = strings.CutSuffix(inner, "</p>"); ok {
			out = inner
		}
	}
	if strings.ReplaceAll(html.UnescapeString(out), "<br>\n", "\n") == markdown {
		return ""
	}
	return out
}

// plainParts shows HTML in Markdown as text, and a picture as a link: programs load a picture from
// anywhere as soon as they show the message, which would tell its address what is in the room.
type plainParts struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (plainParts) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw, ok := n.(*ast.RawHTML); ok && entering {
			return ast.WalkSkipChildren, write(w, string(raw.Segments.Value(source)))
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		block, ok := n.(*ast.HTMLBlock)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		text := string(block.Lines().Value(source))
		if block.HasClosure() {
			text += string(block.ClosureLine.Value(source))
		}
		if _, err := w.WriteString("<p>"); err != nil {
			return ast.WalkStop, err
		}
		if err := write(w, strings.TrimSpace(text)); err != nil {
			return ast.WalkStop, err
		}
		_, err := w.WriteString("</p>\n")
		return ast.WalkSkipChildren, err
	})
	r.Register(ast.KindImage, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		picture, ok := n.(*ast.Image)
		if !ok || gmhtml.IsDangerousURL(picture.Destination) {
			return ast.WalkContinue, nil
		}
		tag := "</a>"
		if entering {
			tag = `<a href="` + string(util.EscapeHTML(util.URLEscape(picture.Destination, true))) + `">`
		}
		_, err := w.WriteString(tag)
		return ast.WalkContinue, err
	})
}

func write(w util.BufWriter, text string) error {
	_, err := w.WriteString(strings.ReplaceAll(html.EscapeString(text), "\n", "<br>\n"))
	return err
}
