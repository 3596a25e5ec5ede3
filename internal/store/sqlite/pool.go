package sqlite

import (
	"context"
	"errors"
	"sync"
)

// pool lends connections, most recently used first, so that caches stay warm and
// connections that are not needed are never opened.
type pool struct {
	open   func() (*conn, error)
	tokens chan struct{}
	done   chan struct{}

	mu   sync.Mutex
	idle []*conn
}

func newPool(size int, open func() (*conn, error)) *pool {
	p := &pool{open: open, tokens: make(chan struct{}, size), done: make(chan struct{})}
	for range size {
		p.tokens <- struct{}{}
	}
	return p
}

// get lends a connection; put returns it.
func (p *pool) get(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-p.done:
		return nil, closed()
	default:
	}
	select {
	case <-p.tokens:
	case <-p.done:
		return nil, closed()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := p.open()
	if err != nil {
		p.tokens <- struct{}{}
	}
	return c, err
}

func (p *pool) put(c *conn) {
	if c.inTransaction() {
		// It was only reading. If the transaction cannot be ended, the connection
		// is not lent again.
		if err := c.exec("ROLLBACK"); err != nil {
			c.close()
			p.tokens <- struct{}{}
			return
		}
	}
	p.mu.Lock()
	p.idle = append(p.idle, c)
	p.mu.Unlock()
	p.tokens <- struct{}{}
}

// close waits for the lent connections and closes all. It must be called only
// once.
func (p *pool) close() error {
	close(p.done)
	for range cap(p.tokens) {
		<-p.tokens
	}
	var err error
	for _, c := range p.idle {
		err = errors.Join(err, c.close())
	}
	return err
}
