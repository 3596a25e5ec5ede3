package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
)

func (a *app) groupsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "groups", Aliases: []string{"group"}, Short: "Say which users share a space", GroupID: "keep",
		Long: "The members of a group share a space: resources that all of them read and change, and questions that\n" +
			"any of them may answer where a policy says so. A group's managers say who else is a member; admins\n" +
			"make and remove groups.",
	}, a.listGroups(), a.showGroup(), a.addGroup(), a.removeGroup(), a.joinGroup(), a.leaveGroup())
}

func (a *app) listGroups() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the groups", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.readPeople(c.Context(), func(s *session) error {
				list, err := s.Groups(c.Context())
				if err != nil {
					return err
				}
				return tellList(a, list, "there are no groups; steward groups add NAME makes one", groupTable)
			})
		},
	}
}

func groupTable(list []client.Group) string {
	rows := [][]string{{"GROUP", "MEMBERS", "NAME"}}
	for _, g := range list {
		rows = append(rows, []string{g.Name, members(g), cmp.Or(plainLine(g.Display), "-")})
	}
	return columns(rows, 0)
}

// members lists who is in a group; managers bear a star.
func members(g client.Group) string {
	var out []string
	for _, u := range g.Members {
		if slices.Contains(g.Managers, u) {
			u += "*"
		}
		out = append(out, u)
	}
	return cmp.Or(strings.Join(out, ", "), "nobody")
}

func (a *app) showGroup() *cobra.Command {
	return &cobra.Command{
		Use: "show GROUP", Short: "Show one group", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeGroups,
		RunE: func(c *cobra.Command, args []string) error {
			return a.readPeople(c.Context(), func(s *session) error {
				g, err := s.Group(c.Context(), args[0])
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(g)
				}
				rows := [][]string{{"group", g.Name}}
				if g.Display != "" {
					rows = append(rows, []string{"name", plainLine(g.Display)})
				}
				return a.print(columns(append(rows, []string{"members", cmp.Or(strings.Join(g.Members, ", "), "nobody")},
					[]string{"managers", cmp.Or(strings.Join(g.Managers, ", "), "nobody: admins say who is a member")},
					[]string{"since", g.Created.Local().Format(time.DateOnly)}), 0))
			})
		},
	}
}

func (a *app) toldGroup(g client.Group) error {
	if a.json {
		return a.printJSON(g)
	}
	a.note("in %s: %s", g.Name, members(g))
	return nil
}

func (a *app) addGroup() *cobra.Command {
	var in client.NewGroup
	c := &cobra.Command{
		Use: "add GROUP", Short: "Make a group", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  steward groups add family --name \"The family\" --member ada,bo --manager local",
		RunE: func(c *cobra.Command, args []string) error {
			in.Name = args[0]
			return a.with(c.Context(), toDecide, func(s *session) error {
				g, err := s.AddGroup(c.Context(), in)
				if err != nil {
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
			return a.with(c.Context(), toDecide, func(s *session) error {
				for _, name := range args {
					if err := s.RemoveGroup(c.Context(), name); err != nil {
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
			return a.eachMember(c.Context(), args, func(s *session, user string) (client.Group, error) {
				return s.JoinGroup(c.Context(), args[0], user, manages)
			})
		},
	}
	c.Flags().BoolVar(&manages, "manager", false, "they also say who else is in it")
	return c
}

func (a *app) leaveGroup() *cobra.Command {
	return &cobra.Command{
		Use: "leave GROUP USER…", Short: "Take users out of a group, at once", Args: cobra.MinimumNArgs(2), ValidArgsFunction: a.completeGroupThenUsers,
		RunE: func(c *cobra.Command, args []string) error {
			return a.eachMember(c.Context(), args, func(s *session, user string) (client.Group, error) {
				return s.LeaveGroup(c.Context(), args[0], user)
			})
		},
	}
}

// eachMember changes the memberships of the users in args in the group that
// stands before them.
func (a *app) eachMember(ctx context.Context, args []string, change func(s *session, user string) (client.Group, error)) error {
	return a.with(ctx, toDecide, func(s *session) (err error) {
		var g client.Group
		for _, user := range args[1:] {
			if g, err = change(s, user); err != nil {
				return err
			}
		}
		return a.toldGroup(g)
	})
}

// completeGroups offers the names of groups.
func (a *app) completeGroups(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	groups := func(ctx context.Context, s *session) ([]client.Group, error) { return s.Groups(ctx) }
	return offerList(a, c, args, groups, func(g *client.Group) (string, string) { return g.Name, cmp.Or(g.Display, members(*g)) })
}

func (a *app) completeGroupThenUsers(c *cobra.Command, args []string, to string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.completeGroups(c, args, to)
	}
	return a.completeUsers(c, args[1:], to)
}
