package effect

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
)

// await asks a person, and waits until the intent has changed or the wait is over. It holds
// no resource of the store, and reads it only after a wake-up. The caller then looks at the
// state again.
func (f *execution) await(ctx context.Context) (*message.ToolResult, error) {
	own := *f.toolCall
	w := &waiter{call: &own, answered: make(chan struct{}, 1)}
	defer f.e.enlist(f.uri, w)()
	expiry := time.NewTimer(time.Until(f.in.Expires))
	defer expiry.Stop()
	for asked := false; ; asked = true {
		switch now, err := f.e.load(context.WithoutCancel(ctx), f.c.Scope, f.uri); {
		case err != nil:
			return f.refused(err)
		case now.version != f.version:
			f.adopt(now)
			return nil, nil
		}
		if !asked || w.stale.Swap(false) {
			if err := f.present(ctx); err != nil {
				return f.refused(err)
			}
			if f.deferred() && !f.last {
				return f.queued(), nil
			}
		}
		select {
		case <-ctx.Done():
		case <-expiry.C:
			return f.settle(ctx, intent.Expired, "no answer arrived in time", f.c.expired())
		case <-w.answered:
		}
		if ctx.Err() != nil {
			return f.cancel(ctx)
		}
	}
}

// present shows the question to the group that answers it and to those who watch the
// call.
func (f *execution) present(ctx context.Context) error {
	q, err := f.e.show(context.WithoutCancel(ctx), f.c.Scope, f.uri, &f.in, nil)
	if err != nil {
		return err
	}
	if err := f.e.postToGroup(ctx, &f.intentRecord, &q); err != nil {
		return err
	}
	q.Yours = f.e.may(ctx, &f.in, questionAt{store.ForUser(f.in.User), f.uri}) == nil
	f.c.notify(Progress{Status: Awaiting, Tool: f.spec.Name, Args: f.args, Question: &q})
	return nil
}

// Decision is a person's answer to a question. ID and Hash repeat what was shown (see
// Question).
type Decision struct {
	ID       string // of the question, or the IntentID of its intent
	Hash     string
	Approve  bool
	Reason   string // may be empty
	Standing Standing
	Pattern  intent.Pattern // of a standing approval, as it was shown; nil: one that covers just this call
	Until    time.Time      // end of a standing approval; zero: never
	Args     []byte         // the arguments as the person changed them; nil: unchanged
	Via      string         // the channel on which the person answered; empty: a terminal or the API
}

// Decide records a person's answer, which is durable when Decide returns. It is
// idempotent: giving the same answer again does nothing. The scope is that of the person
// who answers, and its actor names that person. If the answer is to what was shown
// before, as when a file has changed meanwhile, the question is shown again.
//
// Error codes: approval_not_found (NotFound; also if the person may not see it),
// approval_by_group (Denied), approval_changed, approval_expired, approval_tool_changed,
// approval_decided, approval_not_asked, grant_not_possible, grant_other (Conflict),
// approval_invalid, grant_invalid, grant_expiry_past (Invalid); for changed arguments
// approval_edit_denied (Denied), approval_edit_impossible (Conflict) and those of the
// tool's own check; those of the store.
func (e *Engine) Decide(ctx context.Context, sc store.Scope, d Decision) error {
	at, err := e.find(ctx, sc, d.ID)
	if err != nil {
		return err
	}
	err = e.amend(ctx, at.scope, at.uri, func(r *intentRecord) ([]store.Change, error) { return e.answer(ctx, at, r, d) })
	switch w := e.waiter(at.uri); {
	case fault.HasCode(err, "not_found"): // it was erased in between
		err = questionNotFound(d.ID)
	case fault.HasCode(err, "approval_changed") && w != nil: // such as the file that it would change
		w.stale.Store(true)
		w.wake()
		e.notifyChanged()
	}
	return err
}

func questionNotFound(id string) error {
	return fault.New(fault.NotFound, "approval_not_found", "there is no question %.200q", id).
		WithHint("answer with the id and hash that the question came with; steward approvals list shows the open questions")
}

