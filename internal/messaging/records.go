package messaging

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"time"

	"steward/internal/channel"
	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// The types of the records. They are in the space of the user whom they concern; those about strangers are
// in the system's.
const (
	typeAccount    = "messaging.Account"
	typeUpdate     = "messaging.Update"
	typePost       = "messaging.Post"
	typePerson     = "messaging.Person"
	typeCode       = "messaging.Code"
	typeChat       = "messaging.Chat"
	typePreference = "messaging.Preference"
)

// The states of updates and posts. Those of work that goes on, or that a person should look at, are also
// states of the resources, by which they are found.
const (
	received   = "received"
	answered   = "answered"
	unanswered = "unanswered"
	ignored    = "ignored"

	pending   = "pending"
	sending   = "sending"
	sent      = "sent"
	asking    = "asking" // sent, and its question is open
	uncertain = "uncertain"
	failed    = "failed"
)

// Names of terms.
const (
	termSender       = "messaging_sender"       // a pairing or a code, by account and sender
	termCode         = "messaging_code"         // a code, by itself
	termConversation = "messaging_conversation" // a chat, by the conversation that it shows
	termNewest       = "messaging_newest"       // updates and posts of a space
	termPerson       = "messaging_person"       // all pairings
)

// update is the record of an update that has arrived.
type update struct {
	channel.Update
	Account string    `json:"account"`
	User    string    `json:"user,omitzero"` // who the sender is; empty: a stranger
	Order   int64     `json:"order"`
	Arrived time.Time `json:"arrived"`
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitzero"` // of unanswered and ignored
	Cut     bool      `json:"cut,omitzero"`    // the text was too long
	Heard   string    `json:"heard,omitzero"`  // what was said in the group before, if another node answers
}

// post is the record of a message that is sent.
type post struct {
	ID       id.ID            `json:"id"`
	Account  string           `json:"account"`
	At       channel.Address  `json:"at"`
	User     string           `json:"user,omitzero"` // whom it is for; empty: a stranger
	ReplyTo  string           `json:"reply_to,omitzero"`
	Text     string           `json:"text"`              // as the service is sent it
	Replaces id.ID            `json:"replaces,omitzero"` // the post whose text it replaces, if that can be
	Draft    bool             `json:"draft,omitzero"`    // an answer that is not complete
	Buttons  []channel.Button `json:"buttons,omitzero"`
	Files    []file           `json:"files,omitzero"`
	Labels   message.Labels   `json:"labels,omitzero"`
	Asks     *question        `json:"asks,omitzero"` // the question that it shows
	Order    int64            `json:"order"`
	Created  time.Time        `json:"created"`
	State    string           `json:"state"`
	Tried    time.Time        `json:"tried,omitzero"`   // when it became "sending"
	Doubt    time.Time        `json:"doubt,omitzero"`   // since when it may have been posted, at a service that recognizes its key
	Message  string           `json:"message,omitzero"` // the service's ID of it
	Reason   string           `json:"reason,omitzero"`  // of uncertain and failed

	edits   string        // the message that it edits; empty: it is a new one
	version uint64        // of the record
	sent    chan struct{} // closed when it is settled; nil: nobody waits
}

func (p *post) setVersion(v uint64) { p.version = v }

// sentAs returns the service's ID of a post with a channel that is closed when it is settled; empty: it is
// not sent yet, or never will be.
func (p *post) sentAs() string {
	select {
	case <-p.sent:
		return p.Message
	default:
		return ""
	}
}

// outgoing returns the message that a service is sent, with another text unless that is empty.
func (p *post) outgoing(text string) channel.Outgoing {
	return channel.Outgoing{Key: p.ID.String(), At: p.At, ReplyTo: p.ReplyTo, Text: cmp.Or(text, p.Text), Buttons: p.Buttons}
}

// file is an attachment of a post: a block of a message of a conversation.
type file struct {
	At        resource.URI `json:"at"` // the message
	Block     int          `json:"block"`
	Name      string       `json:"name,omitzero"`
	MediaType string       `json:"media_type,omitzero"`
}

