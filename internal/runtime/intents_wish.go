package runtime

import (
	"context"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// RetryIntent has an action tried again that failed, expired or was cancelled:
// by an intent of its own, with a key of its own, judged anew. What policy asks
// the user himself about, he has answered by this. It returns the new intent
// once it is settled, or waits for somebody else's approval, or ctx is done;
// then it goes on by itself. which names an intent as Intent does. Error codes:
// those of effect.Wished and effect.CallOf, intent_not_found, intent_ambiguous,
// tool_unknown, intent_not_begun (Conflict: it was cancelled before).
func (n *Node) RetryIntent(ctx context.Context, user, which string) (IntentView, error) {
	return n.wish(ctx, user, which, effect.Retry)
}

// UndoIntent has an action taken back that was done, likewise. Beside the
// error codes of RetryIntent: intent_not_undoable (Unsupported).
func (n *Node) UndoIntent(ctx context.Context, user, which string) (IntentView, error) {
	return n.wish(ctx, user, which, effect.Undo)
}

func (n *Node) wish(ctx context.Context, user, which string, w effect.Wish) (IntentView, error) {
	sc := store.ForUser(user)
	of, err := resolveIntent(ctx, n.opt.Store, sc, which)
	if err != nil {
		return IntentView{}, err
	}
	in, err := n.intentAt(ctx, sc, of.String())
	if err != nil {
		return IntentView{}, err
	}
	t, ok := n.callee(in.Agent, in.Tool)
	if !ok {
		return IntentView{}, fault.New(fault.NotFound, "tool_unknown", "the tool %s is not there any more, or its agent may not be used any more", in.Tool).
			With("look at steward agents list")
	}
	uri, err := n.effects.Wished(ctx, sc, of, w)
	if err == nil {
		_, err = n.effects.CallOf(ctx, sc, uri, user, t) // before anything is recorded of it
	}
	if err != nil {
		return IntentView{}, err
	}
	r := record.Request{Kind: record.RequestTask, Agent: in.Agent, Tool: in.Tool, Args: in.Args, Attended: true,
		Labels: uint8(in.Labels), Status: record.TaskAcknowledged, Intent: uri.String(), Wish: string(w)}
	own, err := n.wishID(ctx, sc, uri)
	if err != nil {
		return IntentView{}, err
	}
	wished, err := n.wishTask(ctx, user, of, own, r)
	if err != nil {
		return IntentView{}, err
	}
	if wished != nil {
		if err := n.await(ctx, wished); err != nil && ctx.Err() == nil {
			return IntentView{}, err
		}
	}
	v, err := n.Intent(context.WithoutCancel(ctx), user, uri.String())
	if fault.HasCode(err, "intent_not_found") && ctx.Err() != nil { // it goes on
		return v, fault.Of(ctx.Err())
	}
	if fault.HasCode(err, "intent_not_found") {
		err = fault.New(fault.Conflict, "intent_not_begun", "nothing has come of it: the action was not begun anew").
			With("look at steward requests for why, and try again")
	}
	return v, err
}

// wishID returns the id of the task of a wish whose intent is to be at a
// place: the same as long as something may come of it, another one after
// nothing has.
func (n *Node) wishID(ctx context.Context, sc store.Scope, at resource.URI) (id.ID, error) {
	inter, ok := at.Find(record.TypeInteraction)
	own := id.Derive("wish", at.String())
	for ; ok; own = id.Derive("wish", own.String()) {
		row, err := loadRequest(ctx, n.opt.Store, sc, inter.ChildID(record.TypeRequest, own))
		if err != nil || row.state != "" {
			return own, notThere(err)
		}
		if _, err = n.intentAt(ctx, sc, at.String()); !fault.Is(err, fault.NotFound) {
			return own, err
		}
	}
	return own, nil
}

// wishTask records what a person wants of an action as a task below the turn
// of that, or finds it recorded, and has the node go on with it. nil: it came
// to its end before.
func (n *Node) wishTask(ctx context.Context, user string, of resource.URI, own id.ID, r record.Request) (*task, error) {
	inter, ok := of.Find(record.TypeInteraction)
	if !ok {
		return nil, fault.New(fault.Unsupported, "intent_outside", "the action was called from outside, by a program: there is no conversation to which it belongs").
			With("call it again, or undo it by hand")
	}
	n.tasks.wishing.Lock()
	defer n.tasks.wishing.Unlock()
	if t := n.tasks.get(own); t != nil {
		return t, nil
	}
	r.Parent, r.Root = record.IDOf(inter, record.TypeInteraction), record.IDOf(inter, record.TypeInteraction)
	at := inter.ChildID(record.TypeRequest, own)
	if err := n.openRequest(context.WithoutCancel(ctx), user, at, r); err != nil {
		return nil, err
	}
	if err := n.answerAgain(user, inter); err != nil {
		return nil, err
	}
	row, err := loadRequest(ctx, n.opt.Store, store.ForUser(user), at)
	if err != nil || row.state == "" {
		return nil, err
	}
	if !n.takeUp(user, &row) {
		return nil, errClosed
	}
	return n.tasks.get(own), nil
}

// await waits until the outcome of a task is recorded, or somebody is asked.
func (n *Node) await(ctx context.Context, t *task) error {
	select {
	case <-t.known:
		return context.Cause(n.life)
	case <-t.asks:
		return nil
	case <-ctx.Done():
		return fault.Of(ctx.Err())
	case <-n.life.Done():
		return errClosed
	}
}

// answerAgain answers the record of a turn that was over before anything below
// it was recorded: its run tells how it ended.
func (n *Node) answerAgain(user string, inter resource.URI) error {
	ctx := context.WithoutCancel(n.life)
	run, found, err := lastRun(ctx, n.opt.Store, store.ForUser(user), inter)
	if err != nil || !found || run.Ended.IsZero() {
		return err
	}
	own := record.IDOf(inter, record.TypeInteraction)
	n.tasks.forget(own)
	return n.answerRequest(ctx, user, inter.ChildID(record.TypeRequest, own), run.Outcome, run.Error)
}

// fulfil does what a person wants of an action, or goes on with it after a
// crash.
func (n *Node) fulfil(t *task) (*message.ToolResult, error) {
	uri, err := resource.Parse(t.intent)
	if err != nil {
		return nil, err
	}
	if t.wish != record.WishRetry && t.wish != record.WishUndo {
		in, err := n.intentAt(t.work, t.call.Scope, t.intent)
		if err != nil {
			return nil, err
		}
		return settledAs(&in), nil
	}
	if t.call.Tool == nil {
		return refusedWish(t, fault.New(fault.NotFound, "tool_unknown", "the tool %s is not there any more", t.spec.Name)), nil
	}
	call, err := n.effects.CallOf(t.work, t.call.Scope, uri, t.chat.user, t.call.Tool)
	if err != nil && tool.Certain(err) {
		return refusedWish(t, err), nil
	}
	if err != nil {
		return nil, err
	}
	call.Request, call.Notify = t.call.Request, t.notify
	return n.effects.Run(request.With(t.work, call.Request), call)
}

// refusedWish is what became of a wish that nothing can come of.
func refusedWish(t *task, why error) *message.ToolResult {
	res := refused(why)
	res.Call, res.Name, res.Status = t.call.Ref, t.call.Name, message.Failed
	return res
}

// ResolveIntent records a person's word about an action of which nobody knows
// whether it happened, and has the conversation told. Error codes:
// intent_not_found, intent_ambiguous, intent_transition_illegal (Conflict).
func (n *Node) ResolveIntent(ctx context.Context, user, which string, w effect.Resolution) (IntentView, error) {
	sc := store.ForUser(user)
	uri, err := resolveIntent(ctx, n.opt.Store, sc, which)
	if err != nil {
		return IntentView{}, err
	}
	w.By = user
	if err := n.effects.Resolve(ctx, sc, uri, w); err != nil {
		return IntentView{}, err
	}
	in, err := n.intentAt(ctx, sc, uri.String())
	if err != nil {
		return IntentView{}, err
	}
	if _, ok := uri.Find(record.TypeInteraction); ok {
		_, err = n.wishTask(ctx, user, uri, id.Derive("resolved", uri.String()), record.Request{Kind: record.RequestTask, Agent: in.Agent, Tool: in.Tool,
			Args: in.Args, Attended: true, Labels: uint8(in.Labels), Status: record.TaskAcknowledged, Intent: uri.String(), Wish: record.WishResolve})
		if err != nil {
			return IntentView{}, err
		}
	}
	return n.Intent(ctx, user, uri.String())
}

// AnswerIntent records a person's word about an action that waits for one; hash
// repeats that of what was shown (IntentView.Hash). Error codes: those of
// Decide, intent_not_found, intent_ambiguous.
func (n *Node) AnswerIntent(ctx context.Context, user, which, hash, reason string, approve bool) (IntentView, error) {
	uri, err := resolveIntent(ctx, n.opt.Store, store.ForUser(user), which)
	if err != nil {
		return IntentView{}, err
	}
	if err := n.Decide(ctx, user, Verdict{ID: uri.String(), Hash: hash, Approve: approve, Reason: reason}); err != nil {
		return IntentView{}, err
	}
	return n.Intent(ctx, user, uri.String())
}

// CancelIntent withdraws an action that has not begun. Error codes:
// intent_not_found, intent_ambiguous, intent_transition_illegal (Conflict: it
// has begun, or is settled).
func (n *Node) CancelIntent(ctx context.Context, user, which string) (IntentView, error) {
	sc := store.ForUser(user)
	uri, err := resolveIntent(ctx, n.opt.Store, sc, which)
	if err != nil {
		return IntentView{}, err
	}
	ok, err := n.effects.Withdraw(ctx, sc, uri, reasonCancelled)
	if err != nil {
		return IntentView{}, err
	}
	v, err := n.Intent(ctx, user, uri.String())
	if err == nil && !ok {
		err = fault.New(fault.Conflict, "intent_transition_illegal", "the action is %s: it cannot be cancelled any more", v.State).
			Detail("from", string(v.State)).Detail("to", "cancelled").With("what was done can perhaps be taken back: steward intents undo")
	}
	return v, err
}
