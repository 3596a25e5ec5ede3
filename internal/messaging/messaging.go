// Package messaging lets people talk to Steward where they are: in messengers and by mail.
//
// # The inbox
//
// An adapter (package channel) hands over updates. receive commits each as a record before it returns, and
// only then does the adapter acknowledge them to the service. The record's place derives from the account
// and the service's ID of the update, so an update that is delivered again is recognized. Its state is
// "received" until it is "answered", "unanswered" (with the reason) or "ignored". What is received when the
// process ends is taken up at the next start.
//
// The updates of a chat are processed one after the other in the order in which they arrived. A text begins
// a turn whose client ID is made of the account and the ID of the update, so that beginning it again finds
// the turn that exists. When the turn has ended, one commit settles the update and adds the answer to the
// outbox. A press of a button and the commands that concern a running turn (/stop, /approve, /deny) do not
// wait for the turn.
//
// # The outbox
//
// Everything that is sent is a post. It is pending, then sending, then sent, uncertain or failed. "sending"
// is committed before the request is made. After a restart a post that was sending is sent again only if
// the service recognizes its key (Limits.Repeatable); otherwise it is uncertain, and is listed. The posts of
// a chat are sent in order, with the pauses that the service asks for. A post that replaces the text of an
// earlier message may be sent again without harm.
//
// # Two halves
//
// An engine has two halves, which meet in the store alone. The carrier has the accounts: it records what arrives,
// answers strangers, and sends what is in the outbox. A desk has one user: it handles the user's updates, follows the
// user's questions and chats, and fills the outbox. On a node that is alone (Start), one engine is the carrier and the
// desk of everybody, and the halves call each other.
//
// In a cluster one node at a time is the carrier (ConnectAccounts), and the node that holds the space of a user has the
// user's desk (TakeUser). Each learns from the log what the other one has recorded, and looks through what waits when it
// begins. If no node has the user of an update, the carrier has a node take the user (Options.Want), again and again
// until the update is settled. What a desk commits is in the user's space, where the cluster refuses a node that has
// lost the user. A carrier that is not one any more is stopped by the version of each post: it sends a post only after
// it has replaced the version that it read by one that is being sent. So a node that wakes up after another one has
// taken over sends nothing that the other one sends; what it was sending at that moment is uncertain, or is
// recognized by its key.
//
// Between two nodes an answer is shown when it is complete: a draft and its edits need the service's ID of a message,
// which only the carrier knows in time. That Steward is typing is shown by the desk itself, and attachments are fetched
// by it. So the node of a user should reach the services as well; without that, attachments are named, not read.
//
// # Who
//
// A sender is somebody only after an administrator has said which user that is. A stranger in a private chat
// gets one code and nothing else; steward pair CODE makes the pairing. The pairing is a record in the space
// of the user, and ends with the user. An update whose sender may be forged (channel.Update.Unproven) is
// never a paired person's. In groups a paired person is answered when the message is addressed to Steward;
// what others write there is not recorded, and the model sees the last of it as untrusted text. So is what a
// paired person only forwards; a command in it is none. An answer
// with private data does not go into a group unless policy allows it: it goes to the person alone.
//
// # What comes by itself
//
// A conversation that a private chat shows may go on without a message: a background call has ended, or an
// agent has finished. The engine follows the conversations of the chats that were used in the last days from
// where it has last seen them, and posts the answers of turns that nobody began by a message. Reminders and
// timers that go off, and what jobs and the heartbeat have to say, go to the preferred chat instead (Deliver).
//
// # Approvals
//
// A question goes to the private chat in which its conversation lives, else to the user's preferred one. Its
// buttons name the post, not the question: a press counts only from the person the post was sent to, in the
// chat it was sent to. When the question is decided, wherever that was, its posts say so. On a channel whose
// senders can be forged nothing is asked and nothing is decided.
package messaging

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"sync"
	"time"

	"steward/internal/channel"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/lifetime"
	"steward/internal/lifetime/telemetry"
	"steward/internal/policy"
	"steward/internal/store"
	"steward/internal/turn"
)

