package runtime

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

var errClosed = fault.New(fault.Unavailable, "closing", "Steward is closing").Retrying(fault.RetryBackoff, 0)

// chatKey names a conversation for a user. Because the user is part of the key,
// somebody else's conversation never shares a chat.
type chatKey struct {
	user string
	id   id.ID
}

// chat is a conversation in memory. It is in use, or has been idle for a short
// while.
type chat struct {
	chatKey
	feed feed
	turn chan struct{} // holds a token while a turn runs; waiters are served in order

	chosen atomic.Pointer[kits.Choice] // the tools that the last request showed

	mu      sync.Mutex
	session *conversation.Session   // nil: not loaded
	cancel  context.CancelCauseFunc // of the run; nil: idle
	live    *liveRun                // the run; nil: idle
	moves   chan struct{}           // closed when a run begins or ends; nil: nobody waits for that
	steer   []*steering
	reads   taint.Gates
	ids     []id.ID                          // of the turn's first messages and of those that steer it
	sending map[idempotencyKey]chan struct{} // by what is being sent: closed when the sending is over
	leaving int                              // callers that wait for the turn to delete or rewind it

	// Guarded by Node.mu:
	users    int // runs, waiting senders and watchers that use it
	lastUsed time.Time
	size     int // bytes that it holds while idle
}

// enter finds or creates the chat and keeps it in memory until exit.
func (n *turnEngine) enter(user string, conv id.ID) *chat {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := chatKey{user, conv}
	c := n.chats[key]
	if c == nil {
		c = &chat{chatKey: key, turn: make(chan struct{}, 1)}
		c.feed.conversation = conv
		n.chats[key] = c
	}
	c.users++
	return c
}

// hold keeps a chat in memory until exit, for somebody beside the one who entered it.
func (n *turnEngine) hold(c *chat) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.users++
}

// exit releases the chat. When nobody else uses it, it may be evicted.
func (n *turnEngine) exit(c *chat) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil && !c.feed.failed() {
		delete(n.chats, c.chatKey)
		return
	}
	c.lastUsed, c.size = time.Now(), 0
	if c.session != nil {
		c.size = c.session.Size()
	}
	n.letGo(c.lastUsed)
}

// exists reports whether the chat's conversation is known to exist.
func (c *chat) exists() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session != nil
}

// spawn runs f in an idle worker if there is one. A worker's stack has already
// grown to the size that a turn needs. Growing a new one costs 3 % of a turn.
func (n *turnEngine) spawn(f func()) {
	select {
	case n.workers <- f:
	default:
		go n.runWorker(f)
	}
}

// runWorker runs f and further work, until it has been idle for Options.IdleFor.
func (n *turnEngine) runWorker(f func()) {
	idle := time.NewTimer(n.opt.IdleFor)
	defer idle.Stop()
	for {
		f()
		idle.Reset(n.opt.IdleFor)
		select {
		case f = <-n.workers:
		case <-idle.C:
			return
		case <-n.life.Done():
			return
		}
	}
}

// Held returns how many conversations are in memory.
func (n *turnEngine) Held() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.chats)
}

// Running reports whether a turn of the user's conversation is running.
func (n *turnEngine) Running(user string, conv id.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.chats[chatKey{user, conv}]
	return c != nil && len(c.turn) > 0
}

// revised notes that messages of a chat have left the context window.
func (n *turnEngine) revised(key chatKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.toPack[key] = struct{}{}
}

// letGo evicts the idle conversations, which nobody is using, whose time is over,
// and the least recently used ones while there are too many or they hold too much
// memory. The others stay in memory, so that the next turn need not read them
// from the store. It sets a timer for the next one that is due; no timer runs
// while none is idle. The caller holds n.mu.
func (n *turnEngine) letGo(now time.Time) {
	for {
		var oldest *chat
		count, bytes := 0, 0
		for _, c := range n.chats {
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
		due := oldest.lastUsed.Add(n.opt.IdleFor).Sub(now)
		if due > 0 && count <= n.opt.IdleChats && bytes <= n.opt.IdleBytes {
			if n.idle == nil && n.life.Err() == nil {
				n.idle = time.AfterFunc(due, n.sweep)
			}
			return
		}
		delete(n.chats, oldest.chatKey)
	}
}

func (n *turnEngine) sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.idle = nil
	n.letGo(time.Now())
}

