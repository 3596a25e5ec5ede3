package email

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// plainOf returns the text of an HTML page, without tags, scripts and styles.
func plainOf(src string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(src))
	z.SetMaxBuf(maxBody)
	for skip := atom.Atom(0); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return tidied(b.String())
		}
		t := z.Token()
		switch {
		case kind == html.TextToken && skip == 0:
			b.WriteString(strings.NewReplacer("\n", " ", "\r", " ", "\t", " ").Replace(t.Data))
		case kind == html.EndTagToken && t.DataAtom == skip:
			skip = 0
		case skip != 0:
		case kind == html.StartTagToken:
			switch t.DataAtom {
			case atom.Script, atom.Style, atom.Head, atom.Title, atom.Template:
				skip = t.DataAtom
			}
		}
		switch t.DataAtom { // begin a new line
		case atom.Br, atom.P, atom.Div, atom.Tr, atom.Li, atom.H1, atom.H2, atom.H3, atom.H4, atom.Table, atom.Ul, atom.Ol, atom.Blockquote, atom.Hr:
			if skip == 0 {
				b.WriteByte('\n')
			}
		}
	}
}

// tidied removes empty lines, except for one between paragraphs.
func tidied(s string) string {
	var out []string
	empty := true
	for line := range strings.Lines(s) {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" && empty {
			continue
		}
		empty = line == ""
		out = append(out, line)
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}
