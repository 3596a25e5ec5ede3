package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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

func (a *app) usersCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "users", Aliases: []string{"user"}, Short: "Say who uses this Steward, and what each may do", GroupID: "keep", Args: cobra.NoArgs,
		Long: "Users come by their keys (steward keys) and have one or more roles: an admin decides about agents,\n" +
			"people and policies; a member uses Steward; a guest talks and changes nothing; a service is a program,\n" +
			"with nobody there who can be asked. Of whom nothing is said is a member. Whoever sits at this machine\n" +
			"is the user local, an admin.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.listUsers(), a.showUser(), a.addUser(), a.setUser(),
		a.switchUser("disable", "Let users in no more, at once", "is disabled: his keys open nothing", true),
		a.switchUser("enable", "Let users in again", "is enabled", false), a.deleteUsers())
	return c
}

// withPeople runs do with the API of what knows users and groups: of the
// Steward that has the data folder in use, or of the folder itself.
func (a *app) withPeople(ctx context.Context, do func(caller) error) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	log := a.logger(set, a.stderr)
	return a.withStore(ctx, set, log, func(st *sqlite.Store) error {
		return do(within(nil, identity.New(st), nil, a.user(), log))
	}, func(r *remote) error { return do(r) })
}

// lookAtPeople is withPeople for what is only read.
func (a *app) lookAtPeople(ctx context.Context, do func(caller) error) error {
	st, err := a.reading(ctx)
	if err != nil {
		return err
	}
	if st == nil { // nothing is kept yet: there is who sits here
		return a.withPeople(ctx, do)
	}
	return errors.Join(do(within(nil, identity.New(st), nil, a.user(), slog.New(slog.DiscardHandler))), st.Close())
}

// userInfo is a user as /api/v1 tells of him.
type userInfo struct {
	identity.Account
	Groups []string `json:"groups"`
}

func (u userInfo) state() string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

// readUsers reads all users, with their groups.
func readUsers(ctx context.Context, c caller) ([]userInfo, error) {
	var users struct{ Users []identity.Account }
	if err := c.call(ctx, http.MethodGet, "/users", nil, &users); err != nil {
		return nil, err
	}
	groups, err := readGroups(ctx, c)
	out := []userInfo{}
	for _, u := range users.Users {
		info := userInfo{u, []string{}}
		for _, g := range groups {
			if g.Has(u.User) {
				info.Groups = append(info.Groups, g.Name)
			}
		}
		out = append(out, info)
	}
	return out, err
}

func (a *app) listUsers() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the users", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.lookAtPeople(c.Context(), func(api caller) error {
				list, err := readUsers(c.Context(), api)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(list)
				}
				w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "USER\tROLES\tSTATE\tGROUPS\tNAME")
				for _, u := range list {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", u.User, strings.Join(u.Roles, ", "), u.state(),
						cmp.Or(strings.Join(u.Groups, ", "), "-"), cmp.Or(plainLine(u.Display), "-"))
				}
				return w.Flush()
			})
		},
	}
}

func userPath(name string) string { return "/users/" + url.PathEscape(name) }

func (a *app) showUser() *cobra.Command {
	return &cobra.Command{
		Use: "show USER", Short: "Show one user", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeUsers,
		RunE: func(c *cobra.Command, args []string) error {
			return a.lookAtPeople(c.Context(), func(api caller) error {
				var u userInfo
				if err := api.call(c.Context(), http.MethodGet, userPath(args[0]), nil, &u); err != nil {
					return err
				}
				return a.printUser(u)
			})
		},
	}
}

func (a *app) printUser(u userInfo) error {
	if a.json {
		return a.printJSON(u)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "user\t%s\n", u.User)
	if u.Display != "" {
		fmt.Fprintf(w, "name\t%s\n", plainLine(u.Display))
	}
	fmt.Fprintf(w, "roles\t%s\n", strings.Join(u.Roles, ", "))
	fmt.Fprintf(w, "groups\t%s\n", cmp.Or(strings.Join(u.Groups, ", "), "none"))
	fmt.Fprintf(w, "state\t%s\n", u.state())
	if u.Created.IsZero() {
		fmt.Fprintf(w, "account\tnone: nothing was ever said about this user\n")
	} else {
		fmt.Fprintf(w, "account\tsince %s\n", u.Created.Local().Format(time.DateOnly))
	}
	return w.Flush()
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
			in := f.change(c)
			in["user"] = args[0]
			return a.withPeople(c.Context(), func(api caller) error {
				var u identity.Account
				if err := api.call(c.Context(), http.MethodPost, "/users", in, &u); err != nil {
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

func (a *app) toldUser(u identity.Account, say string) error {
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
			in := f.change(c)
			return a.withPeople(c.Context(), func(api caller) error {
				var u identity.Account
				if err := api.call(c.Context(), http.MethodPatch, userPath(args[0]), in, &u); err != nil {
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
			return a.withPeople(c.Context(), func(api caller) error {
				list := []identity.Account{}
				for _, name := range args {
					var u identity.Account
					if err := api.call(c.Context(), http.MethodPatch, userPath(name), map[string]bool{"disabled": off}, &u); err != nil {
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
			a.idle = true
			return a.opened(c.Context(), func(b backend) error {
				for _, name := range args {
					if err := b.call(c.Context(), http.MethodDelete, userPath(name), nil, nil); err != nil {
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
	return a.offerStored(c, func(ctx context.Context, st *sqlite.Store) ([]cobra.Completion, error) {
		list, err := identity.New(st).Accounts(ctx)
		if err != nil {
			return nil, err
		}
		var out []cobra.Completion
		for _, u := range list {
			if !slices.Contains(args, u.User) {
				out = append(out, cobra.CompletionWithDesc(u.User, plainLine(cmp.Or(u.Display, strings.Join(u.Roles, ", ")))))
			}
		}
		return out, nil
	})
}
