package work

import (
	"context"

	"steward/internal/agent"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// RecoverRequests continues the requests that were not closed. It runs after
// Recover has resumed the runs.
func (e *Engine) RecoverRequests(ctx context.Context) error {
	return e.recoverRequests(ctx, store.ForNode(resource.System))
}

// RecoverRequestsOf is RecoverRequests for a user, after RecoverUser.
func (e *Engine) RecoverRequestsOf(ctx context.Context, user string) error {
	return e.recoverRequests(ctx, store.ForUser(user))
}

func (e *Engine) recoverRequests(ctx context.Context, sc store.Scope) error {
	found, err := requests.OpenRequests(ctx, e.store, sc)
	if err != nil {
		return err
	}
	for i := range found {
		e.requests.MarkRequests(requests.UserOf(found[i].Space), record.IDOf(found[i].At, record.TypeInteraction))
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
			life := e.life.Of(user)
			life.Go(func() { e.settleCall(life, r.Request) })
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

// recoverQueues settles what runs that had ended had queued. Runs that were
// resumed settle their queue when they end.
func (e *Engine) recoverQueues(ctx context.Context, queues map[resource.URI]string) error {
	for inter, user := range queues {
		run, found, err := requests.LastRun(ctx, e.store, store.ForUser(user), inter)
		if err != nil {
			return err
		}
		if found && !run.Ended.IsZero() {
			e.Settle(user, inter, run.Outcome == string(agent.Stopped))
		}
	}
	return nil
}
