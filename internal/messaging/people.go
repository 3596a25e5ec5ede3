package messaging

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/store"
)

// Limits of pairing codes.
const (
	codeFor     = time.Hour
	codesPerAge = 10 // that are valid at a time, of all accounts
)

// codeLetters has no letters and digits that look like others.
const codeLetters = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"

// newCode returns a code of eight characters, some 39 bits. Only an administrator can enter one.
func newCode() string {
	b := make([]byte, 8)
	for i := range b {
		for { // 248 is the largest multiple of 31 in a byte: all letters are equally likely
			var r [1]byte
			rand.Read(r[:]) //nolint:errcheck // it never fails
			if r[0] < 248 {
				b[i] = codeLetters[int(r[0])%len(codeLetters)]
				break
			}
		}
	}
	return string(b)
}

// personOf returns the pairing of a sender.
func (e *Engine) personOf(ctx context.Context, account, sender string) (p person, found bool, err error) {
	if sender == "" {
		return p, false, nil
	}
	for p, err := range records[person](ctx, e, scopeOf(""), store.Query{Type: typePerson, Term: store.Term{Name: termSender, Value: senderOf(account, sender)}}) {
		if err != nil {
			return p, false, err
		}
		if p.Account == account && p.Sender == sender {
			return p, true, nil
		}
	}
	return p, false, nil
}

// greet settles an update of a stranger: in a private chat with a code, unless there is one already.
func (e *Engine) greet(ctx context.Context, a *account, u *update) error {
	if u.Group || u.Unproven != "" || u.From.ID == "" {
		return e.settle(ctx, u, ignored, u.Reason)
	}
	e.pairing.Lock()
	defer e.pairing.Unlock()
	now := e.opt.Now().UTC()
	valid := 0
	for c, err := range records[code](ctx, e, scopeOf(""), store.Query{Type: typeCode, Term: store.Term{Name: termNewest, Value: typeCode}, Reverse: true, Limit: 2 * codesPerAge}) {
		if err != nil {
			return err
		}
		if !now.Before(c.Expires) {
			break // the others are older
		}
		if c.Account == a.Name && c.From.ID == u.From.ID {
			return e.settle(ctx, u, ignored, u.Reason)
		}
		if valid++; valid >= codesPerAge {
			return e.settle(ctx, u, ignored, u.Reason+", and too many codes are valid")
		}
	}
	c := code{ID: id.New(), Code: newCode(), Account: a.Name, From: u.From, At: u.Address, Created: now, Expires: now.Add(codeFor)}
	text := fmt.Sprintf("I do not know you yet. The owner of this Steward can let you in with:\n\nsteward pair %s\n\nThe code is valid for one hour.", c.Code)
	settled := *u
	settled.State = ignored
	return e.record(ctx, "", e.reply(a, u, text, "code"), c.change(), settled.change(store.If{}))
}

// Pair says which user the sender is who got a code, on behalf of by. Error codes: code_unknown,
// sender_paired, and those of the directory.
func (e *Engine) Pair(ctx context.Context, by, given, user string) (client.ChannelPerson, error) {
	e.pairing.Lock()
	defer e.pairing.Unlock()
	now := e.opt.Now().UTC()
	given = strings.ToUpper(strings.Join(strings.Fields(given), ""))
	var c code
	for x, err := range records[*code](ctx, e, scopeOf(""), store.Query{Type: typeCode, Term: store.Term{Name: termCode, Value: given}}) {
		if err != nil {
			return client.ChannelPerson{}, err
		}
		if now.Before(x.Expires) && !x.Used {
			c = *x
		}
	}
	if c.Code == "" || given == "" {
		return client.ChannelPerson{}, unknownCode(given)
	}
	if e.opt.People != nil {
		if _, err := e.opt.People.Principal(ctx, user); err != nil {
			return client.ChannelPerson{}, err
		}
	}
	if old, found, err := e.personOf(ctx, c.Account, c.From.ID); err != nil || found {
		if err == nil {
			err = fault.New(fault.Conflict, "sender_paired", "this sender is already paired with %s", old.User).WithHint("steward unpair %s", old.ID)
		}
		return client.ChannelPerson{}, err
	}
	// The code is used up first: of several nodes on which it is entered at the same time, one succeeds.
	p := person{ID: id.New(), User: user, Account: c.Account, Sender: c.From.ID, Name: c.From.Name, By: by, Since: now}
	c.Used = true
	used := c.change()
	used.If.Version = c.version
	if err := e.commit(ctx, "", used); fault.Is(err, fault.Conflict) {
		return client.ChannelPerson{}, unknownCode(given)
	} else if err != nil {
		return client.ChannelPerson{}, err
	}
	if err := e.commit(ctx, user, p.change()); err != nil { // the sender gets another code
		return client.ChannelPerson{}, err
	}
	e.follow(user)
	return p.view(), e.welcome(ctx, &c, user)
}

