package activity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/intent"
)

func (a *program) intentsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "intents", Aliases: []string{"intent", "actions"}, Short: "List the actions of agents; approve, deny, retry or resolve them", GroupID: "look",
		Long: "A tool call that changes something is an action. Each action is recorded as an intent before it is\n" +
			"executed: who wanted it, what allowed it, who approved it, and its outcome. An action is named by\n" +
			"its id, or by at least the first 8 characters of it.",
	}, a.listIntents(), a.showIntent(), a.approveIntent(), a.denyIntent(),
		a.changeIntent((*client.Client).CancelIntent, "cancel ID", "Cancel an action that has not started",
			"Cancel an action that has not started: one that waits for an approval, or for the end of its turn."),
		a.changeIntent((*client.Client).RetryIntent, "retry ID", "Retry a failed action",
			"Retry an action that failed, expired or was cancelled. The retry is a new action with its own key, and\n"+
				"policy judges it again; if policy requires your approval, this command gives it. If it is\n"+
				"done, the conversation is notified."),
		a.changeIntent((*client.Client).UndoIntent, "undo ID", "Undo an action",
			"Undo an action, if its tool supports that. The undo is a new action: policy judges it, and it is done\n"+
				"once. The conversation is notified."),
		a.resolveIntent())
}

func (a *program) listIntents() *cobra.Command {
	var q client.IntentQuery
	var limit int
	c := &cobra.Command{Use: "list", Short: "List the actions, most recently changed first",
		Long: "List the actions, most recently changed first; with --dead those that ended badly and need your\n" +
			"attention: their outcome is unknown, or they failed for a reason that may have passed.",
		RunE: func(c *cobra.Command, _ []string) error {
			none := "there is no such action"
			if q == (client.IntentQuery{}) {
				none = "no agent has requested an action yet"
			}
			list, err := command.ReadList(c.Context(), a.Program, func(s *command.Session) (_ []client.Intent, err error) {
				if q.Conversation, err = s.ResolveConversation(c.Context(), q.Conversation); err != nil {
					return nil, err
				}
				return s.Intents(c.Context(), q, limit)
			})
			return command.PrintList(a.Program, list, err, none, func(list []client.Intent) string { return intentTable(list, a.Width()) })
		}}
	c.Flags().StringVar(&q.State, "state", "", "only actions in the `STATE` proposed, awaiting_approval, approved, executing, done, failed, unknown, …")
	c.Flags().BoolVar(&q.Dead, "dead", false, "only actions that need attention")
	c.Flags().StringVar(&q.Conversation, "conversation", "", "only actions of the conversation `ID`; last means the one used last")
	command.LimitFlag(c, &limit, 50, "list at most `N`")
	var names []string
	for _, s := range intent.States() {
		names = append(names, string(s))
	}
	command.CompleteFlag(c, "state", command.Words(names...))
	return c
}

func (a *program) showIntent() *cobra.Command {
	return a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show ID", Short: "Show everything about an action", ValidArgsFunction: CompleteIntents(a.Program, ""),
		Long: "Show everything about an action: who wanted it and on whose behalf, with what arguments, what the model\n" +
			"had read by then, which rule of the policy decided, who approved it and when, and its outcome."},
		func(ctx context.Context, s *command.Session, args []string) error {
			v, err := s.Intent(ctx, args[0])
			return command.PrintValue(a.Program, v, err, func(v client.Intent) string { return intentText(&v) })
		})
}

// intentChangeCommand makes a command that changes an action and prints the outcome.
func (a *program) intentChangeCommand(state string, c *cobra.Command, do func(ctx context.Context, s *command.Session, which string) (client.Intent, error)) *cobra.Command {
	c.ValidArgsFunction = CompleteIntents(a.Program, state)
	return a.StoredCommand(command.NeedNode, c, func(ctx context.Context, s *command.Session, args []string) error {
		v, err := do(ctx, s, args[0])
		if err != nil {
			return err
		}
		return a.printOutcome(ctx, s, &v)
	})
}

// approveIntent makes the command that approves an action.
func (a *program) approveIntent() *cobra.Command {
	return a.intentChangeCommand(IntentAwaiting, &cobra.Command{Use: "approve ID", Short: "Approve an action that waits for your approval",
		Long: "Approve an action that waits for your approval, once: exactly this one, with these arguments. The\n" +
			"command waits for the outcome; if no Steward serves, it carries the action out itself. steward approvals\n" +
			"approve only records an answer, and also gives other kinds of approvals."},
		func(ctx context.Context, s *command.Session, which string) (client.Intent, error) {
			v, err := s.Intent(ctx, which)
			if err != nil {
				return v, err
			}
			return s.ApproveIntent(ctx, which, v.Hash)
		})
}

