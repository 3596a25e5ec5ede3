package conversations

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
)

func (a *program) messagesCommand() *cobra.Command {
	var conv string
	c := command.Group(&cobra.Command{
		Use: "messages", Aliases: []string{"message"}, Short: "List messages, pin, archive and delete them", GroupID: "keep",
		Long: "Inspect and manage the messages of a conversation. A message is named by its id, by at least the first or\n" +
			"last 6 characters of it (lists show the last 8), or by last.",
	}, a.listMessages(&conv), a.showMessage(&conv),
		a.pinMessages(&conv, true, "pin ID…", "Always show messages to the model", "pinned"),
		a.pinMessages(&conv, false, "unpin ID…", "Unpin messages", "unpinned:"), a.trustMessages(&conv),
		a.markMessages(&conv, record.Archived, "archive ID…", "Keep messages for the record without showing them to a model", "archived"),
		a.markMessages(&conv, record.Invalidated, "invalidate ID…", "Mark messages as obsolete", "obsolete now:"),
		a.markMessages(&conv, record.Active, "restore ID…", "Make messages active again, including deleted ones", "active again:"),
		a.markMessages(&conv, record.Deleted, "delete ID…", "Delete messages", "deleted"),
		a.removeMessages(&conv), a.insertMessage(&conv), a.messageChanges(&conv), a.rollbackMessages(&conv))
	a.conversationFlag(c, &conv)
	return c
}

// conversationFlag adds --conversation to all commands of a group.
func (a *program) conversationFlag(c *cobra.Command, conv *string) {
	c.PersistentFlags().StringVar(conv, "conversation", "", "`ID` of the conversation; by default the one used last")
	command.CompleteFlag(c, "conversation", a.CompleteConversations)
}

// listing holds the flags of steward messages list.
type listing struct {
	branch, state string
	all           bool
	limit         int
}

// states maps the values of --state to those of the API.
func states() map[string]record.Validity {
	return map[string]record.Validity{"active": "", "obsolete": record.Invalidated, "invalidated": record.Invalidated,
		"superseded": record.Superseded, "archived": record.Archived, "deleted": record.Deleted}
}

func (a *program) listMessages(conv *string) *cobra.Command {
	var f listing
	c := a.conversationSubcommand(command.NeedReadOnly, conv, &cobra.Command{
		Use: "list [CONVERSATION]", Short: "List messages, newest last",
		Long: "List the messages of a conversation's current branch, newest last, with their states: obsolete (a later\n" +
			"call replaces the result), summarised or superseded (another message replaces it), archived, pinned, or\n" +
			"not shown to the model. --state deleted lists deleted messages as long as they can be restored.",
		Example: "  steward messages list\n  steward messages list --state obsolete --all\n  steward messages list last --branch main -n 5",
		PreRunE: func(*cobra.Command, []string) error {
			_, known := states()[f.state]
			switch {
			case f.state != "" && f.state != "pinned" && !known:
				return command.Usage("--state must be active, obsolete, superseded, archived, deleted or pinned, not %q", f.state)
			case f.state == string(record.Deleted) && f.branch != "":
				return command.Usage("messages are deleted on all branches: omit --branch")
			}
			return nil
		},
	}, func(ctx context.Context, t conversationTarget, _ []string) error {
		list, more, err := t.newest(ctx, f)
		raw := make([]json.RawMessage, len(list))
		for i, m := range list {
			raw[i] = m.raw
		}
		err = command.PrintList(a.Program, raw, err, "there are no such messages", func([]json.RawMessage) string { return messageTable(list, a.Width(), time.Now()) })
		if err == nil && more && !a.JSON {
			a.Note("there are older messages: --all shows them")
		}
		return err
	})
	c.Flags().StringVar(&f.branch, "branch", "", "list the messages of the branch `B`")
	c.Flags().StringVar(&f.state, "state", "", "only messages in the `STATE` active, obsolete, superseded, archived, deleted or pinned")
	f.limit = 50
	c.Flags().VarP((*command.AtLeastOne)(&f.limit), "limit", "n", "list at most the newest `N`")
	c.Flags().BoolVar(&f.all, "all", false, "list all messages")
	c.MarkFlagsMutuallyExclusive("all", "limit")
	command.CompleteFlag(c, "branch", a.completeBranches(conv))
	command.CompleteFlag(c, "state", command.Words("active", "obsolete", "superseded", "archived", "deleted", "pinned"))
	return c
}

