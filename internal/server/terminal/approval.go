package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/intent"
	"steward/internal/message"
)

// mostValue is how many bytes of an argument are shown, and mostArgs how many
// arguments.
const (
	mostValue = 600
	mostArgs  = 40
	// mostPreview is how many lines of a preview are shown.
	mostPreview = 60
)

// planTool is the tool that carries out a plan. Its preview is the whole plan.
const planTool = "plan.start"

// question shows everything that an approval covers: the tool and its arguments,
// one per line and with nothing hidden; the reason, what was read before, who
// answers and until when. If an argument is long or marked, a list of all arguments
// comes first. Unless whole is set, long values are cut, so that no argument pushes
// another one off the screen; cut reports that.
func (t *turn) question(f *client.Frame, whole bool) (text string, cut bool) {
	var b strings.Builder
	what, args := asked(f)
	a := f.Approval
	b.WriteString(t.warn.Render(t.paint.wrap("? "+Visible(what))) + "\n")
	if a.Reason != "" {
		b.WriteString(t.hang(t.dim, oneLine(a.Reason, 400)) + "\n")
	}
	lines := members(args)
	if f.Name == planTool && a.Preview != "" { // which says the same
		lines = nil
	}
	list, marked := argumentList(a.Each)
	for i, l := range lines {
		if n := len(l); n > mostValue && len(lines) > 1 || len(lines) > mostArgs+2 && i > mostArgs {
			cut = true
			if !whole {
				lines[i] = strings.ToValidUTF8(l[:min(n, mostValue)], "") + "…"
			}
		}
	}
	if cut && !whole && len(lines) > mostArgs+2 {
		lines = append(lines[:mostArgs+1:mostArgs+1], "  …", "}")
	}
	switch {
	case marked:
		b.WriteString(t.hang(t.warn, Visible(list)) + "\n")
	case cut:
		b.WriteString(t.hang(lipgloss.NewStyle(), Visible(list)) + "\n")
	}
	for _, l := range lines {
		b.WriteString(t.hang(lipgloss.NewStyle(), Visible(l)) + "\n")
	}
	if a.Preview != "" {
		preview := strings.Split(strings.TrimSuffix(a.Preview, "\n"), "\n")
		if len(preview) > mostPreview && !whole {
			cut = true
			preview = append(preview[:mostPreview:mostPreview], fmt.Sprintf("… %d more lines", len(preview)-mostPreview))
		}
		for _, l := range preview {
			b.WriteString(t.hang(lipgloss.NewStyle(), "  "+Visible(l)) + "\n")
		}
	}
	if told := effect.Told(a.Labels, a.Read); told != "" {
		b.WriteString(t.hang(t.warn, Visible(oneLine(told, 2000))) + "\n")
	}
	if about := aboutQuestion(a, t.now()); about != "" {
		b.WriteString(t.hang(t.dim, oneLine(about, 400)) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n"), cut
}

// argumentList lists the arguments of a call with their sizes and marks, marked
// ones first. marked reports whether there are any.
func argumentList(args []client.Argument) (list string, marked bool) {
	var first, rest []string
	total := 0
	for _, a := range args {
		total += a.Size
		name := oneLine(Visible(a.Name), 40)
		if len(a.Marks) > 0 {
			first = append(first, fmt.Sprintf("%s (%s: %s)", name, SizeOf(a.Size), strings.Join(a.Marks, ", ")))
		} else {
			rest = append(rest, fmt.Sprintf("%s (%s)", name, SizeOf(a.Size)))
		}
	}
	all := append(first, rest...)
	if n := len(all) - mostArgs; n > 0 {
		all = append(all[:mostArgs], fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("%s, %s: %s", counted(len(args), "argument"), SizeOf(total), strings.Join(all, " · ")), len(first) > 0
}

// ArgumentsLine shows the arguments of a question on one line. It shortens long ones so
// that all fit, and puts the names of marked ones first.
func ArgumentsLine(q *effect.Question) string {
	var parts []string
	for _, l := range members(string(q.Args)) {
		if l = strings.TrimPrefix(l, "  "); len(l) > 60 {
			l = strings.ToValidUTF8(l[:60], "") + "…,"
		}
		parts = append(parts, l)
	}
	line := Visible(strings.Join(parts, ""))
	var look []string
	for _, a := range q.Arguments {
		if len(a.Marks) > 0 {
			look = append(look, oneLine(Visible(a.Name), 20))
		}
	}
	if len(look) > 0 {
		line = "! " + strings.Join(look, ", ") + ": " + line
	}
	return line
}

// SizeOf formats a number of bytes for a person.
func SizeOf(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d bytes", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f KB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// hang indents all lines of a text by two columns more than its own indentation.
func (t *turn) hang(style lipgloss.Style, text string) string {
	rest := strings.TrimLeft(text, " ")
	indent := "  " + text[:len(text)-len(rest)]
	return hang(style, indent, indent, rest, t.paint.width)
}

// aboutQuestion returns the rule, who is asked, and until when.
func aboutQuestion(a *client.Approval, now time.Time) string {
	var parts []string
	if a.Rule != "" {
		parts = append(parts, "rule "+a.Rule)
	}
	if a.Approvers != "" {
		parts = append(parts, "a member of the group "+a.Approvers+" answers")
	}
	if !a.Expires.IsZero() {
		parts = append(parts, "open until "+UntilWhen(a.Expires, now))
	}
	return strings.Join(parts, " · ")
}

// UntilWhen formats a future time briefly, in the person's own time zone.
func UntilWhen(t, now time.Time) string {
	t, now = t.Local(), now.Local()
	switch {
	case t.Format(time.DateOnly) == now.Format(time.DateOnly):
		return t.Format("15:04")
	case t.Year() == now.Year():
		return t.Format("Mon 2 Jan 15:04")
	}
	return t.Format("2 Jan 2006 15:04")
}

// Ceiling returns what must not have been read for a standing approval to cover a
// call, given the labels of what had been read when the approval was given.
func Ceiling(labels []string) string {
	private, untrusted := slices.Contains(labels, message.Private.String()), slices.Contains(labels, message.Untrusted.String())
	switch {
	case !private && !untrusted:
		return "while nothing private and nothing of others has been read"
	case !untrusted:
		return "while nothing of others has been read"
	case !private:
		return "while nothing private has been read"
	}
	return ""
}

// TermLines lists the values that each argument may have, in columns, with nothing hidden.
func TermLines(p intent.Pattern) []string {
	names := slices.Sorted(maps.Keys(p))
	wide := 0
	for _, n := range names {
		wide = max(wide, lipgloss.Width(Visible(n)))
	}
	out := make([]string, len(names))
	for i, n := range names {
		m, what := p[n], "anything"
		switch {
		case m.Any:
		case m.Like != "":
			what = "like " + m.Like
		default:
			what = "is " + string(m.Is)
		}
		out[i] = Visible(n) + strings.Repeat(" ", wide-lipgloss.Width(Visible(n))) + "  " + Visible(what)
	}
	return out
}

// QuestionShown describes a question completely, within a width in columns; 0: any.
// Unless whole is set, long arguments are cut.
func QuestionShown(q *effect.Question, width int, now time.Time, whole bool) string {
	t := turn{look: look{}, now: func() time.Time { return now }}
	if t.paint.width = width; width == 0 { // not for a terminal
		t.paint.width = 1 << 16
	}
	f := client.Frame{Name: q.Tool, Args: json.RawMessage(q.Args), Approval: &client.Approval{Reason: q.Reason,
		Expires: q.Expires, Rule: q.Rule, Labels: q.Labels, Read: q.Read, Approvers: q.Approvers, Preview: q.Preview}}
	for _, a := range q.Arguments {
		f.Approval.Each = append(f.Approval.Each, client.Argument(a))
	}
	var b strings.Builder
	text, cut := t.question(&f, whole)
	b.WriteString(text + "\n")
	if cut && !whole {
		fmt.Fprintf(&b, "  cut: steward approvals show %s --whole shows all of it\n", q.Short[:min(8, len(q.Short))])
	}
	for _, l := range [][2]string{{"id", q.Short}, {"version", q.Version}, {"agent", strings.Join(append(slices.Clone(q.Lineage), cmp.Or(q.Called, q.Agent)), " > ")},
		{"for", q.User}, {"in", q.Conversation}, {"policy", q.Policy}, {"once", q.NoGrant}} {
		if l[1] != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", l[0], Visible(l[1]))
		}
	}
	return b.String()
}
