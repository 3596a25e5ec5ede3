package client

import (
	"context"
	"time"
)

// Channel is an account at a messenger, as steward channels list shows it.
type Channel struct {
	Account   string    `json:"account"` // its name in the settings
	Kind      string    `json:"kind"`
	Running   bool      `json:"running"`            // this Steward receives on it
	Connected time.Time `json:"connected,omitzero"` // since when; zero: it is not connected
	Error     string    `json:"error,omitzero"`     // why it is not connected
	Received  int       `json:"received"`           // messages that wait for an answer
	Unsent    int       `json:"unsent"`             // messages that wait to be sent
	Unsettled int       `json:"unsettled"`          // unanswered, uncertain and failed ones
	People    int       `json:"people"`             // who is paired
}

// ChannelPerson is a sender at a messenger who is known to be a user.
type ChannelPerson struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Account string    `json:"account"`
	Sender  string    `json:"sender"` // the service's ID of the person
	Name    string    `json:"name,omitzero"`
	By      string    `json:"by"` // who paired them
	Since   time.Time `json:"since"`
}

// ChannelUpdate is a message that arrived at a messenger.
type ChannelUpdate struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Chat    string    `json:"chat"`
	From    string    `json:"from"`
	At      time.Time `json:"at"`
	State   string    `json:"state"` // received, answered, unanswered or ignored
	Reason  string    `json:"reason,omitzero"`
	Text    string    `json:"text,omitzero"`
}

// ChannelPost is a message that is posted at a messenger.
type ChannelPost struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Chat    string    `json:"chat"`
	At      time.Time `json:"at"`
	State   string    `json:"state"` // pending, sending, sent, uncertain or failed
	Reason  string    `json:"reason,omitzero"`
	Text    string    `json:"text"`
}

// Channels returns the accounts at messengers.
func (c *Client) Channels(ctx context.Context) ([]Channel, error) {
	return whole[Channel](ctx, c, "GET /channels", "channels", nil)
}

// Pair says which user the sender is who got a code; an empty user means the caller.
func (c *Client) Pair(ctx context.Context, code, user string) (ChannelPerson, error) {
	return ask[ChannelPerson](ctx, c, "POST /channels/people", nil, map[string]string{"code": code, "user": user})
}

// ChannelPeople returns who is paired.
func (c *Client) ChannelPeople(ctx context.Context) ([]ChannelPerson, error) {
	return whole[ChannelPerson](ctx, c, "GET /channels/people", "people", nil)
}

// Unpair forgets who a sender is.
func (c *Client) Unpair(ctx context.Context, person string) error {
	return c.Call(ctx, "DELETE /channels/people/{id}", Params{"id": person}, nil, nil)
}

// ChannelInbox returns the caller's messages that are not answered, or with all the newest ones.
func (c *Client) ChannelInbox(ctx context.Context, all bool) ([]ChannelUpdate, error) {
	return whole[ChannelUpdate](ctx, c, "GET /channels/inbox", "messages", allOf(all))
}

// ChannelOutbox returns the messages to the caller that are not known to be sent, or with all the newest
// ones.
func (c *Client) ChannelOutbox(ctx context.Context, all bool) ([]ChannelPost, error) {
	return whole[ChannelPost](ctx, c, "GET /channels/outbox", "messages", allOf(all))
}

func allOf(all bool) Params {
	if !all {
		return nil
	}
	return Params{"all": "true"}
}
