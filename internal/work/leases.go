package work

import (
	"context"
	"slices"
	"sync"

	"steward/internal/agent"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// RecoverRequests continues the requests that were not closed. It runs after
// Recover has resumed the runs.
func (e *Engine) RecoverRequests(ctx context.Context) error {
	found, err := requests.OpenRequests(ctx, e.store, store.ForNode(resource.System))
	if err != nil {
		return err
	}
	for i := range found {
		e.requests.Note(record.IDOf(found[i].At, record.TypeInteraction))
	}
	queues := map[resource.URI]string{} // interactions with queued actions, and their users
	for i := range found {
		if r := &found[i]; r.Kind != record.RequestCall && r.Wish == record.WishQueued && r.State == record.RequestOpen {
			queues[r.At.Parent()] = requests.UserOf(r.Space)
		}
	}
	parallel(len(found), func(i int) {
		r := &found[i]
		var err error
		switch user := requests.UserOf(r.Space); {
		case r.Kind == record.RequestCall:
			e.life.Go(func() { e.settleCall(e.life, r.Request) })
		case r.Wish == record.WishQueued && r.State == record.RequestOpen: // in queues
		case r.State == record.RequestAnswered && r.Quiet():
			err = e.requests.CloseDone(ctx, user, r.At)
		case r.Kind == record.RequestTask:
			e.resumeCall(user, r)
		default:
			err = e.settleOrphan(ctx, user, r)
		}
		if err != nil {
			e.log.Error("cannot settle an open request", "request", r.At.String(), "error", err)
		}
	})
	return e.recoverQueues(ctx, queues)
}

// settleOrphan answers a request that has no run left, and closes it if it is
// answered.
func (e *Engine) settleOrphan(ctx context.Context, user string, r *requests.Stored) error {
	if r.State == record.RequestAnswered {
		return e.requests.CloseDone(ctx, user, r.At)
	}
	inter := r.At.Parent()
	if r.Kind == record.RequestAgent {
		inter = record.InteractionURI(r.Conversation, r.Interaction)
	}
	run, found, err := requests.LastRun(ctx, e.store, store.ForUser(user), inter)
	switch {
	case err != nil:
		return err
	case !found: // it was erased
		run.Outcome, run.Error = string(agent.Failure), requests.CodeOrphaned
		e.log.Warn("request abandoned", "request", r.At.String(), "kind", r.Kind)
	case run.Ended.IsZero():
		return nil // it was resumed, or is when it is asked again
	}
	_, err = e.requests.Answer(ctx, user, r.At, run.Outcome, run.Error)
	return err
}

// heldRequest marks a request that this process is working on. A request without one
// is taken up at the next start.
type heldRequest struct {
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

// EndTasks cancels the tasks of a user, and waits until their ends are recorded.
func (e *Engine) EndTasks(ctx context.Context, user string) error {
	for _, t := range e.leases.cancel(user, nil, errDeleted) {
		select {
		case <-t.recorded:
		case <-ctx.Done():
			return fault.Of(ctx.Err())
		}
	}
	return nil
}
