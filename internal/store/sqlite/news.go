package sqlite

import (
	"context"
	"sync"
	"time"
)

// news notifies waiting callers that the log has grown.
type news struct {
	mu     sync.Mutex
	head   uint64        // newest sequence number that is committed
	grown  chan struct{} // closed at the next growth; nil if nobody waits
	closed bool
}

func (n *news) publish(head uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if head <= n.head {
		return
	}
	n.head = head
	n.wake()
}

func (n *news) wake() {
	if n.grown != nil {
		close(n.grown)
		n.grown = nil
	}
}

func (n *news) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	n.wake()
}

// headAfter returns the head, and a channel to wait for if the head is not above
// after.
func (n *news) headAfter(after uint64) (head uint64, grown <-chan struct{}, closed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.head <= after && !n.closed && n.grown == nil {
		n.grown = make(chan struct{})
	}
	return n.head, n.grown, n.closed
}

func (n *news) current() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.head
}

// pollEvery is how often a read-only store checks for writes of another process.
const pollEvery = 100 * time.Millisecond

// Wait implements store.Store.
func (s *Store) Wait(ctx context.Context, after uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var poll <-chan time.Time
	if s.writer == nil {
		t := time.NewTicker(pollEvery)
		defer t.Stop()
		poll = t.C
	}
	for {
		head, err := s.head(ctx)
		if err != nil {
			return 0, err
		}
		h, grown, done := s.news.headAfter(after)
		switch {
		case done:
			return 0, closed()
		case max(head, h) > after:
			return max(head, h), nil
		}
		select {
		case <-grown:
		case <-poll:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// head returns the newest committed sequence number. A store that writes has it
// in memory; a read-only one must query the database.
func (s *Store) head(ctx context.Context) (uint64, error) {
	if s.writer != nil {
		return s.news.current(), nil
	}
	var n int64
	err := s.withConn(ctx, s.readers, func(c *conn) (err error) {
		n, err = c.number("SELECT max(seq) FROM log")
		return err
	})
	return uint64(n), err
}
