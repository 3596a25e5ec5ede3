package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// print writes a text to standard output.
func (a *program) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return err
}

// confirm asks the user at a terminal; anything but y means no. in is standard input if it
// has been read from before.
func (a *program) confirm(in *bufio.Reader, format string, args ...any) (bool, error) {
	if in == nil {
		in = bufio.NewReader(a.stdin)
	}
	if _, err := fmt.Fprintf(a.Stderr, format+" [y/N] ", args...); err != nil {
		return false, err
	}
	line, err := in.ReadString('\n')
	return err == nil && strings.TrimSpace(strings.ToLower(line)) == "y", nil
}

// Widths of columns that are cut on a narrow terminal.
const (
	widestTool  = 16
	widestTitle = 14
	minWhat     = 20
)

// column describes the layout of a table column.
type column struct {
	most  int  // the widest that the column gets if the width is limited; 0: unlimited
	least int  // the column gets the remaining width, but at least this; 0: it fits its content
	right bool // align right
}

// table formats rows in columns within a width (0: unlimited), and returns the widths of
// the columns. Empty columns are left out.
func table(cols []column, rows [][]string, width int) (lines []string, wide []int) {
	wide = make([]int, len(cols))
	for _, r := range rows {
		for i, text := range r {
			wide[i] = max(wide[i], lipgloss.Width(text))
		}
	}
	left, flexible := width+2, -1
	for i, c := range cols {
		if width > 0 && c.most > 0 {
			wide[i] = min(wide[i], c.most)
		}
		if c.least > 0 {
			flexible = i
		} else if wide[i] > 0 {
			left -= wide[i] + 2
		}
	}
	if width > 0 && flexible >= 0 {
		wide[flexible] = min(wide[flexible], max(cols[flexible].least, left-2))
	}
	for _, r := range rows {
		line := ""
		for i, text := range r {
			switch text = cell(text, wide[i]); {
			case wide[i] == 0:
			case cols[i].right:
				line += strings.Repeat(" ", wide[i]-lipgloss.Width(text)) + text + "  "
			default:
				line += fill(text, wide[i]) + "  "
			}
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines, wide
}

// grid formats a table whose last column gets the rest of the width.
func grid(rows [][]string, width int) []string {
	cols := make([]column, len(rows[0]))
	cols[len(cols)-1].least = minWhat
	lines, _ := table(cols, rows, width)
	return lines
}

// columns returns a grid as one text.
func columns(rows [][]string, width int) string {
	if len(rows) == 0 {
		return "\n"
	}
	return strings.Join(grid(rows, width), "\n") + "\n"
}

// groupByDay groups the lines of a table under a heading for each day, and puts its time
// before each. at returns the time of a line.
func groupByDay(lines []string, at func(i int) time.Time, now time.Time) string {
	var b strings.Builder
	day := ""
	for i, line := range lines {
		t := at(i).Local()
		if d := dayOf(t, now); d != day {
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

// widthBesideTimes returns the width that a table with days has beside the times.
func widthBesideTimes(width int) int {
	if width == 0 {
		return 0
	}
	return max(1, width-len("15:04  "))
}

// fields lists properties, one per line, with names of width columns. Empty ones are left
// out.
func fields(width int, rows [][2]string) string {
	var b strings.Builder
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&b, "%-*s%s\n", width, r[0], plainLine(r[1]))
		}
	}
	return b.String()
}

func dayOf(at, now time.Time) string {
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

// cell cuts a text to a width in columns.
func cell(s string, width int) string {
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

// fill pads a text to a width in columns.
func fill(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-lipgloss.Width(s)))
}

// minuteOf formats a time as lists show it.
func minuteOf(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
