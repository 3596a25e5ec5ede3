package runtime

import (
	"context"
	"sync"
)

// slots bound how many tool calls run at the same time: each turn has a few of
// its own, and all turns share those of the node.
type slots chan struct{}

// place is where a tool call runs. It is taken for the time in which the tool
// works, and not while a person is asked. A call that asks another agent needs
// none, so that the calls of that agent can have it.
type place struct {
	of []slots // taken in this order

	mu   sync.Mutex
	held bool
	over bool // the turn waits for the call no longer: it needs no place
}

// take waits for the place. It returns what gives it back, which may be called
// more than once.
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

// end gives the place back for good.
func (p *place) end() {
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.leave()
}
