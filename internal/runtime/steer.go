package runtime

import (
	"context"
	"slices"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// steering is a message to be delivered to an active run.
type steering struct {
	message *message.Message
	taken   bool
	done    chan Accepted // closed without a value if the run ended first
}

// steerInto hands a message to the running turn. It returns false if no turn
// takes it.
func (c *chat) steerInto(ctx context.Context, m *message.Message) (Accepted, bool, error) {
	st := &steering{message: m, done: make(chan Accepted, 1)}
	c.mu.Lock()
	if c.cancel == nil || slices.Contains(c.ids, m.ID) { // the same message again: it is answered when the turn is over
		c.mu.Unlock()
		return Accepted{}, false, nil
	}
	c.steer, c.ids = append(c.steer, st), append(c.ids, m.ID)
	c.mu.Unlock()
	select {
	case got, ok := <-st.done:
		return got, ok, nil
	case <-ctx.Done():
		c.mu.Lock()
		c.steer = slices.DeleteFunc(c.steer, func(x *steering) bool { return x == st })
		if !st.taken {
			c.ids = slices.DeleteFunc(c.ids, func(x id.ID) bool { return x == m.ID })
		}
		c.mu.Unlock()
		return Accepted{}, true, fault.Of(ctx.Err())
	}
}

// own notes the id of the message that a turn begins with, if it has one.
func (c *chat) own(m *message.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids = nil; m != nil {
		c.ids = append(c.ids, m.ID)
	}
}

// takeSteering returns the messages to deliver to the run. It is called at a safe
// point.
func (c *chat) takeSteering() []*message.Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*message.Message
	for _, st := range c.steer {
		if !st.taken {
			st.taken = true
			out = append(out, st.message)
		}
	}
	return out
}

// emit passes an event to the feed, and tells the sender of a steering message
// that it is durable.
func (c *chat) emit(ev agent.Event) {
	c.feed.tell(ev)
	if ev.Kind != agent.Stored || ev.Message.Role != message.User {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, st := range c.steer {
		if st.message == ev.Message {
			st.done <- Accepted{Conversation: c.id, Interaction: c.feed.interaction(), Message: ev.Message.ID, Seq: ev.Seq}
			c.steer = slices.Delete(c.steer, i, i+1)
			return
		}
	}
}
