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

// Wish is what a person wants of a settled action.
type Wish string

// The wishes.
const (
	Retry Wish = "retry" // that it is tried again: by an intent of its own
	Undo  Wish = "undo"  // that it is taken back: likewise
)

// The ids of the intents that people's wishes make, below the one that they
// are about.
const (
	undoID  = "undo"
	retryID = "retry-"
)

// anew is a call that a person wants.
type anew struct {
	uri    resource.URI // of its own intent
	of     resource.URI // the settled one that it is about
	undoes resource.URI // the one whose effect it takes back; zero: it tries again
	key    string
	by     string
}

func (a *anew) undo() bool { return !a.undoes.Zero() }

// Wished returns where the intent of a person's wish is to be recorded. Error
// codes: not_found; intent_unsettled, intent_unknown (it has to be resolved
// first), intent_not_failed, intent_retried, intent_not_done, intent_undone
// (all Conflict), with a remedy each.
func (e *Engine) Wished(ctx context.Context, sc store.Scope, of resource.URI, w Wish) (resource.URI, error) {
	r, err := e.load(ctx, sc, of)
	if err != nil {
		return resource.URI{}, err
	}
	if err := wishable(&r.in, w); err != nil {
		return resource.URI{}, err
	}
	if w == Undo {
		return of.Child(TypeIntent, undoID), nil
	}
	base, n := attempt(of)
	return base.Child(TypeIntent, retryID+strconv.Itoa(n+1)), nil
}

// attempt returns the intent of the first attempt, and how many times it was
// tried again up to this one.
func attempt(uri resource.URI) (base resource.URI, n int) {
	if number, ok := strings.CutPrefix(uri.ID(), retryID); ok {
		if n, err := strconv.Atoi(number); err == nil && uri.Parent().Type() == TypeIntent {
			return uri.Parent(), n
		}
	}
	return uri, 0
}

func wishable(in *intent.Intent, w Wish) error {
	conflict := func(code, remedy, format string, args ...any) error {
		return fault.New(fault.Conflict, code, format, args...).Detail("state", string(in.State)).With("%s", remedy)
	}
	switch st := in.State; {
	case st.InFlight():
		return conflict("intent_unsettled", "wait until it is settled, or cancel it", "the action is still %s", st)
	case st == intent.Unknown:
		return conflict("intent_unknown", "look whether it was done, and say so first: steward intents resolve", "nobody knows whether the action was done")
	case w == Retry && in.Retried != "":
		return conflict("intent_retried", "look at the newer attempt", "the action was tried again already")
	case w == Retry && st != intent.Failed && st != intent.Expired && st != intent.Cancelled:
		return conflict("intent_not_failed", "ask for it anew in the conversation", "the action is %s: there is nothing to be tried again", st)
	case w == Undo && in.Undone != "":
		return conflict("intent_undone", "ask for it anew if you want it again", "the action was taken back already")
	case w == Undo && st != intent.Done:
		return conflict("intent_not_done", "only what was done can be taken back", "the action is %s: there is nothing to be taken back", st)
	}
	return nil
}

// CallOf returns the call whose intent is, or is to be, at a place that Wished
// has given, for Run: the caller sets its Request and what it wants to be told.
// What policy asks the user about, by has answered with the wish itself. Error
// codes: not_found, intent_not_undoable (Unsupported), and those of the tool's
// check of the arguments.
func (e *Engine) CallOf(ctx context.Context, sc store.Scope, uri resource.URI, by string, t tool.Tool) (Call, error) {
	base, n := attempt(uri)
	a := &anew{uri: uri, of: uri.Parent(), by: by}
	switch {
	case n > 1:
		a.of = base.Child(TypeIntent, retryID+strconv.Itoa(n-1))
	case n == 0 && uri.ID() != undoID:
		return Call{}, fault.New(fault.NotFound, "not_found", "%s is not the place of a wish", uri)
	case n == 0:
		a.undoes = a.of
	}
	r, err := e.load(ctx, sc, a.of)
	if err != nil {
		return Call{}, err
	}
	a.key = intent.RetryKey(r.in.Key, uri.String())
	was := r.in
	if n > 0 && r.in.Undoes != "" { // an undoing is tried again
		if a.undoes, err = resource.Parse(r.in.Undoes); err != nil {
			return Call{}, err
		}
		done, err := e.load(ctx, sc, a.undoes)
		if err != nil {
			return Call{}, err
		}
		was = done.in
	}
	if a.undo() {
		if t, err = undoing(t, &was); err != nil {
			return Call{}, err
		}
	}
	msg := uri
	for msg.Type() == TypeIntent {
		msg = msg.Parent()
	}
	c := Call{Name: r.in.Tool, Tool: t, Args: []byte(r.in.Args), Ref: r.in.Call, Message: msg, Scope: sc, Agent: r.in.Agent,
		Lineage: r.in.Lineage, Labels: r.in.Labels, Flow: flowOf(&r.in), Attended: true, anew: a}
	if a.undo() {
		c.Action = ActionUndo
	}
	_, err = e.check(&c, t.Spec())
	return c, err
}

// flowOf is where a recorded call came from.
func flowOf(in *intent.Intent) policy.Flow {
	f := policy.Flow{Fixed: in.Fixed, Open: in.Open}
	if !f.Fixed {
		f.Why = "it was not fixed when it was asked for"
	}
	return f
}

// undo is the taking back of an effect as a tool: the receiver of that knows
// it again.
type undo struct {
	tool tool.Tool
	by   tool.Undoer
	key  string // of what is taken back
	res  tool.Result
}