func unknownCode(given string) error {
	return fault.New(fault.NotFound, "code_unknown", "no sender has the code %.20q, or it has expired", given).
		WithHint("write to the account again: an unknown sender gets a new code when the old one has expired")
}

// welcome tells a sender that the pairing is made. Without a running engine the message waits in the outbox.
func (e *Engine) welcome(ctx context.Context, c *code, user string) error {
	a := e.accounts[c.Account]
	if a == nil {
		return nil
	}
	text := fmt.Sprintf("You are paired with the user %s. Write to me as you would in a chat; /help lists the commands.", user)
	ch := chat{ID: chatID(a.Name, user, c.At), Account: a.Name, At: c.At, User: user, Used: e.opt.Now().UTC()}
	return e.record(ctx, user, e.posts(a, c.At, user, text, "paired", c.ID.String()), ch.change())
}

func (p *person) view() client.ChannelPerson {
	return client.ChannelPerson{ID: p.ID.String(), User: p.User, Account: p.Account, Sender: p.Sender, Name: p.Name, By: p.By, Since: p.Since}
}

// people returns all pairings.
func (e *Engine) people(ctx context.Context) ([]person, error) {
	return all(records[person](ctx, e, scopeOf(""), store.Query{Type: typePerson, Term: store.Term{Name: termPerson, Value: "all"}}))
}

// pairedUsers returns the users to whom a sender is paired.
func (e *Engine) pairedUsers(ctx context.Context) ([]string, error) {
	list, err := e.people(ctx)
	var users []string
	for _, p := range list {
		users = append(users, p.User)
	}
	slices.Sort(users)
	return slices.Compact(users), err
}

// People returns who is paired, by user.
func (e *Engine) People(ctx context.Context) ([]client.ChannelPerson, error) {
	list, err := e.people(ctx)
	out := []client.ChannelPerson{}
	for _, p := range list {
		out = append(out, p.view())
	}
	slices.SortFunc(out, func(a, b client.ChannelPerson) int {
		return cmp.Or(strings.Compare(a.User, b.User), strings.Compare(a.Account, b.Account), strings.Compare(a.ID, b.ID))
	})
	return out, err
}

// Unpair forgets who a sender is. which is the ID of the pairing, or its beginning. Error codes:
// person_not_found, person_ambiguous.
func (e *Engine) Unpair(ctx context.Context, by, which string) error {
	e.pairing.Lock()
	defer e.pairing.Unlock()
	list, err := e.people(ctx)
	if err != nil {
		return err
	}
	var found []person
	for _, p := range list {
		if len(which) >= 4 && strings.HasPrefix(p.ID.String(), strings.ToLower(which)) {
			found = append(found, p)
		}
	}
	switch len(found) {
	case 0:
		return fault.New(fault.NotFound, "person_not_found", "there is no pairing %.40q", which).WithHint("steward channels people lists them")
	case 1:
	default:
		return fault.New(fault.Invalid, "person_ambiguous", "%d pairings begin with %.40q", len(found), which).WithHint("give the whole ID")
	}
	sc := scopeOf(found[0].User)
	sc.Actor = by
	_, err = e.opt.Store.Commit(ctx, sc, store.Batch{Changes: []store.Change{{Op: store.Delete, URI: resource.URI{}.ChildID(typePerson, found[0].ID)}}})
	return err
}

// reaches reports whether a user is still paired with somebody on an account: without a pairing nothing of
// the user's is sent there any more.
func (e *Engine) reaches(ctx context.Context, account, user string) (bool, error) {
	list, err := e.people(ctx)
	return slices.ContainsFunc(list, func(p person) bool { return p.Account == account && p.User == user }), err
}

// disabled reports whether a user is locked out.
func (e *Engine) disabled(ctx context.Context, user string) (bool, error) {
	if e.opt.People == nil {
		return false, nil
	}
	_, err := e.opt.People.Principal(ctx, user)
	if fault.Is(err, fault.Denied) {
		return true, nil
	}
	return false, err
}
