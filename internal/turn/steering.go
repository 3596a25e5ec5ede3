package turn

import (
	"context"
	"slices"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

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

// Emit passes an event to the feed. If a steering message has become durable, it
// notifies the message's sender.
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
