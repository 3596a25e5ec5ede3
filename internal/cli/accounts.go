package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
	"steward/internal/settings"
)

// consentTimeout is how long steward accounts connect waits for a person.
const consentTimeout = 10 * time.Minute

func (a *program) accountsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "accounts", Short: "Set up mailboxes, and connect accounts at other services", GroupID: "keep",
		Long: "Set up mailboxes, and connect accounts at other services with OAuth, without giving Steward a password.",
	}, a.addAccount(), a.connectAccount())
}

func (a *program) connectAccount() *cobra.Command {
	var device bool
	c := &cobra.Command{
		Use: "connect NAME", Short: "Connect an account of the settings", Args: cobra.ExactArgs(1),
		Long: "Connect an account of the settings that has oauth. You consent in a browser on this machine, or on\n" +
			"another device. Steward stores the token as a secret, and refreshes it.",
		Example: "  steward accounts connect work",
		RunE: func(c *cobra.Command, args []string) error {
			set, err := a.Settings()
			if err != nil {
				return err
			}
			if err := a.consent(c.Context(), set, args[0], device); err != nil {
				return err
			}
			a.Note("connected; a running Steward uses the account from its next call on")
			return nil
		},
	}
	c.Flags().BoolVar(&device, "device", false, "consent on another device: for machines without a browser")
	return c
}

func (a *program) consent(ctx context.Context, set *settings.Loaded, account string, device bool) error {
	name, uses, err := usesOf(set, account)
	if err != nil {
		return err
	}
	l := app.Local{Resolver: a.Resolver(set)}
	service, err := app.OAuthService(ctx, set, name, l.SecretOf)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, consentTimeout)
	defer cancel()
	token, err := service.Consent(ctx, device, a.showConsent, uses...)
	if err != nil {
		return err
	}
	return oauth.Save(secret.NewStore(secret.Folder(set.Data)), account, token)
}

// showConsent tells a person where to consent. code is to be typed there, unless it is empty.
func (a *program) showConsent(url, code string) {
	if code == "" {
		fmt.Fprintf(a.Stderr, "open this in a browser on this machine:\n%s\n", url)
		return
	}
	fmt.Fprintf(a.Stderr, "open %s on any device, and enter %s\n", url, code)
}

// usesOf returns the service of the accounts with a name, and what they are used for: a mailbox, calendars
// and contacts with the same name are one account.
func usesOf(set *settings.Loaded, account string) (service string, uses []string, err error) {
	for _, a := range []struct{ use, service string }{
		{oauth.Mail, set.Mail[account].OAuth}, {oauth.Calendar, set.Calendars[account].OAuth}, {oauth.Contacts, set.Contacts[account].OAuth},
	} {
		if a.service == "" {
			continue
		}
		if service != "" && service != a.service {
			return "", nil, fault.New(fault.Invalid, "account_ambiguous", "%q is the name of accounts at %s and at %s", account, service, a.service).WithHint("give them different names")
		}
		service, uses = a.service, append(uses, a.use)
	}
	if service == "" {
		return "", nil, fault.New(fault.NotFound, "account_unknown", "the settings have no account %q with oauth", account).
			WithHint("set mail.%s.oauth, calendars.%s.oauth or contacts.%s.oauth to a service such as google", account, account, account)
	}
	return service, uses, nil
}