// newest returns the messages to list, newest last, and whether there are older ones.
func (t conversationTarget) newest(ctx context.Context, f listing) (list []*apiMessage, more bool, err error) {
	branch := ""
	if f.branch != "" {
		b, err := t.branch(ctx, f.branch, false)
		if err != nil {
			return nil, false, err
		}
		branch = b.ID
	}
	page := pageOf
	if f.state == "" && !f.all {
		page = min(f.limit+1, pageOf)
	}
	source, deleted := t.newestFirst(ctx, branch, page), f.state == string(record.Deleted)
	if deleted {
		source = t.deletedOnes(ctx)
	}
	for m, err := range source {
		if err != nil {
			return nil, false, err
		}
		if f.state == "" || f.state == "pinned" && m.Pinned || f.state != "pinned" && m.State == states()[f.state] {
			list = append(list, m)
		}
		if !deleted && !f.all && len(list) > f.limit {
			break
		}
	}
	if deleted { // deleted messages come unordered
		slices.SortStableFunc(list, func(x, y *apiMessage) int { return y.At.Compare(x.At) })
	}
	if more = !f.all && len(list) > f.limit; more {
		list = list[:f.limit]
	}
	slices.Reverse(list)
	return list, more, nil
}

func (a *program) showMessage(conv *string) *cobra.Command {
	var call string
	show := &cobra.Command{
		Use: "show ID", Short: "Show a message in full", ValidArgsFunction: a.completeMessages(conv),
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (call != "") || len(args) > 1 {
				return command.Usage("name one message, or a call with --call")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if call != "" {
				return a.showCalled(c.Context(), call)
			}
			return a.withConversation(c.Context(), command.NeedReadOnly, *conv, func(t conversationTarget) error {
				found, err := t.find(c.Context(), true, args[0])
				if err != nil {
					return err
				}
				return command.PrintValue(a.Program, found[0].raw, nil, func(json.RawMessage) string { return messageText(found[0], t.conv) })
			})
		},
	}
	show.Flags().StringVar(&call, "call", "", "show the tool call that has this provider-assigned `ID`, and its results, in any conversation")
	return show
}

// showCalled shows the messages that make a call with a provider's id.
func (a *program) showCalled(ctx context.Context, call string) error {
	var out struct{ Messages []json.RawMessage }
	err := a.With(ctx, command.NeedReadOnly, func(s *command.Session) error {
		return s.Call(ctx, "GET /messages", client.Params{"call": call}, nil, &out)
	})
	if err == nil && len(out.Messages) == 0 {
		err = fault.New(fault.NotFound, "call_not_found", "no message of yours makes a call with the id %.80q", call)
	}
	var text strings.Builder
	for _, raw := range out.Messages {
		var m apiMessage
		var in struct {
			Conversation string `json:"conversation_id"`
		}
		err = errors.Join(err, json.Unmarshal(raw, &m), json.Unmarshal(raw, &in))
		if err == nil {
			text.WriteString(messageText(&m, in.Conversation))
		}
	}
	return command.PrintList(a.Program, out.Messages, err, "", func([]json.RawMessage) string { return text.String() })
}

// messageChangeCommand makes a command that changes the messages named by its arguments.
func (a *program) messageChangeCommand(conv *string, deleted bool, c *cobra.Command, do func(ctx context.Context, t conversationTarget, msgs []string) error) *cobra.Command {
	c.ValidArgsFunction = a.completeMessages(conv)
	return a.conversationSubcommand(command.NeedNode, conv, c, func(ctx context.Context, t conversationTarget, args []string) error {
		found, err := t.find(ctx, deleted, args...)
		if err != nil {
			return err
		}
		return do(ctx, t, ids(found))
	})
}

func (a *program) pinMessages(conv *string, pin bool, use, short, done string) *cobra.Command {
	return a.messageChangeCommand(conv, false, &cobra.Command{Use: use, Short: short}, func(ctx context.Context, t conversationTarget, msgs []string) error {
		err := t.Pin(ctx, t.conv, pin, msgs...)
		if err == nil {
			a.Note("%s %s", done, shortIDs(msgs))
		}
		return err
	})
}