func (a *program) denyIntent() *cobra.Command {
	var reason string
	c := a.intentChangeCommand(IntentAwaiting, &cobra.Command{Use: "deny ID", Short: "Deny an action that waits for your approval",
		Long: "Deny an action that waits for your approval. It is not executed, and the agent is notified."},
		func(ctx context.Context, s *command.Session, which string) (client.Intent, error) {
			v, err := s.Intent(ctx, which)
			if err != nil {
				return v, err
			}
			return s.DenyIntent(ctx, which, v.Hash, reason)
		})
	c.Flags().StringVar(&reason, "reason", "", "the reason (`WHY`), which the agent sees")
	return c
}

// changeIntent makes a command that cancels, retries or undoes an action.
func (a *program) changeIntent(do func(*client.Client, context.Context, string) (client.Intent, error), use, short, long string) *cobra.Command {
	return a.intentChangeCommand("", &cobra.Command{Use: use, Short: short, Long: long}, func(ctx context.Context, s *command.Session, which string) (client.Intent, error) {
		return do(s.Client, ctx, which)
	})
}

func (a *program) resolveIntent() *cobra.Command {
	var done, failed bool
	var note string
	c := a.intentChangeCommand(intentUnknown, &cobra.Command{Use: "resolve ID", Short: "Record the outcome of an action whose outcome is unknown",
		Long: "Record whether an action was done if this is unknown: Steward stopped or the connection broke while it\n" +
			"was executing, and the other side could not be asked. Check first. Your answer is recorded, and the\n" +
			"conversation is notified."},
		func(ctx context.Context, s *command.Session, which string) (client.Intent, error) {
			return s.ResolveIntent(ctx, which, done, note)
		})
	c.Flags().BoolVar(&done, "done", false, "it was done")
	c.Flags().BoolVar(&failed, "failed", false, "it was not done")
	c.Flags().StringVar(&note, "note", "", "a note for the record, as `TEXT`")
	c.MarkFlagsOneRequired("done", "failed")
	c.MarkFlagsMutuallyExclusive("done", "failed")
	return c
}

// States of an action in the API.
const (
	IntentAwaiting = string(intent.Awaiting)
	intentDone     = string(intent.Done)
	intentFailed   = string(intent.Failed)
	intentUnknown  = string(intent.Unknown)
)

func inFlight(state string) bool { return intent.State(state).InFlight() }

