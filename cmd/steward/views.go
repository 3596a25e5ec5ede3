package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/runtime"
)

// viewCommands are those by which a person changes what a model is shown of a
// conversation, and where it goes on.
func (a *app) viewCommands() []*cobra.Command {
	return []*cobra.Command{
		a.rewindConversation(),
		a.tidyConversation(runtime.TidyCompact, "compact", "Let a summary stand for what is old",
			"Let a summary stand for what is old: the model is shown it in place of the messages, which stay as\nthey are. Pinned messages, the newest ones and open tool calls stay in view.",
			"the model is shown a summary of the older messages; steward conversations whole takes it back"),
		a.tidyConversation(runtime.TidyWhole, "whole", "Take the last compaction back",
			"Take the last compaction back: the model is shown the messages again that a summary stood for.",
			"the model is shown again what it was shown before the last compaction"),
		a.tidyConversation(runtime.TidyRefresh, "refresh", "Show no more of what is obsolete, now",
			"Show no more of what tools have made obsolete, now instead of when room is needed. It is shown again\nby steward messages rollback.",
			"the model is not shown any more what is obsolete"),
		a.optimizeConversation(), a.undeleteConversation(),
	}
}

func (a *app) rewindConversation() *cobra.Command {
	var withdraw bool
	c := &cobra.Command{
		Use: "rewind CONVERSATION MESSAGE", Short: "Go on from an earlier message", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeRewind,
		Long: "Go on from an earlier message, on a branch of its own. What was said after it is kept on the old one.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.onMessages(c.Context(), args[0], false, args[1:], func(t talk, msgs []string) error {
				return a.made(c.Context(), t, "POST /conversations/{id}/rewind", map[string]any{"message": msgs[0], "withdraw": withdraw})
			})
		},
	}
	c.Flags().BoolVar(&withdraw, "withdraw", false, "withdraw what was decided after it and has not been done yet")
	return c
}

// completeRewind offers conversations, and then their messages.
func (a *app) completeRewind(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeConversations(c, args, to)
	}
	return a.completeMessages(&args[0])(c, args, to)
}

func (a *app) tidyConversation(how runtime.Tidying, use, short, long, done string) *cobra.Command {
	return &cobra.Command{
		Use: use + " [CONVERSATION]", Short: short, Long: long, Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeConversations,
		RunE: func(c *cobra.Command, args []string) error {
			return a.changing(c.Context(), strings.Join(args, ""), func(t talk) error {
				was, err := t.preferred(c.Context())
				if err != nil {
					return err
				}
				changed, err := t.Tidy(c.Context(), t.conv, string(how))
				if err != nil {
					return err
				}
				now, err := t.preferred(c.Context())
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printJSON(map[string]int{"changed": changed})
				case how == runtime.TidyCompact && !now.Cut && !was.Cut:
					a.note("there is nothing to summarise: all of it is short enough")
				case how == runtime.TidyRefresh && changed == 0:
					a.note("nothing has changed: nothing that is obsolete is shown")
				default:
					a.note("%s (%s)", done, counted(changed, "message", "messages"))
				}
				return nil
			})
		},
	}
}

// preferred returns the branch that the conversation goes on with.
func (t talk) preferred(ctx context.Context) (client.Branch, error) {
	list, err := t.Branches(ctx, t.conv, false)
	for _, b := range list {
		if b.Preferred {
			return b, nil
		}
	}
	return client.Branch{}, err
}

func (a *app) optimizeConversation() *cobra.Command {
	var tools []string
	var undo bool
	c := &cobra.Command{
		Use: "optimize [CONVERSATION]", Short: "Make room for the tools that are about to be used", Args: cobra.MaximumNArgs(1), ValidArgsFunction: a.completeConversations,
		Long: "Make room for the tools that are about to be used: results of other tools, which these do not build\n" +
			"on, are not shown to the model any more. They stay in the record.",
		Example: "  steward conversations optimize last --for files.write\n  steward conversations optimize last --undo",
		RunE: func(c *cobra.Command, args []string) error {
			return a.changing(c.Context(), strings.Join(args, ""), func(t talk) error {
				how := runtime.TidyOptimize
				if undo {
					how, tools = runtime.TidyRestore, nil
				}
				changed, err := t.Tidy(c.Context(), t.conv, string(how), tools...)
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printJSON(map[string]int{"changed": changed})
				case undo && changed == 0:
					a.note("nothing is left out")
				case undo:
					a.note("%s shown again", counted(changed, "result is", "results are"))
				case changed == 0:
					a.note("there is nothing to leave out")
				default:
					a.note("%s not shown any more; --undo shows them again", counted(changed, "result is", "results are"))
				}
				return nil
			})
		},
	}
	c.Flags().StringSliceVar(&tools, "for", nil, "the `TOOLS` that are about to be used")
	c.Flags().BoolVar(&undo, "undo", false, "show again what was left out")
	c.MarkFlagsOneRequired("for", "undo")
	c.MarkFlagsMutuallyExclusive("for", "undo")
	complete(c, "for", a.completeTools)
	return c
}

func (a *app) undeleteConversation() *cobra.Command {
	return &cobra.Command{
		Use: "undelete ID", Short: "Bring back a deleted conversation", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			conv, ok := id.Parse(strings.ToLower(args[0]))
			if !ok || conv.Zero() {
				return fault.New(fault.Invalid, "conversation_invalid", "%.80q is no id of a conversation", args[0]).
					WithHint("give the whole id, as steward conversations delete told it")
			}
			return a.withStored(c.Context(), toAct, func(s *session) error {
				if err := s.Undelete(c.Context(), conv.String(), ""); err != nil {
					return err
				}
				now, err := s.Conversation(c.Context(), conv.String())
				if err != nil {
					return err
				}
				a.note("%s is there again: %s", conv, plainLine(now.Title))
				return nil
			})
		},
	}
}
