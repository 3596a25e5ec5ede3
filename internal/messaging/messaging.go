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
	began    time.Time
	turns    chan struct{} // holds a token for each turn that is waited for
	node     parts

	pairing sync.Mutex // one pairing at a time

	mu       sync.Mutex
	running  bool
	held     []*post // that were recorded before it runs
	last     int64   // the order of the newest record
	in       map[place]*lane[*update]
	out      map[place]*lane[*post]
	followed map[string]bool    // users whose questions are followed
	later    map[string]bool    // questions that are asked later
	live     map[id.ID]watching // by chat: what comes by itself there is shown
	heard    map[place][]heard
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
		in: map[place]*lane[*update]{}, out: map[place]*lane[*post]{}, followed: map[string]bool{}, later: map[string]bool{}, live: map[id.ID]watching{}, heard: map[place][]heard{}}
	for _, a := range opt.Accounts {
		e.accounts[a.Name] = &account{Account: a, limits: a.Channel.Limits()}
	}
	return e
}

// Start takes up what is in the inbox and the outbox, and connects all accounts. It is called once.
func (e *Engine) Start(ctx context.Context, n Node, c Conversations, d Decisions) error {
	e.node, e.began = parts{n, c, d}, e.opt.Now()
	found, err := e.recover(ctx)
	if err != nil {
		return err
	}
	users, err := e.pairedUsers(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.running = true
	held := e.held
	e.held = nil
	e.mu.Unlock()
	for _, p := range held {
		if !found[p.ID] {
			e.queue(e.accounts[p.Account], p)
		}
	}
	for _, u := range users {
		e.follow(u)
		if err := e.followChats(ctx, u); err != nil {
			return err
		}
	}
	for _, a := range e.accounts {
		e.life.Go(func() { e.connect(a) })
	}
	return nil
}

// Close ends the connections, and waits for what is in progress. What is not done yet is done after the
// next start.
func (e *Engine) Close() {
	e.life.End(context.Canceled)
	e.life.Wait()
}

// Channel returns the channel of an account, or nil.
func (e *Engine) Channel(account string) channel.Channel {
	if a := e.accounts[account]; a != nil {
		return a.Channel
	}
	return nil
}

// connect keeps an account connected until the engine ends.
func (e *Engine) connect(a *account) {
	pause := time.Second
	for e.life.Err() == nil {
		begun := e.opt.Now()
		err := a.Channel.Run(e.life, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.connected, a.failure = e.opt.Now(), nil
		}, func(ctx context.Context, list []channel.Update) error { return e.receive(ctx, a, list) })
		if e.life.Err() != nil {
			return
		}
		a.mu.Lock()
		if !a.connected.IsZero() && e.opt.Now().Sub(begun) > lastPause {
			pause = time.Second
		}
		a.connected, a.failure = time.Time{}, err
		a.mu.Unlock()
		e.log.Warn("a channel lost its connection", "channel", a.Name, "again_in", pause.String(), "error", err)
		if !e.rest(pause) {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// rest waits. It returns false if the engine has ended.
func (e *Engine) rest(d time.Duration) bool {
	if d <= 0 {
		return e.life.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.life.Done():
		return false
	}
}

// insist does something until it succeeds, with growing pauses. It returns false if the engine has ended.
func (e *Engine) insist(what string, do func() error) bool {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, lastPause) {
		err := do()
		if err == nil {
			return true
		}
		if e.life.Err() != nil {
			return false
		}
		e.log.Warn("messaging tries again", "what", what, "again_in", pause.String(), "error", err)
		if !e.rest(pause) {
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

// lane does the work of one chat, one after the other, in a goroutine that ends when there is none.
type lane[T any] struct{ queue []T }

// enter adds work to the lane of a place. It reports whether it waits behind other work.
func enter[T any](e *Engine, lanes map[place]*lane[T], at place, work T, do func(T)) (waits bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := lanes[at]; l != nil {
		l.queue = append(l.queue, work)
		return true
	}
	l := &lane[T]{queue: []T{work}}
	lanes[at] = l
	run := func() {
		for {
			e.mu.Lock()
			if len(l.queue) == 0 || e.life.Err() != nil {
				delete(lanes, at)
				e.mu.Unlock()
				return
			}
			next := l.queue[0]
			l.queue = l.queue[1:]
			e.mu.Unlock()
			do(next)
		}
	}
	if !e.life.Go(run) {
		delete(lanes, at)
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
