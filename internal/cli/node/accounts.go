package node

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/cli/command"
	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
	"steward/internal/settings"
	"steward/internal/tools/mailbox"
)

func (a *program) accountsCommand() *cobra.Command {
	return command.Group(&cobra.Command{
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
	ctx, cancel := context.WithTimeout(ctx, command.ConsentTimeout)
	defer cancel()
	token, err := service.Consent(ctx, device, a.ShowConsent, uses...)
	if err != nil {
		return err
	}
	return oauth.Save(secret.NewStore(secret.Folder(set.Data)), account, token)
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

// mailFlags holds the flags of accounts add.
type mailFlags struct{ name, imap, smtp, user, tls string }

func (a *program) addAccount() *cobra.Command {
	var o mailFlags
	c := &cobra.Command{
		Use: "add ADDRESS", Short: "Set up the mailbox of an e-mail address",
		Long: "Set up the mailbox of an e-mail address. The servers of large providers are known by the address;\n" +
			"others are asked for. You are asked for the password without echo, or it is read from standard\n" +
			"input. Steward logs in at both servers, and stores nothing if that fails. The password becomes a\n" +
			"secret; the rest is written to your settings file. A running Steward uses it after its next start.",
		Example: "  steward accounts add ann@gmail.com\n  steward accounts add ann@example.com --imap mail.example.com:993 --smtp mail.example.com:465",
		RunE:    func(c *cobra.Command, args []string) error { return a.addMailbox(c.Context(), args[0], &o) },
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "the `NAME` of the mailbox in the settings; by default that of the provider")
	f.StringVar(&o.imap, "imap", "", "`HOST:PORT` of the IMAP server")
	f.StringVar(&o.smtp, "smtp", "", "`HOST:PORT` of the server that takes mail for sending; none: only read")
	f.StringVar(&o.user, "user", "", "the `NAME` to log in with, if it is not the address")
	f.StringVar(&o.tls, "tls", "", "how connections are encrypted: implicit, starttls or none; by default the port decides")
	return c
}

// invalidNameChars is what a name in the settings cannot have.
var invalidNameChars = regexp.MustCompile(`[^a-z0-9_]+`)

func (a *program) addMailbox(ctx context.Context, address string, o *mailFlags) error {
	set, err := a.Settings()
	if err != nil {
		return err
	}
	parsed, err := netmail.ParseAddress(address)
	if err != nil {
		return command.Usage("%.100q is not an e-mail address", address)
	}
	file := settings.UserFile(a.Environ)
	if file == "" {
		return fault.New(fault.Invalid, "settings_unwritable", "the settings file has no location: HOME is not set").WithHint("set HOME")
	}
	_, domain, _ := strings.Cut(parsed.Address, "@")
	known, found := mailbox.PresetFor(parsed.Address)
	first, _, _ := strings.Cut(domain, ".")
	name := cmp.Or(o.name, strings.Trim(invalidNameChars.ReplaceAllString(strings.ToLower(cmp.Or(known.Name, first)), "_"), "_"))
	if _, there := set.Mail[name]; there {
		return fault.New(fault.Conflict, "mailbox_exists", "the settings already have a mailbox %s", name).WithHint("choose another name with --name")
	}
	if known.OAuth != "" {
		return fault.New(fault.Unsupported, "mail_oauth_required", "%s does not accept passwords from mail programs", known.Name).
			WithHint("set mail.%s with address, imap: %s, smtp: %s and oauth: %s, and then steward accounts connect %s (docs/guides/mail.md)", name, known.IMAP, known.SMTP, known.OAuth, name)
	}
	box := settings.Mail{Address: parsed.Address, IMAP: cmp.Or(o.imap, known.IMAP), SMTP: cmp.Or(o.smtp, known.SMTP), User: o.user, TLS: o.tls}
	if err := a.askServers(ctx, &box, domain); err != nil {
		return err
	}
	if box.SMTP == "none" {
		box.SMTP = ""
	}
	what := "Password"
	if found {
		a.Note("%s: %s and %s. It takes %s.", known.Name, box.IMAP, box.SMTP, known.Password)
	}
	password, err := a.ReadSecret(ctx, what)
	if err != nil {
		return err
	}
	if err := secret.Check(password); err != nil {
		return err
	}
	a.Hide(password, "mail password")
	box.Password = settings.Secret(password)
	if err := a.tryMailbox(ctx, set, name, box); err != nil {
		return err
	}
	stored := strings.ToUpper("mail_" + name)
	if err := secret.NewStore(secret.Folder(set.Data)).Set(stored, password); err != nil {
		return err
	}
	var changes []settings.Change
	for _, f := range [][2]string{{"address", box.Address}, {"imap", box.IMAP}, {"smtp", box.SMTP}, {"user", box.User}, {"tls", box.TLS}, {"password", "store:" + stored}} {
		if f[1] != "" {
			changes = append(changes, settings.Change{Key: "mail." + name + "." + f[0], Value: f[1]})
		}
	}
	if err := settings.Edit(file, changes...); err != nil {
		return err
	}
	return a.PrintDone(map[string]string{"name": name, "imap": box.IMAP, "smtp": box.SMTP}, nil,
		"✓ the mailbox %s is set up in %s; a running Steward uses it after its next start", name, file)
}

// askServers asks for the servers of a provider that is not known.
func (a *program) askServers(ctx context.Context, box *settings.Mail, domain string) error {
	if box.IMAP != "" && box.SMTP != "" {
		return nil
	}
	if !app.IsTerminal(a.Stdin) {
		return command.Usage("the servers of %s are not known: name them with --imap and --smtp", domain)
	}
	ask := &prompter{app: a, ctx: ctx, lines: bufio.NewReader(a.Stdin)}
	for _, s := range []struct {
		to           *string
		what, normal string
	}{{&box.IMAP, "IMAP server, HOST:PORT", "imap." + domain + ":993"}, {&box.SMTP, "SMTP server, HOST:PORT (none: only read)", "smtp." + domain + ":465"}} {
		if *s.to != "" {
			continue
		}
		text, err := ask.askValid(s.what, s.normal, serverName, "HOST:PORT")
		if err != nil {
			return err
		}
		*s.to = text
	}
	return nil
}

var serverName = regexp.MustCompile(`^(none|[A-Za-z0-9.\[\]:-]+:[0-9]{1,5})$`)

// tryMailbox logs in at the servers of a mailbox.
func (a *program) tryMailbox(ctx context.Context, set *settings.Loaded, name string, box settings.Mail) error {
	one := *set
	one.Mail = map[string]settings.Mail{name: box}
	l := app.Local{Resolver: a.Resolver(set), User: a.User()}
	opt, err := l.MailOptions(&one)
	if err != nil {
		return err
	}
	a.Note("Logging in at %s …", strings.TrimSuffix(fmt.Sprintf("%s and %s", box.IMAP, box.SMTP), " and "))
	ctx, cancel := context.WithTimeout(ctx, app.HealthTimeout)
	defer cancel()
	return opt.Check(ctx, opt.Accounts[0])
}

// usualHome is where Home Assistant's own image answers in a local network.
const usualHome = "http://homeassistant.local:8123"

// homeSecret is the name under which the token of the home is stored.
const homeSecret = "HOME_ASSISTANT_TOKEN"

func (a *program) homeCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use: "home", Short: "Connect the home that Home Assistant runs", GroupID: "keep",
	}, a.connectHome())
}

