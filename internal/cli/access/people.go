package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/identity"
	"steward/internal/store/audit"
)

func (a *program) usersCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "users", Aliases: []string{"user"}, Short: "Manage users and their roles", GroupID: "keep",
		Long: "Users log in with their keys (steward keys) and have one or more roles: an admin manages other users;\n" +
			"a member uses Steward; a guest chats but changes nothing; a service is a program,\n" +
			"which cannot be asked for approval. The default role is member. Whoever sits at this machine is the\n" +
			"user local, an admin; only local decides about local, and about agents and servers.",
	}, a.listUsers(), a.showUser(), a.addUser(), a.setUser(),
		a.switchUser("disable USER…", "Lock users out at once", "is disabled: the user's keys no longer work", true),
		a.switchUser("enable USER…", "Enable disabled users again", "is enabled", false), a.exportUser(), a.deleteUsers())
}

func userState(u client.User) string {
	if u.Disabled {
		return "disabled"
	}
	return "enabled"
}

// people makes a command that shows users and groups. If nothing is stored yet, there is
// only the machine's own user.
func (a *program) people(c *cobra.Command, do command.APIFunc) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		call := func(s *command.Session) error { return do(c.Context(), s, args) }
		err := a.With(c.Context(), command.NeedReadOnly, call)
		if errors.Is(err, command.ErrNothingStored) {
			err = a.With(c.Context(), command.NeedDatabase, call)
		}
		return err
	}
	return c
}

func (a *program) listUsers() *cobra.Command {
	return a.people(&cobra.Command{Use: "list", Short: "List the users"}, func(ctx context.Context, s *command.Session, _ []string) error {
		users, err := s.Users(ctx)
		if err != nil {
			return err
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
		return command.PrintList(a.Program, users, err, "", userTable)
	})
}

func userTable(list []client.User) string {
	rows := [][]string{{"USER", "ROLES", "STATE", "GROUPS", "NAME"}}
	for _, u := range list {
		rows = append(rows, []string{u.User, strings.Join(u.Roles, ", "), userState(u),
			cmp.Or(strings.Join(u.Groups, ", "), "-"), cmp.Or(command.PlainLine(u.Display), "-")})
	}
	return command.Columns(rows, 0)
}

func (a *program) showUser() *cobra.Command {
	return a.people(&cobra.Command{Use: "show USER", Short: "Show one user", ValidArgsFunction: a.CompleteUsers()},
		func(ctx context.Context, s *command.Session, args []string) error {
			u, err := s.User(ctx, args[0])
			return command.PrintValue(a.Program, u, err, userText)
		})
}

func userText(u client.User) string {
	account := "none: this user was not added"
	if !u.Created.IsZero() {
		account = "since " + u.Created.Local().Format(time.DateOnly)
	}
	return command.Fields(9, [][2]string{{"user", u.User}, {"name", u.Display}, {"roles", strings.Join(u.Roles, ", ")},
		{"groups", cmp.Or(strings.Join(u.Groups, ", "), "none")}, {"state", userState(u)}, {"account", account}})
}

// accountFlags holds the flags for the properties of a user.
type accountFlags struct {
	name  string
	roles []string
}

func (f *accountFlags) add(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&f.name, "name", "", "display name of the user, in your own `WORDS`")
	c.Flags().StringSliceVar(&f.roles, "role", nil, "the `ROLES`: "+strings.Join(identity.Roles(), ", ")+"; they replace the previous ones")
	command.CompleteFlag(c, "role", command.Words(identity.Roles()...))
	return c
}

// change returns the flags that were given.
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

func (a *program) addUser() *cobra.Command {
	var f accountFlags
	c := f.add(&cobra.Command{Use: "add USER", Short: "Add a user", ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  steward users add ada --name \"Ada Lovelace\" --role member\n  steward keys create --user ada"})
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		u, err := s.AddUser(ctx, args[0], f.change(c))
		return a.PrintDone(u, err, "%s is %s now; steward keys create --user %s makes a key", u.User, anyRole(u.Roles), u.User)
	})
}

// anyRole describes roles in words: "a member", "an admin and a service".
func anyRole(roles []string) string {
	return strings.ReplaceAll("a "+strings.Join(roles, " and a "), "a admin", "an admin")
}

func (a *program) setUser() *cobra.Command {
	var f accountFlags
	c := f.add(&cobra.Command{Use: "set USER", Short: "Change a user's name or roles", ValidArgsFunction: a.CompleteUsers(),
		Example: "  steward users set ada --role admin"})
	c.MarkFlagsOneRequired("name", "role")
	return a.APICommand(command.NeedDatabase, c, func(ctx context.Context, s *command.Session, args []string) error {
		u, err := s.SetUser(ctx, args[0], f.change(c))
		return a.PrintDone(u, err, "%s is %s now", u.User, anyRole(u.Roles))
	})
}

