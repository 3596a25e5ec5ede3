package runtime

import (
	"container/list"
	"time"
)

// idleChats holds the conversations that nobody is using, least recently used
// first. They stay in memory for a while so that the next turn need not read them
// from the store. It is guarded by Node.mu.
type idleChats struct {
	list  list.List // of *chat
	bytes int
	timer *time.Timer // set while there are any
}

func (i *idleChats) add(c *chat) {
	c.idle = i.list.PushBack(c)
	i.bytes += c.size
}

// remove takes out a conversation that is used again or evicted.
func (i *idleChats) remove(c *chat) {
	if c.idle == nil {
		return
	}
	i.list.Remove(c.idle)
	i.bytes -= c.size
	c.idle = nil
}

func (i *idleChats) stop() {
	if i.timer != nil {
		i.timer.Stop()
	}
}

// letGo evicts the conversations whose idle time is over, and the least recently
// used ones while there are too many or they hold too much memory. It sets a
// timer for the next one that is due; no timer runs while none is idle.
func (n *Node) letGo(now time.Time) {
	for front := n.idle.list.Front(); front != nil; front = n.idle.list.Front() {
		c := front.Value.(*chat)
		due := c.lastUsed.Add(n.opt.IdleFor).Sub(now)
		if due > 0 && n.idle.list.Len() <= n.opt.IdleChats && n.idle.bytes <= n.opt.IdleBytes {
			if n.idle.timer == nil && !n.closed {
				n.idle.timer = time.AfterFunc(due, n.sweep)
			}
			return
		}
		n.idle.remove(c)
		delete(n.chats, c.chatKey)
	}
}

func (n *Node) sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.idle.timer = nil
	n.letGo(time.Now())
}
