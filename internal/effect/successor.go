package effect

import (
	"context"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Step is what a person wants done after a settled action.
type Step string

// The steps. Each is an intent of its own, stored below the settled one.
const (
	Retry Step = "retry" // try it again
	Undo  Step = "undo"  // undo its effect
)

// The IDs of successors.
const (
	undoID  = "undo"
	retryID = "retry-"
)

// isSuccessor reports whether an intent is a retry or an undo of another one.
func isSuccessor(uri resource.URI) bool { return uri.Parent().Type() == TypeIntent }

// successorURI returns the URI of the intent that follows a settled one.
func successorURI(of resource.URI, s Step) resource.URI {
	if s == Undo {
		return of.Child(TypeIntent, undoID)
	}
	if number, ok := strings.CutPrefix(of.ID(), retryID); ok && isSuccessor(of) {
		if n, err := strconv.Atoi(number); err == nil {
			return of.Parent().Child(TypeIntent, retryID+strconv.Itoa(n+1))
		}
	}
	return of.Child(TypeIntent, retryID+"1")
}

// Again records that a person wants a settled action retried or undone. It creates an
// intent, proposed and linked to the settled one, in one commit with the changes that with
// returns (nil: none). It returns the URI of the new intent, which Run performs; see
// CallOf. If the undo is recorded already, its URI is returned. The person's request
// counts as the answer to any question that policy has for that user.
//
// Error codes: not_found; intent_unsettled, intent_unknown (it has to be resolved first),
// intent_not_failed, intent_retried, intent_not_done, intent_undone (all Conflict), each
// with a remedy; intent_not_undoable (Unsupported); those of the tool's check of the
// arguments.
func (e *Engine) Again(ctx context.Context, sc store.Scope, of resource.URI, s Step, t tool.Tool, with func(at resource.URI) ([]store.Change, error)) (resource.URI, error) {
	at := successorURI(of, s)
	for range maxAmends {
		b, err := e.successor(ctx, sc, of, at, s, t)
		if err != nil || b.Changes == nil {
			return at, err
		}
		if with != nil {
			more, err := with(at)
			if err != nil {
				return at, err
			}
			b.Changes = append(b.Changes, more...)
		}
		if _, err = e.opt.Store.Commit(context.WithoutCancel(ctx), sc, b); !fault.HasCode(err, "conflict") {
			return at, err
		}
	}
	return at, contended()
}

// successor returns the batch that records a successor. The batch is empty if the
// successor is recorded already.
func (e *Engine) successor(ctx context.Context, sc store.Scope, of, at resource.URI, s Step, t tool.Tool) (store.Batch, error) {
	var b store.Batch
	r, err := e.load(ctx, sc, of)
	if err == nil {
		err = s.allowed(&r.in)
	}
	if err != nil {
		return b, err
	}
	if _, err := e.opt.Store.Get(ctx, sc, at); !fault.Is(err, fault.NotFound) {
		return b, err
	}
	next := intentRecord{uri: at, in: intent.Intent{Key: intent.RetryKey(r.in.Key, at.String()), Tool: r.in.Tool, Version: t.Spec().Version,
		Args: r.in.Args, ArgsHash: r.in.ArgsHash, Call: r.in.Call, User: r.in.User, Agent: r.in.Agent, Request: r.in.Request,
		Lineage: r.in.Lineage, Labels: r.in.Labels, Fixed: r.in.Fixed, Open: r.in.Open,
		State: intent.Proposed, Created: time.Now().UTC().Truncate(time.Microsecond), Undoes: r.in.Undoes}}
	if s == Undo {
		next.in.Undoes = of.String()
	} else {
		next.in.Retries, r.in.Retried, r.in.Dead = of.String(), at.String(), false
	}
	c, err := e.callOf(ctx, sc, &next, t)
	if err == nil {
		_, err = e.check(&c)
	}
	if err != nil {
		return b, err
	}
	put, err := next.put(store.If{Absent: true})
	if err != nil {
		return b, err
	}
	b.Request, b.Changes = r.in.Request, append(b.Changes, put)
	if s == Retry {
		put, err = r.put(store.If{Version: r.version})
		b.Changes = append(b.Changes, put)
	}
	return b, err
}

// allowed refuses a step that does not fit the state of the settled action.
func (s Step) allowed(in *intent.Intent) error {
	conflict := func(code, remedy, format string, args ...any) error {
		return fault.New(fault.Conflict, code, format, args...).Detail("state", string(in.State)).WithHint("%s", remedy)
	}
	switch st := in.State; {
	case st.InFlight():
		return conflict("intent_unsettled", "wait until it ends, or cancel it", "the action is still %s", st)
	case st == intent.Unknown:
		return conflict("intent_unknown", "check whether it was done, and record that first: steward intents resolve", "the outcome of the action is unknown")
	case s == Retry && in.Retried != "":
		return conflict("intent_retried", "look at the newer attempt", "the action was already retried")
	case s == Retry && st != intent.Failed && st != intent.Expired && st != intent.Cancelled:
		return conflict("intent_not_failed", "request it again in the conversation", "the action is %s: there is nothing to retry", st)
	case s == Undo && in.Undone != "":
		return conflict("intent_undone", "request it again if you still want it", "the action was already undone")
	case s == Undo && st != intent.Done:
		return conflict("intent_not_done", "only a completed action can be undone", "the action is %s: there is nothing to undo", st)
	}
	return nil
}

// CallOf returns the call of a recorded intent, so that Run can resume it. The caller sets
// its Request and its callbacks. If the tool no longer exists (t is nil), Run cancels the
// action unless it has begun. Error codes: not_found, intent_not_undoable.
func (e *Engine) CallOf(ctx context.Context, sc store.Scope, at resource.URI, t tool.Tool) (Call, error) {
	r, err := e.load(ctx, sc, at)
	if err != nil {
		return Call{}, err
	}
	return e.callOf(ctx, sc, &r, t)
}

func (e *Engine) callOf(ctx context.Context, sc store.Scope, r *intentRecord, t tool.Tool) (Call, error) {
	msg := r.uri.Parent()
	for msg.Type() == TypeIntent {
		msg = msg.Parent()
	}
	c := Call{Name: r.in.Tool, Tool: t, Args: []byte(r.in.Args), Ref: r.in.Call, Message: msg, Scope: sc, Agent: r.in.Agent,
		Lineage: r.in.Lineage, Labels: r.in.Labels, Flow: flowOf(&r.in), Attended: true, at: r.uri}
	c.Request.ID, c.Request.User = r.in.Request, r.in.User
	if r.in.Undoes == "" {
		return c, nil
	}
	c.Action = ActionUndo
	of, err := resource.Parse(r.in.Undoes)
	if err != nil || t == nil {
		return c, err
	}
	done, err := e.load(ctx, sc, of)
	if err == nil {
		c.Tool, err = undoing(t, &done.in)
	}
	return c, err
}

// flowOf returns the flow of a recorded call.
func flowOf(in *intent.Intent) policy.Flow {
	f := policy.Flow{Fixed: in.Fixed, Open: in.Open}
	if !f.Fixed {
		f.Why = "it was not fixed when it was requested"
	}
	return f
}

// undo is a tool that undoes an earlier effect. It repeats the key of that effect, by
// which the receiver recognizes it.
type undo struct {
	tool tool.Tool
	by   tool.Undoer
	key  string // of the effect to undo
	res  tool.Result
}

func undoing(t tool.Tool, in *intent.Intent) (tool.Tool, error) {
	by, ok := tool.UndoerOf(t)
	if !ok {
		return nil, fault.New(fault.Unsupported, "intent_not_undoable", "the effect of %s cannot be undone", in.Tool).
			WithHint("undo it by hand, or ask for an action that does the opposite")
	}
	u := &undo{tool: t, by: by, key: in.Key}
	if in.Result != nil {
		res, err := DecodeResult(in.Result)
		if err != nil {
			return nil, err
		}
		u.res = tool.Result{Content: res.Content, Failed: res.Status != message.OK}
	}
	return u, nil
}

// Spec implements tool.Tool.
func (u *undo) Spec() tool.Spec {
	s := u.tool.Spec()
	s.Dedupes, s.Async, s.AsyncAfter = true, false, 0
	return s
}

// Check implements tool.Checker. The arguments were checked when the action was done.
func (u *undo) Check([]byte) error { return nil }

// Call implements tool.Tool.
func (u *undo) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	in.Key = u.key
	return u.by.Undo(ctx, in, u.res)
}

