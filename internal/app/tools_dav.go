package app

import (
	"context"
	"maps"
	"slices"
	"strings"

	"steward/internal/settings"
	"steward/internal/tool"
	"steward/internal/tools/contacts"
	"steward/internal/tools/dav"
	domainlocal "steward/internal/tools/local"
)

// calendars returns the accounts of the settings that are not used for something else only.
func (l *Local) calendars(set *settings.Loaded, otherwise string) (dav.Accounts, error) {
	var list []dav.Account
	for _, name := range slices.Sorted(maps.Keys(set.Calendars)) {
		if a := set.Calendars[name]; a.Only != otherwise {
			list = append(list, dav.Account{Setting: "calendars." + name, Name: name, URL: a.URL, User: a.User, Address: a.Address,
				OAuth: a.OAuth != "", Secret: l.secretFor(set, name, a.OAuth, a.Password), For: tool.OwnedBy(a.Users, a.Groups)})
		}
	}
	return l.accountsAt(list)
}

// contactsOf returns the accounts of the settings for address books.
func (l *Local) contactsOf(set *settings.Loaded) (dav.Accounts, error) {
	var list []dav.Account
	for _, name := range slices.Sorted(maps.Keys(set.Contacts)) {
		a := set.Contacts[name]
		list = append(list, dav.Account{Setting: "contacts." + name, Name: name, URL: a.URL, User: a.User,
			OAuth: a.OAuth != "", Secret: l.secretFor(set, name, a.OAuth, a.Password), For: tool.OwnedBy(a.Users, a.Groups)})
	}
	return l.accountsAt(list)
}

func (l *Local) accountsAt(list []dav.Account) (dav.Accounts, error) {
	var urls []string
	for _, a := range list {
		urls = append(urls, a.URL)
	}
	transport, err := l.outside.reach(urls...)
	return dav.Accounts{List: list, Transport: transport, Groups: l.groupsOf}, err
}

// secretFor returns the password of an account, or the token of one that is connected with OAuth.
func (l *Local) secretFor(set *settings.Loaded, account, service string, password settings.Secret) func(context.Context) (string, error) {
	if service != "" {
		return l.tokenOf(set, account, service)
	}
	return l.SecretOf(password)
}

// checkDAV logs in at all accounts.
func checkDAV(ctx context.Context, accounts dav.Accounts, kind string) domainlocal.Health {
	var names []string
	for _, a := range accounts.List {
		ctx, cancel := context.WithTimeout(ctx, HealthTimeout)
		found, err := accounts.Check(ctx, a, kind)
		cancel()
		if err != nil {
			return failingHealth(err)
		}
		names = append(names, found...)
	}
	return domainlocal.Health{State: domainlocal.Ready, Say: strings.Join(names, ", ")}
}

// contactTools are the tools for address books.
func (l *Local) contactTools(set *settings.Loaded) BuiltIn {
	return BuiltIn{Name: "contacts", tools: func() ([]tool.Tool, error) {
		if len(set.Contacts) == 0 {
			return nil, nil
		}
		accounts, err := l.contactsOf(set)
		if err != nil {
			return nil, err
		}
		return noted(builtInEnv(set, "contacts"), "domain:contacts", "changes", func(k *domainlocal.Kit, p domainlocal.Place) { contacts.Add(k, p, accounts) })
	}, Health: func(ctx context.Context) domainlocal.Health {
		if len(set.Contacts) == 0 {
			return domainlocal.Health{State: domainlocal.Off, Say: "no address book is set up", Remedy: "set contacts.NAME with url, user and password in the settings (docs/guides/contacts.md)"}
		}
		accounts, err := l.contactsOf(set)
		if err != nil {
			return failingHealth(err)
		}
		return checkDAV(ctx, accounts, dav.Contacts)
	}}
}
