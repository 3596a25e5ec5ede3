package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
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
	return a.offerRead(c, func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		list, err := s.Conversations(ctx, 30)
		if err != nil {
			return nil, err
		}
		out := []cobra.Completion{cobra.CompletionWithDesc("last", "the last used one")}
		for _, conv := range list {
			out = append(out, cobra.CompletionWithDesc(conv.ID, plainLine(conv.Title)))
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
		names := slices.Clone(s.Aliases())
		for _, m := range s.List(ctx).Models {
			if !m.Embedder {
				names = append(names, m.Full())
			}
		}
		return names, nil
	})
}

// completeKeys offers the ids of keys that are still good.
func (a *app) completeKeys(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	good := func(ctx context.Context, s *session) ([]client.Key, error) {
		keys, err := s.Keys(ctx, "")
		return slices.DeleteFunc(keys, func(k client.Key) bool { return !k.Usable }), err
	}
	return offerList(a, c, nil, good, func(k *client.Key) (string, string) { return k.ID, k.User + " " + k.Name })
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

// offerRead offers names out of what is stored, if anything is.
func (a *app) offerRead(c *cobra.Command, names func(context.Context, *session) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	return offer(c, func(ctx context.Context) (out []cobra.Completion, err error) {
		err = a.with(ctx, toRead, func(s *session) error {
			out, err = names(ctx, s)
			return err
		})
		return out, err
	})
}

// offerList offers the items of a list, each by its name and what it is.
func offerList[T any](a *app, c *cobra.Command, args []string, list func(context.Context, *session) ([]T, error), name func(*T) (string, string)) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.offerRead(c, func(ctx context.Context, s *session) (out []cobra.Completion, err error) {
		all, err := list(ctx, s)
		for i := range all {
			if own, about := name(&all[i]); !slices.Contains(args, own) {
				out = append(out, cobra.CompletionWithDesc(own, plainLine(about)))
			}
		}
		return out, err
	})
}

func completing(c *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, completeTimeout)
}