// impliedApproval returns the approval implied by a person's request for a retry or an
// undo. It applies only if policy asks the user and not a group.
func (f *execution) impliedApproval(d policy.Decision) *intent.Approval {
	if d.Approvers != "" || f.in.Retries == "" && f.in.Undoes == "" {
		return nil
	}
	now := time.Now().UTC()
	return &intent.Approval{By: f.in.User, At: now, ArgsHash: f.in.ArgsHash, Version: f.in.Version, Expires: now.Add(f.e.opt.ApprovalTimeout)}
}

// undone marks an action as undone, in the same commit that records its undo as done.
func (e *Engine) undone(ctx context.Context, sc store.Scope, by *intentRecord, to intent.State) ([]store.Change, error) {
	if by.in.Undoes == "" || to != intent.Done {
		return nil, nil
	}
	of, err := resource.Parse(by.in.Undoes)
	if err != nil {
		return nil, err
	}
	r, err := e.load(ctx, sc, of)
	if err != nil {
		return nil, err
	}
	r.in.Undone = by.uri.String()
	put, err := r.put(store.If{Version: r.version})
	return []store.Change{put}, err
}

// Open returns the intents at or below a resource that have not begun and are not settled.
func (e *Engine) Open(ctx context.Context, sc store.Scope, under resource.URI) ([]resource.URI, error) {
	var out []resource.URI
	for _, st := range intent.States() {
		if !st.InFlight() || st == intent.Executing || st == intent.Unknown {
			continue
		}
		for it, err := range store.Items(ctx, e.opt.Store, sc, store.Query{Under: under, Type: "effect.Intent", State: string(st), NoBody: true}) {
			if err != nil {
				return nil, err
			}
			out = append(out, it.URI)
		}
	}
	return out, nil
}