// answer applies a person's answer to an intent, and returns what to record with it: the
// standing approval, if one was given.
func (e *Engine) answer(ctx context.Context, at questionAt, r *intentRecord, d Decision) ([]store.Change, error) {
	if err := e.may(ctx, &r.in, at); err != nil {
		return nil, err
	}
	switch done, err := e.answerable(r, d); {
	case err != nil:
		return nil, err
	case done:
		return nil, cmp.Or(e.sameAnswer(ctx, at, r, d), errUnchanged)
	}
	q, err := e.show(ctx, at.scope, at.uri, &r.in, d.Pattern)
	if err != nil {
		return nil, err
	}
	if d.Hash != q.Hash {
		return nil, fault.New(fault.Conflict, "approval_changed", "the answer does not match the question").
			WithHint("reload the question, and answer it with its current hash")
	}
	if d.Approve {
		return e.approve(ctx, at, r, &q, d)
	}
	by := at.scope.Actor
	r.in.State, r.in.DeniedBy, r.in.DeniedVia, r.in.Reason = intent.Denied, by, d.Via, "the user denied it"
	if r.in.Approvers != "" {
		r.in.Reason = by + " of the group " + r.in.Approvers + " denied it"
	}
	if d.Reason != "" {
		r.in.Reason += ": " + d.Reason
	}
	return nil, nil
}

// approve marks the intent as approved, and returns what to record with it: the standing
// approval, if one was given.
func (e *Engine) approve(ctx context.Context, at questionAt, r *intentRecord, q *Question, d Decision) ([]store.Change, error) {
	if t, ok := e.toolOf(r.uri, &r.in); ok && t.Spec().Version != r.in.Version {
		return nil, toolChanged(r.in.Tool)
	}
	now := time.Now().UTC()
	a := &intent.Approval{By: at.scope.Actor, At: now, Version: r.in.Version, Expires: now.Add(e.opt.ApprovalTimeout), Shown: q.Hash, Via: d.Via}
	if d.Args != nil {
		if d.Standing != Once {
			return nil, fault.New(fault.Invalid, "approval_invalid", "an approval with edited arguments applies only once").
				WithHint("approve the edited call once, or the original call with a pattern")
		}
		was := r.in.Args
		switch edited, err := e.change(ctx, at.scope, r, d.Args); {
		case err != nil:
			return nil, err
		case edited:
			a.Edited = was
		}
	}
	a.ArgsHash = r.in.ArgsHash
	r.in.State, r.in.Approval = intent.Approved, a
	if d.Standing == Once {
		if d.Pattern != nil || !d.Until.IsZero() {
			return nil, fault.New(fault.Invalid, "approval_invalid", "a pattern and an expiry require a standing approval").
				WithHint("set its duration: conversation or always")
		}
		return nil, nil
	}
	g, err := grantFor(q, &r.in, d, now)
	if err != nil {
		return nil, err
	}
	put, err := g.put(store.If{Absent: true})
	return []store.Change{put}, err
}

// answerable reports whether the intent waits for an answer. done means that the same
// answer was given before.
func (e *Engine) answerable(r *intentRecord, d Decision) (done bool, err error) {
	a := r.in.Approval
	switch st := r.in.State; {
	case st == intent.Awaiting && time.Now().Before(r.in.Expires):
		return false, nil
	case d.Approve && a != nil && a.Shown == d.Hash && a.Shown != "" && st != intent.Denied && st != intent.Cancelled && st != intent.Expired,
		!d.Approve && st == intent.Denied && r.in.DeniedBy != "":
		return true, nil
	case st == intent.Awaiting, st == intent.Expired:
		err = fault.New(fault.Conflict, "approval_expired", "the question has expired").Detail("state", string(st))
	case st == intent.Proposed:
		err = fault.New(fault.Conflict, "approval_not_asked", "no approval has been requested yet").Detail("state", string(st))
	default:
		err = decidedAlready(r)
	}
	return false, err
}

func decidedAlready(r *intentRecord) error {
	return fault.New(fault.Conflict, "approval_decided", "already decided: the action is %s", r.in.State).Detail("state", string(r.in.State))
}

// sameAnswer refuses an approval of a question that was approved differently: with other
// arguments, or for another duration.
func (e *Engine) sameAnswer(ctx context.Context, at questionAt, r *intentRecord, d Decision) error {
	if !d.Approve {
		return nil
	}
	other := fault.New(fault.Conflict, "approval_decided", "already approved in another way: the action is %s", r.in.State).
		Detail("state", string(r.in.State)).WithHint("compare with the approval that was given")
	args := r.in.Approval.Edited
	if args == "" {
		args = r.in.Args
	}
	if d.Args != nil {
		own, err := e.canonical(d.Args)
		if err != nil {
			return err
		}
		args = string(own)
	}
	if args != r.in.Args {
		return other
	}
	if d.Standing == Once {
		return nil
	}
	_, err := e.opt.Store.Get(ctx, at.scope, grantURI(grantID(at.uri.String(), d.Hash, d.Standing)))
	if fault.Is(err, fault.NotFound) {
		return other
	}
	return err
}

