package command

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"steward/internal/app"
	"steward/internal/id"
	"steward/internal/terminal"

	"charm.land/lipgloss/v2"
)

// Print writes a text to standard output.
func (a *Program) Print(text string) error {
	_, err := io.WriteString(a.Stdout, text)
	return err
}

// Widths of columns that are cut on a narrow terminal.
const (
	WidestTool  = 16
	WidestTitle = 14
	MinWhat     = 20
)

// Column describes the layout of a table column.
type Column struct {
	Most  int  // the widest that the column gets if the width is limited; 0: unlimited
	Least int  // the column gets the remaining width, but at least this; 0: it fits its content
	Right bool // align right
}

// Table formats rows in columns within a width (0: unlimited), and returns the widths of
// the columns. Empty columns are left out.
func Table(cols []Column, rows [][]string, width int) (lines []string, wide []int) {
	wide = make([]int, len(cols))
	for _, r := range rows {
		for i, text := range r {
			wide[i] = max(wide[i], lipgloss.Width(text))
		}
	}
	left, flexible := width+2, -1
	for i, c := range cols {
		if width > 0 && c.Most > 0 {
			wide[i] = min(wide[i], c.Most)
		}
		if c.Least > 0 {
			flexible = i
		} else if wide[i] > 0 {
			left -= wide[i] + 2
		}
	}
	if width > 0 && flexible >= 0 {
		wide[flexible] = min(wide[flexible], max(cols[flexible].Least, left-2))
	}
	for _, r := range rows {
		line := ""
		for i, text := range r {
			switch text = Cell(text, wide[i]); {
			case wide[i] == 0:
			case cols[i].Right:
				line += strings.Repeat(" ", wide[i]-lipgloss.Width(text)) + text + "  "
			default:
				line += Fill(text, wide[i]) + "  "
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines, wide
}

// Grid formats a table whose last column gets the rest of the width.
func Grid(rows [][]string, width int) []string {
	cols := make([]Column, len(rows[0]))
	cols[len(cols)-1].Least = MinWhat
	lines, _ := Table(cols, rows, width)
	return lines
}

// Columns returns a grid as one text.
func Columns(rows [][]string, width int) string {
	if len(rows) == 0 {
		return "\n"
	}
	return strings.Join(Grid(rows, width), "\n") + "\n"
}

// GroupByDay groups the lines of a table under a heading for each day, and puts its time
// before each. at returns the time of a line.
func GroupByDay(lines []string, at func(i int) time.Time, now time.Time) string {
	var b strings.Builder
	day := ""
	for i, line := range lines {
		t := at(i).Local()
		if d := DayOf(t, now); d != day {
			if day != "" {
				b.WriteByte('\n')
			}
			day = d
			b.WriteString(d + "\n")
		}
		b.WriteString(t.Format("15:04") + "  " + line + "\n")
	}
	return b.String()
}

// WidthBesideTimes returns the width that a table with days has beside the times.
func WidthBesideTimes(width int) int {
	if width == 0 {
		return 0
	}
	return max(1, width-len("15:04  "))
}

// Fields lists properties, one per line, with names of width columns. Empty ones are left
// out.
func Fields(width int, rows [][2]string) string {
	var b strings.Builder
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&b, "%-*s%s\n", width, r[0], PlainLine(r[1]))
		}
	}
	return b.String()
}

// DayOf names a day: Today, Yesterday, or the date.
func DayOf(at, now time.Time) string {
	y, m, d := now.Local().Date()
	today := time.Date(y, m, d, 0, 0, 0, 0, time.Local)
	switch {
	case !at.Before(today) && at.Before(today.AddDate(0, 0, 1)):
		return "Today"
	case !at.Before(today.AddDate(0, 0, -1)) && at.Before(today):
		return "Yesterday"
	}
	return at.Format("Monday, 2 January 2006")
}

// Cell cuts a text to a width in columns.
func Cell(s string, width int) string {
	if lipgloss.Width(s) <= width {
		return s
	}
	var b strings.Builder
	used := 0
	for _, r := range s {
		w := lipgloss.Width(string(r))
		if used+w > width-1 {
			break
		}
		b.WriteRune(r)
		used += w
	}
	return strings.TrimRight(b.String(), " ") + "…"
}

// Fill pads a text to a width in columns.
func Fill(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-lipgloss.Width(s)))
}

// MinuteOf formats a time as lists show it.
func MinuteOf(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

// FirstLine returns the first line of a text.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// OrDash returns a text, or - if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OrEmpty returns a list that is not nil, which JSON writes as [].
func OrEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// PlainLine neutralizes control characters in text that others wrote, to protect the
// terminal.
func PlainLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || terminal.Unsafe(r) {
			return ' '
		}
		return r
	}, s)
}

// PlainText is PlainLine for text of several lines.
func PlainText(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = PlainLine(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(lines, "\n")
}

// Width returns the number of columns of the terminal; 0: there is none.
func (a *Program) Width() int { return app.WidthOf(a.Stdout) }

// ArgumentsText formats arguments one per line, and long texts as they are.
func ArgumentsText(args []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) != nil {
		return string(args)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := string(members[name])
		var text string
		if json.Unmarshal(members[name], &text) == nil {
			value = text
		}
		if strings.Contains(strings.TrimSpace(value), "\n") {
			fmt.Fprintf(&b, "%s:\n%s", name, Indented(value))
		} else {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String()
}

// Indented indents a text, without characters that affect a terminal.
func Indented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRightFunc(s, unicode.IsSpace)) {
		b.WriteString(strings.TrimRight("  "+PlainLine(strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\r\n")), " ") + "\n")
	}
	return b.String()
}

// MaxGist is how many columns of a message a list shows if the terminal sets no limit.
const MaxGist = 200

// ShortID returns the end of an id, as lists show it, because ids that were made at about
// the same time share their beginnings.
func ShortID(x id.ID) string { return Shorten(x.String()) }

// Shorten returns the end of an id in text form.
func Shorten(s string) string { return s[max(0, len(s)-8):] }

// WithCode returns an outcome with its error code in brackets, if it has one.
func WithCode(outcome, code string) string {
	if code == "" {
		return outcome
	}
	return outcome + " (" + code + ")"
}