// question is what a post asks.
type question struct {
	ID    string `json:"id"` // URI text of the intent
	Short string `json:"short"`
	Hash  string `json:"hash"` // of what was shown
	Text  string `json:"text"` // the sentence, without the service's own form
}

// person is a sender who is known to be a user.
type person struct {
	ID      id.ID     `json:"id"`
	User    string    `json:"user"`
	Account string    `json:"account"`
	Sender  string    `json:"sender"`
	Name    string    `json:"name,omitzero"`
	By      string    `json:"by"`
	Since   time.Time `json:"since"`
}

// code is a pairing code of a stranger.
type code struct {
	ID      id.ID           `json:"id"`
	Code    string          `json:"code"`
	Account string          `json:"account"`
	From    channel.Sender  `json:"from"`
	At      channel.Address `json:"at"`
	Created time.Time       `json:"created"`
	Expires time.Time       `json:"expires"`
	Used    bool            `json:"used,omitzero"`

	version uint64 // of the record
}

func (c *code) setVersion(v uint64) { c.version = v }

// chat is a place in which a user talks to Steward, and the conversation that it shows.
type chat struct {
	ID           id.ID           `json:"id"`
	Account      string          `json:"account"`
	At           channel.Address `json:"at"`
	User         string          `json:"user"`
	Group        bool            `json:"group,omitzero"`
	Title        string          `json:"title,omitzero"`
	Conversation id.ID           `json:"conversation,omitzero"` // zero: the next message begins one
	Agent        string          `json:"agent,omitzero"`        // for the next message
	Model        string          `json:"model,omitzero"`
	Used         time.Time       `json:"used"`
	Seen         uint64          `json:"seen,omitzero"` // the log position up to which the conversation was followed
}

// preference is the private chat in which a user wants to be reached.
type preference struct {
	Account string          `json:"account"`
	At      channel.Address `json:"at"`
}

// Conversations are the conversations of the node.
type Conversations interface {
	Get(ctx context.Context, sc store.Scope, conv id.ID) (record.Conversation, error)
	List(ctx context.Context, sc store.Scope, after store.Cursor, limit int) ([]record.Conversation, store.Cursor, error)
	End(ctx context.Context, sc store.Scope, conv, inter id.ID) (conversation.Ending, error)
	Turn(ctx context.Context, sc store.Scope, conv, inter id.ID) ([]*message.Message, error)
}

// Decisions are the questions of the node.
type Decisions interface {
	Question(ctx context.Context, sc store.Scope, name string, p intent.Pattern) (effect.Question, error)
	Questions(ctx context.Context, user string) ([]effect.Question, error)
	Decide(ctx context.Context, sc store.Scope, d effect.Decision) error
	Intent(ctx context.Context, sc store.Scope, uri resource.URI) (intent.Intent, error)
}

// parts are the engines of the node.
type parts struct {
	Node
	conversations Conversations
	decisions     Decisions
}

// scopeOf returns the scope in which the records of a user are written; of strangers, if user is empty. It
// also reads those of everybody, because an update does not say whose it is.
func scopeOf(user string) store.Scope {
	space := resource.System
	if user != "" {
		space = resource.UserSpace(user)
	}
	return store.ForNode(space)
}

func updateURI(account, update string) resource.URI {
	return resource.Root(typeAccount, account).ChildID(typeUpdate, id.Derive("update", account, update))
}

func postURI(account string, p id.ID) resource.URI {
	return resource.Root(typeAccount, account).ChildID(typePost, p)
}

func chatID(account, user string, at channel.Address) id.ID {
	return id.Derive("chat", account, user, at.Chat, at.Thread)
}

// change returns the change that puts an update.
func (u *update) change(cond store.If) store.Change {
	c := store.Change{URI: updateURI(u.Account, u.ID), Body: record.Encode(u), If: cond, Terms: []store.Term{{Name: termNewest, Value: typeUpdate}}}
	if u.State == received || u.State == unanswered {
		c.State = u.State
	}
	return c
}

