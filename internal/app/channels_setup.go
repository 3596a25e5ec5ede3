package app

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/secret"
	"steward/internal/settings"
)

// NewChannel is an account at a messenger to set up.
type NewChannel struct {
	Name, Kind, Token, BaseURL string
	Settings                   map[string]string
	Unchecked                  bool // store it even if the service does not say who the account is
}

// AddChannel asks a service who an account is, and writes the account into a settings file and its token into a
// secret. It is used after the next start. It returns the account's name at the service.
func (a *App) AddChannel(ctx context.Context, set *settings.Loaded, file string, x NewChannel) (string, error) {
	if err := secret.Check(x.Token); err != nil {
		return "", err
	}
	a.Hide(x.Token, "channel token")
	who, err := a.CheckChannel(ctx, set, x.Name, settings.Channel{Kind: x.Kind, Token: settings.Secret(x.Token), BaseURL: x.BaseURL, Settings: x.Settings})
	if err != nil && !x.Unchecked {
		return "", err
	}
	stored := strings.ToUpper("channel_" + strings.ReplaceAll(x.Name, "-", "_"))
	if err := secret.NewStore(secret.Folder(set.Data)).Set(stored, x.Token); err != nil {
		return "", err
	}
	at := "channels." + x.Name + "."
	changes := []settings.Change{{Key: at + "kind", Value: x.Kind}, {Key: at + "token", Value: "store:" + stored}}
	if x.BaseURL != "" {
		changes = append(changes, settings.Change{Key: at + "base_url", Value: x.BaseURL})
	}
	for _, k := range slices.Sorted(maps.Keys(x.Settings)) {
		changes = append(changes, settings.Change{Key: at + "settings." + k, Value: x.Settings[k]})
	}
	if set.Channels[x.Name].Off {
		changes = append(changes, settings.Change{Key: at + "off", Value: "false", Word: true})
	}
	return who, settings.Edit(file, changes...)
}

// checkTimeout is how long a service may take to say who an account is.
const checkTimeout = 15 * time.Second

// CheckChannel asks the service who an account is.
func (a *App) CheckChannel(ctx context.Context, set *settings.Loaded, name string, s settings.Channel) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	l := &Local{Log: slog.New(slog.DiscardHandler), Resolver: a.Resolver(set)}
	c, err := l.Channel(ctx, set, name, s)
	if err != nil {
		return "", err
	}
	if closer, ok := c.(io.Closer); ok {
		defer closer.Close() //nolint:errcheck // it was only asked
	}
	return c.Check(ctx)
}

// RemoveChannel turns an account off from the next start on, and forgets its token.
func RemoveChannel(set *settings.Loaded, file, name string, s settings.Channel) error {
	if err := settings.Edit(file, settings.Change{Key: "channels." + name + ".off", Value: "true", Word: true}); err != nil {
		return err
	}
	if stored, ok := strings.CutPrefix(s.Token.Reveal(), "store:"); ok {
		if err := secret.NewStore(secret.Folder(set.Data)).Remove(stored); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
	}
	return nil
}
