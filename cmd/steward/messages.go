package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/record"
)

func (a *app) messagesCommand() *cobra.Command {
	var conv string
	c := &cobra.Command{
		Use: "messages", Aliases: []string{"message"}, Short: "List messages, pin, archive and delete them", GroupID: "keep", Args: cobra.NoArgs,
		Long: "Look at the messages of a conversation and say what is to become of them. A message is named by its\n" +
			"id, by at least 6 characters of the beginning or the end of it (lists show the last 8), or by last.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.PersistentFlags().StringVar(&conv, "conversation", "", "`ID` of the conversation; the last used one unless given")
	complete(c, "conversation", a.completeConversations)
	c.AddCommand(a.listMessages(&conv), a.showMessage(&conv),
		a.pinMessages(&conv, true), a.pinMessages(&conv, false), a.trustMessages(&conv),
		a.markMessages(&conv, verb{"archive", "Keep messages for the record without showing them to a model", "archived", record.Archived}),
		a.markMessages(&conv, verb{"invalidate", "Say that messages are obsolete", "obsolete now:", record.Invalidated}),
		a.markMessages(&conv, verb{"restore", "Make messages active again, deleted ones too", "active again:", record.Active}),
		a.markMessages(&conv, verb{"delete", "Delete messages", "deleted", record.Deleted}),
		a.removeMessages(&conv), a.insertMessage(&conv), a.messageChanges(&conv), a.rollbackMessages(&conv))
	return c
}

// which is the conversation that an argument or the flag names.
func oneOf(args []string, flag string) (string, error) {
	if len(args) > 0 && flag != "" && args[0] != flag {
		return "", usage("the conversation is named twice: %s and --conversation %s", args[0], flag)
	}
	if len(args) > 0 {
		return args[0], nil
	}
	return flag, nil
}

// listing is what messages list was asked for.
type listing struct {
	branch, state string
	all           bool
	limit         int
}

// states are what --state takes, and how the API calls it.
func states() map[string]record.Validity {
	return map[string]record.Validity{"active": "", "obsolete": record.Invalidated, "invalidated": record.Invalidated,
		"superseded": record.Superseded, "archived": record.Archived, "deleted": record.Deleted}
}

func (a *app) listMessages(conv *string) *cobra.Command {
	var f listing
	c := &cobra.Command{
		Use: "list [CONVERSATION]", Short: "List messages, the newest last", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeConversations,
		Long: "List the messages of a conversation's preferred branch, the newest last, with what became of them:\n" +
			"obsolete (a later call replaces the result), summarised or superseded (another message stands for\n" +
			"it), archived, pinned, or not shown to the model. Deleted messages are listed with --state deleted\n" +
			"as long as they can be brought back.",
		Example: "  steward messages list\n  steward messages list --state obsolete --all\n  steward messages list last --branch main -n 5",
		RunE: func(c *cobra.Command, args []string) error {
			which, err := oneOf(args, *conv)
			if err != nil {
				return err
			}
			return a.listSpoken(c.Context(), which, f)
		},
	}
	c.Flags().StringVar(&f.branch, "branch", "", "the messages of the branch `B`")
	c.Flags().StringVar(&f.state, "state", "", "only those in the `STATE` active, obsolete, superseded, archived, deleted or pinned")
	c.Flags().IntVarP(&f.limit, "limit", "n", 50, "the newest `N`")
	c.Flags().BoolVar(&f.all, "all", false, "all of them")
	c.MarkFlagsMutuallyExclusive("all", "limit")
	complete(c, "branch", a.completeBranches(conv))
	complete(c, "state", words("active", "obsolete", "superseded", "archived", "deleted", "pinned"))
	return c
}

func (a *app) listSpoken(ctx context.Context, which string, f listing) error {
	state, known := states()[f.state]
	switch {
	case f.limit < 1:
		return usage("--limit must be 1 or more")
	case f.state != "" && f.state != "pinned" && !known:
		return usage("--state must be active, obsolete, superseded, archived, deleted or pinned, not %q", f.state)
	}
	keep := func(m *spoken) bool {
		return f.state == "" || f.state == "pinned" && m.Pinned || f.state != "pinned" && m.State == state
	}
	var list []*spoken
	more := false
	err := a.looking(ctx, which, func(t talk) error {
		source, err := t.source(ctx, f)
		if err != nil {
			return err
		}
		for m, err := range source {
			if err != nil {
				return err
			}
			if !keep(m) {
				continue
			}
			if more = !f.all && len(list) == f.limit; more {
				break
			}
			list = append(list, m)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Reverse(list)
	if a.json {
		raw := make([]json.RawMessage, len(list))
		for i, m := range list {
			raw[i] = m.raw
		}
		return a.printJSON(raw)
	}
	if len(list) == 0 {
		a.note("there are no such messages")
		return nil
	}
	if _, err := a.stdout.Write([]byte(spokenTable(list, a.width(), time.Now()))); err != nil {
		return err
	}
	if more {
		a.note("there are older ones: --all shows them")
	}
	return nil
}

// source are the messages that a list is made of, the newest first.
func (t talk) source(ctx context.Context, f listing) (func(func(*spoken, error) bool), error) {
	if f.state == string(record.Deleted) {
		if f.branch != "" {
			return nil, usage("what is deleted is so on all branches: leave --branch out")
		}
		var list []*spoken
		for m, err := range t.deletedOnes(ctx) {
			if err != nil {
				return nil, err
			}
			list = append(list, m)
		}
		slices.SortStableFunc(list, func(x, y *spoken) int { return y.At.Compare(x.At) })
		return func(yield func(*spoken, error) bool) {
			for _, m := range list {
				if !yield(m, nil) {
					return
				}
			}
		}, nil
	}
	branch := ""
	if f.branch != "" {
		b, err := t.branch(ctx, f.branch, false)
		if err != nil {
			return nil, err
		}
		branch = b.ID
	}
	page := pageOf
	if f.state == "" && !f.all {
		page = min(f.limit+1, pageOf)
	}
	return t.newestFirst(ctx, branch, page), nil
}

func (a *app) showMessage(conv *string) *cobra.Command {
	var call string
	show := &cobra.Command{
		Use: "show ID", Short: "Show a message at length", ValidArgsFunction: a.completeMessages(conv),
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (call != "") || len(args) > 1 {
				return usage("name one message, or a call with --call")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if call != "" {
				return a.showCalled(c.Context(), call)
			}
			return a.looking(c.Context(), *conv, func(t talk) error {
				found, err := t.find(c.Context(), true, args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(found[0].raw)
				}
				return a.print(spokenText(found[0], t.conv))
			})
		},
	}
	show.Flags().StringVar(&call, "call", "", "the message that makes the tool call to which a provider gave the `ID`, in whichever conversation")
	return show
}

// showCalled shows the messages that make a call with a provider's id.
func (a *app) showCalled(ctx context.Context, call string) error {
	var out struct{ Messages []json.RawMessage }
	err := a.with(ctx, toRead, func(s *session) error {
		return s.Call(ctx, "GET /messages", client.Params{"call": call}, nil, &out)
	})
	if err != nil {
		return err
	}
	if len(out.Messages) == 0 {
		return fault.New(fault.NotFound, "call_not_found", "no message of yours makes a call with the id %.80q", call)
	}
	if a.json {
		return a.printJSON(out.Messages)
	}
	for _, raw := range out.Messages {
		var m spoken
		var in struct {
			Conversation string `json:"conversation_id"`
		}
		if err := errors.Join(json.Unmarshal(raw, &m), json.Unmarshal(raw, &in)); err != nil {
			return err
		}
		if _, err := a.stdout.Write([]byte(spokenText(&m, in.Conversation))); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) pinMessages(conv *string, pin bool) *cobra.Command {
	use, short, done := "pin ID…", "Keep messages in view, however small the window", "pinned"
	if !pin {
		use, short, done = "unpin ID…", "Let go of pinned messages", "not pinned any more:"
	}
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeMessages(conv),
		RunE: func(c *cobra.Command, args []string) error {
			return a.onMessages(c.Context(), *conv, false, args, func(t talk, msgs []string) error {
				if err := t.Pin(c.Context(), t.conv, pin, msgs...); err != nil {
					return err
				}
				a.note("%s %s", done, shortIDs(msgs))
				return nil
			})
		},
	}
}

// trustMessages is steward messages trust.
func (a *app) trustMessages(conv *string) *cobra.Command {
	return &cobra.Command{
		Use: "trust ID…", Short: "Take what others wrote for your own words", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeMessages(conv),
		Long: "Takes the label untrusted off messages: what stands in them counts as your own words from now on, and\n" +
			"what a model does after it has read them is asked about no more than if it had not. Read them first.\n" +
			"The decision is recorded with your name. Answers that were written after reading them keep the label.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.onMessages(c.Context(), *conv, false, args, func(t talk, msgs []string) error {
				if err := t.Trust(c.Context(), t.conv, msgs...); err != nil {
					return err
				}
				a.note("trusted from now on: %s", shortIDs(msgs))
				return nil
			})
		},
	}
}

// onMessages runs do with messages of a conversation that may be changed.
func (a *app) onMessages(ctx context.Context, conv string, deleted bool, names []string, do func(talk, []string) error) error {
	return a.changing(ctx, conv, func(t talk) error {
		found, err := t.find(ctx, deleted, names...)
		if err != nil {
			return err
		}
		return do(t, ids(found))
	})
}

// verb is one of the commands that say what becomes of messages.
type verb struct {
	name, short, done string
	state             record.Validity
}

func (a *app) markMessages(conv *string, v verb) *cobra.Command {
	var reason string
	var erase bool
	c := &cobra.Command{
		Use: v.name + " ID…", Short: v.short, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeMessages(conv),
		Long: v.short + ", on all branches and at once. A call and its results go together.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.onMessages(c.Context(), *conv, v.state == record.Active, args, func(t talk, msgs []string) error {
				changed, err := t.Mark(c.Context(), t.conv, client.Mark{Messages: msgs, State: string(v.state), Reason: reason, Erase: erase})
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(map[string]int{"changed": changed})
				}
				if changed == 0 && !erase {
					a.note("nothing has changed, it was so before: %s", shortIDs(msgs))
					return nil
				}
				a.note("%s %s", v.done, shortIDs(msgs))
				if v.state == record.Deleted {
					a.note("%s", a.until(erase, "steward messages restore "+strings.ReplaceAll(shortIDs(msgs), ",", "")+t.flag))
				}
				if more := changed - len(msgs); more > 0 {
					a.note("%s with them, since calls and their results go together", counted(more, "other message", "other messages"))
				}
				return nil
			})
		},
	}
	if v.state == record.Deleted {
		c.Long += " They can be\nbrought back for a while, and are then erased for good; with --erase before the command ends."
		c.Flags().BoolVar(&erase, "erase", false, "for good, at once")
	}
	if v.state != record.Active {
		c.Flags().StringVar(&reason, "reason", "", "`WHY`, for the record")
	}
	return c
}

