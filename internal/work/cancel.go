package work

import (
	"context"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

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

// StopTasks cancels the background calls of a deleted conversation and of the
// conversations of the agents that were asked in it.
func (e *Engine) StopTasks(ctx context.Context, user string, conv id.ID) {
	if e.leases.empty() {
		return
	}
	deleted, err := e.conversations.Children(ctx, store.ForUser(user), conv)
	if err != nil { // they notice when they have a result
		e.log.Warn("cannot stop the tasks of a deleted conversation", "conversation", conv.String(), "error", err)
	}
	e.leases.cancel(user, append(deleted, conv), errDeleted)
}

// Cancel cancels what a user's request still does: its background call, or
// those below it, and the runs of the agents that work on it. The result states
// what had begun and cannot be undone. which names the request as for
// RequestTree. Error codes: request_not_found, request_ambiguous, request_closed
// (Conflict), request_begun (Conflict): something continues to its end;
// everything else below the request is cancelled nevertheless.
func (e *Engine) Cancel(ctx context.Context, user, which string) error {
	ctx, leave, ok := e.life.Stay(ctx, user)
	if !ok {
		return turn.ErrClosed
	}
	defer leave()
	sc := store.ForUser(user)
	own, err := requests.ResolveRequest(ctx, e.store, sc, which)
	if err != nil {
		return err
	}
	for try := 1; ; try++ { // what is stopped may change its own records at the same time
		r, err := requests.FindRequest(ctx, e.store, sc, own)
		if err != nil {
			return err
		}
		err = e.cancelRequest(ctx, user, &r)
		switch {
		case try > 1 && fault.HasCode(err, "request_closed"): // by the try before
			return nil
		case !fault.HasCode(err, "conflict") || try == maxCancels:
			return err
		}
	}
}

// maxCancels is how often a cancellation is tried.
const maxCancels = 5

func (e *Engine) cancelRequest(ctx context.Context, user string, r *requests.Stored) error {
	sc := store.ForUser(user)
	switch {
	case r.State == "" && r.Kind != "":
		return fault.New(fault.Conflict, "request_closed", "request %s is closed already", r.ID)
	case r.Kind == record.RequestCall:
		return fault.New(fault.Conflict, "request_begun", "%s was called from outside and cannot be cancelled", r.Tool).
			WithHint("call it again with the id %s to get its outcome", r.CallID)
	case r.Wish == record.WishQueued && r.State == record.RequestOpen:
		withdrawn, err := e.cancelIntent(ctx, sc, r.Intent)
		if err == nil && !withdrawn {
			err = fault.New(fault.Conflict, "request_begun", "%s has begun and cannot be cancelled", r.Tool).
				WithHint("steward requests show shows its outcome")
		}
		return err
	case r.Kind == record.RequestTask && r.State == record.RequestOpen:
		_, err := e.requests.Change(ctx, sc, r.At, func(r *requests.Stored) error {
			if r.State != record.RequestOpen || r.Error == codeCancelled {
				return requests.ErrUnchanged
			}
			r.Error = codeCancelled
			return nil
		})
		if err != nil {
			return err
		}
		if t := e.leases.task(r.ID); t != nil {
			t.cancel(errCancelled)
		}
		return nil
	}
	at, err := requests.Interactions(ctx, e.store, sc, r)
	if err != nil {
		return err
	}
	var begun error
	for _, inter := range at {
		e.stopRun(user, inter)
		if err := e.endParked(ctx, user, inter); err != nil {
			return err
		}
		below, err := requests.Find(ctx, e.store, sc, store.Query{Under: inter})
		if err != nil {
			return err
		}
		for i := range below {
			b := &below[i]
			if b.At == r.At || b.State == "" {
				continue
			}
			switch err := e.cancelRequest(ctx, user, b); {
			case err == nil, fault.HasCode(err, "request_closed"):
			case fault.HasCode(err, "request_begun"):
				begun = err
			default:
				return err
			}
		}
	}
	return begun
}

// stopRun stops the run of an interaction. It returns false if there is none.
func (e *Engine) stopRun(user string, inter resource.URI) bool {
	c := e.turns.Enter(user, record.IDOf(inter, record.TypeConversation))
	defer e.turns.Exit(c)
	live := c.Running(record.IDOf(inter, record.TypeInteraction))
	if live != nil {
		c.Stop(live, request.ErrStop)
	}
	return live != nil
}

// StopChildren stops what agents still do on behalf of a deleted conversation,
// and drops their sessions from memory.
func (e *Engine) StopChildren(ctx context.Context, user string, conv id.ID) error {
	below, err := e.conversations.Children(ctx, store.ForUser(user), conv)
	for _, x := range below {
		e.turns.StopCached(user, x)
	}
	return err
}
