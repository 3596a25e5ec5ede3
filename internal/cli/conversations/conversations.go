package conversations

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/runtime"
)

func (a *program) conversationsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "conversations", Aliases: []string{"conversation"}, Short: "List, show, export, rewind, compact and delete conversations", GroupID: "keep",
	}, a.listConversations(), a.showConversation(), a.exportConversation(), a.deleteConversations(), a.undeleteConversation(), a.rewindConversation(),
		a.tidyConversation(runtime.TidyCompact, "compact", "Replace old messages with a summary",
			"Show the model a summary instead of the older messages. The messages stay in the record. Pinned messages,\nthe newest ones and open tool calls are still shown.",
			"the model is shown a summary of the older messages; steward conversations whole undoes it"),
		a.tidyConversation(runtime.TidyWhole, "whole", "Undo the last compaction",
			"Undo the last compaction: the model sees the summarised messages again.",
			"the model sees again what it saw before the last compaction"),
		a.tidyConversation(runtime.TidyRefresh, "refresh", "Hide obsolete messages from the model now",
			"Hide messages that tools have made obsolete from the model now, instead of when space is needed.\nsteward messages rollback shows them again.",
			"the model no longer sees obsolete messages"),
		a.optimizeConversation())
}

func (a *program) listConversations() *cobra.Command {
	var limit int
	c := command.ListCommand(a.Program, &cobra.Command{Use: "list", Short: "List the conversations, most recently used first"}, "there are no conversations yet",
		func(ctx context.Context, s *command.Session, _ []string) ([]client.Conversation, error) {
			return s.Conversations(ctx, limit)
		}, conversationTable)
	command.LimitFlag(c, &limit, 50, "show at most `N`")
	return c
}

func conversationTable(list []client.Conversation) string {
	rows := [][]string{{"ID", "LAST USED", "MESSAGES", "TITLE"}}
	for _, c := range list {
		rows = append(rows, []string{c.ID, command.MinuteOf(c.Updated), strconv.Itoa(c.Messages), command.PlainLine(c.Title)})
	}
	return command.Columns(rows, 0)
}

func (a *program) showConversation() *cobra.Command {
	return a.APICommand(command.NeedReadOnly, &cobra.Command{Use: "show ID", Short: "Show a conversation", ValidArgsFunction: a.CompleteConversations,
		Long: "Show a conversation as text, or with --json as it is stored. last means the one that was used last."},
		func(ctx context.Context, s *command.Session, args []string) error {
			format := "markdown"
			if a.JSON {
				format = "json"
			}
			conv, err := s.ResolveConversation(ctx, args[0])
			if err != nil {
				return err
			}
			return s.Export(ctx, conv, format, false, a.Stdout)
		})
}

