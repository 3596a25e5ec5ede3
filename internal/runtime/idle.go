package runtime

import "time"

// letGo evicts the idle conversations, which nobody is using, whose time is over,
// and the least recently used ones while there are too many or they hold too much
// memory. The others stay in memory, so that the next turn need not read them
// from the store. It sets a timer for the next one that is due; no timer runs
// while none is idle. The caller holds n.mu.
func (n *Node) letGo(now time.Time) {
	for {
		var oldest *chat
		count, bytes := 0, 0
		for _, c := range n.chats {
			if c.users > 0 {
				continue
			}
			if count, bytes = count+1, bytes+c.size; oldest == nil || c.lastUsed.Before(oldest.lastUsed) {
				oldest = c
			}
		}
		if oldest == nil {
			return
		}
		due := oldest.lastUsed.Add(n.opt.IdleFor).Sub(now)
		if due > 0 && count <= n.opt.IdleChats && bytes <= n.opt.IdleBytes {
			if n.idle == nil && !n.closed {
				n.idle = time.AfterFunc(due, n.sweep)
			}
			return
		}
		delete(n.chats, oldest.chatKey)
	}
}

func (n *Node) sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.idle = nil
	n.letGo(time.Now())
}
