package command

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
)

// CompleteConversations offers the ids of the most recently used conversations, with
// their titles.
func (a *Program) CompleteConversations(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return Offers(a, NeedReadOnly, func(ctx context.Context, s *Session) ([]client.Conversation, error) {
		list, err := s.Conversations(ctx, 30)
		return append([]client.Conversation{{ID: "last", Title: "the last used one"}}, list...), err
	}, func(conv *client.Conversation) (string, string) { return conv.ID, conv.Title })(c, args, to)
}

// CompleteUsers offers the names of users.
func (a *Program) CompleteUsers() Completer {
	return Offers(a, NeedReadOnly, func(ctx context.Context, s *Session) ([]client.User, error) { return s.Users(ctx) },
		func(u *client.User) (string, string) { return u.User, cmp.Or(u.Display, strings.Join(u.Roles, ", ")) })
}

// CompleteTools offers the names of the built-in tools.
func (a *Program) CompleteTools(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	specs, err := a.Specs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(specs)), cobra.ShellCompDirectiveNoFileComp
}

// CompleteModels offers the aliases and models.
func (a *Program) CompleteModels(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return Offer(c, func(ctx context.Context) ([]cobra.Completion, error) {
		set, err := a.Settings()
		if err != nil {
			return nil, err
		}
		s, err := a.Supply(ctx, set, nil, nil)
		if err != nil {
			return nil, err
		}
		names := slices.Clone(s.Models.Aliases())
		for _, m := range s.List(ctx).Models {
			if !m.Embedder {
				names = append(names, m.Full())
			}
		}
		return names, nil
	})
}

// completeTimeout is how long a shell may be kept waiting for names.
const completeTimeout = 5 * time.Second

// Completer completes an argument or the value of a flag.
type Completer = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective)

// CompleteFlag registers the completions of a flag. It fails only if the flag does not exist,
// which is a bug in this package.
func CompleteFlag(c *cobra.Command, flag string, f Completer) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}

// Words completes with fixed words.
func Words(list ...string) Completer {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// Offer offers names. It hides errors from the shell.
func Offer(c *cobra.Command, names func(context.Context) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmp.Or(c.Context(), context.Background()), completeTimeout)
	defer cancel()
	out, err := names(ctx)
	if err != nil {
		out = nil
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// Offers completes with the items of a list, each with its name and description. Items
// that are already on the command line are left out.
func Offers[T any](a *Program, n Need, list func(context.Context, *Session) ([]T, error), name func(*T) (string, string)) Completer {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return Offer(c, func(ctx context.Context) (out []cobra.Completion, err error) {
			err = a.With(ctx, n, func(s *Session) error {
				all, err := list(ctx, s)
				for i := range all {
					if own, about := name(&all[i]); !slices.Contains(args, own) {
						out = append(out, cobra.CompletionWithDesc(own, PlainLine(about)))
					}
				}
				return err
			})
			return out, err
		})
	}
}

// After completes the first argument with one completer, and the others with another.
func After(first, others Completer) Completer {
	return func(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return first(c, args, to)
		}
		return others(c, args[1:], to)
	}
}
