package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// news notifies waiting callers that the log has grown.
type news struct {
	mu      sync.Mutex
	head    uint64        // newest sequence number that is known to be committed
	grown   chan struct{} // closed at the next growth; nil if nobody waits
	waiting int
	wanted  chan struct{} // has a token if somebody began to wait
	done    chan struct{}
}

func (n *news) init() { n.wanted, n.done = make(chan struct{}, 1), make(chan struct{}) }

// publish returns whether the head is new.
func (n *news) publish(head uint64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if head <= n.head {
		return false
	}
	n.head = head
	if n.grown != nil {
		close(n.grown)
		n.grown = nil
	}
	return true
}

func (n *news) close() { close(n.done) }

func (n *news) current() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.head
}

// enter counts a waiting caller and returns the head, and a channel that is closed
// when it grows.
func (n *news) enter() (head uint64, grown <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting++
	if n.grown == nil {
		n.grown = make(chan struct{})
	}
	select {
	case n.wanted <- struct{}{}:
	default:
	}
	return n.head, n.grown
}

func (n *news) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting--
}

func (n *news) awaited() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.waiting > 0
}

// Wait implements store.Store. What this node commits, it knows at once; what
// others commit, the watch finds.
func (s *Store) Wait(ctx context.Context, after uint64) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	for {
		if s.isClosed() {
			return 0, closed()
		}
		head, grown := s.news.enter()
		if head > after {
			s.news.leave()
			return head, nil
		}
		select {
		case <-grown:
		case <-s.news.done:
		case <-ctx.Done():
			s.news.leave()
			return 0, ctx.Err()
		}
		s.news.leave()
	}
}

func (s *Store) isClosed() bool {
	select {
	case <-s.news.done:
		return true
	default:
		return false
	}
}

// How often the watch looks for the commits of other nodes: soon again while there
// are some, seldom when there are none.
const (
	watchSoon   = 5 * time.Millisecond
	watchSeldom = 100 * time.Millisecond
)

// watch reads the end of the log as long as somebody waits. LISTEN and NOTIFY would save
// that, but a transaction that notifies takes a lock of the whole cluster of
// databases when it commits.
func (s *Store) watch() {
	interval, failed := watchSoon, false
	for {
		if !s.news.awaited() {
			select {
			case <-s.news.wanted:
				interval = watchSoon
			case <-s.news.done:
				return
			}
		}
		head, err := s.headOnce(s.ctx)
		if err != nil && !failed && s.ctx.Err() == nil {
			s.log.Warn("cannot read the end of the log; trying again", "error", err)
		}
		failed = err != nil
		if err == nil && s.news.publish(head) {
			interval = watchSoon
		}
		select {
		case <-time.After(interval):
			interval = min(2*interval, watchSeldom)
		case <-s.news.done:
			return
		}
	}
}

// head returns the newest committed sequence number, of all nodes.
func (s *Store) head(ctx context.Context) (head uint64, err error) {
	err = s.read(ctx, everything, func(q *request) (err error) {
		head, _, err = readEnd(q.row(endOfLog))
		return err
	})
	if err == nil {
		s.news.publish(head)
	}
	return head, err
}

func (s *Store) headOnce(ctx context.Context) (head uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	err = s.readOnce(ctx, everything, func(q *request) (err error) {
		head, _, err = readEnd(q.row(endOfLog))
		return err
	})
	return head, err
}

// endOfLog reads the newest entry of all spaces, from the end of the index.
const endOfLog = "SELECT seq, at FROM log ORDER BY seq DESC LIMIT 1"

// readEnd reads the row of endOfLog, which an empty log does not have.
func readEnd(r pgx.Row) (seq uint64, at int64, err error) {
	if err = r.Scan(&seq, &at); errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return seq, at, err
}
