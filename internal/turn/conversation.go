package turn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/store"
	"steward/internal/taint"
)

var ErrClosed = fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)

// Key names a conversation for a user. Because the user is part of the key,
// two users never share a Conversation.
type Key struct {
	User string
	ID   id.ID
}

// Conversation is a conversation in memory. It is in use, or has been idle for a short
// while.
type Conversation struct {
	Key
	Feed     Feed
	turnLock chan struct{} // holds a token while a turn runs; waiters are served in order

	chosen  atomic.Pointer[kits.Choice] // the tools that the last request showed
	recalls recalls                     // of its session

	mu         sync.Mutex
	session    *conversation.Session   // nil: not loaded
	sent       []sentRequest           // of the session, the newest last
	cancel     context.CancelCauseFunc // of the run; nil: idle
	live       *Run                    // the run; nil: idle
	runChange  chan struct{}           // closed when a run begins or ends; nil: nothing waits for that
	steering   []*steeringMessage
	reads      taint.Gates
	messageIDs []id.ID                          // of the turn's first messages and of those that steer it
	sending    map[idempotencyKey]chan struct{} // by what is being sent: closed when it has been sent
	blocking   int                              // callers that wait for the turn to delete or rewind it

	// Guarded by Engine.mu:
	users    int // runs, waiting senders and watchers that use it
	lastUsed time.Time
	size     int // bytes that it holds while idle
}

// Alone runs do while no turn of the conversation runs; if one is running, it
// waits. Afterwards the conversation is loaded from the store again.
func (e *Engine) Alone(ctx context.Context, user string, conv id.ID, do func(sc store.Scope) error) error {
	ctx, leave, ok := e.life.Stay(ctx, user)
	if !ok {
		return ErrClosed
	}
	defer leave()
	c := e.Enter(user, conv)
	defer e.Exit(c)
	if err := c.Lock(ctx, e.life.Of(user)); err != nil {
		return e.whileHeld(user, err)
	}
	defer c.Unlock()
	return c.reloadAfter(do)
}

// whileHeld returns the error of a request of a user, who may have been let go meanwhile: then it is ErrClosed.
func (e *Engine) whileHeld(user string, err error) error {
	if err != nil && e.life.Of(user).Err() != nil && fault.Is(err, fault.Cancelled) {
		return ErrClosed
	}
	return err
}

// AloneFor is Engine.Alone for a function with a result.
func AloneFor[T any](ctx context.Context, n *Engine, user string, conv id.ID, do func(sc store.Scope) (T, error)) (out T, err error) {
	err = n.Alone(ctx, user, conv, func(sc store.Scope) error {
		out, err = do(sc)
		return err
	})
	return out, err
}

// IfIdle is like Alone, but returns false instead of waiting if a turn is
// running: a turn may wait for a person for days.
func (e *Engine) IfIdle(user string, conv id.ID, do func(sc store.Scope) error) (bool, error) {
	_, leave, ok := e.life.Stay(e.life, user)
	if !ok {
		return false, ErrClosed
	}
	defer leave()
	c := e.Enter(user, conv)
	defer e.Exit(c)
	if !c.TryLock() {
		return false, nil
	}
	defer c.Unlock()
	return true, c.reloadAfter(do)
}

// reloadAfter runs do, and makes the conversation be loaded from the store again
// afterwards. The caller holds the turn lock.
func (c *Conversation) reloadAfter(do func(sc store.Scope) error) error {
	err := do(store.ForUser(c.User))
	if err == nil {
		c.Forget()
	}
	return err
}
