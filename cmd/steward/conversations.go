package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/conversation"
	"steward/internal/exchange"
	"steward/internal/face/terminal"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/store/sqlite"
)

func (a *app) conversationsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "conversations", Aliases: []string{"conversation"}, Short: "List, show, export, rewind, compact and delete conversations", GroupID: "keep", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.listConversations(), a.showConversation(), a.exportConversation(), a.deleteConversations())
	c.AddCommand(a.viewCommands()...)
	return c
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

// withShelf runs do over the stored conversations.
func (a *app) withShelf(ctx context.Context, do func(shelf) error) error {
	st, err := a.reading(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation yet").With(`begin one: steward ask "…"`)
	}
	return errors.Join(do(a.shelf(st)), st.Close())
}

// summary is a conversation as the list shows it.
type summary struct {
	ID        string        `json:"id"`
	Title     string        `json:"title"`
	Created   time.Time     `json:"created"`
	Updated   time.Time     `json:"updated"`
	Messages  int           `json:"messages"`
	ToolCalls int           `json:"tool_calls"`
	Tokens    message.Usage `json:"tokens"`
}

func (a *app) listConversations() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List the conversations, the last used first", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit must be 1 or more")
			}
			st, err := a.reading(c.Context())
			if err != nil {
				return err
			}
			list := []summary{}
			if st != nil {
				list, err = summaries(c.Context(), a.shelf(st), limit)
				if err = errors.Join(err, st.Close()); err != nil {
					return err
				}
			}
			return a.printList(list)
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "show at most `N`")
	return c
}

func summaries(ctx context.Context, s shelf, limit int) ([]summary, error) {
	list := []summary{}
	for after := store.Cursor(""); len(list) < limit; {
		page, next, err := s.Conversations(ctx, after, min(limit-len(list), store.MaxLimit))
		if err != nil {
			return nil, err
		}
		for _, c := range page {
			list = append(list, summary{c.ID.String(), c.Title, c.Created, c.Updated, c.Messages, c.ToolCalls, c.Tokens})
		}
		if next == "" || len(page) == 0 {
			break
		}
		after = next
	}
	return list, nil
}

func (a *app) printList(list []summary) error {
	if a.json {
		return a.printJSON(list)
	}
	if len(list) == 0 {
		a.note("there are no conversations yet")
		return nil
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tLAST USED\tMESSAGES\tTITLE")
	for _, c := range list {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", c.ID, c.Updated.Local().Format("2006-01-02 15:04"), c.Messages, plainLine(c.Title))
	}
	return w.Flush()
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
			return a.export(c.Context(), args[0], conversation.ExportOptions{Format: format}, "")
		},
	}
}

func (a *app) exportConversation() *cobra.Command {
	var output string
	var o conversation.ExportOptions
	c := &cobra.Command{
		Use: "export ID", Short: "Write a conversation as JSON or Markdown", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeConversations,
		Long: "Write a conversation to standard output or a file: everything with all branches as JSON, which\n" +
			"steward import reads back, or as Markdown for reading; or its messages as a model's vendor takes them,\n" +
			"to go on elsewhere. What is marked as secret is masked, and what was deleted is left out.",
		Example: "  steward conversations export last --format markdown --output talk.md",
		RunE: func(c *cobra.Command, args []string) error {
			if !slices.Contains(conversation.ExportFormats(), o.Format) {
				return usage("--format must be json or markdown, or a vendor's (%s), not %q", strings.Join(exchange.Vendors(), ", "), o.Format)
			}
			return a.export(c.Context(), args[0], o, output)
		},
	}
	c.Flags().StringVar(&o.Format, "format", "json", strings.Join(conversation.ExportFormats(), ", "))
	c.Flags().BoolVar(&o.MaskPrivate, "mask-private", false, "mask what is marked as private, too")
	c.Flags().StringVarP(&output, "output", "o", "", "write to `FILE`, which must not exist")
	complete(c, "format", words(conversation.ExportFormats()...))
	return c
}

func (a *app) export(ctx context.Context, which string, o conversation.ExportOptions, output string) error {
	return a.withShelf(ctx, func(s shelf) error {
		conv, err := a.which(ctx, s.reader(), which, false)
		if err != nil {
			return err
		}
		if output == "" {
			return s.ExportAs(ctx, conv, o, a.stdout)
		}
		path := a.path(output)
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			return fault.New(fault.Conflict, "file_exists", "%s is there already", output).With("name another file with --output")
		}
		if err != nil {
			return fault.New(fault.Invalid, "file_unwritable", "%w", err).With("name another file with --output")
		}
		if err = errors.Join(s.ExportAs(ctx, conv, o, f), f.Close()); err != nil {
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
		RunE: func(c *cobra.Command, args []string) error { return a.delete(c.Context(), args, yes, erase) },
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	c.Flags().BoolVar(&erase, "erase", false, "for good, at once")
	return c
}

func (a *app) delete(ctx context.Context, args []string, yes, erase bool) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	if _, err := os.Stat(database(set.Data)); errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.NotFound, "conversation_not_found", "there is no conversation yet")
	}
	b, err := a.open(ctx, set, a.logger(set, a.stderr))
	if err != nil {
		return err
	}
	err = a.deleteFrom(ctx, b, args, yes, erase)
	return errors.Join(err, b.Close())
}

// sure has a person confirm that what is listed is to be deleted.
func (a *app) sure(yes bool, listed []string) error {
	if yes {
		return nil
	}
	if !isTerminal(a.stdin) {
		return usage("deleting needs --yes where nobody can be asked")
	}
	fmt.Fprintf(a.stderr, "%s\ndelete? [y/N] ", strings.Join(listed, "\n"))
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(strings.ToLower(line)) != "y" {
		a.note("nothing was deleted")
		return exitCode(exitFailed)
	}
	return nil
}

func (a *app) deleteFrom(ctx context.Context, b backend, args []string, yes, erase bool) error {
	var convs []record.Conversation
	for _, arg := range args { // all are looked at before one is touched
		x, err := a.which(ctx, b, arg, false)
		if err != nil {
			return err
		}
		c, err := b.Conversation(ctx, x)
		if err != nil {
			return err
		}
		convs = append(convs, c)
	}
	var listed []string
	for _, c := range convs {
		listed = append(listed, c.ID.String()+"  "+plainLine(c.Title))
	}
	if err := a.sure(yes, listed); err != nil {
		return err
	}
	for _, c := range convs {
		if err := b.Delete(ctx, c.ID, erase); err != nil {
			return err
		}
		a.note("deleted %s", c.ID)
		a.note("%s", a.until(erase, "steward conversations undelete "+c.ID.String()))
	}
	return nil
}

// readerShelf gives a shelf the methods that only a node has, which reading
// commands never call.
type readerShelf struct{ shelf }

func (s shelf) reader() readerShelf { return readerShelf{s} }

func (readerShelf) Rename(context.Context, id.ID, string) (record.Conversation, error) {
	return record.Conversation{}, fault.New(fault.Unsupported, "read_only", "the data folder was opened for reading only")
}
