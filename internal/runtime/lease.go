package runtime

import (
	"context"
	"slices"
	"sync"

	"steward/internal/id"
)

// lease marks a request that this process is working on. A request without a
// lease is taken up at the next start.
type lease struct {
	request id.ID // of a background call; or of a turn, while its queued actions are executed
	user    string
	conv    id.ID
	cancel  context.CancelCauseFunc
	task    *backgroundCall // nil: it is the queue of a turn
}

// leases holds the requests that are being worked on, each by one owner at a
// time, and what is known in memory about open requests.
type leases struct {
	mu   sync.Mutex
	held map[id.ID]*lease
	rows map[id.ID]struct{} // interactions below which requests are recorded

	carrying sync.Mutex // held while a request about an intent is taken up: one at a time
}

// tryLock takes the lease of a request. It returns false if somebody holds it.
func (l *leases) tryLock(x *lease) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[x.request] != nil {
		return false
	}
	if l.held == nil {
		l.held = map[id.ID]*lease{}
	}
	l.held[x.request] = x
	return true
}

func (l *leases) unlock(x *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, x.request)
}

// task returns the background call that holds the lease of an id, or nil.
func (l *leases) task(own id.ID) *backgroundCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.held[own]; x != nil {
		return x.task
	}
	return nil
}

func (l *leases) none() bool {
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

// note records that requests exist below an interaction.
func (l *leases) note(inter id.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rows == nil {
		l.rows = map[id.ID]struct{}{}
	}
	l.rows[inter] = struct{}{}
}

func (l *leases) noted(inter id.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.rows[inter]
	return ok
}

// forget removes an interaction's note. It reports whether there was one.
func (l *leases) forget(inter id.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.rows[inter]
	delete(l.rows, inter)
	return ok
}
