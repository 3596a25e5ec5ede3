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

const (
	maxArgs    = 40 // arguments in a list
	maxPreview = 60 // lines of a preview
	maxName    = 24 // columns of an argument's name
)

// planTool is the tool that carries out a plan. Its preview is the whole plan.
const planTool = "plan.start"

// question shows what an approval is about: the sentence that says what the call does, why it is asked,
// and the arguments and the preview that matter. What is cut says so, and what is not shown is counted;
// more says what shows it: "d shows"; "" means that details follow anyway. A question without a sentence, as an older Steward asks it, is
// shown in full.
func (t *turn) question(f *client.Frame, more string) string {
	a := f.Approval
	what, _ := asked(f)
	if a.Summary == "" {
		return t.warn.Render(t.paint.wrap("? "+Visible(what))) + "\n" + t.details(f)
	}
	lines := []string{hangingIndent(t.warn, t.warn.Render("? "), "  ", Visible(a.Summary), t.paint.width)}
	say := func(style lipgloss.Style, text string) { lines = append(lines, t.hangIndent(style, text)) }
	say(lipgloss.NewStyle(), Visible(a.Why))
	if a.Agent != "" {
		say(t.dim, "The agent "+Visible(a.Agent)+" wants it.")
	}
	if a.Approvers != "" {
		say(t.dim, "A member of the group "+Visible(a.Approvers)+" answers.")
	}
	if more == "" {
		return strings.Join(lines, "\n")
	}
	wide := 0
	for _, v := range a.Values {
		wide = max(wide, min(lipgloss.Width(oneLine(Visible(v.Name), maxName)), maxName))
	}
	for _, v := range a.Values {
		lines = append(lines, t.value(&v, wide))
	}
	if a.More > 0 {
		say(t.warn, fmt.Sprintf("and %s: %s", counted(a.More, "more value"), more+map[bool]string{true: " it", false: " them"}[a.More == 1]))
	}
	if a.Preview != "" {
		preview := strings.Split(strings.TrimSuffix(a.Preview, "\n"), "\n")
		left := len(preview) - maxPreview
		for _, l := range preview[:min(len(preview), maxPreview)] {
			say(lipgloss.NewStyle(), "  "+Visible(l))
		}
		if left > 0 {
			say(t.warn, fmt.Sprintf("  … cut: %s, which %s", counted(left, "more line"), more))
		}
	}
	return strings.Join(lines, "\n")
}

// value shows an argument beside its name. wide is the width of the column of names.
func (t *turn) value(v *client.Value, wide int) string {
	style, name := lipgloss.NewStyle(), oneLine(Visible(v.Name), maxName)
	text := Visible(v.Text)
	if len(v.Marks) > 0 {
		style, text = t.warn, "! "+strings.Join(v.Marks, ", ")+": "+text
	}
	lines := strings.Split(text, "\n")
	if v.Cut {
		last := &lines[len(lines)-1]
		if strings.TrimSpace(*last) != "" {
			*last += " "
		}
		*last += "… (cut: " + SizeOf(v.Size) + " in all)"
	}
	first, rest := "  "+name+strings.Repeat(" ", max(wide-lipgloss.Width(name), 0)+2), strings.Repeat(" ", wide+4)
	for i, l := range lines {
		lines[i] = hangingIndent(style, first, rest, l, t.paint.width)
		first = rest
	}
	return strings.Join(lines, "\n")
}

