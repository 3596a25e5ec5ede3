package cli

import (
	"context"
	"log/slog"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"steward/internal/app"
	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/settings"
)

// usualHome is where Home Assistant's own image answers in a local network.
const usualHome = "http://homeassistant.local:8123"

// homeSecret is the name under which the token of the home is stored.
const homeSecret = "HOME_ASSISTANT_TOKEN"

func (a *program) homeCommand() *cobra.Command {
	return group(&cobra.Command{
		Use: "home", Short: "Connect the home that Home Assistant runs", GroupID: "keep",
	}, a.connectHome())
}

func (a *program) connectHome() *cobra.Command {
	return &cobra.Command{
		Use: "connect [URL]", Short: "Connect Home Assistant", Args: cobra.MaximumNArgs(1),
		Long: "Connect Home Assistant, by default at " + usualHome + ". You are asked for a\n" +
			"long-lived access token without echo, or it is read from standard input. Create one on the security\n" +
			"page of your profile in Home Assistant. Steward connects, and stores nothing if that fails. The token\n" +
			"becomes a secret; the rest is written to your settings file. A running Steward uses it after its next start.",
		Example: "  steward home connect\n  steward home connect https://home.example.com",
		RunE: func(c *cobra.Command, args []string) error {
			at := usualHome
			if len(args) > 0 {
				at = strings.TrimSuffix(args[0], "/")
			}
			return a.setUpHome(c.Context(), at)
		},
	}
}

func (a *program) setUpHome(ctx context.Context, at string) error {
	if u, err := url.Parse(at); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return usage("%.100q is not the address of a Home Assistant; write it like %s", at, usualHome)
	}
	set, err := a.Settings()
	if err != nil {
		return err
	}
	file := settings.UserFile(a.Environ)
	if file == "" {
		return fault.New(fault.Invalid, "settings_unwritable", "the settings file has no location: HOME is not set").WithHint("set HOME")
	}
	token, err := a.readSecret(ctx, "Long-lived access token")
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
	return a.printDone(map[string]any{"url": at, "version": version, "devices": devices}, nil,
		"✓ Home Assistant %s with %d exposed devices is set up in %s; a running Steward uses it after its next start", version, devices, file)
}
