package runtime

import (
	"context"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// sameKey is what is sent, and how.
type sameKey struct {
	id    id.ID // zero: nobody can send it again
	steer bool
}

// key is by what a turn is known that is sent again.
func (t *Turn) key(m *message.Message) sameKey {
	switch {
	case t.ClientID == "":
		return sameKey{}
	case m == nil:
		return sameKey{t.interaction(), t.Steer}
	}
	return sameKey{m.ID, t.Steer}
}

// alike lets one at a time send the same: who sends it again, after a
// reconnect, say, learns what became of the first as soon as that is known,
// and goes on in its place where it was given up. Without this both would wait
// for the conversation's turn, and the second for the end of its own. It
// returns what lets the next one go on.
func (c *chat) alike(ctx, life context.Context, k sameKey) (func(), error) {
	if k.id.Zero() {
		return func() {}, nil
	}
	for {
		c.mu.Lock()
		first := c.same[k]
		if first == nil {
			if c.same == nil {
				c.same = map[sameKey]chan struct{}{}
			}
			mine := make(chan struct{})
			c.same[k] = mine
			c.mu.Unlock()
			return func() {
				c.mu.Lock()
				delete(c.same, k)
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
	With("look at the conversation, and send it again where it still belongs")

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

// takes takes the conversation's turn, if nobody has it.
func (c *chat) takes() bool {
	select {
	case c.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

// await waits for the conversation's turn.
func (c *chat) await(ctx, life context.Context) error {
	if life.Err() != nil {
		return errClosed
	}
	if c.takes() {
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

func (c *chat) release() {
	<-c.turn
	c.mu.Lock()
	c.move()
	c.mu.Unlock()
}
