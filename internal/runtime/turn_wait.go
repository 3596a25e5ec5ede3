package runtime

import (
	"context"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// idempotencyKey is what is sent, and how.
type idempotencyKey struct {
	id    id.ID // zero: nobody can send it again
	steer bool
}

// key is by what a turn is known that is sent again.
func (t *Turn) key(m *message.Message) idempotencyKey {
	switch {
	case t.ClientID == "":
		return idempotencyKey{}
	case m == nil:
		return idempotencyKey{t.interaction(), t.Steer}
	}
	return idempotencyKey{m.ID, t.Steer}
}

// deduplicate lets one at a time send the same: who sends it again, after a
// reconnect, say, learns what became of the first as soon as that is known,
// and goes on in its place where it was given up. Without this both would wait
// for the conversation's turn, and the second for the end of its own. It
// returns what lets the next one go on.
func (c *chat) deduplicate(ctx, life context.Context, k idempotencyKey) (func(), error) {
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
			return nil, errClosed
		}
	}
}

var errLeft = fault.New(fault.Conflict, "turn_withdrawn", "the conversation was deleted or rewound before this message had its turn").
	WithHint("look at the conversation, and send it again where it still belongs")

// leave has nothing begin in the conversation until the returned function is
// called: who waits for a turn is refused, and who has it already is stopped.
// Else each of them would have its turn first, and perhaps wait for a person.
func (c *chat) leave() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leaving--
	}
}

func (c *chat) isLeft() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaving > 0
}

// tryLock takes the conversation's turn, if nobody has it.
func (c *chat) tryLock() bool {
	select {
	case c.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// lock waits for the conversation's turn.
func (c *chat) lock(ctx, life context.Context) error {
	if life.Err() != nil {
		return errClosed
	}
	if c.tryLock() {
		return nil
	}
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fault.Of(ctx.Err())
	case <-life.Done():
		return errClosed
	}
}

// unlock gives the turn to who waits for it longest.
func (c *chat) unlock() {
	<-c.turn
	c.mu.Lock()
	c.move()
	c.mu.Unlock()
}
