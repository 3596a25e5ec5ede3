package terminal

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// split cuts Markdown after its last block that can no longer change: done
// can be rendered for good, rest may still grow. A block ends at a blank line
// outside of code when what follows has begun and is not part of it.
func split(text string) (done, rest string) {
	end, at := 0, 0
	fence, blank := "", false
	for at < len(text) {
		line, next := text[at:], len(text)
		whole := false
		if i := strings.IndexByte(line, '\n'); i >= 0 {
			line, next, whole = line[:i], at+i+1, true
		}
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if whole && strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]) == "" {
				fence = ""
			}
			blank = false
		case trimmed == "":
			blank = blank || whole && at > 0
		default:
			if blank && starts(line, whole) {
				end = at
			}
			blank = false
			fence = opens(trimmed)
		}
		at = next
	}
	return text[:end], text[end:]
}

// starts reports whether a line after a blank one surely begins a new block:
// it is neither indented nor an item of a list nor too short to tell.
func starts(line string, whole bool) bool {
	if line[0] == ' ' || line[0] == '\t' || line[0] == '>' {
		return false
	}
	if !whole && len(line) < 5 {
		return false
	}
	marker := strings.TrimLeft(line, "0123456789")
	if len(marker) < len(line) { // "12. item"
		return marker == "" || marker[0] != '.' && marker[0] != ')'
	}
	bullet := line[0] == '-' || line[0] == '*' || line[0] == '+'
	return !bullet || len(line) > 1 && line[1] != ' '
}

// opens returns the fence that a line opens, or "".
func opens(line string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(line) - len(strings.TrimLeft(line, c)); n >= 3 {
			return line[:n]
		}
	}
	return ""
}

// painter renders for a width and a background.
type painter struct {
	width  int
	dark   bool
	colour bool
	md     *renderer
}

// set prepares the painter for a width and a background.
func (p *painter) set(width int, dark, colour bool) {
	p.width = max(width, 10)
	if p.md == nil || p.dark != dark || p.colour != colour {
		p.dark, p.colour, p.md = dark, colour, newRenderer(dark, colour)
	}
}

// markdown renders Markdown into lines that fit the width.
func (p *painter) markdown(text string) string {
	text = strings.ReplaceAll(safe(text), "\t", "    ") // widths are counted without tabs
	return strings.Join(p.md.render(text, p.width-1), "\n")
}

// wrap breaks plain text at the width, hard where it must.
func (p *painter) wrap(text string) string {
	return lipgloss.Wrap(text, max(p.width-1, 1), "")
}

// stripped returns a line without its escape sequences. They are the
// renderer's own; text from outside has none left.
func stripped(line string) string {
	var b strings.Builder
	for {
		i := strings.IndexByte(line, '\x1b')
		if i < 0 {
			b.WriteString(line)
			return b.String()
		}
		b.WriteString(line[:i])
		line = line[i:]
		switch {
		case strings.HasPrefix(line, "\x1b["):
			end := strings.IndexFunc(line[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
			if end < 0 {
				return b.String()
			}
			line = line[2+end+1:]
		case strings.HasPrefix(line, "\x1b]"):
			end := strings.IndexAny(line[2:], "\x07\x1b")
			if end < 0 {
				return b.String()
			}
			line = strings.TrimPrefix(line[2+end+1:], "\\")
		default:
			line = line[1:]
		}
	}
}

// cut shortens a line without escape sequences to so many cells.
func cut(s string, cells int) string {
	if lipgloss.Width(s) <= cells {
		return s
	}
	if cells < 1 {
		return ""
	}
	w := 0
	for i, r := range s {
		rw := lipgloss.Width(string(r))
		if w+rw > cells-1 {
			return s[:i] + "…"
		}
		w += rw
	}
	return s
}