// until says for how long a command brings back what was deleted, unless it
// was erased.
func (a *app) until(erased bool, command string) string {
	keep := time.Duration(0)
	if a.set != nil {
		keep = a.set.Keep.Deleted
	}
	switch {
	case erased:
		return "it is erased for good"
	case keep == 0:
		return "it is erased for good (the setting keep.deleted)"
	}
	return fmt.Sprintf("until %s this brings it back: %s", time.Now().Add(keep).Local().Format("2 January 2006 15:04"), command)
}

func (a *app) removeMessages(conv *string) *cobra.Command {
	return &cobra.Command{
		Use: "remove ID…", Short: "Go on without some messages, on a branch of its own", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeMessages(conv),
		Long: "Make a branch without some messages, and go on with it. The branch with them is kept. A call and its\n" +
			"results go together.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.onMessages(c.Context(), *conv, false, args, func(t talk, msgs []string) error {
				return a.made(c.Context(), t, "POST /conversations/{id}/messages/remove", map[string]any{"messages": msgs})
			})
		},
	}
}

func (a *app) insertMessage(conv *string) *cobra.Command {
	var after, role string
	var first bool
	c := &cobra.Command{
		Use: "insert TEXT…", Short: "Put a message in between, on a branch of its own", Args: cobra.MinimumNArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Make a branch with a message more, behind another one, and go on with it. The branch without it is\n" +
			"kept.",
		Example: "  steward messages insert --after 3f2a91bc 'The deadline is Friday.'",
		RunE: func(c *cobra.Command, args []string) error {
			return a.changing(c.Context(), *conv, func(t talk) error {
				in := map[string]any{"role": role, "text": strings.Join(args, " ")}
				if !first {
					found, err := t.find(c.Context(), false, after)
					if err != nil {
						return err
					}
					in["after"] = found[0].ID
				}
				return a.made(c.Context(), t, "POST /conversations/{id}/messages/insert", in)
			})
		},
	}
	c.Flags().StringVar(&after, "after", "", "behind the message `ID`")
	c.Flags().BoolVar(&first, "first", false, "before all others")
	c.Flags().StringVar(&role, "role", "user", "who says it: user or assistant")
	c.MarkFlagsOneRequired("after", "first")
	c.MarkFlagsMutuallyExclusive("after", "first")
	complete(c, "after", a.completeMessages(conv))
	complete(c, "role", words("user", "assistant"))
	return c
}

