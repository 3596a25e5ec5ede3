// Package channel is the contract between Steward and a messenger or mailbox in which people reach it.
//
// An adapter (internal/channel/telegram, …) translates one service into this contract. It knows no user
// of Steward, no conversation and no database; package messaging does. It keeps nothing that a restart
// may not lose, except how far it has read where the service does not know that itself. Options say where it
// keeps that.
//
// # Receiving
//
// Run connects and hands over what arrives, in the order of the service. It acknowledges to the service
// only what receive has accepted, because receive returns after the updates are in the log. If receive
// fails, Run acknowledges nothing of that batch and returns the error; the service delivers the batch
// again after the next connection. An update that is delivered twice has the same ID both times, and
// receive ignores the second one. A service without acknowledgement (Discord's gateway) is asked for what
// it has missed after a new connection, as far as it can tell.
//
// Run returns when the connection is lost. The caller connects again, with growing pauses.
//
// # Sending
//
// Send posts one message. Its error says what happened, because a message must not be posted twice:
//
//   - Rejected: the service did not post it and never will (it is too long, the chat is gone).
//   - Limited: the service did not post it; it may be tried again after the fault's pause.
//   - Unreachable: the request did not reach the service, for certain (no connection was made).
//   - Uncertain: the request may have reached the service. The caller tries again only if the adapter's
//     Limits say that the service recognizes a repeated Key; otherwise it marks the message uncertain.
//
// An adapter never tries again by itself. Edit may be repeated: it sets a whole text.
//
// # Concurrency
//
// Run is called once at a time; everything else may be called concurrently, also while Run is not
// connected.
package channel

import (
	"context"
	"io"
	"time"

	"steward/internal/fault"
)

// Channel is one account at one service.
type Channel interface {
	// Check asks the service who the account is, for setup and doctor. The name is what people search
	// for to reach it ("@steward_bot").
	Check(ctx context.Context) (name string, err error)
	// Run receives until the connection is lost or ctx ends; see the head of the package. It calls
	// connected once, when the service has accepted the account.
	Run(ctx context.Context, connected func(), receive func(context.Context, []Update) error) error
	// Send posts a message and returns its ID in the service.
	Send(ctx context.Context, m Outgoing) (message string, err error)
	// Edit replaces text and buttons of a message that Send has posted. A service that cannot edit
	// returns Unsupported.
	Edit(ctx context.Context, at Address, message string, m Outgoing) error
	// Typing shows for some seconds that an answer is being written. Services that cannot do nothing.
	Typing(ctx context.Context, at Address) error
	// Fetch opens what was attached to an update. The caller closes it and bounds what it reads.
	Fetch(ctx context.Context, a Attachment) (io.ReadCloser, error)
	// Render converts Markdown to the service's own form and cuts it into messages that each fit, at
	// paragraphs if possible, never inside a character; code blocks that are cut are closed and opened
	// again. It does not fail: what the service cannot show, it shows as plain text.
	Render(markdown string) []string
	// Limits are constant.
	Limits() Limits
}

// Limits are what a service can do.
type Limits struct {
	Text       int           // characters of one message as Render counts them
	SendEvery  time.Duration // pause between messages to one chat
	EditEvery  time.Duration // pause between edits of one message; zero: it cannot edit
	Buttons    int           // of one message; zero: none, and questions name a command to answer with
	Attachment int64         // bytes of one attachment in either direction; zero: none
	// Repeatable says that the service posts a message with a known Key only once.
	Repeatable bool
	// Unproven says that the sender of an update can be forged as far as the service knows (e-mail):
	// nothing is approved on this channel.
	Unproven bool
}

// Address is a place in a service.
type Address struct {
	Chat   string `json:"chat"`             // the service's ID of the chat, room or mailbox
	Thread string `json:"thread,omitempty"` // a thread in it
}

// Sender is who wrote, as the service says.
type Sender struct {
	ID   string `json:"id"`   // the service's ID; it never passes to another person
	Name string `json:"name"` // for people only; nothing is decided by it
	Bot  bool   `json:"bot,omitempty"`
}

