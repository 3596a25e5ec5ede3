package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/identity"
	"steward/internal/store/sqlite"
)

func (a *app) groupsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "groups", Aliases: []string{"group"}, Short: "Say which users share a space", GroupID: "keep", Args: cobra.NoArgs,
		Long: "The members of a group share a space: resources that all of them read and change, and questions that\n" +
			"any of them may answer where a policy says so. A group's managers say who else is a member; admins\n" +
			"make and remove groups.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.listGroups(), a.showGroup(), a.addGroup(), a.removeGroup(), a.joinGroup(), a.leaveGroup())
	return c
}

func readGroups(ctx context.Context, c caller) ([]identity.Group, error) {
	var out struct{ Groups []identity.Group }
	err := c.call(ctx, http.MethodGet, "/groups", nil, &out)
	return out.Groups, err
}

func (a *app) listGroups() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the groups", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.lookAtPeople(c.Context(), func(api caller) error {
				list, err := readGroups(c.Context(), api)
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printJSON(list)
				case len(list) == 0:
					a.note("there are no groups; steward groups add NAME makes one")
					return nil
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "GROUP\tMEMBERS\tNAME")
				for _, g := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\n", g.Name, members(g), cmp.Or(plainLine(g.Display), "-"))
				}
				return w.Flush()
			})
		},
	}
}

// members lists who is in a group; managers bear a star.
func members(g identity.Group) string {
	var out []string
	for _, u := range g.Members {
		if g.Manages(u) {
			u += "*"
		}
		out = append(out, u)
	}
	return cmp.Or(strings.Join(out, ", "), "nobody")
}

func groupPath(name string) string { return "/groups/" + url.PathEscape(name) }

func memberPath(group, user string) string {
	return groupPath(group) + "/members/" + url.PathEscape(user)
}

func (a *app) showGroup() *cobra.Command {
	return &cobra.Command{
		Use: "show GROUP", Short: "Show one group", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroups,
		RunE: func(c *cobra.Command, args []string) error {
			return a.lookAtPeople(c.Context(), func(api caller) error {
				var g identity.Group
				if err := api.call(c.Context(), http.MethodGet, groupPath(args[0]), nil, &g); err != nil {
					return err
				}
				if a.json {
					return a.printJSON(g)
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintf(w, "group\t%s\n", g.Name)
				if g.Display != "" {
					fmt.Fprintf(w, "name\t%s\n", plainLine(g.Display))
				}
				fmt.Fprintf(w, "members\t%s\n", cmp.Or(strings.Join(g.Members, ", "), "nobody"))
				fmt.Fprintf(w, "managers\t%s\n", cmp.Or(strings.Join(g.Managers, ", "), "nobody: admins say who is a member"))
				fmt.Fprintf(w, "since\t%s\n", g.Created.Local().Format(time.DateOnly))
				return w.Flush()
			})
		},
	}
}

func (a *app) toldGroup(g identity.Group) error {
	if a.json {
		return a.printJSON(g)
	}
	a.note("in %s: %s", g.Name, members(g))
	return nil
}

func (a *app) addGroup() *cobra.Command {
	var in identity.NewGroup
	c := &cobra.Command{
		Use: "add GROUP", Short: "Make a group", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  steward groups add family --name \"The family\" --member ada,bo --manager local",
		RunE: func(c *cobra.Command, args []string) error {
			in.Name = args[0]
			return a.withPeople(c.Context(), func(api caller) error {
				var g identity.Group
				if err := api.call(c.Context(), http.MethodPost, "/groups", in, &g); err != nil {
					return err
				}
				return a.toldGroup(g)
			})
		},
	}
	c.Flags().StringVar(&in.Display, "name", "", "what people call the group, in your `WORDS`")
	c.Flags().StringSliceVar(&in.Members, "member", nil, "the `USERS` who are in it")
	c.Flags().StringSliceVar(&in.Managers, "manager", nil, "the `USERS` who are in it and say who else is")
	c.Flags().BoolVar(&in.Inherit, "inherit", false, "have what a removed group of this name has left")
	complete(c, "member", a.completeUsers)
	complete(c, "manager", a.completeUsers)
	return c
}

func (a *app) removeGroup() *cobra.Command {
	return &cobra.Command{
		Use: "remove GROUP…", Short: "Remove groups", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeGroups,
		Long: "Remove groups. What their members shared is kept, and nobody reaches it until a group of the same name\n" +
			"is added with --inherit.",
		RunE: func(c *cobra.Command, args []string) error {
			return a.withPeople(c.Context(), func(api caller) error {
				for _, name := range args {
					if err := api.call(c.Context(), http.MethodDelete, groupPath(name), nil, nil); err != nil {
						return err
					}
					a.note("removed the group %s", name)
				}
				return nil
			})
		},
	}
}

func (a *app) joinGroup() *cobra.Command {
	var manages bool
	c := &cobra.Command{
		Use: "join GROUP USER…", Short: "Put users in a group, at once", Args: cobra.MinimumNArgs(2), ValidArgsFunction: a.completeGroupThenUsers,
		RunE: func(c *cobra.Command, args []string) error {
			return a.eachMember(c.Context(), args, http.MethodPut, map[string]bool{"manages": manages})
		},
	}
	c.Flags().BoolVar(&manages, "manager", false, "they also say who else is in it")
	return c
}

func (a *app) leaveGroup() *cobra.Command {
	return &cobra.Command{
		Use: "leave GROUP USER…", Short: "Take users out of a group, at once", Args: cobra.MinimumNArgs(2), ValidArgsFunction: a.completeGroupThenUsers,
		RunE: func(c *cobra.Command, args []string) error {
			return a.eachMember(c.Context(), args, http.MethodDelete, nil)
		},
	}
}

// eachMember changes the memberships of the users in args in the group that
// stands before them.
func (a *app) eachMember(ctx context.Context, args []string, method string, in any) error {
	return a.withPeople(ctx, func(api caller) error {
		var g identity.Group
		for _, user := range args[1:] {
			if err := api.call(ctx, method, memberPath(args[0], user), in, &g); err != nil {
				return err
			}
		}
		return a.toldGroup(g)
	})
}

// completeGroups offers the names of groups.
func (a *app) completeGroups(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.offerStored(c, func(ctx context.Context, st *sqlite.Store) ([]cobra.Completion, error) {
		list, err := identity.New(st).Groups(ctx)
		if err != nil {
			return nil, err
		}
		var out []cobra.Completion
		for _, g := range list {
			if !slices.Contains(args, g.Name) {
				out = append(out, cobra.CompletionWithDesc(g.Name, plainLine(cmp.Or(g.Display, members(g)))))
			}
		}
		return out, nil
	})
}

func (a *app) completeGroupThenUsers(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeGroups(c, args, to)
	}
	return a.completeUsers(c, args[1:], to)
}
