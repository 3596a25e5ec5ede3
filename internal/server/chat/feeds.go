package chat

import (
	"context"

	"steward/internal/fault"
	"steward/internal/id"
)

// feeds are what a connection is told of one kind of things, each under the id
// of the client's frame that began it. The connection's mutex guards them.
type feeds struct {
	noun    string // observation, subscription: what faults call it
	end     string // the frame that ends one
	most    int
	ongoing map[string]*watching
}

// endFrame asks to be told no more.
type endFrame struct {
	head
	Re string `json:"re"` // the id of the frame that began it
}

// feed tells the client of something until it is ended, under the id of a frame.
func (c *conn) feed(all *feeds, key string, tell func(context.Context) error) error {
	ctx, cancel := context.WithCancel(c.ctx)
	w := &watching{cancel: cancel, done: make(chan struct{})}
	if err := c.enrol(all, key, w); err != nil {
		cancel()
		return err
	}
	c.work.Go(func() {
		err := tell(ctx)
		c.mu.Lock()
		delete(all.ongoing, key) // before the client can know
		c.mu.Unlock()
		if err != nil {
			c.logFault(err)
			c.tell(ctx, appendError(nil, err, key, id.ID{}))
		}
		cancel()
		close(w.done)
	})
	return nil
}

func (c *conn) enrol(all *feeds, key string, w *watching) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case all.ongoing[key] != nil:
		return fault.New(fault.Conflict, all.noun+"_exists", "the connection has a %s under the id %s already", all.noun, key).
			WithHint("use another id, or %s that one first", all.end)
	case len(all.ongoing) >= all.most:
		return fault.New(fault.Exhausted, "too_many_"+all.noun+"s", "one connection has at most %d %ss", all.most, all.noun).
			WithHint("ask for more with one filter, or open another connection")
	}
	if all.ongoing == nil {
		all.ongoing = map[string]*watching{}
	}
	all.ongoing[key] = w
	return nil
}

// endFeed ends one: when it returns, nothing more is told of it.
func (c *conn) endFeed(all *feeds, re string) error {
	if re == "" {
		return missing("re")
	}
	c.mu.Lock()
	w := all.ongoing[re]
	c.mu.Unlock()
	if w == nil {
		return fault.New(fault.NotFound, all.noun+"_not_found", "the connection has no %s under the id %.80s", all.noun, re)
	}
	w.cancel()
	<-w.done
	return nil
}
