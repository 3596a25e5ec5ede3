package discord

import (
	"regexp"
	"strings"
	"unicode"

	"steward/internal/channel/markup"
)

// apart separates marks that would be read as one.
const apart = "\u200b"

// link is an address in plain text, which the service's programs recognize by themselves. It has only
// characters that are no marks within an address.
var link = regexp.MustCompile(`https?://[A-Za-z0-9._/?=&%#:+,;@!$-]*[A-Za-z0-9/]`)

// run writes a run in Discord's Markdown.
func run(r markup.Run, before, _ rune) string {
	inner := strings.TrimSpace(r.Text)
	if inner == "" || r.Style == 0 && r.Link == "" {
		return escape(r.Text, before == 0 || before == '\n')
	}
	head, tail, _ := strings.Cut(r.Text, inner)
	var text string
	if r.Style&markup.Code != 0 {
		text = "`" + inner + "`"
		if strings.Contains(inner, "`") {
			text = "`` " + separate(inner) + " ``"
		}
	} else {
		text = escape(inner, false)
	}
	if r.Link != "" {
		text = "[" + strings.ReplaceAll(text, "://", ":"+apart+"//") + "](" + strings.NewReplacer("(", "%28", ")", "%29", " ", "%20", "<", "%3C", ">", "%3E", "\n", "").Replace(r.Link) + ")"
	}
	for _, style := range []struct {
		style markup.Style
		mark  string
	}{{markup.Italic, "*"}, {markup.Struck, "~~"}, {markup.Bold, "**"}} {
		if r.Style&style.style != 0 {
			text = style.mark + text + style.mark
		}
	}
	if head == "" && before != 0 && !unicode.IsSpace(before) {
		text = apart + text
	}
	return head + text + tail
}

// escape writes plain text so that no mark in it counts. first says that it stands at the beginning of a
// line, where some characters are marks that are none elsewhere.
func escape(text string, first bool) string {
	var out strings.Builder
	for text != "" {
		at := link.FindStringIndex(text)
		if at == nil {
			at = []int{len(text), len(text)}
		}
		for _, r := range text[:at[0]] {
			if strings.ContainsRune("\\*_~`|<[]", r) || first && strings.ContainsRune("#->", r) {
				out.WriteByte('\\')
			}
			out.WriteRune(r)
			first = r == '\n' || first && unicode.IsSpace(r)
		}
		out.WriteString(text[at[0]:at[1]])
		first = first && at[0] == at[1]
		text = text[at[1]:]
	}
	return out.String()
}

func code(lang, text string) string {
	if strings.ContainsFunc(lang, func(r rune) bool {
		return r > '~' || r <= ' ' || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("+-#._", r)
	}) {
		lang = ""
	}
	if strings.Contains(text, "```") {
		text = separate(text)
	}
	return "```" + lang + "\n" + text + "\n```"
}

// separate separates backticks, several of which would end the code that they are in.
func separate(text string) string {
	for range 2 {
		text = strings.ReplaceAll(text, "``", "`"+apart+"`")
	}
	return text
}

func quote(inner string) string { return "> " + strings.ReplaceAll(inner, "\n", "\n> ") }
