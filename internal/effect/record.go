package effect

import (
	"context"
	"errors"
	"iter"
	"strings"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/resource"
	"steward/internal/store"
)

// keyTerm finds deferred intents by their idempotency key.
const keyTerm = "effect.key"

// The index terms of intents.
const (
	TermIntents = "effect.intents" // all intents, in the order in which they changed
	TermIntent  = "effect.intent"  // one intent, by its ID
	TermDead    = "effect.dead"    // intents that need someone's attention
)

// TypeIntent is the type of an intent's resource.
const TypeIntent = "effect.Intent"

// IntentID returns the ID by which people and programs name an intent.
func IntentID(uri resource.URI) id.ID { return id.Derive("intent", uri.String()) }

// Intent reads an intent.
func (e *Engine) Intent(ctx context.Context, sc store.Scope, uri resource.URI) (intent.Intent, error) {
	r, err := e.load(ctx, sc, uri)
	return r.in, err
}

// load reads an intent as the store holds it.
func (e *Engine) load(ctx context.Context, sc store.Scope, uri resource.URI) (intentRecord, error) {
	r, err := e.opt.Store.Get(ctx, sc, uri)
	if err != nil {
		return intentRecord{}, err
	}
	in, err := intent.Decode(r.Body)
	if err != nil {
		return intentRecord{}, err
	}
	return intentRecord{uri: uri, version: r.Version, in: in}, nil
}

// intents yields the intents that a query finds.
func (e *Engine) intents(ctx context.Context, sc store.Scope, q store.Query) iter.Seq2[*intentRecord, error] {
	q.Type = TypeIntent
	return func(yield func(*intentRecord, error) bool) {
		for it, err := range store.Items(ctx, e.opt.Store, sc, q) {
			r := &intentRecord{uri: it.URI, version: it.Version}
			if err == nil {
				r.in, err = intent.Decode(it.Body)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// put returns the change that records the intent if cond holds.
func (r *intentRecord) put(cond store.If) (store.Change, error) {
	body, err := intent.Encode(r.in)
	if err != nil {
		return store.Change{}, err
	}
	c := store.Change{Op: store.Put, URI: r.uri, If: cond, Body: body, State: r.in.State.Mark()}
	c.Terms = []store.Term{{Name: TermIntents}, {Name: TermIntent, Value: IntentID(r.uri).String()}}
	if r.in.Deferred {
		c.Terms = append(c.Terms, store.Term{Name: keyTerm, Value: r.in.Key})
	}
	if r.in.Dead {
		c.Terms = append(c.Terms, store.Term{Name: TermDead})
	}
	return c, nil
}

// maxAmends bounds how often a change to an intent is retried when others change it at the
// same time. An intent passes through few states, so the bound is generous.
const maxAmends = 20

// errUnchanged ends an amend that has nothing to change.
var errUnchanged = errors.New("nothing to change")

// amend changes an intent from outside of the run that works on it, and wakes a run that
// waits for it. If someone else has changed the intent in between, it reloads it and tries
// again. change modifies the intent and returns what else to commit with it. It may be
// called several times.
func (e *Engine) amend(ctx context.Context, sc store.Scope, uri resource.URI, change func(*intentRecord) ([]store.Change, error)) error {
	defer e.wake(uri) // after an error too: the waiting run checks for itself
	for try := 1; ; try++ {
		r, err := e.load(ctx, sc, uri)
		if err != nil {
			return err
		}
		was := r.in.State
		more, err := change(&r)
		if errors.Is(err, errUnchanged) {
			return nil
		}
		if err == nil && r.in.State != was {
			err = intent.Advance(was, r.in.State)
		}
		if err != nil {
			return err
		}
		put, err := r.put(store.If{Version: r.version, States: []string{was.Mark()}})
		if err != nil {
			return err
		}
		_, err = e.opt.Store.Commit(context.WithoutCancel(ctx), sc, store.Batch{Request: requestOf(ctx), Changes: append([]store.Change{put}, more...)})
		if err == nil && r.in.State != was {
			e.opt.Telemetry.Intent(string(r.in.State))
		}
		if err == nil && was == intent.Awaiting {
			e.answered(ctx, &r)
		}
		if !fault.HasCode(err, "conflict") || try == maxAmends {
			return err
		}
	}
}

// step moves the intents of executions of one request to another state, all or none, and
// commits more with them. It fails with a conflict if someone else has changed one in
// between. After an error the copies in memory may differ from the record: load them again.
// The end of ctx does not prevent a fact from being recorded.
func step(ctx context.Context, to intent.State, more []store.Change, fs ...*execution) error {
	lead := fs[0]
	b := store.Batch{Request: lead.c.Request.ID}
	from := lead.in.State
	for _, f := range fs {
		cond := store.If{Absent: true}
		if f.version != 0 {
			if err := intent.Advance(f.in.State, to); err != nil {
				return err
			}
			cond = store.If{Version: f.version, States: []string{f.in.State.Mark()}}
		}
		f.in.State = to
		put, err := f.put(cond)
		if err != nil {
			return err
		}
		b.Changes = append(b.Changes, put)
	}
	b.Changes = append(b.Changes, more...)
	got, err := lead.e.opt.Store.Commit(context.WithoutCancel(ctx), lead.c.Scope, b)
	if err != nil {
		return err
	}
	for k, f := range fs {
		f.version = got.Versions[k]
		f.e.opt.Telemetry.Intent(string(to))
	}
	switch {
	case to == intent.Awaiting:
		lead.e.notifyChanged()
	case from == intent.Awaiting:
		lead.e.answered(ctx, &lead.intentRecord)
	}
	return nil
}

// settle ends the intent with a result in Steward's own words.
func (f *execution) settle(ctx context.Context, to intent.State, reason string, res *message.ToolResult) (*message.ToolResult, error) {
	f.in.Reason = reason
	return f.finish(ctx, to, shaped{res: res})
}

// finish ends the intent and records its result in one commit. If an effect happened and
// cannot be recorded, the result is returned together with the error.
func (f *execution) finish(ctx context.Context, to intent.State, s shaped) (*message.ToolResult, error) {
	f.noteChanges(s.res)
	f.in.Result = encodeResult(f.e.hide(s.res))
	f.in.Reason = strings.ToValidUTF8(f.e.mask(f.in.Reason), "\uFFFD") // it may come from a tool's error
	f.in.Dead = to == intent.Unknown || to == intent.Failed && (f.in.Deferred || s.retryable)
	var more []store.Change
	if s.rest != "" {
		more = append(more, f.keep(s))
	}
	ran := f.in.State == intent.Executing
	linked, err := f.e.undone(context.WithoutCancel(ctx), f.c.Scope, &f.intentRecord, to)
	if err == nil {
		err = step(ctx, to, append(more, linked...), f)
	}
	switch {
	case err == nil:
		f.e.hanging.Delete(f.uri)
		return s.res, nil
	case fault.HasCode(err, "conflict") && !ran:
		return nil, err // someone else has decided: look again
	}
	f.e.log.ErrorContext(ctx, "cannot record the outcome of an action", "tool", f.spec.Name,
		"intent", f.uri.String(), "state", string(to), "error", err)
	return s.res, err
}
