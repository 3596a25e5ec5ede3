package wyoming

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// maxSpoken is the longest answer, in runes; about a minute of speech. A longer one ends after a sentence.
const maxSpoken = 900

var (
	address = regexp.MustCompile(`(?i)\(?\b(?:https?://|www\.)[^\s)]+\)?`)
	entity  = regexp.MustCompile(`\s*\([a-z_]+\.[a-z0-9_]+(?:,( in [^()]*))?\)`) // as in "Lamp (light.lamp, in Hall)"
	spaces  = regexp.MustCompile(`\s+`)
	orphan  = regexp.MustCompile(`\s+([.,;:!?])`)
)

// plain returns an answer as it is read aloud: without the marks of Markdown, links, images, code blocks, URLs, and
// ids of entities in a home. The prompt asks the model for such an answer; this makes sure of it.
func plain(answer string) string {
	source := []byte(answer)
	var b strings.Builder
	ended := false // a block has ended: a pause comes before the next text
	add := func(piece []byte) {
		if last, _ := utf8.DecodeLastRuneInString(b.String()); ended && (unicode.IsLetter(last) || unicode.IsDigit(last)) {
			b.WriteByte('.')
		}
		if ended {
			b.WriteByte(' ')
		}
		ended = false
		b.Write(piece)
	}
	ast.Walk(goldmark.DefaultParser().Parse(text.NewReader(source)), func(n ast.Node, entering bool) (ast.WalkStatus, error) { //nolint:errcheck // the walker has no errors
		ended = ended || !entering && n.Type() == ast.TypeBlock
		switch n := n.(type) {
		case *ast.CodeBlock, *ast.FencedCodeBlock, *ast.HTMLBlock, *ast.RawHTML, *ast.AutoLink:
			return ast.WalkSkipChildren, nil
		case *ast.Text:
			if entering {
				add(n.Segment.Value(source))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.String:
			if entering {
				add(n.Value)
			}
		}
		return ast.WalkContinue, nil
	})
	out := entity.ReplaceAllString(address.ReplaceAllString(b.String(), ""), "$1")
	out = strings.Map(func(r rune) rune {
		switch {
		case r == '*', r == '`', r == '#', r == '|', r == '_', r == '~':
			return ' '
		case unicode.Is(unicode.So, r), r == '\uFE0F', r == '\u200D', unicode.IsControl(r) && !unicode.IsSpace(r): // emoji
			if r == '°' || r == '©' || r == '®' {
				return r
			}
			return -1
		}
		return r
	}, out)
	out = orphan.ReplaceAllString(spaces.ReplaceAllString(out, " "), "$1")
	return shorten(strings.TrimSpace(out))
}

// shorten cuts a long answer after its last whole sentence, or after a word if the first sentence is too long.
func shorten(s string) string {
	if utf8.RuneCountInString(s) <= maxSpoken {
		return s
	}
	runes := []rune(s)[:maxSpoken]
	for i := len(runes) - 1; i > 0; i-- {
		if unicode.IsSpace(runes[i]) && strings.ContainsRune(".!?", runes[i-1]) {
			return string(runes[:i])
		}
	}
	if i := strings.LastIndexByte(string(runes), ' '); i > 0 {
		return string(runes)[:i]
	}
	return string(runes)
}
