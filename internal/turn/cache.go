package turn

import (
	"time"

	"steward/internal/id"
	"steward/internal/request"
)

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
	if c.users--; c.users > 0 || e.cached[c.Key] != c { // its user was let go: see Drop
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

// evict evicts the idle conversations (those without users) that are due, and the
// least recently used ones while there are too many or they hold too much
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

// Forget makes the conversation be loaded from the store again.
func (c *Conversation) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

// drop drops what was loaded of the conversation. The caller holds c.mu.
func (c *Conversation) drop() { c.session, c.sent = nil, nil }

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
		c.drop()
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

// Drop forgets all conversations of a user, of which none runs any more: another node works on them. Who still
// watches one keeps it for itself.
func (e *Engine) Drop(user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, c := range e.cached {
		if k.User == user {
			c.Forget()
			delete(e.cached, k)
		}
	}
	for k := range e.toPack {
		if k.User == user {
			delete(e.toPack, k)
		}
	}
}

// InUse reports whether anybody uses a conversation of a user: a run, a sender, or a watcher. A turn that is parked
// is no use.
func (e *Engine) InUse(user string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k, c := range e.cached {
		users := c.users
		if c.Feed.isParked() {
			users--
		}
		if k.User == user && users > 0 {
			return true
		}
	}
	return false
}
