package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/conversation"
)

// completeTimeout is how long a shell may be kept waiting for names.
const completeTimeout = 2 * time.Second

type completer = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// complete gives a flag its completions. It fails only if the flag is not
// there, which is a mistake in this package.
func complete(c *cobra.Command, flag string, f completer) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

func words(list ...string) completer {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// completeConversations offers the ids of the last used conversations, with
// their titles. What goes wrong is no business of a shell's.
func (a *app) completeConversations(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := completing(c)
	defer cancel()
	st, err := a.reading(ctx)
	if err != nil || st == nil {
		return nil, none
	}
	defer st.Close()
	list, err := summaries(ctx, shelf{a.user(), conversation.New(st, conversation.Options{})}, 30)
	if err != nil {
		return nil, none
	}
	out := []cobra.Completion{cobra.CompletionWithDesc("last", "the last used one")}
	for _, s := range list {
		out = append(out, cobra.CompletionWithDesc(s.ID, plainLine(s.Title)))
	}
	return out, none
}

// completeModels offers the aliases and models.
func (a *app) completeModels(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := completing(c)
	defer cancel()
	set, err := a.settings()
	if err != nil {
		return nil, none
	}
	s, err := a.supply(ctx, set, nil)
	if err != nil {
		return nil, none
	}
	names, err := modelNames(s.List(ctx), s.Aliases())
	if err != nil {
		return nil, none
	}
	return names, none
}

// completeKeys offers the ids of keys that are still good.
func (a *app) completeKeys(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	ctx, cancel := completing(c)
	defer cancel()
	keys, err := a.readKeys(ctx, "")
	if err != nil {
		return nil, none
	}
	var out []cobra.Completion
	for _, k := range keys {
		if k.Usable(time.Now()) {
			out = append(out, cobra.CompletionWithDesc(k.ID.String(), plainLine(k.User+" "+k.Name)))
		}
	}
	return out, none
}

func completing(c *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, completeTimeout)
}
