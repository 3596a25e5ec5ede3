package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/toolkit/builtin"
	"steward/internal/worklog"
)

// logFlags is what steward log was asked for.
type logFlags struct {
	conversation, interaction, tool, outcome, since, until string
	branches                                               bool
	limit                                                  int
}

func (a *app) logCommand() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use: "log", Short: "Tell what the tools did", GroupID: "look", Args: cobra.NoArgs,
		Long: "Tell what the tools did: one line per call, the newest last. ✓ it was done, ✗ it was not, … it runs,\n" +
			"is queued or waits for you, ? nobody knows whether it was done. What a later call or a person has\n" +
			"made obsolete says so. The last column names the call for steward log show.",
		Example: "  steward log --since 24h --outcome failure\n  steward log --conversation last --tool 'files.*'\n  steward log show last",
		RunE:    func(c *cobra.Command, _ []string) error { return a.log(c.Context(), f) },
	}
	c.Flags().StringVar(&f.conversation, "conversation", "", "only calls on the preferred branch of the conversation `ID`; last is the last used one")
	c.Flags().StringVar(&f.interaction, "interaction", "", "only calls of the interaction `ID`")
	c.Flags().BoolVar(&f.branches, "all-branches", false, "with --conversation: calls on all of its branches")
	c.Flags().StringVar(&f.tool, "tool", "", "only calls of the tool `NAME`, or of those that a pattern such as files.* names")
	c.Flags().StringVar(&f.outcome, "outcome", "", "only calls that ended so: `OUTCOME` is success, failure, partial or pending")
	c.Flags().StringVar(&f.since, "since", "", "only calls since then: a duration such as 24h or 7d, or a `DATE` such as 2030-01-31")
	c.Flags().StringVar(&f.until, "until", "", "only calls before then: a duration or `DATE` like those of --since")
	c.Flags().IntVar(&f.limit, "limit", 50, "tell at most the newest `N`")
	complete(c, "conversation", a.completeConversations)
	complete(c, "outcome", words("success", "failure", "partial", "pending"))
	complete(c, "tool", a.completeTools)
	c.AddCommand(a.showLog())
	return c
}

func (a *app) log(ctx context.Context, f logFlags) error {
	if f.limit < 1 {
		return usage("--limit must be 1 or more")
	}
	filter := worklog.Filter{Tool: f.tool, Outcome: worklog.Outcome(f.outcome), AllBranches: f.branches}
	var err error
	if filter.Since, err = past("--since", f.since, time.Now()); err != nil {
		return err
	}
	if filter.Until, err = past("--until", f.until, time.Now()); err != nil {
		return err
	}
	if f.interaction != "" {
		var ok bool
		if filter.Interaction, ok = id.Parse(strings.ToLower(f.interaction)); !ok {
			return usage("--interaction wants an id, not %q", f.interaction)
		}
	}
	list := []worklog.Entry{}
	err = a.withLog(ctx, func(s shelf, e *worklog.Engine) error {
		if filter.Conversation, err = a.which(ctx, s.reader(), f.conversation, false); err != nil {
			return err
		}
		list, err = newest(ctx, e, s.scope(), filter, f.limit)
		return err
	})
	if err != nil {
		return err
	}
	slices.Reverse(list)
	if a.json {
		return a.printJSON(list)
	}
	if len(list) == 0 {
		if (f == logFlags{limit: f.limit}) {
			a.note("no tool was called yet")
		} else {
			a.note("no tool call is like that")
		}
		return nil
	}
	_, err = a.stdout.Write([]byte(logTable(list, a.width(), filter.Conversation.Zero(), time.Now())))
	return err
}

// newest reads page after page, until there are enough entries or no more.
func newest(ctx context.Context, e *worklog.Engine, sc store.Scope, f worklog.Filter, limit int) ([]worklog.Entry, error) {
	list := []worklog.Entry{}
	for after := store.Cursor(""); len(list) < limit; {
		page, next, err := e.Log(ctx, sc, f, after, min(limit-len(list), worklog.MaxLimit))
		if err != nil {
			return nil, err
		}
		list = append(list, page...)
		if after = next; next == "" {
			break
		}
	}
	return list, nil
}

