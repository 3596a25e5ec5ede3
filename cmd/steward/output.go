package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// print writes a text to standard output.
func (a *app) print(text string) error {
	_, err := io.WriteString(a.stdout, text)
	return err
}

// confirm asks a person at a terminal; anything but y is a no. in is standard
// input where it has been read from before.
func (a *app) confirm(in *bufio.Reader, format string, args ...any) (bool, error) {
	if in == nil {
		in = bufio.NewReader(a.stdin)
	}
	if _, err := fmt.Fprintf(a.stderr, format+" [y/N] ", args...); err != nil {
		return false, err
	}
	line, err := in.ReadString('\n')
	return err == nil && strings.TrimSpace(strings.ToLower(line)) == "y", nil
}

// Columns of tables that may be cut where the terminal is narrow.
const (
	widestTool  = 16
	widestTitle = 14
	leastWhat   = 20
)

// grid lays rows out in columns, a line each. The last column is cut to what
// the width leaves; 0: it is not.
func grid(rows [][]string, width int) []string {
	var wide []int
	for _, r := range rows {
		for i, text := range r {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], lipgloss.Width(text))
		}
	}
	lines := make([]string, len(rows))
	for n, r := range rows {
		line := ""
		for i, text := range r {
			switch {
			case i < len(r)-1:
				line += fill(text, wide[i]) + "  "
			case width > 0:
				line += cell(text, max(leastWhat, width-lipgloss.Width(line)))
			default:
				line += text
			}
		}
		lines[n] = strings.TrimRight(line, " ")
	}
	return lines
}

// columns is a grid as one text.
func columns(rows [][]string, width int) string {
	return strings.Join(grid(rows, width), "\n") + "\n"
}

// fields lists what is known of something, a line each, the names width columns
// wide.
func fields(width int, rows [][2]string) string {
	var b strings.Builder
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(&b, "%-*s%s\n", width, r[0], plainLine(r[1]))
		}
	}
	return b.String()
}

// byDay is a text whose lines stand below a heading for each day.
type byDay struct {
	strings.Builder
	now time.Time
	day string
}

// at begins a line of a time with its hour.
func (b *byDay) at(t time.Time) {
	t = t.Local()
	if d := dayOf(t, b.now); d != b.day {
		if b.day != "" {
			b.WriteByte('\n')
		}
		b.day = d
		b.WriteString(d + "\n")
	}
	b.WriteString(t.Format("15:04") + "  ")
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

// minuteOf is a time as lists show it.
func minuteOf(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

func firstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// counted is a number with its word.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func plural(n int, what string) string { return counted(n, what, what+"s") }

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