func (a *program) exportConversation() *cobra.Command {
	var output, format string
	var private bool
	c := &cobra.Command{Use: "export ID", Short: "Write a conversation as JSON or Markdown", ValidArgsFunction: a.CompleteConversations,
		Long: "Write a conversation to standard output or a file: as JSON with all branches, which steward import\n" +
			"reads back; as Markdown for reading; or as the messages that a vendor's API accepts, to continue\n" +
			"elsewhere. Content marked as secret is masked, and deleted content is left out.",
		Example: "  steward conversations export last --format markdown --output talk.md",
		PreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(conversation.ExportFormats(), format) {
				return command.Usage("--format must be json or markdown, or a vendor's (%s), not %q", strings.Join(importexport.Vendors(), ", "), format)
			}
			return nil
		}}
	c.Flags().StringVar(&format, "format", "json", strings.Join(conversation.ExportFormats(), ", "))
	c.Flags().BoolVar(&private, "mask-private", false, "also mask what is marked as private")
	c.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`, which must not exist")
	command.CompleteFlag(c, "format", command.Words(conversation.ExportFormats()...))
	return a.APICommand(command.NeedReadOnly, c, func(ctx context.Context, s *command.Session, args []string) error {
		conv, err := s.ResolveConversation(ctx, args[0])
		if err != nil {
			return err
		}
		if output == "" {
			return s.Export(ctx, conv, format, private, a.Stdout)
		}
		return a.exportTo(ctx, s, conv, format, private, output)
	})
}

// exportTo writes a conversation to a new file, completely or not at all.
func (a *program) exportTo(ctx context.Context, s *command.Session, conv, format string, private bool, output string) error {
	path := a.Path(output)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fault.New(fault.Conflict, "file_exists", "%s already exists", output).WithHint("name another file with --output")
	}
	if err != nil {
		return fault.New(fault.Invalid, "file_unwritable", "%w", err).WithHint("name another file with --output")
	}
	if err = errors.Join(s.Export(ctx, conv, format, private, f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	a.Note("written to %s", output)
	return nil
}

func (a *program) deleteConversations() *cobra.Command {
	var yes, erase bool
	c := a.StoredCommand(command.NeedNode, &cobra.Command{Use: "delete ID…", Short: "Delete conversations", ValidArgsFunction: a.CompleteConversations,
		Long: "Delete conversations. They can be restored for a while (the setting keep.deleted), and are then erased\n" +
			"for good. With --erase they are erased before the command ends."},
		func(ctx context.Context, s *command.Session, args []string) error {
			var listed []string
			for i, arg := range args { // check all before changing any
				conv, err := s.ResolveConversation(ctx, arg)
				if err != nil {
					return err
				}
				c, err := s.Conversation(ctx, conv)
				if err != nil {
					return err
				}
				args[i], listed = c.ID, append(listed, c.ID+"  "+command.PlainLine(c.Title))
			}
			if err := a.ConfirmDelete(yes, listed); err != nil {
				return err
			}
			for _, conv := range args {
				if err := s.DeleteConversation(ctx, conv, erase); err != nil {
					return err
				}
				a.Note("deleted %s", conv)
				a.Note("%s", a.restorableUntil(erase, "steward conversations undelete "+conv))
			}
			return nil
		})
	command.YesFlag(c, &yes)
	c.Flags().BoolVar(&erase, "erase", false, "erase them for good, at once")
	return c
}

func (a *program) undeleteConversation() *cobra.Command {
	return a.StoredCommand(command.NeedNode, &cobra.Command{Use: "undelete ID", Short: "Restore a deleted conversation", ValidArgsFunction: cobra.NoFileCompletions},
		func(ctx context.Context, s *command.Session, args []string) error {
			x, err := command.ConversationID(args[0])
			if err != nil {
				return fault.Of(err).WithHint("give the whole id, as steward conversations delete printed it")
			}
			if err := s.Undelete(ctx, x.String(), ""); err != nil {
				return err
			}
			now, err := s.Conversation(ctx, x.String())
			if err == nil {
				a.Note("%s is restored: %s", x, command.PlainLine(now.Title))
			}
			return err
		})
}

func (a *program) rewindConversation() *cobra.Command {
	var withdraw bool
	c := &cobra.Command{
		Use: "rewind CONVERSATION MESSAGE", Short: "Continue from an earlier message",
		Long: "Continue from an earlier message, on a new branch. What was said after it is kept on the old branch.",
		ValidArgsFunction: func(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return a.CompleteConversations(c, args, to)
			}
			return a.completeMessages(&args[0])(c, args, to)
		},
		RunE: func(c *cobra.Command, args []string) error {
			return a.withConversation(c.Context(), command.NeedNode, args[0], func(t conversationTarget) error {
				found, err := t.find(c.Context(), false, args[1])
				if err != nil {
					return err
				}
				return a.createBranch(c.Context(), t, "POST /conversations/{id}/rewind", map[string]any{"message": found[0].ID, "withdraw": withdraw})
			})
		},
	}
	c.Flags().BoolVar(&withdraw, "withdraw", false, "cancel actions that were decided after it and have not started")
	return c
}

func (a *program) tidyConversation(how runtime.Tidying, use, short, long, done string) *cobra.Command {
	which := ""
	return a.conversationSubcommand(command.NeedNode, &which, &cobra.Command{Use: use + " [CONVERSATION]", Short: short, Long: long}, func(ctx context.Context, t conversationTarget, _ []string) error {
		was, err := t.preferred(ctx)
		if err != nil {
			return err
		}
		changed, err := t.Tidy(ctx, t.conv, string(how))
		if err != nil {
			return err
		}
		now, err := t.preferred(ctx)
		say := done + " (" + app.Plural(changed, "message") + ")"
		switch {
		case how == runtime.TidyCompact && !now.Cut && !was.Cut:
			say = "nothing to summarise: the conversation is short enough"
		case how == runtime.TidyRefresh && changed == 0:
			say = "nothing has changed: no obsolete message is shown"
		}
		return a.PrintDone(map[string]int{"changed": changed}, err, "%s", say)
	})
}

// preferred returns the current branch of the conversation.
func (t conversationTarget) preferred(ctx context.Context) (client.Branch, error) {
	list, err := t.Branches(ctx, t.conv, false)
	for _, b := range list {
		if b.Preferred {
			return b, nil
		}
	}
	return client.Branch{}, err
}

func (a *program) optimizeConversation() *cobra.Command {
	var tools []string
	var undo bool
	which := ""
	c := a.conversationSubcommand(command.NeedNode, &which, &cobra.Command{Use: "optimize [CONVERSATION]", Short: "Make room in the context for the tools that come next",
		Long: "Make room in the context for the tools that come next: results of other tools that these do not build\n" +
			"on are no longer shown to the model. They stay in the record. What actions returned stays in the\n" +
			"context too.",
		Example: "  steward conversations optimize last --for files.write\n  steward conversations optimize last --undo"},
		func(ctx context.Context, t conversationTarget, _ []string) error {
			how, none, say := runtime.TidyOptimize, "there is nothing to hide", " hidden; --undo shows them again"
			if undo {
				how, none, say = runtime.TidyRestore, "nothing is hidden", " shown again"
			}
			changed, err := t.Tidy(ctx, t.conv, string(how), tools...)
			if say = app.Counted(changed, "result is", "results are") + say; changed == 0 {
				say = none
			}
			return a.PrintDone(map[string]int{"changed": changed}, err, "%s", say)
		})
	c.Flags().StringSliceVar(&tools, "for", nil, "the `TOOLS` that come next: names and globs")
	c.Flags().BoolVar(&undo, "undo", false, "show the hidden results again")
	c.MarkFlagsOneRequired("for", "undo")
	c.MarkFlagsMutuallyExclusive("for", "undo")
	command.CompleteFlag(c, "for", a.CompleteTools)
	return c
}
