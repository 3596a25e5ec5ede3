package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/identity"
)

func (a *app) usersCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "users", Aliases: []string{"user"}, Short: "Say who uses this Steward, and what each may do", GroupID: "keep",
		Long: "Users come by their keys (steward keys) and have one or more roles: an admin decides about agents,\n" +
			"people and policies; a member uses Steward; a guest talks and changes nothing; a service is a program,\n" +
			"with nobody there who can be asked. Of whom nothing is said is a member. Whoever sits at this machine\n" +
			"is the user local, an admin.",
	}, a.listUsers(), a.showUser(), a.addUser(), a.setUser(),
		a.switchUser("disable", "Let users in no more, at once", "is disabled: his keys open nothing", true),
		a.switchUser("enable", "Let users in again", "is enabled", false), a.deleteUsers())
}

func userState(u client.User) string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

// readUsers reads all users, with their groups.
func readUsers(ctx context.Context, s *session) ([]client.User, error) {
	users, err := s.Users(ctx)
	if err != nil {
		return nil, err
	}
	groups, err := s.Groups(ctx)
	for i := range users {
		users[i].Groups = []string{}
		for _, g := range groups {
			if g.Has(users[i].User) {
				users[i].Groups = append(users[i].Groups, g.Name)
			}
		}
	}
	return users, err
}

func (a *app) listUsers() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the users", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.readPeople(c.Context(), func(s *session) error {
				list, err := readUsers(c.Context(), s)
				if err != nil {
					return err
				}
				return tellList(a, list, "", userTable)
			})
		},
	}
}

func userTable(list []client.User) string {
	rows := [][]string{{"USER", "ROLES", "STATE", "GROUPS", "NAME"}}
	for _, u := range list {
		rows = append(rows, []string{u.User, strings.Join(u.Roles, ", "), userState(u),
			cmp.Or(strings.Join(u.Groups, ", "), "-"), cmp.Or(plainLine(u.Display), "-")})
	}
	return columns(rows, 0)
}

func (a *app) showUser() *cobra.Command {
	return &cobra.Command{
		Use: "show USER", Short: "Show one user", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeUsers,
		RunE: func(c *cobra.Command, args []string) error {
			return a.readPeople(c.Context(), func(s *session) error {
				u, err := s.User(c.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printUser(u)
			})
		},
	}
}

func (a *app) printUser(u client.User) error {
	if a.json {
		return a.printJSON(u)
	}
	rows := [][]string{{"user", u.User}}
	if u.Display != "" {
		rows = append(rows, []string{"name", plainLine(u.Display)})
	}
	account := "none: nothing was ever said about this user"
	if !u.Created.IsZero() {
		account = "since " + u.Created.Local().Format(time.DateOnly)
	}
	return a.print(columns(append(rows, []string{"roles", strings.Join(u.Roles, ", ")},
		[]string{"groups", cmp.Or(strings.Join(u.Groups, ", "), "none")}, []string{"state", userState(u)}, []string{"account", account}), 0))
}

// accountFlags are those of what is said about a user.
type accountFlags struct {
	name  string
	roles []string
}

func (f *accountFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "name", "", "what people call the user, in your `WORDS`")
	c.Flags().StringSliceVar(&f.roles, "role", nil, "the `ROLES`: "+strings.Join(identity.Roles(), ", ")+"; they replace those before")
	complete(c, "role", words(identity.Roles()...))
}

// change tells what was given.
func (f *accountFlags) change(c *cobra.Command) map[string]any {
	out := map[string]any{}
	if c.Flags().Changed("name") {
		out["display"] = f.name
	}
	if c.Flags().Changed("role") {
		out["roles"] = f.roles
	}
	return out
}

func (a *app) addUser() *cobra.Command {
	var f accountFlags
	c := &cobra.Command{
		Use: "add USER", Short: "Say who a new user is", Args: cobra.ExactArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  steward users add ada --name \"Ada Lovelace\" --role member\n  steward keys create --user ada",
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), toDecide, func(s *session) error {
				u, err := s.AddUser(c.Context(), args[0], f.change(c))
				if err != nil {
					return err
				}
				return a.toldUser(u, fmt.Sprintf("%s is %s now; steward keys create --user %s makes a key", u.User, anyRole(u.Roles), u.User))
			})
		},
	}
	f.add(c)
	return c
}

// anyRole says roles in words: "a member", "an admin and a service".
func anyRole(roles []string) string {
	var out []string
	for _, r := range roles {
		article := "a "
		if r == "admin" {
			article = "an "
		}
		out = append(out, article+r)
	}
	return strings.Join(out, " and ")
}

func (a *app) toldUser(u client.User, say string) error {
	if a.json {
		return a.printJSON(u)
	}
	a.note("%s", say)
	return nil
}

func (a *app) setUser() *cobra.Command {
	var f accountFlags
	c := &cobra.Command{
		Use: "set USER", Short: "Change who a user is, at once", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeUsers,
		Example: "  steward users set ada --role admin",
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), toDecide, func(s *session) error {
				u, err := s.SetUser(c.Context(), args[0], f.change(c))
				if err != nil {
					return err
				}
				return a.toldUser(u, fmt.Sprintf("%s is %s now", u.User, anyRole(u.Roles)))
			})
		},
	}
	f.add(c)
	c.MarkFlagsOneRequired("name", "role")
	return c
}

func (a *app) switchUser(verb, short, done string, off bool) *cobra.Command {
	return &cobra.Command{
		Use: verb + " USER…", Short: short, Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeUsers,
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), toDecide, func(s *session) error {
				list := []client.User{}
				for _, name := range args {
					u, err := s.SetUser(c.Context(), name, map[string]any{"disabled": off})
					if err != nil {
						return err
					}
					list = append(list, u)
					if !a.json {
						a.note("%s %s", u.User, done)
					}
				}
				if a.json {
					return a.printJSON(list)
				}
				return nil
			})
		},
	}
}

func (a *app) deleteUsers() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "delete USER…", Short: "Delete users with everything that is theirs, for good",
		Long: "Delete users and erase what is theirs before the command ends: conversations, resources, events that they\n" +
			"published, questions, keys, memberships, profiles, and what agents keep for them. What they shared with a\n" +
			"group stays the group's. The log keeps that they were there and who deleted them, not what they said.",
		Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeUsers,
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.sure(yes, args); err != nil {
				return err
			}
			return a.withStored(c.Context(), toLook, func(s *session) error {
				for _, name := range args {
					if err := s.DeleteUser(c.Context(), name); err != nil {
						return err
					}
					a.note("%s is deleted, with everything", name)
				}
				return nil
			})
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

// completeUsers offers the names of users.
func (a *app) completeUsers(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	users := func(ctx context.Context, s *session) ([]client.User, error) { return s.Users(ctx) }
	return offerList(a, c, args, users, func(u *client.User) (string, string) { return u.User, cmp.Or(u.Display, strings.Join(u.Roles, ", ")) })
}