func (a *program) trustMessages(conv *string) *cobra.Command {
	return a.messageChangeCommand(conv, false, &cobra.Command{Use: "trust ID…", Short: "Treat what others wrote as your own words",
		Long: "Remove the label untrusted from messages: from now on their content counts as your own words, and\n" +
			"a model that has read them needs no additional approvals because of them. Read them first.\n" +
			"The decision is recorded with your name. Answers that were written after reading them keep the label."},
		func(ctx context.Context, t conversationTarget, msgs []string) error {
			err := t.Trust(ctx, t.conv, msgs...)
			if err == nil {
				a.Note("trusted from now on: %s", shortIDs(msgs))
			}
			return err
		})
}

func (a *program) markMessages(conv *string, state record.Validity, use, short, done string) *cobra.Command {
	var reason string
	var erase bool
	c := a.messageChangeCommand(conv, state == record.Active, &cobra.Command{Use: use, Short: short,
		Long: short + ", on all branches and at once. A call and its results go together."},
		func(ctx context.Context, t conversationTarget, msgs []string) error {
			changed, err := t.Mark(ctx, t.conv, client.Mark{Messages: msgs, State: string(state), Reason: reason, Erase: erase})
			names := shortIDs(msgs)
			if err == nil && !a.JSON && changed == 0 && !erase {
				a.Note("nothing has changed: %s", names)
				return nil
			}
			if err := a.PrintDone(map[string]int{"changed": changed}, err, "%s %s", done, names); err != nil || a.JSON {
				return err
			}
			if state == record.Deleted {
				a.Note("%s", a.restorableUntil(erase, "steward messages restore "+strings.ReplaceAll(names, ",", "")+t.flag))
			}
			if more := changed - len(msgs); more > 0 {
				a.Note("%s with them, since calls and their results go together", app.Plural(more, "other message"))
			}
			return nil
		})
	if state == record.Deleted {
		c.Long += " They can be\nrestored for a while, and are then erased for good; with --erase before the command ends."
		c.Flags().BoolVar(&erase, "erase", false, "erase them for good, at once")
	}
	if state != record.Active {
		c.Flags().StringVar(&reason, "reason", "", "the reason (`WHY`), which is recorded")
	}
	return c
}

// restorableUntil describes how long a command can restore what was deleted, or that it is erased
// permanently.
func (a *program) restorableUntil(erased bool, command string) string {
	keep := time.Duration(0)
	if a.Set != nil {
		keep = a.Set.Keep.Deleted
	}
	switch {
	case erased:
		return "it is erased for good"
	case keep == 0:
		return "it is erased for good (the setting keep.deleted)"
	}
	return fmt.Sprintf("until %s this restores it: %s", time.Now().Add(keep).Local().Format("2 January 2006 15:04"), command)
}

func (a *program) removeMessages(conv *string) *cobra.Command {
	return a.messageChangeCommand(conv, false, &cobra.Command{Use: "remove ID…", Short: "Continue without some messages, on a new branch",
		Long: "Create a branch without some messages, and switch to it. The branch with them is kept. A call and its\n" +
			"results go together."},
		func(ctx context.Context, t conversationTarget, msgs []string) error {
			return a.createBranch(ctx, t, "POST /conversations/{id}/messages/remove", map[string]any{"messages": msgs})
		})
}

func (a *program) insertMessage(conv *string) *cobra.Command {
	var after, role string
	var first bool
	c := a.conversationSubcommand(command.NeedNode, conv, &cobra.Command{Use: "insert TEXT…", Short: "Insert a message, on a new branch", ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Create a branch with an additional message after another one, and switch to it. The branch without it is\n" +
			"kept.",
		Example: "  steward messages insert --after 3f2a91bc 'The deadline is Friday.'"},
		func(ctx context.Context, t conversationTarget, args []string) error {
			in := map[string]any{"role": role, "text": strings.Join(args, " ")}
			if !first {
				found, err := t.find(ctx, false, after)
				if err != nil {
					return err
				}
				in["after"] = found[0].ID
			}
			return a.createBranch(ctx, t, "POST /conversations/{id}/messages/insert", in)
		})
	c.Flags().StringVar(&after, "after", "", "insert it after the message `ID`")
	c.Flags().BoolVar(&first, "first", false, "insert it before all others")
	c.Flags().StringVar(&role, "role", "user", "the `ROLE` of the message: user or assistant")
	c.MarkFlagsOneRequired("after", "first")
	c.MarkFlagsMutuallyExclusive("after", "first")
	command.CompleteFlag(c, "after", a.completeMessages(conv))
	command.CompleteFlag(c, "role", command.Words("user", "assistant"))
	return c
}

