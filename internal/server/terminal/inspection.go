package terminal

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"steward/internal/catalog"
)

// Inspected writes what an approval is about: what it is, what a person should
// look at, and then all of it; unless all, only what is otherwise than approved
// before, where there is such.
func Inspected(i catalog.Inspection, all bool) string {
	d := dossier{look: newLook(false)}
	return d.write(i, all)
}

// StatusWords say how far an agent or a source is allowed.
func StatusWords(l catalog.Listing) string {
	switch {
	case l.Status == catalog.Pending && l.Changed:
		return "changed"
	case l.Status == catalog.Approved && !l.Usable:
		return "approved, the one above is not"
	case len(l.Waiting) > 0:
		return fmt.Sprintf("approved, %d new or changed off", len(l.Waiting))
	}
	return string(l.Status)
}

// dossier is the text of an inspection.
type dossier struct {
	look
	width int // columns; 0: as wide as it comes
	b     strings.Builder
}

func (d *dossier) write(i catalog.Inspection, all bool) string {
	d.head(i)
	for _, p := range i.Problems {
		d.line(d.bad, "  ✗ ", p.String())
	}
	if len(i.Warnings) > 0 {
		d.b.WriteString("\n" + d.warn.Render("Look at this:") + "\n")
		for _, w := range i.Warnings {
			d.line(d.warn, "  ! ", w)
		}
	}
	if all || i.Diff == "" {
		for _, it := range i.Items {
			d.b.WriteString("\n")
			d.line(d.strong, "── ", it.Name)
			d.text(it.Text, false)
		}
	}
	if i.Diff != "" {
		d.b.WriteString("\n" + d.strong.Render("Otherwise than you approved:") + "\n")
		d.text(i.Diff, true)
	}
	return d.b.String()
}

// head tells what it is, in rows.
func (d *dossier) head(i catalog.Inspection) {
	status := StatusWords(i.Listing)
	if i.By != "" {
		status += fmt.Sprintf(" by %s, %s", flatLine(i.By), i.At.Local().Format("2006-01-02 15:04"))
	}
	name := flatLine(i.Path)
	for n, l := range d.wrap(name+"  "+status, 0) {
		if rest, ok := strings.CutPrefix(l, name); ok && n == 0 {
			l = d.strong.Render(name) + rest
		}
		d.b.WriteString(l + "\n")
	}
	for _, row := range [][2]string{{"what", firstOf(i.Description)}, {"version", i.Version}, {"reason", i.Reason}, {"where", i.Dir},
		{"tools", strings.Join(i.Tools, ", ")}, {"data", i.Data}, {"hash", i.Hash}} {
		if row[1] != "" {
			d.row(row[0], row[1])
		}
	}
}

func (d *dossier) row(name, text string) {
	label := fmt.Sprintf("  %-8s ", name)
	for n, l := range d.wrap(flatLine(text), len(label)) {
		if n > 0 {
			label = strings.Repeat(" ", len(label))
		}
		d.b.WriteString(d.dim.Render(label) + l + "\n")
	}
}

// line writes a text after a mark, and what does not fit below the text.
func (d *dossier) line(s lipgloss.Style, mark, text string) {
	for _, l := range d.wrap(flatLine(text), lipgloss.Width(mark)) {
		d.b.WriteString(s.Render(mark+l) + "\n")
		mark = strings.Repeat(" ", lipgloss.Width(mark))
	}
}

// text writes lines as they are, indented; those of a diff in its colours.
func (d *dossier) text(text string, diff bool) {
	const pad = "   "
	for line := range strings.Lines(text) {
		style := lipgloss.NewStyle()
		if diff {
			style = d.diffStyle(line)
		}
		line = Visible(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    "))
		rest := strings.TrimLeft(line, " ")
		own := len(line) - len(rest) // what goes on below is indented further
		if d.width > 0 {
			own = min(own, d.width/3)
		}
		for n, l := range d.wrap(rest, len(pad)+own+2) {
			in := pad + line[:own]
			if n > 0 {
				in += "  "
			}
			d.b.WriteString(strings.TrimRight(in+style.Render(l), " ") + "\n")
		}
	}
}

func (d *dossier) diffStyle(line string) lipgloss.Style {
	switch {
	case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "@@"):
		return d.dim
	case strings.HasPrefix(line, "+"):
		return d.good
	case strings.HasPrefix(line, "-"):
		return d.bad
	}
	return lipgloss.NewStyle()
}

// wrap breaks a line where the rest of the width ends.
func (d *dossier) wrap(line string, before int) []string {
	if d.width == 0 || lipgloss.Width(line) <= d.width-1-before {
		return []string{line}
	}
	room := max(d.width-1-before, 8)
	// Spaces that hang over the edge are not seen by wrapping, and here they count.
	return strings.Split(ansi.Hardwrap(lipgloss.Wrap(line, room, ""), room, true), "\n")
}

// flatLine makes one line of a text that shows all that it holds.
func flatLine(s string) string {
	return Visible(strings.NewReplacer("\n", " ", "\t", " ").Replace(s))
}

func firstOf(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}