// change returns the change that puts a post.
func (p *post) change(cond store.If) store.Change {
	c := store.Change{URI: postURI(p.Account, p.ID), Body: record.Encode(p), If: cond, Terms: []store.Term{{Name: termNewest, Value: typePost}}}
	if p.State != sent {
		c.State = p.State
	}
	return c
}

func (c *chat) change() store.Change {
	ch := store.Change{URI: resource.URI{}.ChildID(typeChat, c.ID), Body: record.Encode(c), Terms: []store.Term{{Name: termNewest, Value: typeChat}}}
	if !c.Conversation.Zero() {
		ch.Terms = append(ch.Terms, store.Term{Name: termConversation, Value: c.Conversation.String()})
	}
	return ch
}

func (p *person) change() store.Change {
	return store.Change{URI: resource.URI{}.ChildID(typePerson, p.ID), Body: record.Encode(p),
		Terms: []store.Term{{Name: termSender, Value: senderOf(p.Account, p.Sender)}, {Name: termPerson, Value: "all"}}}
}

func (c *code) change() store.Change {
	ch := store.Change{URI: resource.URI{}.ChildID(typeCode, c.ID), Body: record.Encode(c)}
	if !c.Used {
		ch.Terms = []store.Term{{Name: termSender, Value: senderOf(c.Account, c.From.ID)}, {Name: termCode, Value: c.Code}, {Name: termNewest, Value: typeCode}}
	}
	return ch
}

// senderOf is the value of the term of a sender. IDs of services have bounded, but unknown forms.
func senderOf(account, sender string) string { return id.Derive("sender", account, sender).String() }

// commit commits changes in the space of a user.
func (e *Engine) commit(ctx context.Context, user string, changes ...store.Change) error {
	_, err := e.opt.Store.Commit(ctx, scopeOf(user), store.Batch{Changes: changes})
	return err
}

// put commits a post that this node has read or recorded, unless another one has changed it since. Then ours is
// false.
func (e *Engine) put(ctx context.Context, p *post) (ours bool, err error) {
	r, err := e.opt.Store.Commit(ctx, scopeOf(p.User), store.Batch{Changes: []store.Change{p.change(store.If{Version: p.version})}})
	if err == nil {
		p.version = r.Versions[0]
		return true, nil
	}
	if !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) {
		return false, err
	}
	now, err := get[*post](ctx, e, scopeOf(p.User), postURI(p.Account, p.ID))
	if fault.Is(err, fault.NotFound) { // its user was erased
		return false, nil
	}
	if err != nil || now.State != p.State || now.Reason != p.Reason || !now.Tried.Equal(p.Tried) {
		return false, err
	}
	p.version = now.version // it was committed, but nobody could say so
	return true, nil
}

// records yields the records that a query selects.
func records[T any](ctx context.Context, e *Engine, sc store.Scope, q store.Query) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for it, err := range store.Items(ctx, e.opt.Store, sc, q) {
			var v T
			if err == nil {
				if bad := json.Unmarshal(it.Body, &v); bad != nil {
					err = fault.New(fault.Internal, "store_broken", "%s cannot be read: %w", it.URI, bad).WithHint("run steward doctor")
				} else if x, ok := any(v).(interface{ setVersion(uint64) }); ok {
					x.setVersion(it.Version)
				}
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// all collects records.
func all[T any](seq iter.Seq2[T, error]) (list []T, err error) {
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

// get reads a record. Error code: not_found.
func get[T any](ctx context.Context, e *Engine, sc store.Scope, at resource.URI) (v T, err error) {
	r, err := e.opt.Store.Get(ctx, sc, at)
	if err != nil {
		return v, err
	}
	if err = record.Decode(at, r.Body, &v); err == nil {
		if x, ok := any(v).(interface{ setVersion(uint64) }); ok {
			x.setVersion(r.Version)
		}
	}
	return v, err
}