// withLog runs do over the work log of what is stored; where nothing is, it
// does not run it.
func (a *app) withLog(ctx context.Context, do func(shelf, *worklog.Engine) error) error {
	st, err := a.reading(ctx)
	if err != nil || st == nil {
		return err
	}
	specs, err := a.specs()
	if err == nil {
		err = do(a.shelf(st), worklog.New(st, func(name string) (tool.Spec, bool) {
			s, ok := specs[name]
			return s, ok
		}))
	}
	return errors.Join(err, st.Close())
}

// specs are those of the tools that Steward brings along, all of them: also
// calls of tools that are not granted any more are told well.
func (a *app) specs() (map[string]tool.Spec, error) {
	tools, err := builtin.Tools(builtin.Options{Folders: []builtin.Folder{{Name: "folder", Path: ".", Write: true}}})
	if err != nil {
		return nil, err
	}
	out := map[string]tool.Spec{}
	for _, t := range append(tools, effect.New(effect.Options{}).ReadTool()) {
		out[t.Spec().Name] = t.Spec()
	}
	return out, nil
}

// past reads a duration until now, or a date.
func past(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s wants a duration such as 24h or 7d, or a date such as 2030-01-31, not %q", flag, text)
}

// width is how many columns the terminal has; 0: there is none.
func (a *app) width() int {
	f := fileOf(a.stdout)
	if f == nil {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd())) // an error where it is no terminal
	if err != nil {
		return 0
	}
	return w
}

func mark(o worklog.Outcome) string {
	switch o {
	case worklog.Success:
		return "✓"
	case worklog.Failure:
		return "✗"
	case worklog.Pending:
		return "…"
	}
	return "?"
}

// Columns of the table that may be cut where the terminal is narrow.
const (
	widestTool  = 16
	widestTitle = 14
	leastWhat   = 20
)

// logTable lays the entries out, under a heading for each day, within a width
// (0: as wide as they are).
func logTable(list []worklog.Entry, width int, across bool, now time.Time) string {
	rows := make([][4]string, len(list)) // tool, what, conversation, ref
	wide := [4]int{}
	for i, en := range list {
		rows[i] = [4]string{plainLine(en.Tool), plainLine(what(en)), "", shortRef(en.ID)}
		if across {
			rows[i][2] = plainLine(en.Title)
		}
		if width > 0 {
			rows[i][0], rows[i][2] = cell(rows[i][0], widestTool), cell(rows[i][2], widestTitle)
		}
		for j, s := range rows[i] {
			wide[j] = max(wide[j], lipgloss.Width(s))
		}
	}
	const lead = len("15:04  x  ") // of which one is a mark
	rest := lead + wide[0] + 2 + 2 + wide[3]
	if across {
		rest += wide[2] + 2
	}
	if width > 0 {
		wide[1] = min(wide[1], max(leastWhat, width-rest))
	}
	var b strings.Builder
	day := ""
	for i, en := range list {
		at := en.At.Local()
		if d := dayOf(at, now); d != day {
			if day != "" {
				b.WriteByte('\n')
			}
			day = d
			fmt.Fprintf(&b, "%s\n", day)
		}
		fmt.Fprintf(&b, "%s  %s  %s  %s  ", at.Format("15:04"), mark(en.Outcome), fill(rows[i][0], wide[0]), fill(cell(rows[i][1], wide[1]), wide[1]))
		if across {
			b.WriteString(fill(rows[i][2], wide[2]) + "  ")
		}
		b.WriteString(rows[i][3] + "\n")
		if why := plainLine(en.Error); why != "" {
			indent := lead + wide[0] + 2
			if width > 0 {
				why = cell(why, max(leastWhat, width-indent))
			}
			b.WriteString(strings.Repeat(" ", indent) + why + "\n")
		}
	}
	return b.String()
}

// what is the summary, and what the call affects where that does not say it.
func what(en worklog.Entry) string {
	s := en.Summary
	for _, i := range en.Impact {
		if !strings.Contains(s, strings.TrimSuffix(i, "…")) {
			s += " → " + i
		}
	}
	if en.Obsolete {
		s += " (obsolete)"
	}
	return s
}

