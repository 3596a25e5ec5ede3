package identity

import (
	"context"
	"sync"
	"time"

	"steward/internal/store"
)

// Limits of what is known of keys.
const (
	knownFor  = time.Second     // after which a change by another node is seen
	maxKnown  = 1 << 16         // keys
	knownWait = 5 * time.Second // for the answer of the store
)

// knownKeys are keys that were looked up before, in a store at which each look-up is a round trip. They
// hold as long as the log has no change of a key. The log is asked for one at most once in knownFor, whatever
// number of connections is rechecked meanwhile.
type knownKeys struct {
	mu    sync.Mutex
	keys  map[digest]storedKey
	began bool
	head  uint64       // the end of the log at the beginning; read after it
	next  store.Cursor // where the log was read to since
	asked time.Time
	err   error  // of the last time
	epoch uint64 // counts the times when keys were dropped, and those when the log was asked
}

// get returns a key if it is known, and otherwise the epoch in which it may be added.
func (n *knownKeys) get(ctx context.Context, st store.Store, sum digest) (k storedKey, ok bool, epoch uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.asked) >= knownFor {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), knownWait) // the answer is everybody's
		defer cancel()
		now := time.Now()
		n.epoch++
		n.err = n.catchUp(ctx, st)
		n.asked = now
	}
	if n.err != nil {
		return k, false, 0, n.err
	}
	k, ok = n.keys[sum]
	return k, ok, n.epoch, nil
}

// catchUp drops all keys if one has changed.
func (n *knownKeys) catchUp(ctx context.Context, st store.Store) error {
	if !n.began {
		page, err := st.Log(ctx, system, store.LogQuery{Reverse: true, Limit: 1})
		if err != nil {
			return err
		}
		if len(page.Entries) > 0 {
			n.head = page.Entries[0].Seq
		}
		n.began = true
	}
	for {
		page, err := st.Log(ctx, system, store.LogQuery{Type: TypeKey, Since: n.head, After: n.next})
		if err != nil {
			return err
		}
		if len(page.Entries) > 0 {
			clear(n.keys)
		}
		if n.next = page.Next; !page.More {
			return nil
		}
	}
}

// add remembers a key that was looked up in an epoch, unless that is over: the key may have changed since.
func (n *knownKeys) add(sum digest, k storedKey, epoch uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.epoch != epoch {
		return
	}
	if len(n.keys) >= maxKnown {
		clear(n.keys) // rare, and simpler than dropping the oldest
	}
	n.keys[sum] = k
}

// drop forgets all keys, because this node has changed one.
func (n *knownKeys) drop() {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.epoch++
	clear(n.keys)
}
