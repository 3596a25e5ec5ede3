package app

import (
	"context"

	"steward/internal/egress"
	"steward/internal/sandbox"
	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/browser"
	domainlocal "steward/internal/tools/local"
)

// browserTools are the tools of a real browser, if one is installed.
func (l *Local) browserTools(set *settings.Loaded) BuiltIn {
	path, missing := browser.Find(set.Browser.Path)
	return BuiltIn{Name: "browser", tools: func() ([]tool.Tool, error) {
		if set.Browser.Off || missing != nil {
			return nil, nil
		}
		rule, err := egress.Public(set.Web.Hosts...)
		if err != nil {
			return nil, err
		}
		l.browsers = browser.New(browser.Options{Path: path, Network: rule, Log: l.Log})
		return l.browsers.Tools()
	}, Health: func(context.Context) domainlocal.Health {
		if set.Browser.Off {
			return domainlocal.Health{State: domainlocal.Off, Say: "the browser is turned off", Remedy: "remove browser.off from the settings"}
		}
		err := missing
		if err == nil {
			err = sandbox.Available()
		}
		switch {
		case err == nil:
			return domainlocal.Health{State: domainlocal.Ready, Say: "pages can be used with " + path}
		case missing != nil && set.Browser.Path == "":
			h := failingHealth(err)
			h.State = domainlocal.Off // nobody asked for one
			return h
		}
		return failingHealth(err)
	}}
}

// closeBrowsers ends the browsers of all conversations.
func (l *Local) closeBrowsers() error {
	if l.browsers == nil {
		return nil
	}
	return l.browsers.Close()
}