func (a *program) switchUser(use, short, done string, off bool) *cobra.Command {
	return a.APICommand(command.NeedDatabase, &cobra.Command{Use: use, Short: short, ValidArgsFunction: a.CompleteUsers()},
		func(ctx context.Context, s *command.Session, args []string) error {
			var list []client.User
			for _, name := range args {
				u, err := s.SetUser(ctx, name, map[string]any{"disabled": off})
				if err != nil {
					return err
				}
				list = append(list, u)
				if !a.JSON {
					a.Note("%s %s", u.User, done)
				}
			}
			if a.JSON {
				return a.PrintJSON(list)
			}
			return nil
		})
}

func (a *program) deleteUsers() *cobra.Command {
	var yes bool
	c := &cobra.Command{Use: "delete USER…", Short: "Delete users and erase everything of theirs", ValidArgsFunction: a.CompleteUsers(),
		Long: "Delete users and, before the command ends, erase everything of theirs: conversations, resources, events\n" +
			"that they published, questions, keys, memberships, profiles, and what agents store for them. What they\n" +
			"shared with a group stays with the group. The log keeps that they existed and who deleted them, but not\n" +
			"what they said. Afterwards the whole log and all folders are searched for what is left, and the sealed log\n" +
			"is verified. Backups made before keep what they hold: the command names them.",
		PreRunE: func(_ *cobra.Command, args []string) error { return a.ConfirmDelete(yes, args) }}
	command.YesFlag(c, &yes)
	return a.StoredCommand(command.NeedIdleNode, c, func(ctx context.Context, s *command.Session, args []string) error {
		set, err := a.Settings()
		if err != nil {
			return err
		}
		var proofs []app.Erasure
		for _, name := range args {
			if err := s.DeleteUser(ctx, name); err != nil {
				return err
			}
			proof, err := a.ProveErased(ctx, set, name)
			if err != nil {
				return err
			}
			if len(proof.Left) > 0 {
				return fault.New(fault.Internal, "erasure_unfinished", "of %s there is left: %s", name, strings.Join(proof.Left, ", ")).WithHint("delete the user again")
			}
			proofs = append(proofs, proof)
			a.Note("deleted %s and everything of theirs", name)
			a.Note("%s", erasureText(&proof))
		}
		if a.JSON {
			return a.PrintJSON(proofs)
		}
		return nil
	})
}

// erasureText says what shows that nothing is left, and where it may still be.
func erasureText(p *app.Erasure) string {
	text := fmt.Sprintf("%s of the log about %s are left, without their content, and no file or database; the log is intact up to %s",
		app.Counted(p.Entries, "entry", "entries"), p.User, audit.FormatHead(p.Head))
	if len(p.Copies) > 0 {
		text += "\nolder copies keep what they hold; remove them when you can do without: " + strings.Join(p.Copies, ", ")
	}
	if p.Store != "" {
		text += "\nthe write-ahead log and the backups of PostgreSQL keep what they hold until they are removed"
	}
	return text
}

func (a *program) exportUser() *cobra.Command {
	return &cobra.Command{Use: "export USER FOLDER", Short: "Write everything of a user into a new folder",
		Long: "Write everything of a user into a new folder: the account and profile, each conversation in the form that\n" +
			"steward import reads, all records (facts, goals, jobs, documents and others) as JSON lines by\n" +
			"their type, and the files and databases that tools and agents keep. The folder holds private texts: only\n" +
			"you can read it. This needs the data folder, as steward backup does; no key of another user allows it.",
		Example: "  steward users export ada ada-2026", ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			out, err := a.ExportPerson(c.Context(), set, args[0], a.Path(args[1]))
			return command.PrintValue(a.Program, out, err, func(out app.PersonExport) string {
				n := 0
				for _, k := range out.Records {
					n += k
				}
				return fmt.Sprintf("exported %s to %s: %s, %s, %s\n", out.User, out.Folder,
					app.Plural(out.Conversations, "conversation"), app.Plural(n, "record"), app.Counted(out.Files, "file or database", "files and databases"))
			})
		}}
}

func (a *program) groupsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "groups", Aliases: []string{"group"}, Short: "Manage groups of users that share a space", GroupID: "keep",
		Long: "The members of a group share a space: resources that all of them can read and change, and questions\n" +
			"that any of them may answer if a policy says so. A group's managers add and remove members; admins\n" +
			"create and remove groups.",
	}, a.listGroups(), a.showGroup(), a.addGroup(), a.removeGroup(), a.joinGroup(), a.leaveGroup())
}

