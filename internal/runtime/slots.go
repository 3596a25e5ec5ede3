package runtime

import (
	"context"
	"sync"
)

// slots bounds how many tool calls run concurrently: each turn has a few slots of
// its own, and all turns share those of the node.
type slots chan struct{}

// place is the place in which a tool call runs. It is held while the tool works,
// and not while a person is asked. A call that asks another agent takes none, so
// that the agent's own calls can have it.
type place struct {
	of []slots // taken in this order

	mu   sync.Mutex
	held bool
	over bool // the turn no longer waits for the call, which needs no place any more
}

// take waits for the place. It returns a function that releases the place, which
// may be called more than once.
func (p *place) take(ctx context.Context) (leave func(), err error) {
	for i, of := range p.of {
		select {
		case of <- struct{}{}:
		case <-ctx.Done():
			for _, of := range p.of[:i] {
				<-of
			}
			return nil, context.Cause(ctx)
		}
	}
	p.mu.Lock()
	p.held = true
	over := p.over
	p.mu.Unlock()
	if over {
		p.leave()
	}
	return p.leave, nil
}

func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		p.held = false
		for _, of := range p.of {
			<-of
		}
	}
}

// end releases the place for good.
func (p *place) end() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.leave()
}
