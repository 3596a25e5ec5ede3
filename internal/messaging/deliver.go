package messaging

import (
	"context"
	"slices"
	"strings"

	"steward/internal/channel"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Deliver posts a text to the private chat in which a user wants to be reached. key identifies it: the same
// text is posted once, however often Deliver is called. It returns when the text is in the outbox, and false
// if the user has no channel. A user's own data may go to the user, whatever its labels are, but secrets may
// not. Error codes: outbox_full.
func (e *Engine) Deliver(ctx context.Context, user, text string, labels message.Labels, key string) (bool, error) {
	if labels.Has(message.Secret) {
		return false, fault.New(fault.Denied, "message_secret", "a secret is not sent to a messenger")
	}
	a, at, err := e.preferred(ctx, user, false)
	if err != nil || a == nil {
		return false, err
	}
	return true, e.deliverTo(ctx, a, at, user, text, labels, "deliver", user, key)
}

func (e *Engine) deliverTo(ctx context.Context, a *account, at channel.Address, user, text string, labels message.Labels, key ...string) error {
	if full, err := e.full(ctx, a, user); err != nil {
		return err
	} else if full {
		return fault.New(fault.Exhausted, "outbox_full", "%d messages wait to be sent on %s", maxPosts, a.Name).WithHint("see why with steward channels list")
	}
	posts := e.posts(a, at, user, text, key...)
	for _, p := range posts {
		p.Labels = labels
	}
	return e.record(ctx, user, posts)
}

// full reports whether so much waits to be sent that nothing more is recorded. A node that does not send counts
// what waits for the user.
func (e *Engine) full(ctx context.Context, a *account, user string) (bool, error) {
	if e.Connects() {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.waiting >= maxPosts, nil
	}
	page, err := e.opt.Store.Query(ctx, store.ForUser(user), store.Query{Type: typePost, State: pending, NoBody: true, Limit: maxPosts})
	return page.Next != "", err
}

// preferenceURI is where a user's choice of a chat is.
func preferenceURI(user string) resource.URI { return resource.Root(typePreference, user) }

// preferred returns the private chat in which a user is reached: the one that the user chose with /here, else
// the one that was used last; if a question is to be asked, one in which something can be decided. The
// account is nil if there is none.
func (e *Engine) preferred(ctx context.Context, user string, question bool) (*account, channel.Address, error) {
	list, err := e.people(ctx)
	if err != nil {
		return nil, channel.Address{}, err
	}
	paired := func(account string) *account {
		if slices.ContainsFunc(list, func(p person) bool { return p.User == user && p.Account == account }) {
			if a := e.accounts[account]; a != nil && !(question && a.limits.Unproven) {
				return a
			}
		}
		return nil
	}
	choice, err := get[preference](ctx, e, store.ForUser(user), preferenceURI(user))
	if err == nil {
		if a := paired(choice.Account); a != nil {
			return a, choice.At, nil
		}
	} else if !fault.Is(err, fault.NotFound) {
		return nil, channel.Address{}, err
	}
	var best chat
	var on *account
	for c, err := range records[chat](ctx, e, store.ForUser(user), store.Query{Type: typeChat, Term: store.Term{Name: termNewest, Value: typeChat}}) {
		if err != nil {
			return nil, channel.Address{}, err
		}
		if a := paired(c.Account); a != nil && !c.Group && c.Used.After(best.Used) {
			best, on = c, a
		}
	}
	return on, best.At, nil
}

// prefer makes the chat of an update the one in which the user is reached.
func (e *Engine) prefer(ctx context.Context, a *account, u *update) (string, error) {
	p := preference{Account: a.Name, At: u.Address}
	return "Reminders and questions come to this chat from now on.", e.commit(ctx, u.User, store.Change{URI: preferenceURI(u.User), Body: record.Encode(p)})
}

// Place is a chat that a user can send to.
type Place struct {
	Name  string // for people: "telegram", "telegram: Family"
	Group bool
	chat  chat
}

// Places returns the chats that a user can have something sent to: those in which the user has written.
func (e *Engine) Places(ctx context.Context, user string) (out []Place, err error) {
	for c, err := range records[chat](ctx, e, store.ForUser(user), store.Query{Type: typeChat, Term: store.Term{Name: termNewest, Value: typeChat}, Reverse: true}) {
		if err != nil {
			return nil, err
		}
		a := e.accounts[c.Account]
		if a == nil {
			continue
		}
		if ok, err := e.reaches(ctx, a.Name, user); err != nil {
			return nil, err
		} else if !ok {
			continue
		}
		p := Place{Name: a.Name, Group: c.Group, chat: c}
		if c.Group {
			p.Name += ": " + c.Title
		}
		out = append(out, p)
	}
	return out, nil
}

// SendTo posts a text in a chat of the user's: "me" for the preferred one, or the name of a place, or the
// title of a group. key identifies it. It returns the name of the place. Error codes: place_unknown,
// place_ambiguous, outbox_full, channels_not_running.
func (e *Engine) SendTo(ctx context.Context, user, to, text, key string) (string, error) {
	if len(e.accounts) == 0 {
		return "", fault.New(fault.Unavailable, "channels_not_running", "no messenger is connected in this process").WithHint("steward serve connects them; a chat joins it")
	}
	list, err := e.Places(ctx, user)
	if err != nil {
		return "", err
	}
	if strings.EqualFold(to, "me") {
		a, at, err := e.preferred(ctx, user, false)
		if err == nil && a == nil {
			err = fault.New(fault.NotFound, "place_unknown", "the user is on no messenger").WithHint("the user writes to an account of steward channels first, and the owner enters the code")
		}
		if err != nil {
			return "", err
		}
		return a.Name, e.deliverTo(ctx, a, at, user, text, 0, "send", user, key)
	}
	var found []Place
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
		if strings.EqualFold(p.Name, to) || p.Group && strings.EqualFold(p.chat.Title, to) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return "", fault.New(fault.NotFound, "place_unknown", "there is no chat %.80q", to).WithHint("use me, or one of: %s", strings.Join(names, ", "))
	case 1:
		c := found[0].chat
		return found[0].Name, e.deliverTo(ctx, e.accounts[c.Account], c.At, user, text, 0, "send", user, key)
	}
	return "", fault.New(fault.Invalid, "place_ambiguous", "several chats are called %.80q", to).WithHint("write in the one that is meant, and use its whole name: %s", strings.Join(names, ", "))
}
