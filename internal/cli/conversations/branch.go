package conversations

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/terminal"
)

func (a *program) branchCommand() *cobra.Command {
	var conv string
	c := command.Group(&cobra.Command{
		Use: "branch", Aliases: []string{"branches"}, Short: "List, create and switch branches of a conversation", GroupID: "keep",
		Long: "Editing a message, asking for another answer or going back never loses anything: the conversation\n" +
			"continues on a new branch, and the old one is kept. A branch is named by its title, its id, or at least\n" +
			"the first or last 6 characters of the id; lists show the last 8.",
	}, a.listBranches(&conv), a.switchBranch(&conv), a.newBranch(&conv), a.renameBranch(&conv), a.deleteBranch(&conv),
		a.restoreBranch(&conv), a.copyBranch(&conv), a.branchSiblings(&conv))
	a.conversationFlag(c, &conv)
	return c
}

// rank orders branches: the current one first, then the most recently used ones.
func rank(b client.Branch) int64 {
	if b.Preferred {
		return math.MaxInt64
	}
	return b.Used.Unix()
}

// branch finds a branch by its id, its title, or a part of the id.
func (t conversationTarget) branch(ctx context.Context, name string, deleted bool) (client.Branch, error) {
	list, err := t.Branches(ctx, t.conv, deleted)
	if err != nil {
		return client.Branch{}, err
	}
	low := strings.ToLower(strings.TrimSpace(name))
	for _, same := range []func(client.Branch) bool{
		func(b client.Branch) bool { return b.ID == low },
		func(b client.Branch) bool {
			return b.Title != "" && strings.EqualFold(b.Title, strings.TrimSpace(name))
		},
		func(b client.Branch) bool {
			return isPart(low) && (strings.HasPrefix(b.ID, low) || strings.HasSuffix(b.ID, low))
		},
	} {
		found := slices.DeleteFunc(slices.Clone(list), func(b client.Branch) bool { return !same(b) })
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return client.Branch{}, ambiguous("branch", "branches", name, found, func(b client.Branch) string { return b.ID })
		}
	}
	e := fault.New(fault.NotFound, "branch_not_found", "conversation %s has no branch %.80q", t.conv, name)
	if deleted {
		return client.Branch{}, e.WithHint("steward branch list --deleted shows those that can be restored")
	}
	return client.Branch{}, e.WithHint("steward branch list shows its branches")
}

func (a *program) listBranches(conv *string) *cobra.Command {
	var deleted bool
	c := a.conversationSubcommand(command.NeedReadOnly, conv, &cobra.Command{Use: "list [CONVERSATION]", Short: "Show the branches as a tree",
		Long: "Show the branches of a conversation, each below the one that it starts from, with the number of its\n" +
			"messages, its title, and the beginning of what was written on it. * marks the current branch."},
		func(ctx context.Context, t conversationTarget, _ []string) error {
			list, err := t.Branches(ctx, t.conv, deleted)
			return command.PrintList(a.Program, list, err, "no branch was deleted", func(list []client.Branch) string { return branchTree(list, a.Width()) })
		})
	c.Flags().BoolVar(&deleted, "deleted", false, "list deleted branches that can be restored")
	return c
}

// branchTree draws each branch below the one that it starts from, within a width in
// columns (0: unlimited).
func branchTree(list []client.Branch, width int) string {
	var rows [][]string
	for _, l := range terminal.Tree(list, func(b client.Branch) string { return b.ID }, func(b client.Branch) string { return b.Stem }) {
		mark := "  "
		if l.Item.Preferred {
			mark = "* "
		}
		text := command.PlainLine(l.Item.Begins)
		if l.Item.Title != "" {
			text = strings.TrimSuffix(command.PlainLine(l.Item.Title)+": "+text, ": ")
		}
		rows = append(rows, []string{mark + l.Head + command.Shorten(l.Item.ID), app.Counted(l.Item.Messages, "message", "messages"), command.Cell(text, command.MaxGist)})
	}
	return command.Columns(rows, width)
}

// branchChangeCommand makes a command that works on an existing branch.
func (a *program) branchChangeCommand(conv *string, c *cobra.Command, deleted bool, do func(ctx context.Context, t conversationTarget, b client.Branch, args []string) error) *cobra.Command {
	c.ValidArgsFunction = a.completeBranches(conv)
	return a.conversationSubcommand(command.NeedNode, conv, c, func(ctx context.Context, t conversationTarget, args []string) error {
		b, err := t.branch(ctx, args[0], deleted)
		if err != nil {
			return err
		}
		return do(ctx, t, b, args[1:])
	})
}

func (a *program) switchBranch(conv *string) *cobra.Command {
	return a.branchChangeCommand(conv, &cobra.Command{Use: "switch BRANCH", Short: "Switch to another branch"}, false,
		func(ctx context.Context, t conversationTarget, b client.Branch, _ []string) error {
			if err := t.ChangeBranch(ctx, t.conv, b.ID, map[string]any{"preferred": true}); err != nil {
				return err
			}
			ends := ""
			for m, err := range t.newestFirst(ctx, b.ID, 1) {
				if err != nil {
					return err
				}
				ends = "; it ends with " + m.who() + ": " + command.Cell(m.gist(), 60)
				break
			}
			a.Note("the conversation continues with %s, %s%s", command.Shorten(b.ID), app.Plural(b.Messages, "message"), ends)
			return nil
		})
}

