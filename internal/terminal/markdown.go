package terminal

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// split cuts Markdown after its last block that can no longer change. A block ends
// at a blank line outside of code, if the line after it does not continue it.
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

// starts reports whether a line after a blank one certainly begins a new block: it
// is not indented, not an item of a list, and not too short to tell.
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

// wrap breaks plain text at the width.
func (p *painter) wrap(text string) string {
	return lipgloss.Wrap(text, max(p.width-1, 1), "")
}

// stripped removes the renderer's escape sequences from a line. Text from outside
// has none left.
func stripped(line string) string { return ansi.Strip(line) }

// cut shortens a line to a number of cells.
func cut(s string, cells int) string { return ansi.Truncate(s, max(cells, 0), "…") }