// printOutcome prints the outcome of an action, and waits a while for its consequences before
// this process ends. It returns an error if an action that should be executed was not.
func (a *program) printOutcome(ctx context.Context, s *command.Session, v *client.Intent) error {
	if a.JSON {
		if err := a.PrintJSON(v); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintln(a.Stdout, intentLine(v)); err != nil {
		return err
	}
	if v.State == IntentAwaiting {
		a.Note("it waits for the approval of %s", command.PlainLine(v.Approvers))
	}
	if err := awaitOutcome(ctx, s, v.Interaction); err != nil {
		return err
	}
	if v.Undoes == "" && v.Retries == "" || v.State == intentDone || inFlight(v.State) {
		return nil
	}
	e := fault.New(fault.Unavailable, "intent_"+v.State, "it was not done: %s", command.PlainLine(command.FirstLine(v.Result)))
	if v.State == intentUnknown {
		e = fault.New(fault.Unavailable, "intent_unknown", "the outcome is unknown: %s", command.PlainLine(v.Reason))
	}
	return e.WithHint("steward intents show %s", intentRef(v.ID))
}

// awaitOutcome waits a while for the consequences of a person's decision before this process
// ends: the turn that waited for it, or the turn that reports the outcome of an action.
func awaitOutcome(ctx context.Context, s *command.Session, inter string) error {
	if inter == "" {
		return nil
	}
	return awaitRequest(ctx, s, inter, 30*time.Second, func(r *client.Request) bool { return r.State != requestOpen && !inProgress(r) || asks(r) })
}

// asks reports whether something below a request waits for an approval.
func asks(v *client.Request) bool {
	return v.Intent == IntentAwaiting || slices.ContainsFunc(v.Below, func(b client.Request) bool { return asks(&b) })
}

// inProgress reports whether a queued action, or what a person requested for an action, is still in
// progress below a request. What waits for approval does not count.
func inProgress(v *client.Request) bool {
	if v.Wish != "" && v.State != RequestClosed && v.Intent != IntentAwaiting {
		return true
	}
	return slices.ContainsFunc(v.Below, func(b client.Request) bool { return inProgress(&b) })
}

// intentRef returns the beginning of an id, which is enough to find it.
func intentRef(x string) string { return x[:min(len(x), 8)] }

// intentLine formats an action and its state on one line, as lists do.
func intentLine(v *client.Intent) string {
	return strings.Join([]string{intentMark(v.State) + " " + stateOfIntent(v), intentRef(v.ID), command.PlainLine(v.Tool), intentWhat(v)}, "  ")
}

func intentMark(state string) string {
	switch {
	case state == intentDone:
		return "✓"
	case state == intentUnknown:
		return "?"
	case inFlight(state):
		return "…"
	}
	return "✗"
}

// stateOfIntent describes the state of an action.
func stateOfIntent(v *client.Intent) string {
	s := strings.ReplaceAll(v.State, "_", " ")
	switch {
	case v.Undone != "":
		s += ", undone"
	case v.Retried != "":
		s += ", retried"
	case v.Dead && v.State == intentFailed:
		s += ", needs attention"
	}
	return s
}

// intentWhat describes on one line what an action does.
func intentWhat(v *client.Intent) string {
	what := command.PlainLine(cmp.Or(v.Summary, v.Tool+" "+string(v.Args))) // an older Steward sends no summary
	switch {
	case v.Undoes != "":
		what = "Take back: " + what
	case v.Retries != "":
		what = "Try again: " + what
	}
	return what
}

// intentTable formats actions, one per line.
func intentTable(list []client.Intent, width int) string {
	rows := make([][]string, len(list))
	for i := range list {
		v := &list[i]
		what := intentWhat(v)
		if v.Reason != "" && v.State != intentDone && v.State != string(intent.Approved) {
			what += "  (" + command.PlainLine(v.Reason) + ")"
		}
		rows[i] = []string{v.Changed.Local().Format("01-02 15:04"), intentMark(v.State) + " " + stateOfIntent(v), intentRef(v.ID), command.PlainLine(v.Tool), what}
	}
	lines, _ := command.Table(make([]command.Column, 5), rows, 0)
	for i := range lines {
		if width > 0 {
			lines[i] = command.Cell(lines[i], width)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// intentText formats everything about an action.
func intentText(v *client.Intent) string {
	when := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format(time.DateTime)
	}
	rows := [][2]string{{"id", v.ID}, {"does", v.Summary}, {"reason", v.Reason}, {"wanted by", strings.Join(append(slices.Clone(v.Lineage), cmp.Or(v.Called, v.Agent)), " › ")},
		{"for", v.User}, {"wanted at", when(v.Created)}}
	if v.Deferred {
		rows = append(rows, [2]string{"done", "when its turn ended"})
	}
	rows = append(rows, [2]string{"had read", strings.Join(v.Labels, ", ")})
	if v.Fixed {
		rows = append(rows, [2]string{"fixed", "before untrusted content was read"})
	}
	rows = append(rows, [][2]string{{"rule", strings.TrimSuffix(v.Rule+", policy "+v.Policy, ", policy ")},
		{"asked of", v.Approvers}, {"asked until", when(v.Expires)}}...)
	if p := v.Approval; p != nil {
		rows = append(rows, [][2]string{{"approved by", p.By + ", " + when(p.At)}, {"by standing", p.Grant}, {"changed from", p.Edited}}...)
	}
	rows = append(rows, [2]string{"denied by", v.DeniedBy})
	if r := v.Resolved; r != nil {
		rows = append(rows, [][2]string{{"resolved by", r.By + ", " + when(r.At)}, {"note", r.Note}}...)
	}
	rows = append(rows, [][2]string{{"undoes", intentRef(v.Undoes)}, {"undone by", intentRef(v.Undone)},
		{"retries", intentRef(v.Retries)}, {"retried by", intentRef(v.Retried)}, {"attempts", fmt.Sprint(v.Attempts)},
		{"conversation", v.Conversation}, {"call", v.Call}, {"tool version", v.Version}, {"key", v.Key}, {"uri", v.URI}}...)
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n\n%s", intentMark(v.State), command.PlainLine(v.Tool), stateOfIntent(v), command.Fields(14, rows))
	b.WriteString("\narguments\n" + command.Indented(command.ArgumentsText(v.Args)))
	if v.Result != "" {
		fmt.Fprintf(&b, "\nresult (%s)\n%s", v.Status, command.Indented(v.Result))
	}
	b.WriteString("\nhistory\n")
	for _, s := range v.History {
		if v.Called != "" && s.Actor == "agent:"+v.Agent {
			s.Actor = "the agent"
		}
		line := fmt.Sprintf("  %s  %-17s  %s", when(s.At), strings.ReplaceAll(s.State, "_", " "), command.PlainLine(s.Actor))
		if s.Reason != "" {
			line += "  " + command.PlainLine(s.Reason)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// CompleteIntents offers the newest actions, or those in a state.
func CompleteIntents(p *command.Program, state string) command.Completer {
	return command.Offers(p, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.Intent, error) {
		return s.Intents(ctx, client.IntentQuery{State: state}, 30)
	}, func(v *client.Intent) (string, string) {
		return intentRef(v.ID), intentWhat(v) + ": " + stateOfIntent(v)
	})
}