func undoing(t tool.Tool, in *intent.Intent) (tool.Tool, error) {
	by, ok := tool.UndoerOf(t)
	if !ok {
		return nil, fault.New(fault.Unsupported, "intent_not_undoable", "what %s does cannot be taken back", in.Tool).
			With("undo it by hand, or ask for an action that does the opposite")
	}
	u := &undo{tool: t, by: by, key: in.Key}
	if in.Result != nil {
		res, err := decodeResult(in.Result)
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

// Check implements tool.Checker: the arguments were checked when it was done.
func (u *undo) Check([]byte) error { return nil }

// Call implements tool.Tool.
func (u *undo) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	in.Key = u.key
	return u.by.Undo(ctx, in, u.res)
}

// wished is the approval that lies in a person's wish: where policy asks the
// user himself, and nobody else.
func (f *flight) wished(d policy.Decision) *intent.Approval {
	a := f.c.anew
	if a == nil || d.Approvers != "" || a.by == "" {
		return nil
	}
	now := time.Now().UTC()
	return &intent.Approval{By: a.by, At: now, ArgsHash: f.in.ArgsHash, Version: f.in.Version, Expires: now.Add(f.e.opt.ApprovalTimeout)}
}

// succeed links the intent of a wish with the settled one, in the commit that
// records it.
func (f *flight) succeed(ctx context.Context) ([]store.Change, error) {
	a := f.c.anew
	if a == nil {
		return nil, nil
	}
	if a.undo() {
		done, err := f.e.load(ctx, f.c.Scope, a.undoes)
		if err == nil {
			err = wishable(&done.in, Undo)
		}
		if err != nil {
			return nil, err
		}
		f.in.Undoes = a.undoes.String()
	}
	if a.of == a.undoes {
		return nil, nil
	}
	r, err := f.e.load(ctx, f.c.Scope, a.of)
	if err == nil {
		err = wishable(&r.in, Retry)
	}
	if err != nil {
		return nil, err
	}
	f.in.Retries, r.in.Retried, r.in.Dead = a.of.String(), a.uri.String(), false
	put, err := r.put(store.If{Version: r.version})
	return []store.Change{put}, err
}

// takenBack notes at the settled intent that it was, in the commit that says
// that it is done.
func (f *flight) takenBack(ctx context.Context, to intent.State) ([]store.Change, error) {
	a := f.c.anew
	if a == nil || !a.undo() || to != intent.Done {
		return nil, nil
	}
	return f.e.markUndone(context.WithoutCancel(ctx), f.c.Scope, a.undoes, a.uri)
}

// Resolution is a person's word about what was unknown.
type Resolution struct {
	Done bool
	Note string // may be empty
	By   string // who; empty: the scope's actor
}

// Resolve records a person's word about an action of which nobody knows
// whether it happened. The same word again does nothing. Error codes:
// not_found, intent_transition_illegal (Conflict).
func (e *Engine) Resolve(ctx context.Context, sc store.Scope, uri resource.URI, w Resolution) error {
	if w.By == "" {
		w.By = sc.Actor
	}
	to, status := intent.Failed, message.Failed
	text := "It was not known whether this was done. " + w.By + " has looked: it was not done."
	if w.Done {
		to, status = intent.Done, message.OK
		text = "It was not known whether this was done. " + w.By + " has looked: it was done."
	}
	if w.Note != "" {
		text += " (" + w.Note + ")"
	}
	for {
		r, err := e.load(ctx, sc, uri)
		if err != nil {
			return err
		}
		if r.in.State == to && r.in.Resolved != nil {
			return nil
		}
		if err := resolvable(r.in.State, to); err != nil {
			return err
		}
		c := Call{Ref: r.in.Call, Name: r.in.Tool}
		r.in.State, r.in.Dead = to, false
		r.in.Resolved = &intent.Resolution{By: w.By, At: time.Now().UTC(), Done: w.Done, Note: strings.ToValidUTF8(w.Note, "\uFFFD")}
		r.in.Result = encodeResult(e.hide(c.told(status, text)))
		put, err := r.put(store.If{Version: r.version})
		if err != nil {
			return err
		}
		more, err := e.resolvedUndo(ctx, sc, &r)
		if err != nil {
			return err
		}
		if _, err = e.opt.Store.Commit(ctx, sc, store.Batch{Request: requestOf(ctx), Changes: append(more, put)}); !fault.Is(err, fault.Conflict) {
			return err
		}
	}
}

// resolvedUndo notes at an action that it was taken back, where a person has
// said so.
func (e *Engine) resolvedUndo(ctx context.Context, sc store.Scope, r *kept) ([]store.Change, error) {
	if r.in.Undoes == "" || r.in.State != intent.Done {
		return nil, nil
	}
	of, err := resource.Parse(r.in.Undoes)
	if err != nil {
		return nil, err
	}
	return e.markUndone(ctx, sc, of, r.uri)
}

// markUndone is the change that notes at an action which one took it back.
func (e *Engine) markUndone(ctx context.Context, sc store.Scope, of, by resource.URI) ([]store.Change, error) {
	r, err := e.load(ctx, sc, of)
	if err != nil {
		return nil, err
	}
	r.in.Undone = by.String()
	put, err := r.put(store.If{Version: r.version})
	return []store.Change{put}, err
}

// resolvable refuses a person's word where Steward knows better: of what is
// under way, the outcome is still to come.
func resolvable(from, to intent.State) error {
	if from.InFlight() {
		return fault.New(fault.Conflict, "intent_transition_illegal", "an intent that is %s is not resolved by a person", from).
			Detail("from", string(from)).Detail("to", string(to)).With("wait until it has ended")
	}
	return intent.Advance(from, to)
}