// Kinds of updates.
const (
	Message = "message" // a new message
	Edited  = "edited"  // a message that its writer has changed; Text is the new one
	Press   = "press"   // a button was pressed
)

// Update is one thing that has happened in a service. Text and names in it are whatever anybody wrote.
type Update struct {
	ID      string    `json:"id"` // unique for the account; the same when it is delivered again
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"` // by the clock of the service; zero: unknown
	Address Address   `json:"address"`
	From    Sender    `json:"from"`
	// Group says that others than the sender and Steward read in this place.
	Group bool `json:"group,omitempty"`
	// Title is the name of the group, for people only.
	Title string `json:"title,omitempty"`
	// Addressed says that the message is meant for Steward: its name is mentioned, or it replies to it.
	// It is set for every message outside groups. A mention of the account is not part of Text.
	Addressed bool `json:"addressed,omitempty"`
	// Unproven says why the sender may be forged ("DMARC: no alignment"); empty: the service vouches.
	Unproven string `json:"unproven,omitempty"`
	// Forwarded names who wrote the message, if the sender has only passed it on; empty: the sender wrote it.
	Forwarded   string       `json:"forwarded,omitempty"`
	Message     string       `json:"message,omitempty"` // the service's ID of the message, or of that of the button
	ReplyTo     string       `json:"reply_to,omitempty"`
	Text        string       `json:"text,omitempty"`
	Button      string       `json:"button,omitempty"` // of a press: the Button's Data
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Attachment is a file that came with an update, or goes out with a message.
type Attachment struct {
	Ref       string `json:"ref"`            // what Fetch needs; of a message that goes out, what the caller knows it by
	Name      string `json:"name,omitempty"` // as its sender named it
	MediaType string `json:"media_type,omitempty"`
	Size      int64  `json:"size,omitempty"` // as the service says; zero: unknown
	Voice     bool   `json:"voice,omitempty"`
	Data      []byte `json:"-"` // of a message that goes out
}

// Outgoing is a message to be posted.
type Outgoing struct {
	Key         string // the same when it is sent again; at most 64 characters of [A-Za-z0-9-]
	At          Address
	ReplyTo     string // a message in At that it answers; empty: none
	Text        string // one part of what Render has returned
	Silent      bool   // it need not make a sound
	Buttons     []Button
	Attachments []Attachment
}

// Button is pressed to answer. Data is at most 64 bytes.
type Button struct {
	Label string
	Data  string
}

// Rejected reports that a service has not posted a message and never will. why is shown to people.
func Rejected(service, why string) error {
	return fault.New(fault.Invalid, "channel_rejected", "%s refused the message: %s", service, why).
		WithHint("check that the chat still exists and that Steward may write there")
}

// Unauthorized reports that a service does not accept the account's token.
func Unauthorized(service, why string) error {
	return fault.New(fault.Unauthentic, "channel_token", "%s refused the token: %s", service, why).
		WithHint("get a new token and set it with: steward channels add %s", service)
}

// Limited reports that a service accepts nothing for a while; the pause is the fault's After. Send was
// without effect.
func Limited(service string, pause time.Duration) error {
	return fault.New(fault.RateLimited, "channel_limited", "%s asks for a pause of %s", service, pause).
		Retrying(fault.RetryAfter, pause)
}

// Unreachable reports that a request never left for the service.
func Unreachable(service string, err error) error {
	return fault.New(fault.Unavailable, "channel_unreachable", "cannot reach %s: %w", service, err).
		WithHint("check the network; Steward tries again by itself")
}

// Uncertain reports that a service may or may not have received a request.
func Uncertain(service string, err error) error {
	return fault.New(fault.Unavailable, "channel_uncertain", "%s may or may not have posted the message: %w", service, err).
		WithHint("look into the chat before sending it again")
}

// Unsupported reports that a service cannot do something.
func Unsupported(service, what string) error {
	return fault.New(fault.Unsupported, "channel_unsupported", "%s cannot %s", service, what)
}
