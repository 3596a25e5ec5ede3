package app

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"steward/internal/egress"
	"steward/internal/settings"
	"steward/internal/tool"
	domainlocal "steward/internal/tools/local"
	"steward/internal/tools/notify"
	"steward/internal/tools/weather"
)

// reach returns a transport that reaches public hosts, and those of the given addresses wherever
// they are: a person has written them into the settings.
func (o Outside) reach(addresses ...string) (http.RoundTripper, error) {
	var hosts []string
	for _, a := range addresses {
		if u, err := url.Parse(a); err == nil && u.Host != "" {
			hosts = append(hosts, hostPort(u))
		}
	}
	rule, err := egress.Public(hosts...)
	return o.dialer(rule).Transport(), err
}

// weatherTools is the forecast.
func (l *Local) weatherTools(set *settings.Loaded) BuiltIn {
	opt := weather.ForecastOptions{Forecast: set.Weather.URL, Places: set.Weather.PlacesURL, Profile: func(user string) (string, bool) {
		p, err := l.briefProfile(set, user)
		if err != nil {
			return "", false
		}
		return p.Location, p.Units == "imperial"
	}}
	return BuiltIn{Name: "weather", tools: func() ([]tool.Tool, error) {
		if set.Weather.Off {
			return nil, nil
		}
		var err error
		if opt.Transport, err = l.outside.reach(opt.Forecast, opt.Places); err != nil {
			return nil, err
		}
		k := domainlocal.NewKit(builtInEnv(set, "weather"), "domain:weather")
		weather.AddForecast(k, opt)
		return k.Tools()
	}, Health: func(context.Context) domainlocal.Health {
		switch {
		case set.Weather.Off:
			return domainlocal.Health{State: domainlocal.Off, Say: "the forecast is turned off", Remedy: "remove weather.off from the settings"}
		case set.Profile.Location == "":
			return domainlocal.Health{State: domainlocal.Ready, Say: "forecasts for places that you name; with profile.location also for where you are"}
		}
		return domainlocal.Health{State: domainlocal.Ready, Say: "forecasts, without a name for " + set.Profile.Location}
	}}
}

// notifier returns the way to notify the machine's own user.
func (l *Local) notifier(set *settings.Loaded) (*notify.Notifier, error) {
	n := set.Notify
	transport, err := l.outside.reach(n.Ntfy.URL, n.Webhook.URL)
	if err != nil {
		return nil, err
	}
	var byMail func(ctx context.Context, title, text string) error
	if n.Mail != "" {
		if byMail, err = l.mailTo(set, n.Mail); err != nil {
			return nil, err
		}
	}
	return notify.New(notify.Options{Transport: transport, For: tool.OwnedBy(nil, nil), Mail: byMail,
		Ntfy:    notify.Ntfy{URL: n.Ntfy.URL, Topic: n.Ntfy.Topic, Token: l.SecretOf(n.Ntfy.Token)},
		Webhook: notify.Webhook{URL: n.Webhook.URL, Token: l.SecretOf(n.Webhook.Token)}}), nil
}

// notifyTools is the tool that notifies the machine's own user.
func (l *Local) notifyTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: "notify", tools: func() ([]tool.Tool, error) {
		n, err := l.notifier(set)
		if err != nil || len(n.Receivers()) == 0 {
			return nil, err
		}
		k := domainlocal.NewKit(builtInEnv(set, "notify"), "domain:notify")
		notify.Add(k, n)
		return k.Tools()
	}, Health: func(context.Context) domainlocal.Health {
		n, err := l.notifier(set)
		if err != nil {
			return failingHealth(err)
		}
		if len(n.Receivers()) == 0 {
			return domainlocal.Health{State: domainlocal.Off, Say: "notifications to your phone are not set up",
				Remedy: "install the app ntfy, subscribe to a topic that is hard to guess, and set notify.ntfy.topic to it"}
		}
		return domainlocal.Health{State: domainlocal.Ready, Say: "notifications go to " + strings.Join(n.Receivers(), " and ")}
	}}
}
