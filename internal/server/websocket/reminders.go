package websocket

import (
	"time"

	"steward/internal/fault"
	"steward/internal/id"
)

// reminder is the frame of an alarm that has gone off.
type reminder struct {
	Type         string    `json:"type"`
	Re           string    `json:"re,omitzero"`
	Conversation id.ID     `json:"conversation_id"`
	Message      id.ID     `json:"message_id"`
	Text         string    `json:"text"`
	At           time.Time `json:"at"`
}

// reminders sends the caller's reminders from now on, as they go off.
func (c *conn) reminders(f *head) error {
	if !c.reminded.CompareAndSwap(false, true) {
		return fault.New(fault.Conflict, "reminders_followed", "the connection already follows the reminders").WithHint("one frame is enough")
	}
	re := f.ID
	c.work.Go(func() {
		defer c.reminded.Store(false)
		for r := range c.server.o.Node.FollowReminders(c.ctx, c.caller.User) {
			raw, err := encode(reminder{"reminder", re, r.Conversation, r.Message, r.Text, r.At})
			if err != nil {
				c.sendError(c.ctx, err, re, id.ID{})
				return
			}
			c.sendRaw(c.ctx, raw)
		}
	})
	return nil
}