func (a *program) listGroups() *cobra.Command {
	return a.people(&cobra.Command{Use: "list", Short: "List the groups"}, func(ctx context.Context, s *command.Session, _ []string) error {
		list, err := s.Groups(ctx)
		return command.PrintList(a.Program, list, err, "there are no groups; steward groups add NAME creates one", groupTable)
	})
}

func groupTable(list []client.Group) string {
	rows := [][]string{{"GROUP", "MEMBERS", "NAME"}}
	for _, g := range list {
		rows = append(rows, []string{g.Name, members(g), cmp.Or(command.PlainLine(g.Display), "-")})
	}
	return command.Columns(rows, 0)
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
		func(ctx context.Context, s *command.Session, args []string) error {
			g, err := s.Group(ctx, args[0])
			return command.PrintValue(a.Program, g, err, func(g client.Group) string {
				return command.Fields(10, [][2]string{{"group", g.Name}, {"name", g.Display}, {"members", cmp.Or(strings.Join(g.Members, ", "), "nobody")},
					{"managers", cmp.Or(strings.Join(g.Managers, ", "), "none: admins choose the members")},
					{"since", g.Created.Local().Format(time.DateOnly)}})
			})
		})
}

func (a *program) addGroup() *cobra.Command {
	var in client.NewGroup
	c := a.APICommand(command.NeedDatabase, &cobra.Command{Use: "add GROUP", Short: "Create a group", ValidArgsFunction: cobra.NoFileCompletions,
		Example: "  steward groups add family --name \"The family\" --member ada,bo --manager local"},
		func(ctx context.Context, s *command.Session, args []string) error {
			in.Name = args[0]
			g, err := s.AddGroup(ctx, in)
			return a.PrintDone(g, err, "in %s: %s", g.Name, members(g))
		})
	c.Flags().StringVar(&in.Display, "name", "", "display name of the group, in your own `WORDS`")
	c.Flags().StringSliceVar(&in.Members, "member", nil, "the `USERS` who are members")
	c.Flags().StringSliceVar(&in.Managers, "manager", nil, "the `USERS` who are members and manage the group")
	c.Flags().BoolVar(&in.Inherit, "inherit", false, "take over what a removed group of this name left behind")
	command.CompleteFlag(c, "member", a.CompleteUsers())
	command.CompleteFlag(c, "manager", a.CompleteUsers())
	return c
}

func (a *program) removeGroup() *cobra.Command {
	return a.APICommand(command.NeedDatabase, &cobra.Command{Use: "remove GROUP…", Short: "Remove groups", ValidArgsFunction: a.completeGroups(),
		Long: "Remove groups. What their members shared is kept, but nobody can access it until a group of the same\n" +
			"name is added with --inherit."},
		func(ctx context.Context, s *command.Session, args []string) error {
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
	c := a.memberChangeCommand("join GROUP USER…", "Add users to a group", func(ctx context.Context, s *command.Session, group, user string) (client.Group, error) {
		return s.JoinGroup(ctx, group, user, manages)
	})
	c.Flags().BoolVar(&manages, "manager", false, "make them managers of the group")
	return c
}

func (a *program) leaveGroup() *cobra.Command {
	return a.memberChangeCommand("leave GROUP USER…", "Remove users from a group", func(ctx context.Context, s *command.Session, group, user string) (client.Group, error) {
		return s.LeaveGroup(ctx, group, user)
	})
}

// memberChangeCommand makes a command that changes the memberships of users in a group.
func (a *program) memberChangeCommand(use, short string, change func(ctx context.Context, s *command.Session, group, user string) (client.Group, error)) *cobra.Command {
	return a.APICommand(command.NeedDatabase, &cobra.Command{Use: use, Short: short, ValidArgsFunction: command.After(a.completeGroups(), a.CompleteUsers())},
		func(ctx context.Context, s *command.Session, args []string) (err error) {
			var g client.Group
			for _, user := range args[1:] {
				if g, err = change(ctx, s, args[0], user); err != nil {
					return err
				}
			}
			return a.PrintDone(g, nil, "in %s: %s", g.Name, members(g))
		})
}

// completeGroups offers the names of groups.
func (a *program) completeGroups() command.Completer {
	return command.Offers(a.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.Group, error) { return s.Groups(ctx) },
		func(g *client.Group) (string, string) { return g.Name, cmp.Or(g.Display, members(*g)) })
}