// Cancel cancels an intent that has not begun. It reports whether the intent is cancelled
// now. If it has begun, or is settled in another way, nothing changes.
func (e *Engine) Cancel(ctx context.Context, sc store.Scope, uri resource.URI, reason string) (cancelled bool, err error) {
	err = e.amend(ctx, sc, uri, func(r *intentRecord) ([]store.Change, error) {
		from := r.in.State
		cancelled = from == intent.Cancelled
		if cancelled || from == intent.Executing || intent.Advance(from, intent.Cancelled) != nil {
			return nil, errUnchanged
		}
		r.in.State, r.in.Reason, cancelled = intent.Cancelled, reason, true
		return nil, nil
	})
	return cancelled && err == nil, err
}

// Resolution is a person's answer to whether an unknown effect happened.
type Resolution = intent.Resolution

// Resolve records a person's answer to whether an action with an unknown outcome happened.
// Giving the same answer again does nothing. Error codes: not_found,
// intent_transition_illegal (Conflict).
func (e *Engine) Resolve(ctx context.Context, sc store.Scope, uri resource.URI, w Resolution) error {
	if w.By == "" {
		w.By = sc.Actor
	}
	to, status := intent.Failed, message.Failed
	text := "The outcome was unknown. " + w.By + " has checked: it was not done."
	if w.Done {
		to, status = intent.Done, message.OK
		text = "The outcome was unknown. " + w.By + " has checked: it was done."
	}
	if w.Note != "" {
		text += " (" + w.Note + ")"
	}
	return e.amend(ctx, sc, uri, func(r *intentRecord) ([]store.Change, error) {
		if r.in.State == to && r.in.Resolved != nil {
			return nil, errUnchanged
		}
		if err := resolvable(r.in.State, to); err != nil {
			return nil, err
		}
		c := Call{Ref: r.in.Call, Name: r.in.Tool}
		r.in.State, r.in.Dead = to, false
		r.in.Resolved = &intent.Resolution{By: w.By, At: time.Now().UTC(), Done: w.Done, Note: strings.ToValidUTF8(w.Note, "\uFFFD")}
		r.in.Result = encodeResult(e.hide(c.result(status, text)))
		return e.undone(ctx, sc, r, to)
	})
}

// resolvable refuses an answer about an action that is still in flight, because its
// outcome is yet to come.
func resolvable(from, to intent.State) error {
	if from.InFlight() {
		return fault.New(fault.Conflict, "intent_transition_illegal", "an intent that is %s cannot be resolved by hand", from).
			Detail("from", string(from)).Detail("to", string(to)).WithHint("wait until it has ended")
	}
	return intent.Advance(from, to)
}
