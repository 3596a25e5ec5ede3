package effect

import (
	"context"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// question is a run that waits for a person.
type question struct {
	tool     tool.Tool
	answered chan struct{} // holds a token once the intent may have changed
}

// recheck is how often a waiting run looks whether somebody answered through
// another node.
const recheck = 15 * time.Second

// await waits for a person's word, without holding anything of the store. The
// caller looks at the state again.
func (f *flight) await(ctx context.Context) (*message.ToolResult, error) {
	q := &question{tool: f.c.Tool, answered: make(chan struct{}, 1)}
	f.e.setQuestion(f.uri, q)
	defer f.e.setQuestion(f.uri, nil)
	f.c.notify(Progress{Status: Awaiting, Tool: f.spec.Name, Args: f.args, ID: f.uri.String(),
		ArgsHash: f.in.ArgsHash, Reason: f.in.Reason, Expires: f.in.Expires})
	if f.deferred() && !f.last {
		return f.queued(), nil
	}
	expiry := time.NewTimer(time.Until(f.in.Expires))
	defer expiry.Stop()
	look := time.NewTicker(recheck)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.withdraw(ctx)
		case <-expiry.C:
			return f.settle(ctx, intent.Expired, "nobody answered in time", f.c.told(message.DeniedCall,
				"Not done: nobody answered in time whether it may be done."))
		case <-q.answered:
		case <-look.C:
		}
		now, err := f.e.load(ctx, f.c.Scope, f.uri)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			return f.refused(err)
		case now.version != f.version:
			f.kept = now
			return nil, nil
		}
	}
}

func (e *Engine) setQuestion(uri resource.URI, q *question) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if q == nil {
		delete(e.waiting, uri)
		return
	}
	e.waiting[uri] = q
}

func (e *Engine) question(uri resource.URI) *question {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.waiting[uri]
}

// Decision is a person's answer to a question. ID and ArgsHash repeat what
// was shown (Progress).
type Decision struct {
	ID       string
	ArgsHash string
	Approve  bool
	Reason   string // may be empty
	By       string // who; empty: the scope's actor
}

// Decide records a person's answer; it is durable when Decide returns. Giving
// the same answer again does nothing. Error codes: approval_not_found
// (NotFound; also for who may not see it), approval_args_changed,
// approval_expired, approval_tool_changed, approval_decided,
// approval_not_asked (all Conflict); those of the store.
func (e *Engine) Decide(ctx context.Context, sc store.Scope, d Decision) error {
	uri, err := resource.Parse(d.ID)
	if err != nil || uri.Type() != "effect.Intent" {
		return unasked(d.ID)
	}
	if d.By == "" {
		d.By = sc.Actor
	}
	for range 10 { // a conflict means that the state has changed: few states follow
		if err = e.tryDecide(ctx, sc, uri, d); !fault.HasCode(err, "conflict") {
			break
		}
	}
	if q := e.question(uri); q != nil { // after an error too: who waits looks for itself
		select {
		case q.answered <- struct{}{}:
		default: // it is to look already
		}
	}
	return err
}

func unasked(id string) error {
	return fault.New(fault.NotFound, "approval_not_found", "there is no question %.200q", id).
		With("answer with the id and hash that the question came with")
}

func (e *Engine) tryDecide(ctx context.Context, sc store.Scope, uri resource.URI, d Decision) error {
	r, err := e.load(ctx, sc, uri)
	switch {
	case fault.Is(err, fault.NotFound):
		return unasked(d.ID)
	case err != nil:
		return err
	case d.ArgsHash != r.in.ArgsHash:
		return fault.New(fault.Conflict, "approval_args_changed", "the answer is to other arguments than those recorded").
			With("look at the question again, and answer it with its hash")
	}
	if done, err := e.answerable(&r, uri, d); done || err != nil {
		return err
	}
	now := time.Now().UTC()
	to := intent.Denied
	if d.Approve {
		to = intent.Approved
		r.in.Approval = &intent.Approval{By: d.By, At: now, ArgsHash: r.in.ArgsHash, Version: r.in.Version,
			Expires: now.Add(e.goodFor(r.in.Deferred))}
	} else {
		r.in.DeniedBy = d.By
		r.in.Reason = "the user said no"
		if d.Reason != "" {
			r.in.Reason += ": " + d.Reason
		}
	}
	was := r.in.State
	if err := intent.Advance(was, to); err != nil {
		return err
	}
	r.in.State = to
	change, err := r.put(store.If{Version: r.version, States: []string{was.Mark()}})
	if err != nil {
		return err
	}
	_, err = e.opt.Store.Commit(context.WithoutCancel(ctx), sc, store.Batch{Request: requestOf(ctx), Changes: []store.Change{change}})
	return err
}

// goodFor is how long an approval stands. That of a queued action has to last
// until the turn ends.
func (e *Engine) goodFor(deferred bool) time.Duration {
	if deferred {
		return max(e.opt.ApprovalTimeout, 24*time.Hour)
	}
	return e.opt.ApprovalTimeout
}

// answerable reports whether the intent waits for an answer; done means that
// this very answer has been given already.
func (e *Engine) answerable(r *kept, uri resource.URI, d Decision) (done bool, err error) {
	conflict := func(code, format string, args ...any) (bool, error) {
		return false, fault.New(fault.Conflict, code, format, args...).Detail("state", string(r.in.State))
	}
	switch st := r.in.State; {
	case st == intent.Awaiting:
	case d.Approve && r.in.Approval != nil && st != intent.Denied && st != intent.Cancelled && st != intent.Expired,
		!d.Approve && st == intent.Denied && r.in.DeniedBy != "":
		return true, nil
	case st == intent.Expired:
		return conflict("approval_expired", "the answer comes too late: the question has expired")
	case st == intent.Proposed:
		return conflict("approval_not_asked", "nobody was asked about this yet")
	default:
		return conflict("approval_decided", "this has been decided already: it is %s", st)
	}
	if !time.Now().Before(r.in.Expires) {
		return conflict("approval_expired", "the answer comes too late: the question has expired")
	}
	if q := e.question(uri); d.Approve && q != nil && q.tool.Spec().Version != r.in.Version {
		return conflict("approval_tool_changed", "the tool %s has changed since the question was asked", r.in.Tool)
	}
	return false, nil
}

func requestOf(ctx context.Context) id.ID {
	c, _ := request.From(ctx)
	return c.ID
}