// Limits.
const (
	MaxText        = 64 << 10 // bytes of a message that arrives; the rest is cut off
	MaxAttachments = 10       // of a message that arrives; others are named, not read
	MaxAttachment  = turn.MaxAttachedBytes
	maxStrangers   = 1000             // updates of strangers that are recorded, per account and hour
	maxTurns       = 16               // turns that are waited for at the same time
	maxPosts       = 10000            // posts that wait, per account
	lastPause      = time.Minute      // the longest pause between two tries
	sendTimeout    = 30 * time.Second // of one request
	grace          = 5 * time.Second  // for requests that are in progress when the engine ends
)

// Node is what messaging needs of the node.
type Node interface {
	Send(ctx context.Context, user string, t turn.Input) (turn.Accepted, error)
	Watch(ctx context.Context, user string, conv id.ID, from turn.Cursor) iter.Seq2[turn.Frame, error]
	Running(user string, conv id.ID) bool
	Stop(ctx context.Context, user string, conv id.ID) error
	FollowApprovals(ctx context.Context, user string) iter.Seq2[[]effect.Question, error]
}

// Account is a channel that is set up.
type Account struct {
	Name    string // in the settings
	Kind    string // of the adapter
	Channel channel.Channel
}

// Options configure an engine. Store is required; with it alone the records can be listed and changed.
type Options struct {
	Store    store.Store
	Accounts []Account
	// People knows the users. A user who is disabled is not answered.
	People policy.Directory
	// UndoMemory undoes what was remembered last from a conversation, and says what is so now; nil: it cannot be
	// undone here.
	UndoMemory func(ctx context.Context, user string, conv id.ID) (string, error)
	// Judge decides whether private data may go into a group; nil: it may not.
	Judge policy.Authorizer
	// Want has a node of the cluster take a user whose messages no node handles; nil: there is no cluster.
	Want func(ctx context.Context, user string) error
	// Mask hides secrets in what is posted. May be nil.
	Mask func(string) string
	// Transcribe turns a voice message into text. nil: nobody can.
	Transcribe func(ctx context.Context, user, mediaType string, data []byte) (string, error)
	Now        func() time.Time     // nil: time.Now
	Telemetry  *telemetry.Telemetry // counts updates and posts; may be nil
	Log        *slog.Logger         // nil: none
}

// Engine is the inbox and the outbox of all accounts. Safe for concurrent use.
type Engine struct {
	opt      Options
	log      *slog.Logger
	accounts map[string]*account
	life     *lifetime.Lifetime
	turns    chan struct{} // holds a token for each turn that is waited for
	in       lanes[*update]
	node     parts

	pairing sync.Mutex // one pairing at a time
	moving  sync.Mutex // held while the accounts are connected or disconnected

	mu      sync.Mutex
	alone   bool             // this node does everything; see Start
	last    int64            // the order of the newest record
	carrier *carrier         // nil: the accounts are not connected here
	desks   map[string]*desk // of the users whose messages are handled here
	reads   bool             // the log is read
	heard   map[place][]heard
}

// account is an account with the state of its connection.
type account struct {
	Account
	limits channel.Limits

	mu        sync.Mutex
	connected time.Time
	failure   error
	hour      time.Time // in which strangers are counted
	strangers int
	waiting   int // posts that wait
}

// place is a chat of an account.
type place struct {
	account string
	channel.Address
}

// New returns an engine that does not run yet.
func New(opt Options) *Engine {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{opt: opt, log: opt.Log, accounts: map[string]*account{}, life: lifetime.New(context.Background()), turns: make(chan struct{}, maxTurns),
		desks: map[string]*desk{}, heard: map[place][]heard{}}
	e.in.life = e.life
	for _, a := range opt.Accounts {
		e.accounts[a.Name] = &account{Account: a, limits: a.Channel.Limits()}
	}
	return e
}

