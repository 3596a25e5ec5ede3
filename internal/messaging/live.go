package messaging

import (
	"context"
	"strings"
	"time"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// Limits of what is followed.
const (
	liveFor  = 3 * 24 * time.Hour // after a chat was used last
	maxChats = 50
)

// followChats follows the conversations of a user's chats that were used lately.
func (e *Engine) followChats(ctx context.Context, user string) error {
	list, err := all(records[*chat](ctx, e, store.ForUser(user), store.Query{Type: typeChat, Term: store.Term{Name: termNewest, Value: typeChat}, Reverse: true, Limit: maxChats}))
	for _, c := range list {
		e.show(c)
	}
	return err
}

// watching is the conversation of a chat that is followed.
type watching struct {
	conversation id.ID
	stop         context.CancelFunc
}

// show follows the conversation of a chat, and posts the answers that come by themselves. It does so until
// the chat shows another conversation or is not used any more.
func (e *Engine) show(c *chat) {
	a, d := e.accounts[c.Account], e.desk(c.User)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	old, known := d.live[c.ID]
	if known && old.conversation == c.Conversation {
		return
	}
	if known {
		old.stop()
		delete(d.live, c.ID)
	}
	if a == nil || c.Group || c.Conversation.Zero() || len(d.live) >= maxChats || e.opt.Now().Sub(c.Used) > liveFor {
		return
	}
	of := *c
	ctx, cancel := context.WithTimeout(d.life, liveFor)
	begun := d.life.Go(func() {
		defer cancel()
		err := e.watch(ctx, a, of)
		if err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
			e.log.Warn("a chat does not show what comes by itself", "channel", a.Name, "error", err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.live[of.ID].conversation == of.Conversation {
			delete(d.live, of.ID)
		}
	})
	if !begun {
		cancel()
		return
	}
	d.live[c.ID] = watching{of.Conversation, cancel}
}

// watch posts the answers of turns that the conversation of a chat begins by itself, and in a line what was
// remembered from it.
func (e *Engine) watch(ctx context.Context, a *account, c chat) error {
	from := turn.Cursor{Seq: c.Seen}
	if c.Seen == 0 { // only what is new
		var err error
		if from.Seq, err = e.opt.Store.Wait(ctx, 0); err != nil {
			return err
		}
	}
	mine := map[id.ID]bool{} // turns that were opened by something else than a message, an alarm or a job: these are delivered
	for f, err := range e.node.Watch(ctx, c.User, c.Conversation, from) {
		if err != nil {
			return err
		}
		switch {
		case f.Kind == turn.FrameMemory && f.Memory != nil && f.Memory.Did == client.MemorySaved && len(f.Memory.Facts) > 0:
			// What was remembered from another conversation is told there.
			first := f.Memory.Facts[0]
			if at, err := resource.Parse(first.Source); err != nil || record.IDOf(at, record.TypeConversation) != c.Conversation {
				continue
			}
			if ok, err := e.reaches(ctx, a.Name, c.User); err != nil || !ok {
				return err
			}
			if err := e.deliverTo(ctx, a, c.At, c.User, f.Text+"\n/undo takes it back.", message.Private, "memory", c.ID.String(), first.Change); err != nil {
				return err
			}
		case f.Kind == turn.FrameOpened && f.Stored != nil && len(f.Stored.Blocks) > 0:
			if by := f.Stored.Blocks[0].Base().Origin; !strings.HasPrefix(by, record.OriginAlarm) && !strings.HasPrefix(by, record.OriginJob) && len(mine) < 1000 {
				mine[f.Interaction] = true
			}
		case f.Kind == turn.FrameComplete && mine[f.Interaction] && f.Stored != nil:
			delete(mine, f.Interaction)
			now, err := get[chat](ctx, e, store.ForUser(c.User), resource.URI{}.ChildID(typeChat, c.ID))
			if err != nil {
				return err
			}
			if now.Conversation != c.Conversation { // it shows another one now
				return nil
			}
			if ok, err := e.reaches(ctx, a.Name, c.User); err != nil || !ok {
				return err
			}
			if err := e.deliverTo(ctx, a, c.At, c.User, f.Stored.Text(), 0, "opened", c.ID.String(), f.Interaction.String()); err != nil {
				return err
			}
		}
	}
	return nil
}