// alone runs do while no turn of the conversation runs; if one is running, it
// waits. Afterwards the conversation is loaded from the store again.
func (n *turnEngine) alone(ctx context.Context, user string, conv id.ID, do func(sc store.Scope) error) error {
	c := n.enter(user, conv)
	defer n.exit(c)
	if err := c.lock(ctx, n.life); err != nil {
		return err
	}
	defer c.unlock()
	return c.anew(do)
}

// aloneFor is alone for a function with a result.
func aloneFor[T any](ctx context.Context, n *turnEngine, user string, conv id.ID, do func(sc store.Scope) (T, error)) (out T, err error) {
	err = n.alone(ctx, user, conv, func(sc store.Scope) error {
		out, err = do(sc)
		return err
	})
	return out, err
}

// ifIdle is like alone, but returns false instead of waiting if a turn is
// running: a turn may wait for a person for days.
func (n *turnEngine) ifIdle(user string, conv id.ID, do func(sc store.Scope) error) (bool, error) {
	c := n.enter(user, conv)
	defer n.exit(c)
	if !c.tryLock() {
		return false, nil
	}
	defer c.unlock()
	return true, c.anew(do)
}

// anew runs do, and makes the conversation be loaded from the store again
// afterwards. The caller holds the turn lock.
func (c *chat) anew(do func(sc store.Scope) error) error {
	err := do(store.ForUser(c.user))
	if err == nil {
		c.forget()
	}
	return err
}

// forget makes the conversation be loaded from the store again.
func (c *chat) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
}

// liveRun is a run that is active.
type liveRun struct {
	interaction id.ID
	agent       string
	meter       *llm.Meter
	done        chan struct{} // closed when the run is over
	err         error         // valid after done: why the run could not continue and is not recorded as over
}

// newLive returns the liveRun of a run that is about to be launched.
func newLive(run *record.Run, inter id.ID, meter *llm.Meter) *liveRun {
	return &liveRun{interaction: inter, agent: run.Agent, meter: meter, done: make(chan struct{})}
}

// running returns the run of an interaction if it is active, otherwise nil.
func (c *chat) running(inter id.ID) *liveRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil || c.live.interaction != inter {
		return nil
	}
	return c.live
}

// moved returns a channel that is closed when the next run begins or ends.
func (c *chat) moved() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.moves == nil {
		c.moves = make(chan struct{})
	}
	return c.moves
}

// move announces that a run has begun or ended. The caller holds c.mu.
func (c *chat) move() {
	if c.moves != nil {
		close(c.moves)
		c.moves = nil
	}
}

// stopEvicting stops the timer for the next idle chat, when the node closes.
func (n *turnEngine) stopEvicting() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.idle != nil {
		n.idle.Stop()
	}
}

// stopCached stops the run of a conversation that is in memory, or drops its session.
func (n *turnEngine) stopCached(user string, conv id.ID) {
	n.mu.Lock()
	c := n.chats[chatKey{user, conv}]
	n.mu.Unlock()
	if c == nil {
		return
	}
	c.stop(nil, request.ErrStop)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.session = nil
	}
}

// enterAll enters all conversations of a user that are in memory.
func (n *turnEngine) enterAll(user string) []*chat {
	n.mu.Lock()
	var keys []chatKey
	for k := range n.chats {
		if k.user == user {
			keys = append(keys, k)
		}
	}
	n.mu.Unlock()
	var out []*chat
	for _, k := range keys {
		out = append(out, n.enter(k.user, k.id))
	}
	return out
}

// revisedIdle returns the conversations that revised has noted and that are not in memory.
func (n *turnEngine) revisedIdle() []chatKey {
	n.mu.Lock()
	defer n.mu.Unlock()
	var keys []chatKey
	for k := range n.toPack {
		if n.chats[k] == nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// unrevise forgets what revised has noted.
func (n *turnEngine) unrevise(k chatKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.toPack, k)
}
