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

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
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
	q := client.LogQuery{Tool: f.tool, Outcome: f.outcome, AllBranches: f.branches}
	var err error
	if q.Since, err = past("--since", f.since, aDuration, time.Now()); err != nil {
		return err
	}
	if q.Until, err = past("--until", f.until, aDuration, time.Now()); err != nil {
		return err
	}
	if f.interaction != "" {
		x, ok := id.Parse(strings.ToLower(f.interaction))
		if !ok {
			return usage("--interaction wants an id, not %q", f.interaction)
		}
		q.Interaction = x.String()
	}
	list, err := readList(ctx, a, func(s *session) ([]client.LogEntry, error) {
		var err error
		if q.Conversation, err = s.which(ctx, f.conversation); err != nil {
			return nil, err
		}
		return s.Log(ctx, q, f.limit)
	})
	if err != nil {
		return err
	}
	slices.Reverse(list)
	none := "no tool call is like that"
	if (f == logFlags{limit: f.limit}) {
		none = "no tool was called yet"
	}
	return tellList(a, list, none, func(list []client.LogEntry) string {
		return logTable(list, a.width(), q.Conversation == "", time.Now())
	})
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

// aDuration is what flags want that past reads.
const aDuration = "a duration such as 24h or 7d"

// past reads how long ago something was, or when; wants is what its flag wants.
func past(flag, text, wants string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		if n, err := strconv.Atoi(strings.TrimSuffix(text, unit)); err == nil && strings.HasSuffix(text, unit) && n >= 0 && n <= 36500 {
			return now.AddDate(0, 0, -n*days), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("%s wants %s, or a date such as 2030-01-31, not %q", flag, wants, text)
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

func mark(outcome string) string {
	switch worklog.Outcome(outcome) {
	case worklog.Success:
		return "✓"
	case worklog.Failure:
		return "✗"
	case worklog.Pending:
		return "…"
	}
	return "?"
}

// logTable lays the entries out, under a heading for each day, within a width
// (0: as wide as they are).
func logTable(list []client.LogEntry, width int, across bool, now time.Time) string {
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
	b := byDay{now: now}
	for i, en := range list {
		b.at(en.At)
		fmt.Fprintf(&b, "%s  %s  %s  ", mark(en.Outcome), fill(rows[i][0], wide[0]), fill(cell(rows[i][1], wide[1]), wide[1]))
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
func what(en client.LogEntry) string {
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

func (a *app) showLog() *cobra.Command {
	return &cobra.Command{
		Use: "show REF", Short: "Show one call with its arguments and result", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeCalls,
		Long: "Show one call with its arguments and its result as they were recorded; secrets are masked. REF is\n" +
			"what the last column of steward log says, the whole id of a call, or last for the newest one.",
		RunE: func(c *cobra.Command, args []string) error {
			err := a.with(c.Context(), toRead, func(s *session) error {
				call, err := s.loggedCall(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printCall(call)
			})
			if errors.Is(err, errNothingYet) {
				return fault.New(fault.NotFound, "call_not_found", "no tool was called yet")
			}
			return err
		},
	}
}

// loggedCall finds a call by what the log calls it.
func (s *session) loggedCall(ctx context.Context, ref string) (client.LoggedCall, error) {
	if ref == "last" {
		list, err := s.Log(ctx, client.LogQuery{}, 1)
		if err != nil {
			return client.LoggedCall{}, err
		}
		if len(list) == 0 {
			return client.LoggedCall{}, fault.New(fault.NotFound, "call_not_found", "no tool was called yet")
		}
		ref = list[0].ID
	}
	msg, block, ok := strings.Cut(ref, "/")
	if !ok || msg == "" || block == "" {
		return client.LoggedCall{}, fault.New(fault.Invalid, "ref_invalid", "%.80q names no tool call", ref).
			WithHint("write it as steward log does, for example 5a3f1d/1, or last")
	}
	return s.LogEntry(ctx, msg, block)
}

func (a *app) printCall(call client.LoggedCall) error {
	if a.json {
		return a.printJSON(call)
	}
	msgs := make([]*message.Message, len(call.Messages))
	for i, raw := range call.Messages {
		var err error
		if msgs[i], err = message.Decode(raw); err != nil {
			return err
		}
	}
	return a.print(callText(call.Entry, msgs))
}

// callText tells one call at length.
func callText(en client.LogEntry, msgs []*message.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n\n", mark(en.Outcome), plainLine(what(en)))
	outcome := en.Outcome
	if en.Error != "" {
		outcome += ": " + en.Error
	}
	when := en.At.Local().Format("2006-01-02 15:04:05")
	if en.TookMS > 0 {
		when += ", took " + (time.Duration(en.TookMS) * time.Millisecond).String()
	}
	b.WriteString(fields(14, [][2]string{{"outcome", outcome}, {"when", when}, {"tool", en.Tool}, {"by", en.Actor},
		{"conversation", en.Conversation}, {"title", en.Title}, {"interaction", en.Interaction},
		{"request", en.Request}, {"call", en.ID}}))
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
	return a.offerRead(c, func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "the newest one")}
		list, err := s.Log(ctx, client.LogQuery{}, 30)
		for _, en := range list {
			out = append(out, cobra.CompletionWithDesc(shortRef(en.ID), plainLine(en.Summary)))
		}
		return out, err
	})
}
