package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/identity"
)

func (a *app) keysCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "keys", Aliases: []string{"key"}, Short: "Create, list and revoke API keys", GroupID: "keep",
		Long: "Manage the keys with which programs and people use a Steward that serves beyond loopback. A key\n" +
			"belongs to a user and opens what is this user's, nothing else.",
	}, a.createKey(), a.listKeys(), a.revokeKey())
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

func report(k client.Key) keyReport {
	state := "good"
	switch {
	case !k.Revoked.IsZero():
		state = "revoked"
	case !k.Usable:
		state = "expired"
	}
	return keyReport{ID: k.ID, User: k.User, Name: k.Name, Hint: k.Hint, State: state,
		Created: k.Created, Expires: k.Expires, Revoked: k.Revoked, Secret: k.Secret}
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
			return a.with(c.Context(), toDecide, func(s *session) error {
				k, err := s.CreateKey(c.Context(), user, name, until)
				if err != nil {
					return err
				}
				if a.json {
					return a.printJSON(report(k))
				}
				if _, err := fmt.Fprintln(a.stdout, k.Secret); err != nil {
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
			keys, err := readList(c.Context(), a, func(s *session) ([]client.Key, error) { return s.Keys(c.Context(), user) })
			if err != nil {
				return err
			}
			list := make([]keyReport, len(keys))
			for i, k := range keys {
				list[i] = report(k)
			}
			return tellList(a, list, "there are no keys", keyTable)
		},
	}
	c.Flags().StringVar(&user, "user", "", "only those of the user `NAME`")
	return c
}

func keyTable(list []keyReport) string {
	rows := [][]string{{"ID", "USER", "KEY", "STATE", "CREATED", "NAME"}}
	for _, k := range list {
		rows = append(rows, []string{k.ID, k.User, k.Hint + "…", k.State, k.Created.Local().Format(time.DateOnly), plainLine(k.Name)})
	}
	return columns(rows, 0)
}

func (a *app) revokeKey() *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID…", Short: "Revoke keys, at once", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.completeKeys,
		RunE: func(c *cobra.Command, args []string) error {
			var ids []id.ID
			for _, arg := range args {
				x, ok := id.Parse(strings.ToLower(arg))
				if !ok {
					return fault.New(fault.Invalid, "key_invalid", "%.80q is no id of a key", arg).WithHint("steward keys list shows the ids")
				}
				ids = append(ids, x)
			}
			return a.with(c.Context(), toDecide, func(s *session) error {
				for _, x := range ids {
					if err := s.RevokeKey(c.Context(), x.String()); err != nil {
						return err
					}
					a.note("revoked %s", x)
				}
				return nil
			})
		},
	}
}