// shortRef is the end of a call's id: enough to find it by.
func shortRef(ref string) string {
	msg, block, _ := strings.Cut(ref, "/")
	return msg[max(0, len(msg)-6):] + "/" + block
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

func (a *app) showLog() *cobra.Command {
	return &cobra.Command{
		Use: "show REF", Short: "Show one call with its arguments and result", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCalls,
		Long: "Show one call with its arguments and its result as they were recorded; secrets are masked. REF is\n" +
			"what the last column of steward log says, the whole id of a call, or last for the newest one.",
		RunE: func(c *cobra.Command, args []string) error {
			found := false
			err := a.withLog(c.Context(), func(s shelf, e *worklog.Engine) error {
				found = true
				en, msgs, err := e.Show(c.Context(), s.scope(), args[0])
				if err != nil {
					return err
				}
				return a.printCall(en, msgs)
			})
			if err == nil && !found {
				return fault.New(fault.NotFound, "call_not_found", "no tool was called yet")
			}
			return err
		},
	}
}

func (a *app) printCall(en worklog.Entry, msgs []*message.Message) error {
	if a.json {
		out := struct {
			Entry    worklog.Entry     `json:"entry"`
			Messages []json.RawMessage `json:"messages"`
		}{Entry: en}
		for _, m := range msgs {
			out.Messages = append(out.Messages, message.Append(nil, m))
		}
		return a.printJSON(out)
	}
	_, err := a.stdout.Write([]byte(callText(en, msgs)))
	return err
}

// callText tells one call at length.
func callText(en worklog.Entry, msgs []*message.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n\n", mark(en.Outcome), plainLine(what(en)))
	outcome := string(en.Outcome)
	if en.Error != "" {
		outcome += ": " + en.Error
	}
	when := en.At.Local().Format("2006-01-02 15:04:05")
	if en.Took > 0 {
		when += ", took " + en.Took.Round(time.Millisecond).String()
	}
	for _, f := range [][2]string{{"outcome", outcome}, {"when", when}, {"tool", en.Tool}, {"by", en.Actor},
		{"conversation", en.Conversation.String()}, {"title", en.Title}, {"interaction", en.Interaction.String()},
		{"request", en.Request.String()}, {"call", en.ID}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%-14s%s\n", f[0], plainLine(f[1]))
		}
	}
	if c, ok := msgs[0].Blocks[blockOf(en.ID)].(*message.ToolCall); ok {
		b.WriteString("\narguments\n" + indented(argumentsText(c.Args)))
	}
	if len(msgs) > 1 {
		res := msgs[1].Result()
		fmt.Fprintf(&b, "\nresult\n%s", indented(res.Text()))
		if res.Rest != "" {
			fmt.Fprintf(&b, "  [the rest is kept as %s]\n", plainLine(res.Rest))
		}
	}
	return b.String()
}

func blockOf(ref string) int {
	_, block, _ := strings.Cut(ref, "/")
	n, _ := strconv.Atoi(block) // an entry's own id
	return n
}

// argumentsText writes arguments one per line, a long text as it is.
func argumentsText(args []byte) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(args, &members) != nil {
		return string(args)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		value := string(members[name])
		var text string
		if json.Unmarshal(members[name], &text) == nil {
			value = text
		}
		if strings.Contains(strings.TrimSpace(value), "\n") {
			fmt.Fprintf(&b, "%s:\n%s", name, indented(value))
		} else {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String()
}

// indented sets a text in, without anything that does something to a terminal.
func indented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRightFunc(s, unicode.IsSpace)) {
		b.WriteString(strings.TrimRight("  "+plainLine(strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\r\n")), " ") + "\n")
	}
	return b.String()
}

// completeTools offers the names of the tools that Steward brings along.
func (a *app) completeTools(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	specs, err := a.specs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out := []cobra.Completion{}
	for name := range specs {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completeCalls offers the newest calls.
func (a *app) completeCalls(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "the newest one")}
		err := a.withLog(ctx, func(s shelf, e *worklog.Engine) error {
			list, err := newest(ctx, e, s.scope(), worklog.Filter{}, 30)
			for _, en := range list {
				out = append(out, cobra.CompletionWithDesc(shortRef(en.ID), plainLine(en.Summary)))
			}
			return err
		})
		return out, err
	})
}