// answered announces that a question no longer waits for an answer.
func (e *Engine) answered(ctx context.Context, r *intentRecord) {
	if r.in.Approvers != "" { // if a crash prevents this, Questions does it
		e.withdraw(ctx, r.in.Approvers, questionURI(r.uri))
	}
	e.notifyChanged()
}

func requestOf(ctx context.Context) id.ID {
	c, _ := request.From(ctx)
	return c.ID
}

// Questions returns the questions that a user can see, oldest first: those of the user, in
// all conversations and below them, and those addressed to the user's groups. They come
// from the record, whether a run waits for them or not. Yours is false for questions that
// only others may answer.
func (e *Engine) Questions(ctx context.Context, user string) ([]Question, error) {
	sc := store.ForUser(user)
	var out []Question
	listed := map[resource.URI]bool{} // the user's own, which a group may be asked too
	add := func(at questionAt, in *intent.Intent) error {
		if !time.Now().Before(in.Expires) || listed[at.uri] {
			return nil
		}
		listed[at.uri] = true
		q, err := e.shown(ctx, at, in, nil)
		out = append(out, q)
		return err
	}
	for r, err := range e.intents(ctx, sc, store.Query{State: string(intent.Awaiting)}) {
		if err == nil {
			err = add(questionAt{sc, r.uri}, &r.in)
		}
		if err != nil {
			return nil, err
		}
	}
	groups, err := e.groupsOf(ctx, user)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		for it, err := range store.Items(ctx, e.opt.Store, groupScope(group), store.Query{Type: typeQuestion, State: stateOpen, NoBody: true}) {
			if err != nil {
				return nil, err
			}
			at, in, err := e.posted(ctx, group, user, it.URI)
			switch {
			case fault.Is(err, fault.NotFound) || err == nil && in.State != intent.Awaiting: // a crash has left it behind
				e.withdraw(ctx, group, it.URI)
				continue
			case err == nil:
				err = add(at, &in)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Question) int {
		return cmp.Or(a.Asked.Compare(b.Asked), strings.Compare(a.ID, b.ID))
	})
	return out, nil
}

// shown returns a question as the user of at sees it.
func (e *Engine) shown(ctx context.Context, at questionAt, in *intent.Intent, p intent.Pattern) (Question, error) {
	q, err := e.show(ctx, at.scope, at.uri, in, p)
	if err != nil {
		return q, err
	}
	if err = e.may(ctx, in, at); fault.Is(err, fault.Denied) {
		return q, nil
	}
	q.Yours = err == nil
	return q, err
}

// Question returns one question as a user sees it. p is the pattern for which the user
// wants to give a standing approval, or nil. Error codes: those of Decide.
func (e *Engine) Question(ctx context.Context, sc store.Scope, name string, p intent.Pattern) (Question, error) {
	at, err := e.find(ctx, sc, name)
	if err != nil {
		return Question{}, err
	}
	r, err := e.load(ctx, at.scope, at.uri)
	if err != nil {
		return Question{}, err
	}
	done, err := e.answerable(&r, Decision{})
	if done {
		err = decidedAlready(&r)
	}
	if err != nil {
		return Question{}, err
	}
	return e.shown(ctx, at, &r.in, p)
}

// Answered reports whether a person has approved (yes) or denied (no) tool calls in a turn
// that were not fixed. Only calls that match accepts count, and the intent own does not.
func (e *Engine) Answered(ctx context.Context, sc store.Scope, turn, own resource.URI, match func(tool string, args []byte) bool) (yes, no bool, err error) {
	for r, err := range e.intents(ctx, sc, store.Query{Under: turn}) {
		if err != nil {
			return false, false, err
		}
		in := &r.in
		if r.uri == own || in.Fixed || !match(in.Tool, []byte(in.Args)) {
			continue
		}
		yes = yes || in.Approval != nil && in.Approval.Grant == ""
		no = no || in.State == intent.Denied && in.DeniedBy != ""
	}
	return yes, no, nil
}
