package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
	"steward/internal/store/sqlite"
)

func (a *app) keysCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "keys", Aliases: []string{"key"}, Short: "Create, list and revoke API keys", GroupID: "keep", Args: cobra.NoArgs,
		Long: "Manage the keys with which programs and people use a Steward that serves beyond loopback. A key\n" +
			"belongs to a user and opens what is this user's, nothing else.",
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(a.createKey(), a.listKeys(), a.revokeKey())
	return c
}

// keyring is identity.Registry, here or over the wire.
type keyring interface {
	Create(ctx context.Context, user, name string, expires time.Time) (identity.Key, string, error)
	List(ctx context.Context, user string) ([]identity.Key, error)
	Revoke(ctx context.Context, key id.ID) error
}

// withKeys runs do over the keys of the data folder, or of the Steward that
// has it in use.
func (a *app) withKeys(ctx context.Context, do func(keyring) error) error {
	set, err := a.settings()
	if err != nil {
		return err
	}
	return a.withStore(ctx, set, a.logger(set, a.stderr), func(st *sqlite.Store) error { return do(identity.New(st)) },
		func(r *remote) error { return do(r) })
}

// keyReport is a key as --json writes it.
type keyReport struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Name    string    `json:"name"`
	Hint    string    `json:"hint"`
	State   string    `json:"state"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
	Revoked time.Time `json:"revoked,omitzero"`
	Secret  string    `json:"secret,omitempty"`
}

func report(k identity.Key) keyReport {
	state := "good"
	switch {
	case !k.Revoked.IsZero():
		state = "revoked"
	case !k.Usable(time.Now()):
		state = "expired"
	}
	return keyReport{ID: k.ID.String(), User: k.User, Name: k.Name, Hint: k.Hint, State: state,
		Created: k.Created, Expires: k.Expires, Revoked: k.Revoked}
}

func (a *app) createKey() *cobra.Command {
	var user, name, expires string
	c := &cobra.Command{
		Use: "create", Short: "Create a key and show it, once", Args: cobra.NoArgs,
		Example: "  steward keys create --user ada --name laptop --expires 90d",
		RunE: func(c *cobra.Command, _ []string) error {
			until, err := expiry(expires, time.Now())
			if err != nil {
				return err
			}
			return a.withKeys(c.Context(), func(keys keyring) error {
				k, secret, err := keys.Create(c.Context(), user, name, until)
				if err != nil {
					return err
				}
				if a.json {
					r := report(k)
					r.Secret = secret
					return a.printJSON(r)
				}
				if _, err := fmt.Fprintln(a.stdout, secret); err != nil {
					return err
				}
				a.note("the key %s of %s; it is shown this once and kept nowhere", k.ID, k.User)
				return nil
			})
		},
	}
	c.Flags().StringVar(&user, "user", identity.Local, "`NAME` of the user whom it belongs to")
	c.Flags().StringVar(&name, "name", "", "what it is for, in your `WORDS`")
	c.Flags().StringVar(&expires, "expires", "", "when it ends: a duration such as 90d or 12h, or a `DATE` such as 2030-01-31")
	return c
}

// expiry reads a duration from now or a date.
func expiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n <= 36500 {
			return now.AddDate(0, 0, n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usage("--expires wants a duration such as 90d or 12h, or a date such as 2030-01-31, not %q", text)
}

func (a *app) listKeys() *cobra.Command {
	var user string
	c := &cobra.Command{
		Use: "list", Short: "List the keys", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			keys, err := a.readKeys(c.Context(), user)
			if err != nil {
				return err
			}
			list := []keyReport{}
			for _, k := range keys {
				list = append(list, report(k))
			}
			if a.json {
				return a.printJSON(list)
			}
			if len(list) == 0 {
				a.note("there are no keys")
				return nil
			}
			w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tUSER\tKEY\tSTATE\tCREATED\tNAME")
			for _, k := range list {
				fmt.Fprintf(w, "%s\t%s\t%s…\t%s\t%s\t%s\n", k.ID, k.User, k.Hint, k.State, k.Created.Local().Format(time.DateOnly), plainLine(k.Name))
			}
			return w.Flush()
		},
	}
	c.Flags().StringVar(&user, "user", "", "only those of the user `NAME`")
	return c
}

// readKeys reads the keys, which needs nothing of a Steward that runs.
func (a *app) readKeys(ctx context.Context, user string) ([]identity.Key, error) {
	st, err := a.reading(ctx)
	if err != nil || st == nil {
		return nil, err
	}
	keys, err := identity.New(st).List(ctx, user)
	return keys, errors.Join(err, st.Close())
}

func (a *app) revokeKey() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID…", Short: "Revoke keys, at once", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeKeys,
		RunE: func(c *cobra.Command, args []string) error {
			var ids []id.ID
			for _, arg := range args {
				x, ok := id.Parse(strings.ToLower(arg))
				if !ok {
					return fault.New(fault.Invalid, "key_invalid", "%.80q is no id of a key", arg).With("steward keys list shows the ids")
				}
				ids = append(ids, x)
			}
			return a.withKeys(c.Context(), func(keys keyring) error {
				for _, x := range ids {
					if err := keys.Revoke(c.Context(), x); err != nil {
						return err
					}
					a.note("revoked %s", x)
				}
				return nil
			})
		},
	}
}
