package email

import (
	"html"
	"strings"
)

// breaks are the elements that begin a new line.
var breaks = map[string]bool{"br": true, "p": true, "div": true, "tr": true, "li": true, "h1": true, "h2": true, "h3": true, "h4": true,
	"table": true, "ul": true, "ol": true, "blockquote": true, "hr": true}

// hidden are the elements whose content is not text.
var hidden = map[string]bool{"script": true, "style": true, "head": true, "title": true, "template": true}

// plainOf returns what an HTML text says: no tags, no scripts, no styles.
func plainOf(src string) string {
	var b strings.Builder
	skip := ""
	for src != "" {
		open := strings.IndexByte(src, '<')
		if open < 0 {
			open = len(src)
		}
		if skip == "" {
			b.WriteString(html.UnescapeString(strings.Join(strings.FieldsFunc(src[:open], func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " ")))
		}
		src = src[open:]
		if src == "" {
			break
		}
		if strings.HasPrefix(src, "<!--") {
			end := strings.Index(src, "-->")
			if end < 0 {
				break
			}
			src = src[end+3:]
			continue
		}
		end := strings.IndexByte(src, '>')
		if end < 0 {
			if skip == "" {
				b.WriteString(html.UnescapeString(src)) // a lone sign
			}
			break
		}
		name, closing := element(src[1:end])
		src = src[end+1:]
		switch {
		case skip != "":
			if closing && name == skip {
				skip = ""
			}
		case hidden[name] && !closing:
			skip = name
		case breaks[name]:
			b.WriteByte('\n')
		}
	}
	return tidied(b.String())
}

func element(tag string) (name string, closing bool) {
	tag, closing = strings.CutPrefix(tag, "/")
	name = strings.ToLower(strings.TrimRight(tag, "/ "))
	if i := strings.IndexAny(name, " \t\n/"); i >= 0 {
		name = name[:i]
	}
	return name, closing
}

// tidied takes the empty lines out that tags leave, but for one between paragraphs.
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