// details shows everything that an approval covers and a program would want to know: the arguments one per
// line and with nothing hidden, the whole preview, what was read before, the rule that asks, who answers and
// until when.
func (t *turn) details(f *client.Frame) string {
	var b strings.Builder
	what, args := asked(f)
	a := f.Approval
	say := func(style lipgloss.Style, text string) {
		if text != "" {
			b.WriteString(t.hangIndent(style, text) + "\n")
		}
	}
	plain := lipgloss.NewStyle()
	if a.Summary != "" {
		say(t.dim, "tool     "+Visible(what))
	}
	say(t.dim, oneLine(a.Reason, 400))
	if list, marked := argumentList(a.Each); marked {
		say(t.warn, Visible(list))
	}
	for _, l := range members(args) {
		if f.Name != planTool || a.Preview == "" { // a plan's preview says the same
			say(plain, Visible(l))
		}
	}
	if a.Preview != "" {
		for l := range strings.SplitSeq(strings.TrimSuffix(a.Preview, "\n"), "\n") {
			b.WriteString(t.hangIndent(plain, "  "+Visible(l)) + "\n")
		}
	}
	say(t.warn, Visible(oneLine(effect.DescribeLabels(a.Labels, a.Read), 2000)))
	say(t.dim, oneLine(aboutQuestion(a, t.now()), 400))
	for _, l := range [][2]string{{"labels", strings.Join(a.Labels, ", ")}, {"question", a.ID}, {"hash", a.Hash}} {
		if l[1] != "" && a.Summary != "" {
			say(t.dim, fmt.Sprintf("%-8s %s", l[0], Visible(l[1])))
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
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
	if n := len(all) - maxArgs; n > 0 {
		all = append(all[:maxArgs], fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("%s, %s: %s", counted(len(args), "argument"), SizeOf(total), strings.Join(all, " · ")), len(first) > 0
}

// QuestionLine says on one line what a question is about. It puts the names of arguments to look at first,
// and counts those that it does not show.
func QuestionLine(q *effect.Question) string {
	line := Visible(cmp.Or(q.Summary, q.Tool+" "+string(q.Args)))
	var look []string
	for _, a := range q.Arguments {
		if len(a.Marks) > 0 {
			look = append(look, oneLine(Visible(a.Name), 20))
		}
	}
	if len(look) > 0 {
		line = "! " + strings.Join(look, ", ") + ": " + line
	}
	if n := len(q.Values) + q.More; n > 0 {
		line += fmt.Sprintf(" (+%d)", n)
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

// hangIndent indents all lines of a text by two columns more than its own indentation.
func (t *turn) hangIndent(style lipgloss.Style, text string) string {
	rest := strings.TrimLeft(text, " ")
	indent := "  " + text[:len(text)-len(rest)]
	return hangingIndent(style, indent, indent, rest, t.paint.width)
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
		return "while nothing private and nothing from others has been read"
	case !untrusted:
		return "while nothing from others has been read"
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

// QuestionShown describes a question, within a width in columns; 0: any. With whole it adds everything that
// an answer covers; without, more says what does, such as "d shows".
func QuestionShown(q *effect.Question, width int, now time.Time, whole bool, more string) string {
	t := turn{style: style{}, now: func() time.Time { return now }}
	if t.paint.width = width; width == 0 { // not for a terminal
		t.paint.width = 1 << 16
	}
	f := client.Frame{Name: q.Tool, Args: json.RawMessage(q.Args), Approval: &client.Approval{ID: q.ID, Hash: q.Hash, Reason: q.Reason,
		Expires: q.Expires, Rule: q.Rule, Labels: q.Labels, Read: q.Read, Approvers: q.Approvers, Preview: q.Preview,
		Summary: q.Summary, Why: q.Why, More: q.More}}
	for _, a := range q.Arguments {
		f.Approval.Each = append(f.Approval.Each, client.Argument(a))
	}
	for _, v := range q.Values {
		f.Approval.Values = append(f.Approval.Values, client.Value(v))
	}
	var b strings.Builder
	b.WriteString(t.question(&f, more) + "\n")
	agent := cmp.Or(q.Called, q.Agent)
	if !whole {
		if len(q.Lineage) > 0 {
			b.WriteString(t.hangIndent(t.dim, "The agent "+Visible(agent)+" wants it, asked by "+Visible(strings.Join(q.Lineage, " > "))+".") + "\n")
		}
		return b.String()
	}
	if q.Summary != "" {
		b.WriteString("\n" + t.details(&f) + "\n")
	}
	for _, l := range [][2]string{{"id", q.Short}, {"version", q.Version}, {"agent", strings.Join(append(slices.Clone(q.Lineage), agent), " > ")},
		{"for", q.User}, {"in", q.Conversation}, {"policy", q.Policy}, {"once", q.NoGrant}} {
		if l[1] != "" {
			fmt.Fprintf(&b, "  %-8s %s\n", l[0], Visible(l[1]))
		}
	}
	return b.String()
}
