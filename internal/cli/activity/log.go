package activity

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
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
			list, err := command.ReadList(c.Context(), a.Program, func(s *command.Session) (_ []client.LogEntry, err error) {
				if q.Conversation, err = s.ResolveConversation(c.Context(), q.Conversation); err != nil {
					return nil, err
				}
				return s.Log(c.Context(), q, limit)
			})
			slices.Reverse(list)
			return command.PrintList(a.Program, list, err, none, func(list []client.LogEntry) string {
				return LogTable(list, a.Width(), q.Conversation == "", time.Now())
			})
		}}
	c.Flags().StringVar(&q.Conversation, "conversation", "", "only calls on the current branch of the conversation `ID`; last means the one used last")
	c.Flags().StringVar(&q.Interaction, "interaction", "", "only calls of the interaction `ID`")
	c.Flags().BoolVar(&q.AllBranches, "all-branches", false, "with --conversation: include all of its branches")
	c.Flags().StringVar(&q.Tool, "tool", "", "only calls of the tool `NAME`, or of those that match a pattern such as files.*")
	c.Flags().StringVar(&q.Outcome, "outcome", "", "only calls with this `OUTCOME`: success, failure, partial or pending")
	command.SinceUntil(c, &q.Since, &q.Until, "calls")
	command.LimitFlag(c, &limit, 50, "list at most the newest `N`")
	command.CompleteFlag(c, "conversation", a.CompleteConversations)
	command.CompleteFlag(c, "outcome", command.Words("success", "failure", "partial", "pending"))
	command.CompleteFlag(c, "tool", a.CompleteTools)
	c.AddCommand(a.showLog(), a.logLevel())
	return c
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

// LogTable formats the entries under a heading for each day, within a width (0: unlimited).
func LogTable(list []client.LogEntry, width int, across bool, now time.Time) string {
	rows := make([][]string, len(list))
	for i, en := range list {
		rows[i] = []string{mark(en.Outcome), command.PlainLine(en.Tool), command.PlainLine(callSummary(en)), "", shortRef(en.ID)}
		if across {
			rows[i][3] = command.PlainLine(en.Title)
		}
	}
	width = command.WidthBesideTimes(width)
	lines, wide := command.Table([]command.Column{{}, {Most: command.WidestTool}, {Least: command.MinWhat}, {Most: command.WidestTitle}, {}}, rows, width)
	indent := len("x  ") + wide[1] + 2
	for i, en := range list {
		if why := command.PlainLine(en.Error); why != "" {
			if width > 0 {
				why = command.Cell(why, max(command.MinWhat, width-indent))
			}
			lines[i] += "\n" + strings.Repeat(" ", len("15:04  ")+indent) + why
		}
	}
	return command.GroupByDay(lines, func(i int) time.Time { return list[i].At }, now)
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
	return a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show REF", Short: "Show one call with its arguments and result", ValidArgsFunction: a.completeCalls(),
		Long: "Show one call with its arguments and its result as they were recorded; secrets are masked. REF is\n" +
			"the last column of steward log, the whole id of a call, or last for the newest one."},
		func(ctx context.Context, s *command.Session, args []string) error {
			call, err := loggedCall(ctx, s, args[0])
			msgs := make([]*message.Message, len(call.Messages))
			for i := 0; i < len(msgs) && err == nil; i++ {
				msgs[i], err = message.Decode(call.Messages[i])
			}
			return command.PrintValue(a.Program, call, err, func(call client.LoggedCall) string { return callText(call.Entry, msgs) })
		})
}

// loggedCall finds a call by its reference in the log.
func loggedCall(ctx context.Context, s *command.Session, ref string) (client.LoggedCall, error) {
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
	fmt.Fprintf(&b, "%s %s\n\n", mark(en.Outcome), command.PlainLine(callSummary(en)))
	outcome := en.Outcome
	if en.Error != "" {
		outcome += ": " + en.Error
	}
	when := en.At.Local().Format("2006-01-02 15:04:05")
	if en.TookMS > 0 {
		when += ", took " + (time.Duration(en.TookMS) * time.Millisecond).String()
	}
	b.WriteString(command.Fields(14, [][2]string{{"outcome", outcome}, {"when", when}, {"tool", en.Tool}, {"by", en.Actor},
		{"conversation", en.Conversation}, {"title", en.Title}, {"interaction", en.Interaction},
		{"request", en.Request}, {"call", en.ID}}))
	if c, ok := msgs[0].Blocks[blockOf(en.ID)].(*message.ToolCall); ok {
		b.WriteString("\narguments\n" + command.Indented(command.ArgumentsText(c.Args)))
	}
	if len(msgs) > 1 {
		res := msgs[1].Result()
		fmt.Fprintf(&b, "\nresult\n%s", command.Indented(res.Text()))
		if res.Rest != "" {
			fmt.Fprintf(&b, "  [the rest is kept as %s]\n", command.PlainLine(res.Rest))
		}
	}
	return b.String()
}

func blockOf(ref string) int {
	_, block, _ := strings.Cut(ref, "/")
	n, _ := strconv.Atoi(block) // an entry's own id
	return n
}

// completeCalls offers the newest calls.
func (a *program) completeCalls() command.Completer {
	return command.Offers(a.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.LogEntry, error) {
		list, err := s.Log(ctx, client.LogQuery{}, 30)
		return append([]client.LogEntry{{ID: "last", Summary: "the newest one"}}, list...), err
	}, func(en *client.LogEntry) (string, string) { return shortRef(en.ID), en.Summary })
}
