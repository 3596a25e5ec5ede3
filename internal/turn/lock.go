package turn

import (
	"context"
	"slices"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// idempotencyKey identifies what is being sent, and how.
type idempotencyKey struct {
	id    id.ID // zero: it cannot be sent again
	steer bool
}

// key returns the key by which a repeated turn is recognized.
func (t *Input) key(m *message.Message) idempotencyKey {
	switch {
	case t.ClientID == "":
		return idempotencyKey{}
	case m == nil:
		return idempotencyKey{t.interaction(), t.Steer}
	}
	return idempotencyKey{m.ID, t.Steer}
}

// deduplicate lets only one caller at a time send the same turn. A caller that
// sends it again, for example after a reconnect, gets the outcome of the first as
// soon as it is known, and takes its place if the first gave up. Without this
// both would wait for the turn lock, and the second for the end of its own turn.
// deduplicate returns a function that lets the next caller continue.
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

// BlockTurns lets no turn begin in the conversation until the returned function is
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

// Unlock releases the turn lock to whoever has waited longest.
func (c *Conversation) Unlock() {
	<-c.turnLock
	c.mu.Lock()
	c.announceRunChange()
	c.mu.Unlock()
}

// steeringMessage is a message to be delivered to an active run.
type steeringMessage struct {
	message *message.Message
	taken   bool
	done    chan Accepted // closed without a value if the run ended first
}

// steerInto hands a message to the running turn. It returns false if no turn
// takes it.
func (c *Conversation) steerInto(ctx context.Context, m *message.Message) (Accepted, bool, error) {
	st := &steeringMessage{message: m, done: make(chan Accepted, 1)}
	c.mu.Lock()
	if c.cancel == nil || slices.Contains(c.messageIDs, m.ID) { // the same message again: it is answered when the turn is over
		c.mu.Unlock()
		return Accepted{}, false, nil
	}
	c.steering, c.messageIDs = append(c.steering, st), append(c.messageIDs, m.ID)
	c.mu.Unlock()
	select {
	case got, ok := <-st.done:
		return got, ok, nil
	case <-ctx.Done():
		c.mu.Lock()
		c.steering = slices.DeleteFunc(c.steering, func(x *steeringMessage) bool { return x == st })
		if !st.taken {
			c.messageIDs = slices.DeleteFunc(c.messageIDs, func(x id.ID) bool { return x == m.ID })
		}
		c.mu.Unlock()
		return Accepted{}, true, fault.Of(ctx.Err())
	}
}

// setFirstMessage notes the id of the message that a turn begins with, if it has one.
func (c *Conversation) setFirstMessage(m *message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.messageIDs = nil; m != nil {
		c.messageIDs = append(c.messageIDs, m.ID)
	}
}

// takeSteering returns the messages to deliver to the run. It is called at a safe
// point.
func (c *Conversation) takeSteering() []*message.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*message.Message
	for _, st := range c.steering {
		if !st.taken {
			st.taken = true
			out = append(out, st.message)
		}
	}
	return out
}

// Emit passes an event to the feed, and tells the sender of a steering message
// that it is durable.
func (c *Conversation) Emit(ev agent.Event) {
	c.Feed.publish(ev)
	if ev.Kind != agent.Stored || ev.Message.Role != message.User {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, st := range c.steering {
		if st.message == ev.Message {
			st.done <- Accepted{Conversation: c.ID, Interaction: c.Feed.interaction(), Message: ev.Message.ID, Seq: ev.Seq}
			c.steering = slices.Delete(c.steering, i, i+1)
			return
		}
	}
}
