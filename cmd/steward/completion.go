package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/store/sqlite"
)

// completeTimeout is how long a shell may be kept waiting for names.
const completeTimeout = 5 * time.Second

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
// their titles.
func (a *app) completeConversations(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.offerStored(c, func(ctx context.Context, st *sqlite.Store) ([]cobra.Completion, error) {
		list, err := summaries(ctx, a.shelf(st), 30)
		if err != nil {
			return nil, err
		}
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "the last used one")}
		for _, s := range list {
			out = append(out, cobra.CompletionWithDesc(s.ID, plainLine(s.Title)))
		}
		return out, nil
	})
}

// completeModels offers the aliases and models.
func (a *app) completeModels(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		set, err := a.settings()
		if err != nil {
			return nil, err
		}
		s, err := a.supply(ctx, set, nil)
		if err != nil {
			return nil, err
		}
		names, err := modelNames(s.List(ctx), s.Aliases())
		if err != nil {
			return nil, err
		}
		return names, nil
	})
}

// completeKeys offers the ids of keys that are still good.
func (a *app) completeKeys(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		keys, err := a.readKeys(ctx, "")
		if err != nil {
			return nil, err
		}
		var out []cobra.Completion
		for _, k := range keys {
			if k.Usable(time.Now()) {
				out = append(out, cobra.CompletionWithDesc(k.ID.String(), plainLine(k.User+" "+k.Name)))
			}
		}
		return out, nil
	})
}

// offer offers names. What goes wrong is no business of a shell's.
func offer(c *cobra.Command, names func(context.Context) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := completing(c)
	defer cancel()
	out, err := names(ctx)
	if err != nil {
		out = nil
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// offerStored offers names out of the stored data, if there are any.
func (a *app) offerStored(c *cobra.Command, names func(context.Context, *sqlite.Store) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		st, err := a.reading(ctx)
		if err != nil || st == nil {
			return nil, err
		}
		defer st.Close()
		return names(ctx, st)
	})
}

func completing(c *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, completeTimeout)
}
