package extract

import (
	"context"
	"net/url"
	"slices"
	"strings"

	readability "codeberg.org/readeck/go-readability/v2"
	markdown "github.com/JohannesKaufmann/html-to-markdown/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// minArticle is the shortest main content, in bytes of text, that is taken for an article.
// Below it the whole page is read.
const minArticle = 300

// readHTML reads the main content of a page, or all of it. Hidden content is left out, because
//
//	it is a common place for instructions to a model.
func readHTML(ctx context.Context, in Input) (Document, error) {
	r, err := decode(in)
	if err != nil {
		return Document{}, damaged("HTML", err)
	}
	page, err := html.Parse(r)
	if err != nil {
		return Document{}, damaged("HTML", err)
	}
	base, err := url.Parse(in.Base)
	if err != nil {
		base = &url.URL{}
	}
	d := Document{Kind: HTML, Title: titleOf(page)}
	clean(page)
	d.Links, d.Truncated = links(page, base)
	if ctx.Err() != nil {
		return d, ctx.Err()
	}
	if !in.Whole {
		if err := d.article(ctx, page, base); err != nil {
			return d, err
		}
	}
	if d.Text == "" {
		d.Text, err = toMarkdown(ctx, page, base)
	}
	return d, err
}

// article sets the text to the main content of a page, if it has any.
func (d *Document) article(ctx context.Context, page *html.Node, base *url.URL) error {
	p := readability.NewParser()
	p.MaxElemsToParse = 200_000
	p.DisableJSONLD = true
	a, err := p.ParseDocument(page, base)
	if err != nil || a.Node == nil {
		return nil //nolint:nilerr // it is not an article: the whole page is read
	}
	text, err := toMarkdown(ctx, a.Node, base)
	if err != nil || len(text) < minArticle {
		return err
	}
	d.Text, d.Byline = text, a.Byline()
	if d.Title == "" {
		d.Title = a.Title()
	}
	return nil
}

func toMarkdown(ctx context.Context, n *html.Node, base *url.URL) (string, error) {
	b, err := markdown.ConvertNode(n, converter.WithContext(ctx), converter.WithDomain(base.String()))
	if err != nil {
		return "", damaged("HTML", err)
	}
	return string(b), nil
}

func titleOf(page *html.Node) string {
	for n := range page.Descendants() {
		if n.DataAtom == atom.Title && n.FirstChild != nil {
			return n.FirstChild.Data
		}
	}
	return ""
}

// clean removes what is not shown: comments, programs, styles, forms' hidden fields, and
// elements that are marked as hidden. Images become their descriptions.
func clean(page *html.Node) {
	var gone []*html.Node
	for n := range page.Descendants() {
		switch {
		case n.Type == html.CommentNode, n.Type == html.ElementNode && hidden(n):
			gone = append(gone, n)
		case n.DataAtom == atom.Img:
			n.Type, n.DataAtom, n.Data, n.Attr = html.TextNode, 0, described(n), nil
		}
	}
	for _, n := range gone {
		if n.Parent != nil {
			n.Parent.RemoveChild(n)
		}
	}
}

func described(img *html.Node) string {
	if alt := oneLine(Attribute(img, "alt")); alt != "" {
		return "[image: " + alt + "]"
	}
	return ""
}

// hiddenElements are elements without visible content.
var hiddenElements = []atom.Atom{atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Head, atom.Iframe, atom.Object, atom.Embed, atom.Svg, atom.Canvas, atom.Audio, atom.Video}

func hidden(n *html.Node) bool {
	if slices.Contains(hiddenElements, n.DataAtom) {
		return true
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			return a.Val == "true"
		case "type":
			if n.DataAtom == atom.Input && a.Val == "hidden" {
				return true
			}
		case "style":
			if invisible(a.Val) {
				return true
			}
		}
	}
	return false
}

// invisible reports whether an inline style hides its element. Style sheets are not computed.
func invisible(style string) bool {
	for declaration := range strings.SplitSeq(strings.ToLower(style), ";") {
		property, value, _ := strings.Cut(declaration, ":")
		property = strings.TrimSpace(property)
		value = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "!important"))
		switch property {
		case "display":
			if value == "none" {
				return true
			}
		case "visibility":
			if value == "hidden" || value == "collapse" {
				return true
			}
		case "opacity", "font-size", "max-height", "max-width":
			if strings.TrimRight(value, "0.%pxemr") == "" && strings.HasPrefix(value, "0") {
				return true
			}
		}
	}
	return false
}

// Attribute returns the value of an element's attribute, or "".
func Attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// links lists the links of a page, each address once.
func links(page *html.Node, base *url.URL) (list []Link, more bool) {
	seen := map[string]bool{}
	for n := range page.Descendants() {
		if n.DataAtom != atom.A {
			continue
		}
		u, err := base.Parse(strings.TrimSpace(Attribute(n, "href")))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(u.String()) > 2000 {
			continue
		}
		u.Fragment = ""
		if seen[u.String()] {
			continue
		}
		if len(list) == MaxLinks {
			return list, true
		}
		seen[u.String()] = true
		list = append(list, Link{TextOf(n), u.String()})
	}
	return list, false
}

// TextOf returns the text of an element on one line.
func TextOf(n *html.Node) string {
	var text strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			text.WriteString(c.Data)
		}
	}
	return oneLine(text.String())
}
