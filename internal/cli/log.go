package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/conversation/worklog"
	"steward/internal/fault"
	"steward/internal/message"
)

func (a *program) logCommand() *cobra.Command {
	var q client.LogQuery
	var limit int
	c := &cobra.Command{Use: "log", Short: "List the tool calls", GroupID: "look",
		Long: "List the tool calls, one per line, newest last. ✓ means done, ✗ not done, … running, queued or waiting\n" +
			"for you, ? that the outcome is unknown. Calls that a later call or a person has made\n" +
			"obsolete are marked. The last column names the call for steward log show.",
		Example: "  steward log --since 24h --outcome failure\n  steward log --conversation last --tool 'files.*'\n  steward log show last",
		RunE: func(c *cobra.Command, _ []string) error {
			none := "no tool call matches"
			if q == (client.LogQuery{}) {
				none = "no tool has been called yet"
			}
			list, err := readList(c.Context(), a, func(s *session) (_ []client.LogEntry, err error) {
				if q.Conversation, err = s.resolveConversation(c.Context(), q.Conversation); err != nil {
					return nil, err
				}
				return s.Log(c.Context(), q, limit)
			})
			slices.Reverse(list)
			return printList(a, list, err, none, func(list []client.LogEntry) string {
				return logTable(list, a.width(), q.Conversation == "", time.Now())
			})
		}}
	c.Flags().StringVar(&q.Conversation, "conversation", "", "only calls on the current branch of the conversation `ID`; last means the one used last")
	c.Flags().StringVar(&q.Interaction, "interaction", "", "only calls of the interaction `ID`")
	c.Flags().BoolVar(&q.AllBranches, "all-branches", false, "with --conversation: include all of its branches")
	c.Flags().StringVar(&q.Tool, "tool", "", "only calls of the tool `NAME`, or of those that match a pattern such as files.*")
	c.Flags().StringVar(&q.Outcome, "outcome", "", "only calls with this `OUTCOME`: success, failure, partial or pending")
	sinceUntil(c, &q.Since, &q.Until, "calls")
	limitFlag(c, &limit, 50, "list at most the newest `N`")
	complete(c, "conversation", a.completeConversations)
	complete(c, "outcome", words("success", "failure", "partial", "pending"))
	complete(c, "tool", a.completeTools)
	c.AddCommand(a.showLog())
	return c
}

// width returns the number of columns of the terminal; 0: there is none.
func (a *program) width() int { return app.WidthOf(a.stdout) }

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

// logTable formats the entries under a heading for each day, within a width (0: unlimited).
func logTable(list []client.LogEntry, width int, across bool, now time.Time) string {
	rows := make([][]string, len(list))
	for i, en := range list {
		rows[i] = []string{mark(en.Outcome), plainLine(en.Tool), plainLine(callSummary(en)), "", shortRef(en.ID)}
		if across {
			rows[i][3] = plainLine(en.Title)
		}
	}
	width = widthBesideTimes(width)
	lines, wide := table([]column{{}, {most: widestTool}, {least: minWhat}, {most: widestTitle}, {}}, rows, width)
	indent := len("x  ") + wide[1] + 2
	for i, en := range list {
		if why := plainLine(en.Error); why != "" {
			if width > 0 {
				why = cell(why, max(minWhat, width-indent))
			}
			lines[i] += "\n" + strings.Repeat(" ", len("15:04  ")+indent) + why
		}
	}
	return groupByDay(lines, func(i int) time.Time { return list[i].At }, now)
}

// callSummary returns the summary of a call, followed by what it affected unless the summary names it.
func callSummary(en client.LogEntry) string {
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

// shortRef shortens a call's id to its end, which is enough to find the call.
func shortRef(ref string) string {
	msg, block, ok := strings.Cut(ref, "/")
	if !ok {
		return ref
	}
	return msg[max(0, len(msg)-6):] + "/" + block
}

func (a *program) showLog() *cobra.Command {
	return a.apiCommand(needReadOnly, &cobra.Command{Use: "show REF", Short: "Show one call with its arguments and result", ValidArgsFunction: a.completeCalls(),
		Long: "Show one call with its arguments and its result as they were recorded; secrets are masked. REF is\n" +
			"the last column of steward log, the whole id of a call, or last for the newest one."},
		func(ctx context.Context, s *session, args []string) error {
			call, err := s.loggedCall(ctx, args[0])
			msgs := make([]*message.Message, len(call.Messages))
			for i := 0; i < len(msgs) && err == nil; i++ {
				msgs[i], err = message.Decode(call.Messages[i])
			}
			return printValue(a, call, err, func(call client.LoggedCall) string { return callText(call.Entry, msgs) })
		})
}

// loggedCall finds a call by its reference in the log.
func (s *session) loggedCall(ctx context.Context, ref string) (client.LoggedCall, error) {
	if ref == "last" {
		list, err := s.Log(ctx, client.LogQuery{}, 1)
		if err != nil {
			return client.LoggedCall{}, err
		}
		if len(list) == 0 {
			return client.LoggedCall{}, fault.New(fault.NotFound, "call_not_found", "no tool has been called yet")
		}
		ref = list[0].ID
	}
	msg, block, ok := strings.Cut(ref, "/")
	if !ok || msg == "" || block == "" {
		return client.LoggedCall{}, fault.New(fault.Invalid, "ref_invalid", "%.80q is not the reference of a tool call", ref).
			WithHint("copy it from steward log, for example 5a3f1d/1, or last")
	}
	return s.LogEntry(ctx, msg, block)
}

// callText formats a call in full.
func callText(en client.LogEntry, msgs []*message.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n\n", mark(en.Outcome), plainLine(callSummary(en)))
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

// argumentsText formats arguments one per line, and long texts as they are.
func argumentsText(args []byte) string {
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
			fmt.Fprintf(&b, "%s:\n%s", name, indented(value))
		} else {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String()
}

// indented indents a text, without characters that affect a terminal.
func indented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRightFunc(s, unicode.IsSpace)) {
		b.WriteString(strings.TrimRight("  "+plainLine(strings.TrimRight(strings.ReplaceAll(line, "\t", "    "), "\r\n")), " ") + "\n")
	}
	return b.String()
}

// completeTools offers the names of the built-in tools.
func (a *program) completeTools(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	specs, err := a.Specs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(specs)), cobra.ShellCompDirectiveNoFileComp
}

// completeCalls offers the newest calls.
func (a *program) completeCalls() completer {
	return offers(a, needReadOnly, func(ctx context.Context, s *session) ([]client.LogEntry, error) {
		list, err := s.Log(ctx, client.LogQuery{}, 30)
		return append([]client.LogEntry{{ID: "last", Summary: "the newest one"}}, list...), err
	}, func(en *client.LogEntry) (string, string) { return shortRef(en.ID), en.Summary })
}
