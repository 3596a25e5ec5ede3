package app

import (
	"context"
	"fmt"

	"steward/internal/fault"
	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/home"
	domainlocal "steward/internal/tools/local"
)

// homeOptions returns how the home of the settings is reached.
func (l *Local) homeOptions(set *settings.Loaded) (home.Options, error) {
	opt := home.Options{Options: domainlocal.Options{Zone: l.zone(set)}, URL: set.Home.URL, Token: l.SecretOf(set.Home.Token), Ask: set.Home.Ask,
		For: tool.OwnedBy(set.Home.Users, set.Home.Groups), Log: l.Log}
	if opt.Token == nil {
		return opt, fault.New(fault.Invalid, "home_token_missing", "home.url (%s) is set, but home.token is not", set.SourceOf("home.url")).
			WithHint("create a long-lived access token on the security page of your profile in Home Assistant, and run steward home connect %s", set.Home.URL)
	}
	var err error
	if l.peers != nil {
		opt.Transport = l.throughDuty()
		return opt, nil
	}
	opt.Transport, err = l.outside.reach(opt.URL)
	return opt, err
}

// CheckHome connects to the home of the settings, and counts the devices that it exposes.
func (l *Local) CheckHome(ctx context.Context, set *settings.Loaded) (version string, devices int, err error) {
	opt, err := l.homeOptions(set)
	if err != nil {
		return "", 0, err
	}
	h := home.New(opt)
	defer h.Close() //nolint:errcheck // it returns none
	return h.Check(ctx)
}

// homeTools are the tools for the home.
func (l *Local) homeTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: "home", tools: func() ([]tool.Tool, error) {
		if set.Home.URL == "" || set.Home.Token == "" { // its health says what is missing
			return nil, nil
		}
		opt, err := l.homeOptions(set)
		if err != nil {
			return nil, err
		}
		l.home = home.New(opt)
		k := domainlocal.NewKit(builtInEnv(set, "home"), "domain:home")
		home.Add(k, l.home)
		return k.Tools()
	}, Health: func(ctx context.Context) domainlocal.Health {
		if set.Home.URL == "" {
			return domainlocal.Health{State: domainlocal.Off, Say: "no home is set up",
				Remedy: "run steward home connect URL, with that of your Home Assistant (docs/guides/home-assistant.md)"}
		}
		version, n, err := l.CheckHome(ctx, set)
		switch {
		case err != nil:
			return failingHealth(err)
		case n == 0:
			return domainlocal.Health{State: domainlocal.Failing, Say: "Home Assistant " + version + " exposes no device",
				Remedy: "expose devices in Home Assistant under Settings, Voice assistants, Expose; the token must be an administrator's for devices that nobody has decided about"}
		}
		return domainlocal.Health{State: domainlocal.Ready, Say: fmt.Sprintf("Home Assistant %s with %d exposed devices", version, n)}
	}}
}

// closeHome ends the connection to the home.
func (l *Local) closeHome() error {
	if l.home == nil {
		return nil
	}
	return l.home.Close()
}
