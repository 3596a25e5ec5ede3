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
	"steward/internal/llm"
	"steward/internal/record"
	"steward/internal/request"
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

	chosen atomic.Pointer[kits.Choice] // the tools that the last request showed

	mu         sync.Mutex
	session    *conversation.Session   // nil: not loaded
	cancel     context.CancelCauseFunc // of the run; nil: idle
	live       *Run                    // the run; nil: idle
	runChange  chan struct{}           // closed when a run begins or ends; nil: nobody waits for that
	steering   []*steeringMessage
	reads      taint.Gates
	messageIDs []id.ID                          // of the turn's first messages and of those that steer it
	sending    map[idempotencyKey]chan struct{} // by what is being sent: closed when the sending is over
	blocking   int                              // callers that wait for the turn to delete or rewind it

	// Guarded by Engine.mu:
	users    int // runs, waiting senders and watchers that use it
	lastUsed time.Time
	size     int // bytes that it holds while idle
}

// Enter finds or creates the Conversation of an id, and keeps it in memory until Exit.
func (e *Engine) Enter(user string, conv id.ID) *Conversation {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := Key{user, conv}
	c := e.cached[key]
	if c == nil {
		c = &Conversation{Key: key, turnLock: make(chan struct{}, 1)}
		c.Feed.conversation = conv
		e.cached[key] = c
	}
	c.users++
	return c
}

// Hold keeps a conversation in memory until another Exit, for a further user of it.
func (e *Engine) Hold(c *Conversation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.users++
}

// Exit releases a conversation. When nobody else uses it, it may be evicted.
func (e *Engine) Exit(c *Conversation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil && !c.Feed.failed() {
		delete(e.cached, c.Key)
		return
	}
	c.lastUsed, c.size = time.Now(), 0
	if c.session != nil {
		c.size = c.session.Size()
	}
	e.evict(c.lastUsed)
}

// exists reports whether the conversation is known to exist.
func (c *Conversation) exists() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil
}

// spawn runs f in an idle worker if there is one. A worker's stack has already
// grown to the size that a turn needs. Growing a new one costs 3 % of a turn.
func (e *Engine) spawn(f func()) {
	select {
	case e.workers <- f:
	default:
		go e.runWorker(f)
	}
}

// runWorker runs f and further work, until it has been idle for Options.IdleFor.
func (e *Engine) runWorker(f func()) {
	idle := time.NewTimer(e.opt.IdleFor)
	defer idle.Stop()
	for {
		f()
		idle.Reset(e.opt.IdleFor)
		select {
		case f = <-e.workers:
		case <-idle.C:
			return
		case <-e.life.Done():
			return
		}
	}
}

// CachedConversations returns how many conversations are in memory.
func (e *Engine) CachedConversations() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.cached)
}

// Running reports whether a turn of the user's conversation is running.
func (e *Engine) Running(user string, conv id.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.cached[Key{user, conv}]
	return c != nil && len(c.turnLock) > 0
}

// MarkToPack notes that messages of a conversation have left the context window.
func (e *Engine) MarkToPack(key Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.toPack[key] = struct{}{}
}

// evict evicts the idle conversations, which nobody is using, whose time is over,
// and the least recently used ones while there are too many or they hold too much
// memory. The others stay in memory, so that the next turn need not read them
// from the store. It sets a timer for the next one that is due; no timer runs
// while none is idle. The caller holds e.mu.
func (e *Engine) evict(now time.Time) {
	for {
		var oldest *Conversation
		count, bytes := 0, 0
		for _, c := range e.cached {
			if c.users > 0 {
				continue
			}
			if count, bytes = count+1, bytes+c.size; oldest == nil || c.lastUsed.Before(oldest.lastUsed) {
				oldest = c
			}
		}
		if oldest == nil {
			return
		}
		due := oldest.lastUsed.Add(e.opt.IdleFor).Sub(now)
		if due > 0 && count <= e.opt.IdleChats && bytes <= e.opt.IdleBytes {
			if e.idle == nil && e.life.Err() == nil {
				e.idle = time.AfterFunc(due, e.evictDue)
			}
			return
		}
		delete(e.cached, oldest.Key)
	}
}

func (e *Engine) evictDue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = nil
	e.evict(time.Now())
}

// Alone runs do while no turn of the conversation runs; if one is running, it
// waits. Afterwards the conversation is loaded from the store again.
func (e *Engine) Alone(ctx context.Context, user string, conv id.ID, do func(sc store.Scope) error) error {
	c := e.Enter(user, conv)
	defer e.Exit(c)
	if err := c.Lock(ctx, e.life); err != nil {
		return err
	}
	defer c.Unlock()
	return c.reloadAfter(do)
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

// Forget makes the conversation be loaded from the store again.
func (c *Conversation) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
}

// Run is a run that is active.
type Run struct {
	Interaction id.ID
	Agent       string
	Meter       *llm.Meter
	Done        chan struct{} // closed when the run is over
	Err         error         // valid after done: why the run could not continue and is not recorded as over
}

// NewRun returns the liveRun of a run that is about to be launched.
func NewRun(run *record.Run, inter id.ID, meter *llm.Meter) *Run {
	return &Run{Interaction: inter, Agent: run.Agent, Meter: meter, Done: make(chan struct{})}
}

// Running returns the run of an interaction if it is active, otherwise nil.
func (c *Conversation) Running(inter id.ID) *Run {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil || c.live.Interaction != inter {
		return nil
	}
	return c.live
}

// RunChange returns a channel that is closed when the next run begins or ends.
func (c *Conversation) RunChange() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.runChange == nil {
		c.runChange = make(chan struct{})
	}
	return c.runChange
}

// announceRunChange announces that a run has begun or ended. The caller holds c.mu.
func (c *Conversation) announceRunChange() {
	if c.runChange != nil {
		close(c.runChange)
		c.runChange = nil
	}
}

// StopEviction stops the timer for the next idle conversation, when the node closes.
func (e *Engine) StopEviction() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle != nil {
		e.idle.Stop()
	}
}

// StopCached stops the run of a conversation that is in memory, or drops its session.
func (e *Engine) StopCached(user string, conv id.ID) {
	e.mu.Lock()
	c := e.cached[Key{user, conv}]
	e.mu.Unlock()
	if c == nil {
		return
	}
	c.Stop(nil, request.ErrStop)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.session = nil
	}
}

// EnterAll enters all conversations of a user that are in memory.
func (e *Engine) EnterAll(user string) []*Conversation {
	e.mu.Lock()
	var keys []Key
	for k := range e.cached {
		if k.User == user {
			keys = append(keys, k)
		}
	}
	e.mu.Unlock()
	var out []*Conversation
	for _, k := range keys {
		out = append(out, e.Enter(k.User, k.ID))
	}
	return out
}

// IdleToPack returns the conversations that MarkToPack has noted and that are not in memory.
func (e *Engine) IdleToPack() []Key {
	e.mu.Lock()
	defer e.mu.Unlock()
	var keys []Key
	for k := range e.toPack {
		if e.cached[k] == nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// UnmarkToPack removes the note of MarkToPack.
func (e *Engine) UnmarkToPack(k Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.toPack, k)
}
