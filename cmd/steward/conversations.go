package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/importexport"
	"steward/internal/server/terminal"
	"steward/internal/store/sqlite"
)

func (a *app) conversationsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "conversations", Aliases: []string{"conversation"}, Short: "List, show, export, rewind, compact and delete conversations", GroupID: "keep",
	}, append([]*cobra.Command{a.listConversations(), a.showConversation(), a.exportConversation(), a.deleteConversations()}, a.viewCommands()...)...)
}

// reading opens the data folder for reading only, which needs nothing of a
// Steward that uses it; nil where there is none yet.
func (a *app) reading(ctx context.Context) (*sqlite.Store, error) {
	set, err := a.settings()
	if err != nil {
		return nil, err
	}
	st, err := sqlite.Open(ctx, sqlite.Options{Path: database(set.Data), ReadOnly: true})
	if fault.HasCode(err, "database_missing") {
		return nil, nil
	}
	return st, err
}

func (a *app) listConversations() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List the conversations, the last used first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more")
			}
			list, err := readList(c.Context(), a, func(s *session) ([]client.Conversation, error) { return s.Conversations(c.Context(), limit) })
			if err != nil {
				return err
			}
			return tellList(a, list, "there are no conversations yet", conversationTable)
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "show at most `N`")
	return c
}

func conversationTable(list []client.Conversation) string {
	rows := [][]string{{"ID", "LAST USED", "MESSAGES", "TITLE"}}
	for _, c := range list {
		rows = append(rows, []string{c.ID, minuteOf(c.Updated), strconv.Itoa(c.Messages), plainLine(c.Title)})
	}
	return columns(rows, 0)
}

// plainLine keeps text of others from doing anything to the terminal.
func plainLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || terminal.Unsafe(r) {
			return ' '
		}
		return r
	}, s)
}

func (a *app) showConversation() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a conversation", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeConversations,
		Long: "Show a conversation as text, or with --json as it is stored. last stands for the last used one.",
		RunE: func(c *cobra.Command, args []string) error {
			format := "markdown"
			if a.json {
				format = "json"
			}
			return a.export(c.Context(), args[0], format, false, "")
		},
	}
}

func (a *app) exportConversation() *cobra.Command {
	var output, format string
	var private bool
	c := &cobra.Command{
		Use: "export ID", Short: "Write a conversation as JSON or Markdown", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeConversations,
		Long: "Write a conversation to standard output or a file: everything with all branches as JSON, which\n" +
			"steward import reads back, or as Markdown for reading; or its messages as a model's vendor takes them,\n" +
			"to go on elsewhere. What is marked as secret is masked, and what was deleted is left out.",
		Example: "  steward conversations export last --format markdown --output talk.md",
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(conversation.ExportFormats(), format) {
				return usage("--format must be json or markdown, or a vendor's (%s), not %q", strings.Join(importexport.Vendors(), ", "), format)
			}
			return a.export(c.Context(), args[0], format, private, output)
		},
	}
	c.Flags().StringVar(&format, "format", "json", strings.Join(conversation.ExportFormats(), ", "))
	c.Flags().BoolVar(&private, "mask-private", false, "mask what is marked as private, too")
	c.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`, which must not exist")
	complete(c, "format", words(conversation.ExportFormats()...))
	return c
}

func (a *app) export(ctx context.Context, which, format string, private bool, output string) error {
	return a.with(ctx, toRead, func(s *session) error {
		conv, err := s.which(ctx, which)
		if err != nil {
			return err
		}
		if output == "" {
			return s.Export(ctx, conv, format, private, a.stdout)
		}
		path := a.path(output)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return fault.New(fault.Conflict, "file_exists", "%s is there already", output).WithHint("name another file with --output")
		}
		if err != nil {
			return fault.New(fault.Invalid, "file_unwritable", "%w", err).WithHint("name another file with --output")
		}
		if err = errors.Join(s.Export(ctx, conv, format, private, f), f.Close()); err != nil {
			return errors.Join(err, os.Remove(path))
		}
		a.note("written to %s", output)
		return nil
	})
}

func (a *app) deleteConversations() *cobra.Command {
	var yes, erase bool
	c := &cobra.Command{
		Use: "delete ID…", Short: "Delete conversations",
		Long: "Delete conversations. They can be brought back for a while (the setting keep.deleted), and are then erased\n" +
			"for good; with --erase they are erased before the command ends.", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeConversations,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withStored(c.Context(), toAct, func(s *session) error { return a.delete(c.Context(), s, args, yes, erase) })
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&erase, "erase", false, "for good, at once")
	return c
}

// sure has a person confirm that what is listed is to be deleted.
func (a *app) sure(yes bool, listed []string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) {
		return usage("deleting needs --yes where nobody can be asked")
	}
	ok, err := a.confirm(nil, "%s\ndelete?", strings.Join(listed, "\n"))
	if err == nil && !ok {
		a.note("nothing was deleted")
		err = exitCode(exitFailed)
	}
	return err
}

func (a *app) delete(ctx context.Context, s *session, args []string, yes, erase bool) error {
	var convs []string
	var listed []string
	for _, arg := range args { // all are looked at before one is touched
		x, err := s.which(ctx, arg)
		if err != nil {
			return err
		}
		c, err := s.Conversation(ctx, x)
		if err != nil {
			return err
		}
		convs, listed = append(convs, c.ID), append(listed, c.ID+"  "+plainLine(c.Title))
	}
	if err := a.sure(yes, listed); err != nil {
		return err
	}
	for _, conv := range convs {
		if err := s.DeleteConversation(ctx, conv, erase); err != nil {
			return err
		}
		a.note("deleted %s", conv)
		a.note("%s", a.until(erase, "steward conversations undelete "+conv))
	}
	return nil
}
