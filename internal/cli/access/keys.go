package access

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/app"
	"steward/internal/server/auth"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
)

func (a *program) keysCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "keys", Aliases: []string{"key"}, Short: "Create, list and revoke API keys", GroupID: "keep",
		Long: "Manage the API keys with which programs and people use a Steward that serves beyond loopback. A key\n" +
			"belongs to a user and gives access to what is this user's, and to nothing else.",
	}, a.createKey(), a.listKeys(), a.revokeKey())
}

// keyReport is a key as --json writes it.
type keyReport struct {
	client.Key
	State string `json:"state"`
}

func report(k client.Key) keyReport {
	state := "good"
	switch {
	case !k.Revoked.IsZero():
		state = "revoked"
	case !k.Usable:
		state = "expired"
	}
	return keyReport{k, state}
}

func (a *program) createKey() *cobra.Command {
	var user, name, only, expires string
	c := &cobra.Command{Use: "create", Short: "Create a key and show it once",
		Example: "  steward keys create --user ada --name laptop --expires 90d\n  steward keys create --only metrics --name prometheus",
		RunE: func(c *cobra.Command, _ []string) error {
			until, err := expiry(expires, time.Now())
			if err != nil {
				return err
			}
			return a.With(c.Context(), command.NeedDatabase, func(s *command.Session) error {
				k, err := s.CreateLimitedKey(c.Context(), user, name, only, until)
				err = command.PrintValue(a.Program, report(k), err, func(k keyReport) string { return k.Secret + "\n" })
				if err == nil && !a.JSON {
					a.Note("key %s of %s; it is shown only once and not stored", k.ID, k.User)
				}
				return err
			})
		}}
	c.Flags().StringVar(&user, "user", identity.Local, "the `NAME` of the user who owns it")
	c.Flags().StringVar(&name, "name", "", "what it is for, in your own `WORDS`")
	c.Flags().StringVar(&only, "only", "", "the one `THING` that it opens: metrics, for a monitoring system; without it, everything of its user")
	c.Flags().StringVar(&expires, "expires", "", "when it expires: a duration such as 90d or 12h, or a `DATE` such as 2030-01-31")
	return c
}

// expiry parses a duration from now or a date.
func expiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if n, ok := command.Days(text); ok && n > 0 {
		return now.AddDate(0, 0, n), nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	if t, ok := command.DateOf(text, time.Local); ok {
		return t, nil
	}
	return time.Time{}, command.Usage("--expires must be a duration such as 90d or 12h, or a date such as 2030-01-31, not %q", text)
}

func (a *program) listKeys() *cobra.Command {
	var user string
	c := command.ListCommand(a.Program, &cobra.Command{Use: "list", Short: "List the keys"}, "there are no keys",
		func(ctx context.Context, s *command.Session, _ []string) ([]keyReport, error) {
			keys, err := s.Keys(ctx, user)
			list := make([]keyReport, len(keys))
			for i, k := range keys {
				list[i] = report(k)
			}
			return list, err
		},
		func(list []keyReport) string {
			rows := [][]string{{"ID", "USER", "KEY", "STATE", "OPENS", "CREATED", "NAME"}}
			for _, k := range list {
				rows = append(rows, []string{k.ID, k.User, k.Hint + "…", k.State, cmp.Or(k.Only, "everything"), k.Created.Local().Format(time.DateOnly), command.PlainLine(k.Name)})
			}
			return command.Columns(rows, 0)
		})
	c.Flags().StringVar(&user, "user", "", "only keys of the user `NAME`")
	return c
}

func (a *program) revokeKey() *cobra.Command {
	return a.APICommand(command.NeedDatabase, &cobra.Command{Use: "revoke ID…", Short: "Revoke keys at once", ValidArgsFunction: a.completeKeys()},
		func(ctx context.Context, s *command.Session, args []string) error {
			for i, arg := range args { // check all before changing any
				x, ok := id.Parse(strings.ToLower(arg))
				if !ok {
					return fault.New(fault.Invalid, "key_invalid", "%.80q is not the id of a key", arg).WithHint("steward keys list shows the ids")
				}
				args[i] = x.String()
			}
			for _, key := range args {
				if err := s.RevokeKey(ctx, key); err != nil {
					return err
				}
				a.Note("revoked %s", key)
			}
			return nil
		})
}

// completeKeys offers the ids of usable keys.
func (a *program) completeKeys() command.Completer {
	return command.Offers(a.Program, command.NeedReadOnly, func(ctx context.Context, s *command.Session) ([]client.Key, error) {
		keys, err := s.Keys(ctx, "")
		return slices.DeleteFunc(keys, func(k client.Key) bool { return !k.Usable }), err
	}, func(k *client.Key) (string, string) { return k.ID, k.User + " " + k.Name })
}

func (a *program) tokenCommand() *cobra.Command {
	var replace bool
	c := &cobra.Command{
		Use: "token", Short: "Print your token for curl and other programs", GroupID: "keep",
		Long: "Print the token of this machine's own user. Steward asks every program for a credential, on this\n" +
			"machine too; its own commands and the chat read the token automatically. Anyone who has the token may\n" +
			"do everything that you may do. It is stored in the file token in the data folder, and created at the\n" +
			"first start. --new replaces it: the old token becomes invalid, and connections opened with it are\n" +
			"closed. For other people create keys (steward keys create).",
		Example: "  TOKEN=$(steward token)\n  steward token --new",
		RunE: func(*cobra.Command, []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			get := auth.MakeToken
			if replace {
				get = auth.NewToken
			}
			token, err := get(set.Data)
			return command.PrintValue(a.Program, map[string]string{"token": token}, err, func(map[string]string) string { return token + "\n" })
		},
	}
	c.Flags().BoolVar(&replace, "new", false, "replace the token")
	return c
}

func (a *program) linkCommand() *cobra.Command {
	var user, within string
	c := &cobra.Command{
		Use: "link", Short: "Print a link that opens the page, signed in", GroupID: "keep", Args: cobra.NoArgs,
		Long: "Print a link to Steward's page. Whoever opens it first is signed in, for 30 days after the last use; the\n" +
			"link works once. Send other people a link of their own: --user NAME --within 24h. the chat and\n" +
			"steward serve print a link when they start.",
		Example: "  steward link\n  steward link --user ada --within 24h",
		RunE: func(c *cobra.Command, _ []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			n, err := app.ReadNotice(set.Data)
			if err != nil {
				return fault.New(fault.Unavailable, "server_missing", "no Steward serves this data folder").WithHint("start it: steward serve")
			}
			return a.With(c.Context(), command.NeedDatabase, func(s *command.Session) error {
				l, err := s.NewLink(c.Context(), user, within)
				return command.PrintValue(a.Program, l, err, func(l client.SignInLink) string { return n.URL + l.Path + "\n" })
			})
		},
	}
	c.Flags().StringVar(&user, "user", "", "the `NAME` of the user who will be signed in; yourself if left out")
	c.Flags().StringVar(&within, "within", "", "how long the link can be used: a `DURATION` such as 15m or 24h, at most 168h")
	return c
}
