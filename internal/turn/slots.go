package turn

import (
	"context"
	"sync"
)

// slots bounds how many tool calls run concurrently: each turn has a few slots of
// its own, and all turns share those of the node.
type slots chan struct{}

// callSlot is the slot in which a tool call runs. It is held while the tool works,
// and not while a person is asked. A call that asks another agent takes none, so
// that the agent's own calls can have it.
type callSlot struct {
	pools []slots // taken in this order

	mu    sync.Mutex
	held  bool
	ended bool // the turn no longer waits for the call, which needs no slot any more
}

// acquire waits for the slot. It returns a function that releases the slot, which
// may be called more than once.
func (p *callSlot) acquire(ctx context.Context) (leave func(), err error) {
	for i, pool := range p.pools {
		select {
		case pool <- struct{}{}:
		case <-ctx.Done():
			for _, pool := range p.pools[:i] {
				<-pool
			}
			return nil, context.Cause(ctx)
		}
	}
	p.mu.Lock()
	p.held = true
	over := p.ended
	p.mu.Unlock()
	if over {
		p.release()
	}
	return p.release, nil
}

func (p *callSlot) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		p.held = false
		for _, pool := range p.pools {
			<-pool
		}
	}
}

// close releases the slot for good.
func (p *callSlot) close() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.release()
}
