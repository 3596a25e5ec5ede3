package turn

import (
	"context"
	"errors"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// Send begins a turn. It returns once the user's message is durable. The turn
// continues independently of ctx and is observed through Watch. If another turn
// of the conversation is running, Send waits for its end, or, if t.Steer is set,
// delivers the message to it at its next safe point.
//
// Error codes: message_empty, message_invalid, agent_not_found,
// too_much_attached, model_not_found, conversation_not_found, turn_withdrawn (Conflict: while it
// waited, the conversation was deleted or rewound), closing, and those of the
// store; then nothing has been recorded.
func (e *Engine) Send(ctx context.Context, user string, t Input) (Accepted, error) {
	if err := e.ReadAttached(ctx, user, t.Model, t.Content); err != nil {
		return Accepted{}, err
	}
	hidden := e.HideSecrets(&t)
	if t.Opens.Zero() {
		t.Opens = t.interaction()
	}
	ctx, t.request = e.opt.Telemetry.Request(ctx, t.Opens, t.RequestContext, t.Origin)
	acc, launched, err := e.send(ctx, user, t)
	if !launched { // otherwise the run ends it
		t.request.End("not begun", err)
	}
	acc.Hidden = hidden
	return acc, err
}

// send is Send for a message that was read. launched: its run was launched, whatever the error.
func (e *Engine) send(ctx context.Context, user string, t Input) (acc Accepted, launched bool, err error) {
	m, err := UserMessage(user, &t)
	if err != nil {
		return Accepted{}, false, err
	}
	held, stays, ok := e.life.Stay(ctx, user)
	if !ok {
		return Accepted{}, false, ErrClosed
	}
	defer stays()
	life := e.life.Of(user)
	c := e.Enter(user, t.Conversation)
	defer e.Exit(c)
	leave, err := c.deduplicate(ctx, life, t.key(m))
	if err != nil {
		return Accepted{}, false, err
	}
	defer leave()
	if len(c.turnLock) > 0 { // otherwise the check is made once the turn lock is held
		if acc, ok, err := e.duplicate(ctx, c, t, m); ok || err != nil {
			return acc, false, err
		}
	}
	if t.Steer {
		if acc, ok, err := c.steerInto(ctx, m); ok {
			return acc, false, err
		}
		t.Steer = false // no run takes it: from here on it is an ordinary message
		leave, err := c.deduplicate(ctx, life, t.key(m))
		if err != nil {
			return Accepted{}, false, err
		}
		defer leave()
	}
	for {
		if life.Err() != nil {
			return Accepted{}, false, ErrClosed
		}
		if !c.TryLock() { // the holder may run this very turn, and wait for its sender
			if acc, ok, err := e.duplicate(ctx, c, t, m); ok || err != nil {
				return acc, false, err
			}
			if err := c.Lock(ctx, life); err != nil {
				return Accepted{}, false, err
			}
		}
		acc, launched, err := e.accept(held, c, t, m)
		if !launched {
			c.Unlock()
			err = e.whileHeld(user, err)
		}
		if !errors.Is(err, ErrResumed) {
			return acc, launched, err
		}
	}
}

// ErrResumed reports that an interrupted run of the conversation was resumed
// first.
var ErrResumed = errors.New("an interrupted run is resumed first")

// accept begins a turn whose sender holds the turn lock, unless the turn was
// accepted before, perhaps while this sender waited.
func (e *Engine) accept(ctx context.Context, c *Conversation, t Input, m *message.Message) (Accepted, bool, error) {
	if acc, ok, err := e.duplicate(ctx, c, t, m); ok || err != nil {
		return acc, false, err
	}
	if c.blocksTurns() {
		return Accepted{}, false, errWithdrawn
	}
	return e.begin(ctx, c, t, m)
}

// duplicate looks up whether a turn has been accepted before.
func (e *Engine) duplicate(ctx context.Context, c *Conversation, t Input, m *message.Message) (Accepted, bool, error) {
	if t.ClientID == "" {
		return Accepted{}, false, nil
	}
	sc := store.ForUser(c.User)
	acc := Accepted{Conversation: c.ID, Duplicate: true}
	var err error
	if m == nil {
		var r resource.Resource
		acc.Interaction = t.interaction()
		r, err = e.opt.Store.Get(ctx, sc, record.InteractionURI(c.ID, acc.Interaction))
		acc.Seq = r.Seq
	} else {
		var entry conversation.Entry
		entry, err = e.conversations.FindMessage(ctx, sc, c.ID, m.ID)
		acc.Interaction, acc.Message, acc.Seq = entry.Interaction, m.ID, entry.Seq
	}
	if fault.Is(err, fault.NotFound) {
		return Accepted{}, false, nil
	}
	return acc, err == nil, err
}
