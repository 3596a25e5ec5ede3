package runtime

import (
	"context"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/request"
	"steward/internal/resource"
)

// EraseUser ends a user's work, on behalf of by, and erases for good everything
// that belongs to the user. The caller must ensure that the user cannot log in
// any more. When it returns without an error, no file of the data folder holds
// the data any more. Error codes: space_in_use, erasure_unfinished.
func (n *Node) EraseUser(ctx context.Context, by, user string) error {
	chats := n.chatsOf(user)
	for _, c := range chats { // stop all before waiting for one: they may wait for each other
		defer n.exit(c)
		defer c.leave()()
		c.stop(nil, request.ErrStop)
	}
	for _, c := range chats {
		if err := c.lock(ctx, n.life); err != nil {
			return err
		}
		defer c.unlock()
		c.forget()
	}
	if err := n.endTasks(ctx, user); err != nil {
		return err
	}
	if err := n.events.Erase(ctx, by, user, id.ID{}); err != nil {
		return err
	}
	if err := n.conversations.EraseSpace(ctx, by, resource.UserSpace(user)); err != nil {
		return err
	}
	if n.opt.Forget != nil {
		if err := n.opt.Forget(user); err != nil {
			return err
		}
	}
	return n.expunge(ctx, user, 1)
}

// endTasks cancels the tasks of a user, and waits until their ends are recorded.
func (n *Node) endTasks(ctx context.Context, user string) error {
	for _, t := range n.leases.cancel(user, nil, errDeleted) {
		select {
		case <-t.known:
		case <-ctx.Done():
			return fault.Of(ctx.Err())
		}
	}
	return nil
}

// chatsOf enters all chats of a user that are in memory.
func (n *Node) chatsOf(user string) []*chat {
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
