package app

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/egress"
	"steward/internal/events"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/secret"
	"steward/internal/secret/oauth"
	"steward/internal/settings"
	"steward/internal/store"
	"steward/internal/tool"
	domainlocal "steward/internal/tools/local"
	"steward/internal/tools/mail"
)

// HealthTimeout is the time limit for checking one account.
const HealthTimeout = 15 * time.Second

// MailOptions returns the mailboxes of the settings.
func (l *Local) MailOptions(set *settings.Loaded) (mail.Options, error) {
	opt := mail.Options{Options: domainlocal.Options{Zone: l.zone(set)}, Reader: l.reader, Groups: l.groupsOf}
	var hosts []string
	for _, name := range slices.Sorted(maps.Keys(set.Mail)) {
		a := set.Mail[name]
		for _, host := range []string{a.IMAP, a.SMTP} {
			if host != "" {
				hosts = append(hosts, host)
			}
		}
		account := mail.Account{Name: name, Address: a.Address, IMAP: a.IMAP, SMTP: a.SMTP, User: a.User, TLS: mail.TLS(a.TLS),
			Secret: l.SecretOf(a.Password), For: tool.OwnedBy(a.Users, a.Groups)}
		if a.OAuth != "" {
			account.OAuth, account.Secret = true, l.tokenOf(set, name, a.OAuth)
		}
		opt.Accounts = append(opt.Accounts, account)
	}
	rule, err := egress.Public(hosts...)
	opt.Dial = l.outside.dialer(rule).DialContext
	return opt, err
}

// mailTools are the tools for e-mail.
func (l *Local) mailTools(set *settings.Loaded) BuiltIn {
	options := func() (mail.Options, error) { return l.MailOptions(set) }
	return BuiltIn{Name: "mail", tools: func() ([]tool.Tool, error) {
		if len(set.Mail) == 0 {
			return nil, nil
		}
		opt, err := options()
		if err != nil {
			return nil, err
		}
		return noted(builtInEnv(set, "mail"), "domain:mail", "mail", func(k *domainlocal.Kit, p domainlocal.Place) { mail.Add(k, p, opt) })
	}, Health: func(ctx context.Context) domainlocal.Health {
		if len(set.Mail) == 0 {
			return domainlocal.Health{State: domainlocal.Off, Say: "no mailbox is set up", Remedy: "run steward accounts add ADDRESS (docs/guides/mail.md)"}
		}
		opt, err := options()
		if err != nil {
			return failingHealth(err)
		}
		var names []string
		for _, a := range opt.Accounts {
			ctx, cancel := context.WithTimeout(ctx, HealthTimeout)
			err := opt.Check(ctx, a)
			cancel()
			if err != nil {
				return failingHealth(err)
			}
			names = append(names, a.Name)
		}
		return domainlocal.Health{State: domainlocal.Ready, Say: "mail of " + strings.Join(names, ", ")}
	}}
}

// mailTo returns a function that sends an e-mail to the address of a mailbox, from there.
func (l *Local) mailTo(set *settings.Loaded, name string) (func(ctx context.Context, title, text string) error, error) {
	opt, err := l.MailOptions(set)
	if err != nil {
		return nil, err
	}
	for _, a := range opt.Accounts {
		if a.Name == name && a.SMTP != "" {
			return func(ctx context.Context, title, text string) error { return opt.Notify(ctx, a, title, text) }, nil
		}
	}
	return nil, fault.New(fault.Invalid, "notify_mailbox_unknown", "notify.mail (%s) is %q, which is not a mailbox that can send", set.SourceOf("notify.mail"), name).
		WithHint("set up mail.%s with smtp, or name another mailbox", name)
}