// Open gives the engine the node, in a cluster. From then on this node does what it is given with
// ConnectAccounts and TakeUser. It is called once, in place of Start.
func (e *Engine) Open(n Node, c Conversations, d Decisions) { e.node = parts{n, c, d} }

// Start connects all accounts and handles the messages of all users: the node is alone. It is called once.
func (e *Engine) Start(ctx context.Context, n Node, c Conversations, d Decisions) error {
	e.Open(n, c, d)
	e.mu.Lock()
	e.alone = true
	e.mu.Unlock()
	updates, err := e.received(ctx, scopeOf(""))
	if err != nil {
		return err
	}
	users, err := e.pairedUsers(ctx)
	if err != nil {
		return err
	}
	carrier, err := e.beginCarrier(ctx)
	if err != nil {
		return err
	}
	for _, u := range updates {
		if a := e.accounts[u.Account]; a != nil && u.User != "" {
			e.process(a, u)
		}
	}
	for _, u := range users {
		e.follow(u)
		if err := e.followChats(ctx, u); err != nil {
			return err
		}
	}
	carrier.connect()
	return nil
}

// Close ends both halves, and waits for what is in progress. What is not done yet is done after the next
// start, or by the node that has the half then.
func (e *Engine) Close() {
	e.mu.Lock()
	e.life.End(context.Canceled) // nothing begins any more
	halves := []*lifetime.Lifetime{e.life}
	if e.carrier != nil {
		halves = append(halves, e.carrier.life)
	}
	for _, d := range e.desks {
		halves = append(halves, d.life)
	}
	e.mu.Unlock()
	for _, l := range halves {
		l.End(context.Canceled)
	}
	for _, l := range halves {
		l.Wait()
	}
}

// Channel returns the channel of an account, or nil.
func (e *Engine) Channel(account string) channel.Channel {
	if a := e.accounts[account]; a != nil {
		return a.Channel
	}
	return nil
}

// rest waits. It returns false if ctx has ended.
func rest(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// insist does something until it succeeds, with growing pauses. It returns false if ctx has ended.
func (e *Engine) insist(ctx context.Context, what string, do func() error) bool {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, lastPause) {
		err := do()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		e.log.Warn("messaging tries again", "what", what, "again_in", pause.String(), "error", err)
		if !rest(ctx, pause) {
			return false
		}
	}
}

// order returns the next number by which records are ordered: the time in nanoseconds, or the next number if
// the clock has not advanced.
func (e *Engine) order() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = max(e.last+1, e.opt.Now().UnixNano())
	return e.last
}

// after has the records that are made from now on come after one that exists: the clock may have been set
// back, or be that of another node.
func (e *Engine) after(order int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = max(e.last, order)
}

// lanes do the work of each chat one after the other, in a goroutine that ends when there is none.
type lanes[T any] struct {
	life *lifetime.Lifetime
	mu   sync.Mutex
	of   map[place]*lane[T]
}

type lane[T any] struct{ queue []T }

// enter adds work to the lane of a place. It reports whether it waits behind other work.
func (l *lanes[T]) enter(at place, work T, do func(T)) (waits bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.of[at]; old != nil {
		old.queue = append(old.queue, work)
		return true
	}
	own := &lane[T]{queue: []T{work}}
	if l.of == nil {
		l.of = map[place]*lane[T]{}
	}
	l.of[at] = own
	run := func() {
		for {
			l.mu.Lock()
			if len(own.queue) == 0 || l.life.Err() != nil {
				delete(l.of, at)
				l.mu.Unlock()
				return
			}
			next := own.queue[0]
			own.queue = own.queue[1:]
			l.mu.Unlock()
			do(next)
		}
	}
	if !l.life.Go(run) {
		delete(l.of, at)
	}
	return false
}

// name returns what people call an account: "telegram", or "telegram (work)".
func (a *account) name() string {
	if cmp.Or(a.Kind, a.Name) == a.Name {
		return a.Name
	}
	return a.Kind + " (" + a.Name + ")"
}
