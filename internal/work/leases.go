package work

import (
	"context"
	"slices"
	"sync"

	"steward/internal/id"
)

// heldRequest marks a request that this process is working on. A request without one
// is taken up at the next start.
type heldRequest struct {
	request id.ID // of a background call; or of a turn, while its queued actions are executed
	user    string
	conv    id.ID
	cancel  context.CancelCauseFunc
	task    *backgroundCall // nil: it is the queue of a turn
}

// leases has the requests that are being worked on, each by one owner at a
// time, and what is known in memory about open requests.
type leases struct {
	mu   sync.Mutex
	held map[id.ID]*heldRequest

	intentMu sync.Mutex // held while a request about an intent is taken up
}

// tryLock takes a request. It returns false if somebody holds it.
func (l *leases) tryLock(x *heldRequest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[x.request] != nil {
		return false
	}
	if l.held == nil {
		l.held = map[id.ID]*heldRequest{}
	}
	l.held[x.request] = x
	return true
}

func (l *leases) unlock(x *heldRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, x.request)
}

// task returns the background call that works on an id, or nil.
func (l *leases) task(own id.ID) *backgroundCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.held[own]; x != nil {
		return x.task
	}
	return nil
}

func (l *leases) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) == 0
}

// cancel cancels a user's work in the given conversations (nil: in all), and
// returns the background calls among it.
func (l *leases) cancel(user string, convs []id.ID, cause error) []*backgroundCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*backgroundCall
	for _, x := range l.held {
		if x.user != user || convs != nil && !slices.Contains(convs, x.conv) {
			continue
		}
		x.cancel(cause)
		if x.task != nil {
			out = append(out, x.task)
		}
	}
	return out
}
