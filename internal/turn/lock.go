package turn

import (
	"context"

	"steward/internal/fault"
)

// deduplicate lets only one caller at a time send the same turn. A caller that
// sends it again, for example after a reconnect, gets the outcome of the first as
// soon as it is known, and takes its place if the first gave up. Without this
// both would wait for the turn lock, and the second for the end of its own turn.
// deduplicate returns a function that admits the next caller.
func (c *Conversation) deduplicate(ctx, life context.Context, k idempotencyKey) (func(), error) {
	if k.id.Zero() {
		return func() {}, nil
	}
	for {
		c.mu.Lock()
		first := c.sending[k]
		if first == nil {
			if c.sending == nil {
				c.sending = map[idempotencyKey]chan struct{}{}
			}
			mine := make(chan struct{})
			c.sending[k] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.sending, k)
				c.mu.Unlock()
				close(mine)
			}, nil
		}
		c.mu.Unlock()
		select {
		case <-first:
		case <-ctx.Done():
			return nil, fault.Of(ctx.Err())
		case <-life.Done():
			return nil, ErrClosed
		}
	}
}

var errWithdrawn = fault.New(fault.Conflict, "turn_withdrawn", "the conversation was deleted or rewound while this message waited").
	WithHint("look at the conversation, and send it again where it still belongs")

// BlockTurns prevents turns from beginning in the conversation until the returned function is
// called. Turns that wait are refused, and one that has just begun is stopped.
// Otherwise each of them would run first, and perhaps wait for a person.
func (c *Conversation) BlockTurns() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocking++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.blocking--
	}
}

func (c *Conversation) blocksTurns() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocking > 0
}

// TryLock takes the turn lock if it is free.
func (c *Conversation) TryLock() bool {
	select {
	case c.turnLock <- struct{}{}:
		return true
	default:
		return false
	}
}

// Lock waits for the turn lock.
func (c *Conversation) Lock(ctx, life context.Context) error {
	if life.Err() != nil {
		return ErrClosed
	}
	if c.TryLock() {
		return nil
	}
	select {
	case c.turnLock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Of(ctx.Err())
	case <-life.Done():
		return ErrClosed
	}
}

// Unlock releases the turn lock to the caller that has waited longest.
func (c *Conversation) Unlock() {
	<-c.turnLock
	c.mu.Lock()
	c.announceRunChange()
	c.mu.Unlock()
}
