package terminal

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"steward/internal/catalog"
)

// Inspected describes what an approval covers: what it is, what a person should
// look at, and its files. If something was approved before, it shows only what
// has changed since, unless all is set.
func Inspected(i catalog.Inspection, all bool) string {
	return inspected(style{}, 0, i, all)
}

// StatusWords returns whether an agent or a source is allowed, in words.
func StatusWords(l catalog.Listing) string {
	switch {
	case l.Status == catalog.Pending && l.Changed:
		return "changed"
	case l.Status == catalog.Approved && !l.Usable:
		return "approved, but its parent is not"
	case len(l.Waiting) > 0:
		return fmt.Sprintf("approved, %d new or changed off", len(l.Waiting))
	}
	return string(l.Status)
}

// inspected is Inspected within so many columns; 0: lines are not wrapped.
func inspected(k style, width int, i catalog.Inspection, all bool) string {
	var b strings.Builder
	line := func(s lipgloss.Style, first, rest, text string) {
		b.WriteString(hangingIndent(s, first, rest, Visible(text), width) + "\n")
	}
	plain := lipgloss.NewStyle()
	status := StatusWords(i.Listing)
	if i.By != "" {
		status += fmt.Sprintf(" by %s, %s", flat(i.By), i.At.Local().Format("2006-01-02 15:04"))
	}
	b.WriteString(hangingIndent(plain, "", "", k.strong.Render(Visible(flat(i.Path)))+"  "+Visible(status), width) + "\n")
	for _, row := range [][2]string{{"what", firstOf(i.Description)}, {"version", i.Version}, {"reason", i.Reason}, {"where", i.Dir},
		{"tools", strings.Join(i.Tools, ", ")}, {"data", i.Data}, {"hash", i.Hash}} {
		if row[1] != "" {
			line(plain, k.dim.Render(fmt.Sprintf("  %-8s ", row[0])), strings.Repeat(" ", 11), flat(row[1]))
		}
	}
	for _, p := range i.Problems {
		line(k.bad, k.bad.Render("  ✗ "), "    ", flat(p.String()))
	}
	if len(i.Warnings) > 0 {
		b.WriteString("\n" + k.warn.Render("Review this:") + "\n")
		for _, w := range i.Warnings {
			line(k.warn, k.warn.Render("  ! "), "    ", flat(w))
		}
	}
	file := func(text string, style func(line string) lipgloss.Style) {
		for l := range strings.Lines(text) {
			s := style(l)
			l = strings.ReplaceAll(strings.TrimRight(l, "\n"), "\t", "    ")
			rest := strings.TrimLeft(l, " ")
			own := len(l) - len(rest)
			if width > 0 {
				own = min(own, width/3)
			}
			pad := strings.Repeat(" ", 3+own)
			line(s, pad, pad+"  ", rest)
		}
	}
	if all || i.Diff == "" {
		for _, it := range i.Items {
			b.WriteString("\n")
			line(k.strong, k.strong.Render("── "), "   ", flat(it.Name))
			file(it.Text, func(string) lipgloss.Style { return plain })
		}
	}
	if i.Diff != "" {
		b.WriteString("\n" + k.strong.Render("Changed since you approved it:") + "\n")
		file(i.Diff, k.ofDiff)
	}
	return b.String()
}

// ofDiff returns the style of a line of a diff.
func (k style) ofDiff(line string) lipgloss.Style {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "@@"):
		return k.dim
	case strings.HasPrefix(line, "+"):
		return k.good
	case strings.HasPrefix(line, "-"):
		return k.bad
	}
	return lipgloss.NewStyle()
}

// hangingIndent puts first before a text and wraps it at the width; rest is put before
// all other lines. A width of 0 wraps nothing.
func hangingIndent(s lipgloss.Style, first, rest, text string, width int) string {
	lines := []string{text}
	if room := max(width-1-lipgloss.Width(rest), 8); width > 0 && lipgloss.Width(first+text) > width-1 {
		// Wrap does not count spaces beyond the edge; Hardwrap does.
		lines = strings.Split(ansi.Hardwrap(lipgloss.Wrap(text, room, ""), room, true), "\n")
	}
	for i, l := range lines {
		lines[i] = strings.TrimRight(first+s.Render(l), " ")
		first = rest
	}
	return strings.Join(lines, "\n")
}

// flat puts a text on one line.
func flat(s string) string { return strings.NewReplacer("\n", " ", "\t", " ").Replace(s) }

func firstOf(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
