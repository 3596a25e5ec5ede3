package api

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/identity"
)

// Channels are the accounts at messengers; package messaging implements them.
type Channels interface {
	Channels(ctx context.Context) ([]client.Channel, error)
	People(ctx context.Context) ([]client.ChannelPerson, error)
	Pair(ctx context.Context, by, code, user string) (client.ChannelPerson, error)
	Unpair(ctx context.Context, by, person string) error
	Inbox(ctx context.Context, user string, all bool) ([]client.ChannelUpdate, error)
	Outbox(ctx context.Context, user string, all bool) ([]client.ChannelPost, error)
}

// managesChannels refuses callers who may not say who somebody is.
func (f *server) managesChannels(c *call) error {
	if f.Channels == nil {
		return unsupported("channels", "this Steward has no channels")
	}
	return admins(c, "only admins manage channels and who is who on them", "ask an admin")
}

func (f *server) channels(ctx context.Context, c *call, _ struct{}) (map[string][]client.Channel, error) {
	if err := f.managesChannels(c); err != nil {
		return nil, err
	}
	list, err := f.Channels.Channels(ctx)
	return the("channels", all(list)), err
}

func (f *server) channelPeople(ctx context.Context, c *call, _ struct{}) (map[string][]client.ChannelPerson, error) {
	if err := f.managesChannels(c); err != nil {
		return nil, err
	}
	list, err := f.Channels.People(ctx)
	return the("people", all(list)), err
}

// pair says which user a sender is. Whoever has the pairing talks as that user, so only admins decide it.
func (f *server) pair(ctx context.Context, c *call, in struct {
	Body struct {
		Code string `json:"code"`
		User string `json:"user"`
	} `body:""`
}) (client.ChannelPerson, error) {
	if err := f.managesChannels(c); err != nil {
		return client.ChannelPerson{}, err
	}
	user := cmp.Or(in.Body.User, c.User)
	if err := f.mayPair(ctx, c.User, user); err != nil {
		return client.ChannelPerson{}, err
	}
	return f.Channels.Pair(ctx, c.User, in.Body.Code, user)
}

// mayPair refuses a user who is not known, since a name may be mistyped, and the machine's own user unless
// that is who asks.
func (f *server) mayPair(ctx context.Context, by, user string) error {
	if err := identity.CheckActsFor(by, user); err != nil {
		return err
	}
	known, err := f.People.Accounts(ctx)
	if err == nil && !slices.ContainsFunc(known, func(a identity.Account) bool { return a.User == user }) {
		err = fault.New(fault.NotFound, "user_not_found", "there is no user %.80q", user).WithHint("add the user first: steward users add NAME")
	}
	return err
}

func (f *server) unpair(ctx context.Context, c *call, in struct {
	ID string `path:"id"`
}) (noContent, error) {
	if err := f.managesChannels(c); err != nil {
		return noContent{}, err
	}
	list, err := f.Channels.People(ctx)
	for _, p := range list {
		if err == nil && strings.HasPrefix(p.ID, in.ID) {
			err = identity.CheckActsFor(c.User, p.User)
		}
	}
	if err != nil {
		return noContent{}, err
	}
	return noContent{}, f.Channels.Unpair(ctx, c.User, in.ID)
}

// inAll is the parameter of lists that can be whole.
type inAll struct {
	All bool `query:"all"`
}

// channelInbox answers with the caller's own messages, as every list of what somebody wrote does.
func (f *server) channelInbox(ctx context.Context, c *call, in inAll) (map[string][]client.ChannelUpdate, error) {
	if f.Channels == nil {
		return the("messages", []client.ChannelUpdate{}), nil
	}
	list, err := f.Channels.Inbox(ctx, c.User, in.All)
	return the("messages", all(list)), err
}

func (f *server) channelOutbox(ctx context.Context, c *call, in inAll) (map[string][]client.ChannelPost, error) {
	if f.Channels == nil {
		return the("messages", []client.ChannelPost{}), nil
	}
	list, err := f.Channels.Outbox(ctx, c.User, in.All)
	return the("messages", all(list)), err
}
