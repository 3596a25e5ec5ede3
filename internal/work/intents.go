package work

import (
	"context"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/turn"
)

// RetryIntent tries an action again that failed, expired or was cancelled. The
// retry is a new intent with its own idempotency key, and is authorized anew; it
// counts as the user's own approval where policy would ask the user. RetryIntent
// returns the new intent once it is settled, waits for somebody else's approval,
// or ctx is done; the intent then continues independently. which names an intent
// as for Intent. Error codes: those of effect.Engine.Again, intent_not_found,
// intent_ambiguous, intent_outside, tool_unknown.
func (e *Engine) RetryIntent(ctx context.Context, user, which string) (client.Intent, error) {
	return e.repeatIntent(ctx, user, which, effect.Retry)
}

// UndoIntent undoes an action that was done. It works like RetryIntent.
func (e *Engine) UndoIntent(ctx context.Context, user, which string) (client.Intent, error) {
	return e.repeatIntent(ctx, user, which, effect.Undo)
}

// repeatIntent records the intent that follows a settled one, together with a request
// that is closed once the intent is settled and its outcome delivered, and has the
// intent carried out.
func (e *Engine) repeatIntent(ctx context.Context, user, which string, step effect.Step) (client.Intent, error) {
	ctx, leave, held := e.life.Stay(ctx, user)
	if !held {
		return client.Intent{}, turn.ErrClosed
	}
	defer leave()
	sc := store.ForUser(user)
	original, err := e.requests.FindIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	inter, ok := original.Find(record.TypeInteraction)
	if !ok {
		return client.Intent{}, fault.New(fault.Unsupported, "intent_outside", "the action was called from outside, by a program: there is no conversation to which it belongs").
			WithHint("call it again, or undo it by hand")
	}
	in, err := e.effects.Intent(ctx, sc, original)
	if err != nil {
		return client.Intent{}, err
	}
	t, ok := e.kits.Callee(in.Agent, in.Tool)
	if !ok {
		return client.Intent{}, fault.New(fault.NotFound, "tool_unknown", "the tool %s no longer exists, or its agent may no longer be used", in.Tool).
			WithHint("look at steward agents list")
	}
	requestURI := func(at resource.URI) resource.URI {
		return inter.ChildID(record.TypeRequest, id.Derive("again", at.String()))
	}
	at, err := e.effects.Again(ctx, sc, original, step, t, func(at resource.URI) ([]store.Change, error) {
		return e.requests.OpenChanges(ctx, sc, requestURI(at), intentRequest(at, &in, string(step)))
	})
	if err != nil {
		return client.Intent{}, err
	}
	call, err := e.carryOut(user, requestURI(at))
	if err == nil && call != nil {
		err = e.awaitRecorded(ctx, call)
	}
	if err != nil && ctx.Err() == nil {
		return client.Intent{}, err
	}
	return e.requests.Intent(context.WithoutCancel(ctx), user, at.String())
}

// intentRequest returns the record of a request to carry out what a person wants
// done about an action, and to deliver the outcome to the conversation.
func intentRequest(at resource.URI, in *intent.Intent, wish string) record.Request {
	turn := record.IDOf(at, record.TypeInteraction)
	return record.Request{Parent: turn, Root: turn, Kind: record.RequestTask, Agent: in.Agent, Tool: in.Tool, Args: in.Args, Attended: true,
		Labels: uint8(in.Labels), Status: record.TaskAcknowledged, Intent: at.String(), Wish: wish}
}

// carryOut makes the node work on the recorded request about an intent, unless it
// already does. It returns nil if the request is closed.
func (e *Engine) carryOut(user string, at resource.URI) (*backgroundCall, error) {
	e.leases.intentMu.Lock()
	defer e.leases.intentMu.Unlock()
	if t := e.leases.task(record.IDOf(at, record.TypeRequest)); t != nil {
		return t, nil
	}
	ctx, inter := context.WithoutCancel(e.life), at.Parent()
	own := record.IDOf(inter, record.TypeInteraction)
	e.requests.MarkRequests(user, own)
	ended, err := e.requests.AnswerByRun(ctx, user, inter.ChildID(record.TypeRequest, own), inter) // the turn had ended before it led to anything
	if err != nil {
		return nil, err
	}
	if ended {
		e.requests.UnmarkRequests(own)
	}
	row, err := requests.Load(ctx, e.store, store.ForUser(user), at)
	if err != nil || row.State == "" {
		return nil, requests.IgnoreNotFound(err)
	}
	if !e.resumeCall(user, &row) {
		return nil, turn.ErrClosed
	}
	return e.leases.task(row.ID), nil
}

