package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
)

func (a *program) groupsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "groups", Aliases: []string{"group"}, Short: "Manage groups of users that share a space", GroupID: "keep",
		Long: "The members of a group share a space: resources that all of them can read and change, and questions\n" +
			"that any of them may answer if a policy says so. A group's managers add and remove members; admins\n" +
			"create and remove groups.",
	}, a.listGroups(), a.showGroup(), a.addGroup(), a.removeGroup(), a.joinGroup(), a.leaveGroup())
}

func (a *program) listGroups() *cobra.Command {
	return a.people(&cobra.Command{Use: "list", Short: "List the groups"}, func(ctx context.Context, s *session, _ []string) error {
		list, err := s.Groups(ctx)
		return printList(a, list, err, "there are no groups; steward groups add NAME creates one", groupTable)
	})
}

func groupTable(list []client.Group) string {
	rows := [][]string{{"GROUP", "MEMBERS", "NAME"}}
	for _, g := range list {
		rows = append(rows, []string{g.Name, members(g), cmp.Or(plainLine(g.Display), "-")})
	}
	return columns(rows, 0)
}

// members lists the members of a group; managers are marked with a star.
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

func (a *program) showGroup() *cobra.Command {
	return a.people(&cobra.Command{Use: "show GROUP", Short: "Show one group", ValidArgsFunction: a.completeGroups()},
		func(ctx context.Context, s *session, args []string) error {
			g, err := s.Group(ctx, args[0])
			return printValue(a, g, err, func(g client.Group) string {
				return fields(10, [][2]string{{"group", g.Name}, {"name", g.Display}, {"members", cmp.Or(strings.Join(g.Members, ", "), "nobody")},
					{"managers", cmp.Or(strings.Join(g.Managers, ", "), "none: admins choose the members")},
					{"since", g.Created.Local().Format(time.DateOnly)}})
			})
		})
}

func (a *program) addGroup() *cobra.Command {
	var in client.NewGroup
	c := a.apiCommand(needDatabase, &cobra.Command{Use: "add GROUP", Short: "Create a group", ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  steward groups add family --name \"The family\" --member ada,bo --manager local"},
		func(ctx context.Context, s *session, args []string) error {
			in.Name = args[0]
			g, err := s.AddGroup(ctx, in)
			return a.printDone(g, err, "in %s: %s", g.Name, members(g))
		})
	c.Flags().StringVar(&in.Display, "name", "", "display name of the group, in your own `WORDS`")
	c.Flags().StringSliceVar(&in.Members, "member", nil, "the `USERS` who are members")
	c.Flags().StringSliceVar(&in.Managers, "manager", nil, "the `USERS` who are members and manage the group")
	c.Flags().BoolVar(&in.Inherit, "inherit", false, "take over what a removed group of this name left behind")
	complete(c, "member", a.completeUsers())
	complete(c, "manager", a.completeUsers())
	return c
}

func (a *program) removeGroup() *cobra.Command {
	return a.apiCommand(needDatabase, &cobra.Command{Use: "remove GROUP…", Short: "Remove groups", ValidArgsFunction: a.completeGroups(),
		Long: "Remove groups. What their members shared is kept, but nobody can access it until a group of the same\n" +
			"name is added with --inherit."},
		func(ctx context.Context, s *session, args []string) error {
			for _, name := range args {
				if err := s.RemoveGroup(ctx, name); err != nil {
					return err
				}
				a.Note("removed the group %s", name)
			}
			return nil
		})
}

func (a *program) joinGroup() *cobra.Command {
	var manages bool
	c := a.memberChangeCommand("join GROUP USER…", "Add users to a group", func(ctx context.Context, s *session, group, user string) (client.Group, error) {
		return s.JoinGroup(ctx, group, user, manages)
	})
	c.Flags().BoolVar(&manages, "manager", false, "make them managers of the group")
	return c
}

func (a *program) leaveGroup() *cobra.Command {
	return a.memberChangeCommand("leave GROUP USER…", "Remove users from a group", func(ctx context.Context, s *session, group, user string) (client.Group, error) {
		return s.LeaveGroup(ctx, group, user)
	})
}

// memberChangeCommand makes a command that changes the memberships of users in a group.
func (a *program) memberChangeCommand(use, short string, change func(ctx context.Context, s *session, group, user string) (client.Group, error)) *cobra.Command {
	return a.apiCommand(needDatabase, &cobra.Command{Use: use, Short: short, ValidArgsFunction: after(a.completeGroups(), a.completeUsers())},
		func(ctx context.Context, s *session, args []string) (err error) {
			var g client.Group
			for _, user := range args[1:] {
				if g, err = change(ctx, s, args[0], user); err != nil {
					return err
				}
			}
			return a.printDone(g, nil, "in %s: %s", g.Name, members(g))
		})
}

// completeGroups offers the names of groups.
func (a *program) completeGroups() completer {
	return offers(a, needReadOnly, func(ctx context.Context, s *session) ([]client.Group, error) { return s.Groups(ctx) },
		func(g *client.Group) (string, string) { return g.Name, cmp.Or(g.Display, members(*g)) })
}