func (a *program) newBranch(conv *string) *cobra.Command {
	var at, title string
	var before bool
	c := a.conversationSubcommand(command.NeedNode, conv, &cobra.Command{Use: "new", Short: "Create a branch at a message",
		Long: "Create a branch that shares everything up to a message with the current one, and switch to it. The\n" +
			"current branch is kept as it is.",
		Example: "  steward branch new --at 3f2a91bc --title 'in French'"},
		func(ctx context.Context, t conversationTarget, _ []string) error {
			in := map[string]any{"before": before, "title": title}
			if at != "" {
				found, err := t.find(ctx, false, at)
				if err != nil {
					return err
				}
				in["message"] = found[0].ID
			}
			return a.createBranch(ctx, t, "POST /conversations/{id}/branches", in)
		})
	c.Flags().StringVar(&at, "at", "", "after the message `ID`; by default the newest one")
	c.Flags().BoolVar(&before, "before", false, "start before the message instead")
	c.Flags().StringVar(&title, "title", "", "the `TITLE` of the branch")
	command.CompleteFlag(c, "at", a.completeMessages(conv))
	return c
}

func (a *program) renameBranch(conv *string) *cobra.Command {
	return a.branchChangeCommand(conv, &cobra.Command{Use: "rename BRANCH TITLE…", Short: "Give a branch a title", Long: "Give a branch a title. An empty title removes it."}, false,
		func(ctx context.Context, t conversationTarget, b client.Branch, args []string) error {
			title := strings.TrimSpace(strings.Join(args, " "))
			if err := t.ChangeBranch(ctx, t.conv, b.ID, map[string]any{"title": title}); err != nil {
				return err
			}
			if title == "" {
				a.Note("%s has no title now", command.Shorten(b.ID))
			} else {
				a.Note("%s is called %s now", command.Shorten(b.ID), command.PlainLine(title))
			}
			return nil
		})
}

func (a *program) deleteBranch(conv *string) *cobra.Command {
	var erase bool
	c := a.branchChangeCommand(conv, &cobra.Command{Use: "delete BRANCH", Short: "Delete a branch",
		Long: "Delete a branch. Messages that are also on other branches stay. The branch can be restored for a while;\n" +
			"then the messages that are on it alone are erased for good. With --erase they are erased before the\n" +
			"command ends."}, false,
		func(ctx context.Context, t conversationTarget, b client.Branch, _ []string) error {
			if err := t.DeleteBranch(ctx, t.conv, b.ID, erase); err != nil {
				return err
			}
			a.Note("deleted the branch %s", command.Shorten(b.ID))
			a.Note("%s", a.restorableUntil(erase, "steward branch restore "+command.Shorten(b.ID)+t.flag))
			return nil
		})
	c.Flags().BoolVar(&erase, "erase", false, "erase it for good, at once")
	return c
}

func (a *program) restoreBranch(conv *string) *cobra.Command {
	return a.branchChangeCommand(conv, &cobra.Command{Use: "restore BRANCH", Short: "Restore a deleted branch",
		Long: "Restore a deleted branch. The conversation stays on its current branch."}, true,
		func(ctx context.Context, t conversationTarget, b client.Branch, _ []string) error {
			err := t.Undelete(ctx, t.conv, b.ID)
			if err == nil {
				a.Note("%s is restored; steward branch switch %s%s switches to it", command.Shorten(b.ID), command.Shorten(b.ID), t.flag)
			}
			return err
		})
}

func (a *program) copyBranch(conv *string) *cobra.Command {
	return a.branchChangeCommand(conv, &cobra.Command{Use: "copy BRANCH", Short: "Copy a branch to a new conversation"}, false,
		func(ctx context.Context, t conversationTarget, b client.Branch, _ []string) error {
			made, err := t.CopyBranch(ctx, t.conv, b.ID)
			return a.PrintDone(map[string]string{"conversation_id": made}, err, "copied to the conversation %s", made)
		})
}

func (a *program) branchSiblings(conv *string) *cobra.Command {
	return a.conversationSubcommand(command.NeedReadOnly, conv, &cobra.Command{Use: "siblings MESSAGE", Short: "Show the other versions of a message", ValidArgsFunction: a.completeMessages(conv),
		Long: "Show the versions of a message on the conversation's branches: other wordings of a question, or other\n" +
			"answers. The second column names the branch to switch to. An answer that used tools begins with the\n" +
			"message that calls them: name that message."},
		func(ctx context.Context, t conversationTarget, args []string) error {
			found, err := t.find(ctx, false, args[0])
			if err != nil {
				return err
			}
			list, err := t.Siblings(ctx, t.conv, found[0].ID.String())
			if err != nil || a.JSON {
				return command.PrintValue(a.Program, list, err, nil)
			}
			names := make([]string, len(list))
			for i, s := range list {
				names[i] = s.Message
			}
			said, err := t.find(ctx, false, names...)
			return command.PrintValue(a.Program, list, err, func(list []client.Sibling) string { return siblingsTable(list, said, a.Width()) })
		})
}

// siblingsTable lists siblings with their text, within a width in columns (0: unlimited).
func siblingsTable(list []client.Sibling, said []*apiMessage, width int) string {
	var rows [][]string
	for i, s := range list {
		mark := "  "
		if s.Preferred {
			mark = "* "
		}
		rows = append(rows, []string{mark + command.Shorten(s.Message), fmt.Sprintf("%-8s", command.Shorten(s.Branch)), said[i].who(), said[i].gist()})
	}
	return command.Columns(rows, width)
}

// completeBranches offers the branches.
func (a *program) completeBranches(conv *string) command.Completer {
	return a.completing(conv, func(ctx context.Context, t conversationTarget) (out []cobra.Completion, err error) {
		list, err := t.Branches(ctx, t.conv, false)
		for _, b := range list {
			out = append(out, cobra.CompletionWithDesc(command.Shorten(b.ID), command.PlainLine(cmp.Or(b.Title, command.Cell(b.Begins, 60)))))
		}
		return out, err
	})
}