// awaitRecorded waits until the outcome of a task is recorded, or a person is asked.
func (e *Engine) awaitRecorded(ctx context.Context, t *backgroundCall) error {
	life := e.life.Of(t.conversation.User)
	select {
	case <-t.recorded:
		return context.Cause(life)
	case <-t.personAsked:
		return nil
	case <-ctx.Done():
		return fault.Of(ctx.Err())
	case <-life.Done():
		return turn.ErrClosed
	}
}

// ResolveIntent records a person's statement about an action whose outcome is
// unknown, and delivers it to the conversation. Error codes: intent_not_found,
// intent_ambiguous, intent_transition_illegal (Conflict).
func (e *Engine) ResolveIntent(ctx context.Context, user, which string, w effect.Resolution) (client.Intent, error) {
	ctx, leave, held := e.life.Stay(ctx, user)
	if !held {
		return client.Intent{}, turn.ErrClosed
	}
	defer leave()
	sc := store.ForUser(user)
	uri, err := e.requests.FindIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	w.By = user
	if err := e.effects.Resolve(ctx, sc, uri, w); err != nil {
		return client.Intent{}, err
	}
	if inter, ok := uri.Find(record.TypeInteraction); ok {
		in, err := e.effects.Intent(ctx, sc, uri)
		if err != nil {
			return client.Intent{}, err
		}
		at := inter.ChildID(record.TypeRequest, id.Derive("resolved", uri.String()))
		if err := e.requests.Open(context.WithoutCancel(ctx), user, at, intentRequest(uri, &in, record.WishResolve)); err != nil {
			return client.Intent{}, err
		}
		if _, err := e.carryOut(user, at); err != nil {
			return client.Intent{}, err
		}
	}
	return e.requests.Intent(ctx, user, uri.String())
}

// AnswerIntent records a person's answer about an action that waits for one. hash
// repeats the hash of what was shown (client.Intent.Hash). Error codes: those of
// Decide, intent_not_found, intent_ambiguous.
func (e *Engine) AnswerIntent(ctx context.Context, user, which, hash, reason string, approve bool) (client.Intent, error) {
	uri, err := e.requests.FindIntent(ctx, store.ForUser(user), which)
	if err != nil {
		return client.Intent{}, err
	}
	if err := e.effects.Decide(ctx, store.ForUser(user), effect.Decision{ID: uri.String(), Hash: hash, Approve: approve, Reason: reason}); err != nil {
		return client.Intent{}, err
	}
	return e.requests.Intent(ctx, user, uri.String())
}

// CancelIntent withdraws an action that has not begun. Error codes:
// intent_not_found, intent_ambiguous, intent_transition_illegal (Conflict: it
// has begun, or is settled).
func (e *Engine) CancelIntent(ctx context.Context, user, which string) (client.Intent, error) {
	sc := store.ForUser(user)
	uri, err := e.requests.FindIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	ok, err := e.effects.Cancel(ctx, sc, uri, reasonCancelled)
	if err != nil {
		return client.Intent{}, err
	}
	v, err := e.requests.Intent(ctx, user, uri.String())
	if err == nil && !ok {
		err = fault.New(fault.Conflict, "intent_transition_illegal", "the action is %s: it cannot be cancelled any more", v.State).
			Detail("from", string(v.State)).Detail("to", "cancelled").WithHint("it can perhaps be undone: steward intents undo")
	}
	return v, err
}

// intentAt reads an intent by its URI text.
func (e *Engine) intentAt(ctx context.Context, sc store.Scope, text string) (intent.Intent, error) {
	uri, err := resource.Parse(text)
	if err != nil {
		return intent.Intent{}, err
	}
	return e.effects.Intent(ctx, sc, uri)
}

// reasonCancelled is the reason recorded for an action that a person cancelled.
const reasonCancelled = "cancelled by the user"

// cancelIntent cancels an action that has not begun, by its intent's URI text.
func (e *Engine) cancelIntent(ctx context.Context, sc store.Scope, text string) (bool, error) {
	uri, err := resource.Parse(text)
	if err != nil {
		return false, err
	}
	return e.effects.Cancel(ctx, sc, uri, reasonCancelled)
}