// made has the API make a branch, and tells of it.
func (a *app) made(ctx context.Context, t talk, route string, in any) error {
	var raw json.RawMessage
	if err := t.Call(ctx, route, client.Params{"id": t.conv}, in, &raw); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(raw)
	}
	var b struct {
		client.Branch
		Withdrawn int `json:"withdrawn"`
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		return err
	}
	a.note("the conversation goes on with the new branch %s; steward branch switch %s%s goes back", shorten(b.ID), shorten(b.Parent), t.flag)
	if b.Withdrawn > 0 {
		a.note("%d withdrawn that had not been done yet", b.Withdrawn)
	}
	return nil
}

// completeMessages offers the newest messages.
func (a *app) completeMessages(conv *string) completer {
	return a.completing(conv, func(ctx context.Context, t talk) (out []cobra.Completion, err error) {
		out = append(out, cobra.CompletionWithDesc("last", "the newest one"))
		for m, err := range t.newestFirst(ctx, "", 30) {
			if err != nil || len(out) > 30 {
				return out, err
			}
			out = append(out, cobra.CompletionWithDesc(shortID(m.ID), m.who()+": "+cell(m.gist(), 60)))
		}
		return out, nil
	})
}

// completing offers names of things of a conversation. What goes wrong is no
// business of a shell's.
func (a *app) completing(conv *string, offer func(context.Context, talk) ([]cobra.Completion, error)) completer {
	return func(c *cobra.Command, _ []string, _ string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
		ctx, cancel := completing(c)
		defer cancel()
		err := a.looking(ctx, *conv, func(t talk) (err error) {
			out, err = offer(ctx, t)
			return err
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}