// createBranch has the API create a branch, and reports it.
func (a *program) createBranch(ctx context.Context, t conversationTarget, route string, in any) error {
	var raw json.RawMessage
	err := t.Call(ctx, route, client.Params{"id": t.conv}, in, &raw)
	var b struct {
		client.NewBranch
		Withdrawn int `json:"withdrawn"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &b)
	}
	err = a.PrintDone(raw, err, "the conversation continues with the new branch %s; steward branch switch %s%s goes back", command.Shorten(b.ID), command.Shorten(b.Parent), t.flag)
	if err == nil && b.Withdrawn > 0 && !a.JSON {
		a.Note("%d withdrawn that had not been done yet", b.Withdrawn)
	}
	return err
}

// completeMessages offers the newest messages.
func (a *program) completeMessages(conv *string) command.Completer {
	return a.completing(conv, func(ctx context.Context, t conversationTarget) (out []cobra.Completion, err error) {
		out = append(out, cobra.CompletionWithDesc("last", "the newest one"))
		for m, err := range t.newestFirst(ctx, "", 30) {
			if err != nil || len(out) > 30 {
				return out, err
			}
			out = append(out, cobra.CompletionWithDesc(command.ShortID(m.ID), m.who()+": "+command.Cell(m.gist(), 60)))
		}
		return out, nil
	})
}

// completing offers names of things in a conversation.
func (a *program) completing(conv *string, names func(context.Context, conversationTarget) ([]cobra.Completion, error)) command.Completer {
	return func(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return command.Offer(c, func(ctx context.Context) (out []cobra.Completion, err error) {
			err = a.withConversation(ctx, command.NeedReadOnly, *conv, func(t conversationTarget) (err error) {
				out, err = names(ctx, t)
				return err
			})
			return out, err
		})
	}
}

// conversationTarget is a conversation that a command is about.
type conversationTarget struct {
	*command.Session
	conv string
	flag string // what suggested commands need to name it: "" or " --conversation ID"
}

// withConversation runs do with the conversation that a person has named; "" and "last"
// are the last used one.
func (a *program) withConversation(ctx context.Context, n command.Need, which string, do func(conversationTarget) error) error {
	return a.WithStored(ctx, n, func(s *command.Session) error {
		conv, err := s.ResolveConversation(ctx, cmp.Or(which, "last"))
		if err != nil {
			return err
		}
		t := conversationTarget{Session: s, conv: conv}
		if which != "" && which != "last" {
			t.flag = " --conversation " + conv
		}
		return do(t)
	})
}

// conversationSubcommand makes a command about a conversation: the one that the flag names or, if the
// command takes a CONVERSATION, its argument.
func (a *program) conversationSubcommand(n command.Need, flag *string, c *cobra.Command, do func(ctx context.Context, t conversationTarget, args []string) error) *cobra.Command {
	named := strings.HasSuffix(c.Use, "[CONVERSATION]")
	if named {
		c.ValidArgsFunction = a.CompleteConversations
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		which := *flag
		if named && len(args) > 0 {
			if which != "" && args[0] != which {
				return command.Usage("two conversations are named: %s and --conversation %s", args[0], which)
			}
			which, args = args[0], nil
		}
		return a.withConversation(c.Context(), n, which, func(t conversationTarget) error { return do(c.Context(), t, args) })
	}
	return c
}

func (a *program) messageChanges(conv *string) *cobra.Command {
	var interaction, tool string
	c := a.conversationSubcommand(command.NeedReadOnly, conv, &cobra.Command{Use: "changes", Short: "List which messages tools and people made obsolete, archived or deleted",
		Long: "List the changes to the validity of messages: when, which message, its new state, by which tool or\n" +
			"person, in which interaction, and why. Reverted changes are included."},
		func(ctx context.Context, t conversationTarget, _ []string) error {
			inter, err := t.interaction(ctx, interaction)
			if err != nil {
				return err
			}
			list, err := t.Changes(ctx, t.conv, inter, tool)
			return command.PrintList(a.Program, list, err, "nothing was changed", func(list []client.Change) string { return changesTable(list, a.Width(), time.Now()) })
		})
	c.Flags().StringVar(&interaction, "interaction", "", "only what the interaction `ID` changed")
	c.Flags().StringVar(&tool, "tool", "", "only what the tool `NAME` changed")
	command.CompleteFlag(c, "tool", a.CompleteTools)
	return c
}

// changesTable lists changes in their order, under a heading for each day.
func changesTable(list []client.Change, width int, now time.Time) string {
	rows := make([][]string, len(list))
	for i, ch := range list {
		why := command.PlainLine(ch.Reason)
		if !ch.Undone.IsZero() {
			why = strings.TrimSuffix("reverted "+ch.Undone.Local().Format("15:04")+" by "+command.PlainLine(changedBy("", ch.UndoneBy))+": "+why, ": ")
		}
		rows[i] = []string{cmp.Or(command.Shorten(ch.Message), "many"), stateWord(record.Validity(ch.State)), command.PlainLine(changedBy(ch.Tool, ch.Actor)),
			cmp.Or(command.Shorten(ch.Interaction), "-"), why}
	}
	lines, _ := command.Table([]command.Column{{}, {}, {Most: command.WidestTool}, {}, {Least: command.MinWhat}}, rows, command.WidthBesideTimes(width))
	return command.GroupByDay(lines, func(i int) time.Time { return list[i].At }, now)
}

// interaction finds an interaction by its id, or a part of it, among those that have
// changed the validity of messages. For the name "" it returns "".
func (t conversationTarget) interaction(ctx context.Context, name string) (string, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	x, whole := id.Parse(name)
	switch {
	case name == "" || whole && !x.Zero():
		return name, nil
	case name != "last" && !isPart(name):
		return "", fault.New(fault.Invalid, "interaction_invalid", "%.80q is not the id of an interaction or a part of it", name).
			WithHint("steward messages changes shows them")
	}
	list, err := t.Changes(ctx, t.conv, "", "")
	if err != nil {
		return "", err
	}
	var found []string
	for _, ch := range slices.Backward(list) {
		full := ch.Interaction
		if !slices.Contains(found, full) && full != "" && (name == "last" && found == nil || strings.HasPrefix(full, name) || strings.HasSuffix(full, name)) {
			found = append(found, full)
		}
	}
	switch len(found) {
	case 0:
		return "", fault.New(fault.NotFound, "interaction_not_found", "no interaction %s has changed messages of this conversation", name).
			WithHint("steward messages changes shows those that did")
	case 1:
		return found[0], nil
	}
	return "", ambiguous("interaction", "interactions", name, found, func(s string) string { return s })
}

func (a *program) rollbackMessages(conv *string) *cobra.Command {
	var tool string
	c := a.conversationSubcommand(command.NeedNode, conv, &cobra.Command{Use: "rollback INTERACTION", Short: "Restore what the tools of an interaction made obsolete",
		ValidArgsFunction: a.completeInteractions(conv),
		Long: "Restore what the tools of an interaction made obsolete: the model sees again what it saw before.\n" +
			"steward messages changes lists the interactions; last is that of the newest change."},
		func(ctx context.Context, t conversationTarget, args []string) error {
			inter, err := t.interaction(ctx, args[0])
			if err != nil {
				return err
			}
			restored, err := t.Rollback(ctx, t.conv, inter, tool)
			say := "there was nothing to restore"
			if restored > 0 {
				say = app.Counted(restored, "message is", "messages are") + " as before"
			}
			return a.PrintDone(map[string]int{"restored": restored}, err, "%s", say)
		})
	c.Flags().StringVar(&tool, "tool", "", "only what the tool `NAME` made obsolete")
	command.CompleteFlag(c, "tool", a.CompleteTools)
	return c
}

// completeInteractions offers the interactions that changed messages.
func (a *program) completeInteractions(conv *string) command.Completer {
	return a.completing(conv, func(ctx context.Context, t conversationTarget) ([]cobra.Completion, error) {
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "that of the newest change")}
		list, err := t.Changes(ctx, t.conv, "", "")
		seen := map[string]bool{"": true}
		for _, ch := range slices.Backward(list) {
			if !seen[ch.Interaction] {
				seen[ch.Interaction] = true
				out = append(out, cobra.CompletionWithDesc(command.Shorten(ch.Interaction), command.PlainLine(changedBy(ch.Tool, ch.Actor)+": "+ch.Reason)))
			}
		}
		return out, err
	})
}