// watchMail notices e-mails that arrive, until stop is called: it publishes an event about each, and
// notifies the machine's own user if the settings say so. No model is asked. A node that is alone watches each account
// once, for all its users (of is empty). In a cluster the node of a user watches the user's accounts for that user
// alone, and keeps in the store what it has reported.
func (l *Local) watchMail(set *settings.Loaded, of string) (stop func(), err error) {
	stop = func() {}
	if len(set.Mail) == 0 {
		return stop, nil
	}
	opt, err := l.MailOptions(set)
	if err != nil {
		return stop, err
	}
	alert, err := l.alert(set)
	if err != nil {
		return stop, err
	}
	marks, err := domainlocal.NewPlace(builtInEnv(set, "mail"), "watched")
	if err != nil {
		return stop, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	for _, a := range opt.Accounts {
		how := set.Mail[a.Name].New
		if how == "ignore" || a.For == nil || len(a.For.Users) == 0 {
			continue
		}
		users := a.For.Users // only named users are notified; groups and everybody else can look
		var mark mail.Mark = mail.FileMark(filepath.Join(marks.For(users[0]), a.Name))
		if of != "" {
			if !slices.Contains(users, of) {
				continue
			}
			users, mark = []string{of}, mailMark{store: l.Store, user: of, account: a.Name, file: mark}
		}
		watching.Go(func() {
			opt.Watch(ctx, a, mark, l.Log, func(limited context.Context, news []mail.Letter) error {
				for _, user := range users {
					if err := l.publishMail(limited, user, news); err != nil {
						return err
					}
				}
				if text := arrivals(news); how == "notify" && alert != nil && text != "" {
					for _, user := range users {
						err := alert(limited, user, "New mail in "+a.Name, text)
						if ctx.Err() != nil {
							return err // it is published again after the next start
						}
						if err != nil {
							l.Log.Warn("notifying of new mail failed", "account", a.Name, "error", err)
						}
					}
				}
				return nil
			})
		})
	}
	return func() { cancel(); watching.Wait() }, nil
}

// typeMailMark is the type of what says up to where the mail of a user was reported, in a cluster.
const typeMailMark = "mail.Mark"

// mailMark is a mark in the space of a user.
type mailMark struct {
	store         store.Store
	user, account string
	file          mail.Mark // of the time before there was a cluster
}

func (m mailMark) at() resource.URI {
	return resource.Root("mail.Account", m.account).ChildID(typeMailMark, id.Derive("mark", m.user, m.account))
}

// Load implements mail.Mark.
func (m mailMark) Load(ctx context.Context) ([]byte, error) {
	r, err := m.store.Get(ctx, store.ForUser(m.user), m.at())
	if fault.Is(err, fault.NotFound) {
		return m.file.Load(ctx)
	}
	var mark []byte
	if err == nil {
		err = record.Decode(m.at(), r.Body, &mark)
	}
	return mark, err
}

// Save implements mail.Mark. A mark that has not changed is not written again.
func (m mailMark) Save(ctx context.Context, mark []byte) error {
	if r, err := m.store.Get(ctx, store.ForUser(m.user), m.at()); err == nil && bytes.Equal(r.Body, record.Encode(mark)) {
		return nil
	}
	sc := store.ForUser(m.user)
	sc.Actor = "system"
	_, err := m.store.Commit(ctx, sc, store.Batch{Changes: []store.Change{{URI: m.at(), Body: record.Encode(mark)}}})
	return err
}

// publishMail publishes an event about each new e-mail. One that was published before is not published again.
func (l *Local) publishMail(ctx context.Context, user string, news []mail.Letter) error {
	for _, n := range news {
		body, err := json.Marshal(n)
		if err != nil {
			return err
		}
		key := "mail " + n.ID
		uri := resource.Root("mail.Account", n.Account).ChildID("mail.Message", id.Derive(key))
		if _, err := l.node.Publish(ctx, user, events.Publication{ID: key, Resources: []events.Resource{{URI: uri, Body: body}}}); err != nil {
			return err
		}
	}
	return nil
}

// arrivals describes new e-mails for a person; empty: there are only notifications of Steward's own.
func arrivals(news []mail.Letter) string {
	var lines []string
	for _, n := range news {
		if !n.Notice {
			lines = append(lines, n.From+": "+n.Subject)
		}
	}
	if more := len(lines) - 10; more > 0 {
		lines = append(lines[:10], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// groupsOf returns a user's groups.
func (l *Local) groupsOf(ctx context.Context, user string) ([]string, error) {
	p, err := l.Keys.Principal(ctx, user)
	return p.Groups, err
}

// OAuthService returns a service of the settings.
func OAuthService(ctx context.Context, set *settings.Loaded, name string, reveal func(settings.Secret) func(context.Context) (string, error)) (oauth.Service, error) {
	s, known := oauth.Preset(name)
	own := set.OAuth[name]
	s.ClientID = own.ClientID
	s.AuthURL, s.TokenURL, s.DeviceURL = cmp.Or(own.AuthURL, s.AuthURL), cmp.Or(own.TokenURL, s.TokenURL), cmp.Or(own.DeviceURL, s.DeviceURL)
	if !known || len(own.Scopes) > 0 {
		s.Uses = map[string][]string{oauth.Mail: own.Scopes, oauth.Calendar: own.Scopes, oauth.Contacts: own.Scopes}
	}
	if get := reveal(own.ClientSecret); get != nil {
		text, err := get(ctx)
		if err != nil {
			return s, err
		}
		s.ClientSecret = text
	}
	return s, nil
}

// tokenOf returns a function that returns the access token of a connected account.
func (l *Local) tokenOf(set *settings.Loaded, account, service string) func(context.Context) (string, error) {
	store := secret.NewStore(secret.Folder(set.Data))
	shared := make(chan *oauth.Account, 1) // made when it is first needed, because the secret may be a program's
	shared <- nil
	return func(ctx context.Context) (string, error) {
		a := <-shared
		if a == nil {
			s, err := OAuthService(ctx, set, service, l.SecretOf)
			if err != nil {
				shared <- nil
				return "", err
			}
			a = &oauth.Account{Name: account, Service: s, Store: store, Learn: l.Resolver.Masker.Add}
		}
		shared <- a
		return a.Token(ctx)
	}
}