func (a *program) connectHome() *cobra.Command {
	return &cobra.Command{
		Use: "connect [URL]", Short: "Connect Home Assistant", Args: cobra.MaximumNArgs(1),
		Long: "Connect Home Assistant: by default the one that announces itself in the local network (mDNS), else\n" +
			usualHome + ". You are asked for a long-lived access token without echo, or it is\n" +
			"read from standard input. Create one on the security page of your profile in Home Assistant. Steward\n" +
			"connects, and stores nothing if that fails. The token becomes a secret; the rest is written to your\n" +
			"settings file. A running Steward uses it after its next start.",
		Example: "  steward home connect\n  steward home connect https://home.example.com",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return a.setUpHome(c.Context(), strings.TrimSuffix(args[0], "/"))
			}
			at, err := a.findHome(c.Context())
			if err != nil {
				return err
			}
			return a.setUpHome(c.Context(), at)
		},
	}
}

// findHome returns the address of the Home Assistant in the local network. The person sees it before the token
// is asked for.
func (a *program) findHome(ctx context.Context) (string, error) {
	a.Note("Looking for Home Assistant in the local network …")
	found := app.FindHomes(ctx)
	switch len(found) {
	case 0:
		return usualHome, nil
	case 1:
		a.Note("Found %s at %s; the token will be sent there.", command.PlainLine(cmp.Or(found[0].Name, "Home Assistant")), command.PlainLine(found[0].URL))
		return found[0].URL, nil
	}
	list := "there are several in the local network:"
	for _, h := range found {
		list += "\n  " + command.PlainLine(h.URL+"  "+h.Name)
	}
	return "", command.Usage("%s\nname one: steward home connect URL", list)
}

func (a *program) setUpHome(ctx context.Context, at string) error {
	if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return command.Usage("%.100q is not the address of a Home Assistant; write it like %s", at, usualHome)
	}
	set, err := a.Settings()
	if err != nil {
		return err
	}
	file := settings.UserFile(a.Environ)
	if file == "" {
		return fault.New(fault.Invalid, "settings_unwritable", "the settings file has no location: HOME is not set").WithHint("set HOME")
	}
	token, err := a.ReadSecret(ctx, "Long-lived access token")
	if err != nil {
		return err
	}
	if err := secret.Check(token); err != nil {
		return err
	}
	a.Hide(token, "Home Assistant token")
	one := *set
	one.Home.URL, one.Home.Token = at, settings.Secret(token)
	a.Note("Connecting to %s …", at)
	trying, cancel := context.WithTimeout(ctx, app.HealthTimeout)
	defer cancel()
	version, devices, err := (&app.Local{Resolver: a.Resolver(set), User: a.User(), Log: slog.New(slog.DiscardHandler)}).CheckHome(trying, &one)
	if err != nil {
		return err
	}
	if err := secret.NewStore(secret.Folder(set.Data)).Set(homeSecret, token); err != nil {
		return err
	}
	if err := settings.Edit(file, settings.Change{Key: "home.url", Value: at}, settings.Change{Key: "home.token", Value: "store:" + homeSecret}); err != nil {
		return err
	}
	return a.PrintDone(map[string]any{"url": at, "version": version, "devices": devices}, nil,
		"✓ Home Assistant %s with %d exposed devices is set up in %s; a running Steward uses it after its next start", version, devices, file)
}
