package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"steward/client"
	"steward/internal/conversation/worklog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
)

// IntentFilter selects intents. The zero value selects all.
type IntentFilter struct {
	State        intent.State // empty: any
	Dead         bool         // only those on which somebody should act
	Conversation id.ID        // zero: all
}

// Intents returns a user's actions, most recently changed first, at most limit of
// them. Error code: state_invalid.
func (k *Records) Intents(ctx context.Context, user string, f IntentFilter, after store.Cursor, limit int) ([]client.Intent, store.Cursor, error) {
	if f.State != "" && !f.State.Known() {
		return nil, "", fault.New(fault.Invalid, "state_invalid", "%.40q is no state of an action", f.State).WithHint("use one of: %s", strings.ReplaceAll(strings.Trim(fmt.Sprint(intent.States()), "[]"), " ", ", "))
	}
	q := store.Query{Term: store.Term{Name: effect.TermIntents}, Type: effect.TypeIntent, Reverse: true, After: after}
	if f.Dead {
		q.Term.Name = effect.TermDead
	}
	if !f.Conversation.Zero() {
		q.Under = record.ConversationURI(f.Conversation)
	}
	out, log := []client.Intent{}, k.told(user)
	for {
		q.Limit = min(max(limit-len(out), 1), store.DefaultLimit)
		page, err := k.store.Query(ctx, store.ForUser(user), q)
		if err != nil {
			return nil, "", err
		}
		for _, it := range page.Items {
			in, err := intent.Decode(it.Body)
			if err != nil {
				return nil, "", err
			}
			if f.State == "" || in.State == f.State {
				out = append(out, intentView(it.Resource, &in, log))
			}
		}
		if q.After = page.Next; q.After == "" || len(out) >= limit {
			return out, q.After, nil
		}
	}
}

// intentView returns the view of an intent's record, without the result. log says what the call does.
func intentView(r resource.Resource, in *intent.Intent, log *worklog.Engine) client.Intent {
	v := client.Intent{ID: effect.IntentID(r.URI).String(), URI: r.URI.String(), State: string(in.State), Dead: in.Dead, Tool: in.Tool, Version: in.Version,
		Args: json.RawMessage(in.Args), ArgsHash: in.ArgsHash, Key: in.Key, User: in.User, Agent: in.Agent, Lineage: in.Lineage,
		Labels: in.Labels.Names(), Fixed: in.Fixed, Open: in.Open, Deferred: in.Deferred, Reason: in.Reason, Rule: in.Rule, Policy: in.Policy,
		Approvers: in.Approvers, Approval: (*client.GivenApproval)(in.Approval), DeniedBy: in.DeniedBy, Resolved: (*client.Resolution)(in.Resolved), Attempts: in.Attempts,
		Conversation: requests.IDText(record.IDOf(r.URI, record.TypeConversation)), Interaction: requests.IDText(record.IDOf(r.URI, record.TypeInteraction)),
		Request: requests.IDText(in.Request), Created: in.Created, Changed: r.At, Call: requests.CallID(in.Call),
		Undoes: linked(in.Undoes), Undone: linked(in.Undone), Retries: linked(in.Retries), Retried: linked(in.Retried)}
	v.Summary = log.Summary(message.Call{ToolCall: &message.ToolCall{Common: message.Common{Labels: in.Labels}, Name: in.Tool, Args: []byte(in.Args)}})
	if in.State == intent.Awaiting {
		v.Expires = in.Expires
	}
	return v
}

// linked returns the id of the intent with a URI text, or "" if there is none.
func linked(text string) string {
	uri, err := resource.Parse(text)
	if text == "" || err != nil {
		return ""
	}
	return effect.IntentID(uri).String()
}

// Intent returns everything about one of a user's actions. which is its id, at
// least the first 8 characters of it, or its URI. Error codes: intent_not_found,
// intent_ambiguous.
func (k *Records) Intent(ctx context.Context, user, which string) (client.Intent, error) {
	sc := store.ForUser(user)
	uri, err := k.resolveIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	r, err := k.store.Get(ctx, sc, uri)
	if err != nil {
		return client.Intent{}, err
	}
	in, err := intent.Decode(r.Body)
	if err != nil {
		return client.Intent{}, err
	}
	v := intentView(r, &in, k.told(user))
	v.Called = Called(k.store)(ctx, in.Agent)
	if in.Result != nil {
		res, err := effect.ResultOf(&in)
		if err != nil {
			return v, err
		}
		v.Status = string(res.Status)
		if v.Result = res.Plain(); message.LabelsOf([]message.Block{res}).Has(message.Secret) {
			v.Result = "(secret)"
		}
	}
	if in.State == intent.Awaiting {
		q, err := k.Approval(ctx, user, v.URI, nil)
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) { // answered in the meantime
			return v, err
		}
		v.Hash = q.Hash
	}
	v.History, err = history(ctx, k.store, sc, uri)
	return v, err
}

// history reads the versions of an intent from the log.
func history(ctx context.Context, st store.Store, sc store.Scope, uri resource.URI) ([]client.IntentStep, error) {
	var out []client.IntentStep
	q := store.LogQuery{Of: uri}
	for {
		page, err := st.Log(ctx, sc, q)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			if e.Body == nil {
				continue
			}
			in, err := intent.Decode(e.Body)
			if err != nil {
				return nil, err
			}
			out = append(out, client.IntentStep{At: e.At, Actor: e.Actor, State: string(in.State), Reason: in.Reason})
		}
		if q.After = page.Next; !page.More {
			return out, nil
		}
	}
}

// resolveIntent returns the URI of the intent that a text names.
func (k *Records) resolveIntent(ctx context.Context, sc store.Scope, which string) (resource.URI, error) {
	missing := fault.New(fault.NotFound, "intent_not_found", "there is no action %.200q", which).WithHint("steward intents list shows them")
	which = strings.TrimSpace(which)
	if strings.HasPrefix(which, "cld:") {
		uri, err := resource.Parse(which)
		if err != nil || uri.Type() != effect.TypeIntent {
			return uri, missing
		}
		if _, err = k.store.Get(ctx, sc, uri); fault.Is(err, fault.NotFound) {
			err = missing
		}
		return uri, err
	}
	own, err := requests.ByPrefix(which, "intent", "actions", missing, func(yield func(id.ID, error) bool) {
		q := store.Query{Term: store.Term{Name: effect.TermIntents}, Type: effect.TypeIntent, Reverse: true, NoBody: true, Limit: 1000}
		for it, err := range store.Items(ctx, k.store, sc, q) {
			if !yield(effect.IntentID(it.URI), err) {
				return
			}
		}
	})
	if err != nil {
		return resource.URI{}, err
	}
	page, err := k.store.Query(ctx, sc, store.Query{Term: store.Term{Name: effect.TermIntent, Value: own.String()}, Type: effect.TypeIntent, Limit: 1, NoBody: true})
	if err == nil && len(page.Items) == 0 {
		err = missing
	}
	if err != nil {
		return resource.URI{}, err
	}
	return page.Items[0].URI, nil
}

// RetryIntent tries an action again that failed, expired or was cancelled. The
// retry is a new intent with its own idempotency key, and is authorized anew; it
// counts as the user's own approval where policy would ask the user. RetryIntent
// returns the new intent once it is settled, waits for somebody else's approval,
// or ctx is done; the intent then continues independently. which names an intent
// as for Intent. Error codes: those of effect.Engine.Again, intent_not_found,
// intent_ambiguous, intent_outside, tool_unknown.
func (n *Node) RetryIntent(ctx context.Context, user, which string) (client.Intent, error) {
	return n.again(ctx, user, which, effect.Retry)
}

// UndoIntent undoes an action that was done. It works like RetryIntent.
func (n *Node) UndoIntent(ctx context.Context, user, which string) (client.Intent, error) {
	return n.again(ctx, user, which, effect.Undo)
}

// again records the intent that follows a settled one, together with a request
// that is closed once the intent is settled and the conversation is told, and has
// the intent carried out.
func (n *Node) again(ctx context.Context, user, which string, step effect.Step) (client.Intent, error) {
	sc := store.ForUser(user)
	of, err := n.resolveIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	inter, ok := of.Find(record.TypeInteraction)
	if !ok {
		return client.Intent{}, fault.New(fault.Unsupported, "intent_outside", "the action was called from outside, by a program: there is no conversation to which it belongs").
			WithHint("call it again, or undo it by hand")
	}
	in, err := n.effects.Intent(ctx, sc, of)
	if err != nil {
		return client.Intent{}, err
	}
	t, ok := n.callee(in.Agent, in.Tool)
	if !ok {
		return client.Intent{}, fault.New(fault.NotFound, "tool_unknown", "the tool %s is not there any more, or its agent may not be used any more", in.Tool).
			WithHint("look at steward agents list")
	}
	row := func(at resource.URI) resource.URI {
		return inter.ChildID(record.TypeRequest, id.Derive("again", at.String()))
	}
	at, err := n.effects.Again(ctx, sc, of, step, t, func(at resource.URI) ([]store.Change, error) {
		return n.requests.Opening(ctx, sc, row(at), requestAbout(at, &in, string(step)))
	})
	if err != nil {
		return client.Intent{}, err
	}
	carried, err := n.carry(user, row(at))
	if err == nil && carried != nil {
		err = n.await(ctx, carried)
	}
	if err != nil && ctx.Err() == nil {
		return client.Intent{}, err
	}
	return n.Intent(context.WithoutCancel(ctx), user, at.String())
}

// requestAbout returns the record of a request to carry out what a person wants
// done about an action, and to tell the conversation.
func requestAbout(at resource.URI, in *intent.Intent, wish string) record.Request {
	turn := record.IDOf(at, record.TypeInteraction)
	return record.Request{Parent: turn, Root: turn, Kind: record.RequestTask, Agent: in.Agent, Tool: in.Tool, Args: in.Args, Attended: true,
		Labels: uint8(in.Labels), Status: record.TaskAcknowledged, Intent: at.String(), Wish: wish}
}

// carry makes the node work on the recorded request about an intent, unless it
// already does. It returns nil if the request is closed.
func (n *Node) carry(user string, at resource.URI) (*backgroundCall, error) {
	n.leases.carrying.Lock()
	defer n.leases.carrying.Unlock()
	if t := n.leases.task(record.IDOf(at, record.TypeRequest)); t != nil {
		return t, nil
	}
	ctx, inter := context.WithoutCancel(n.life), at.Parent()
	turn := record.IDOf(inter, record.TypeInteraction)
	n.requests.Note(turn)
	over, err := n.requests.AnswerByRun(ctx, user, inter.ChildID(record.TypeRequest, turn), inter) // the turn was over before it led to anything
	if err != nil {
		return nil, err
	}
	if over {
		n.requests.Forget(turn)
	}
	row, err := requests.Load(ctx, n.opt.Store, store.ForUser(user), at)
	if err != nil || row.State == "" {
		return nil, requests.NotThere(err)
	}
	if !n.takeUp(user, &row) {
		return nil, errClosed
	}
	return n.leases.task(row.ID), nil
}

// await waits until the outcome of a task is recorded, or a person is asked.
func (n *Node) await(ctx context.Context, t *backgroundCall) error {
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

// ResolveIntent records a person's statement about an action whose outcome is
// unknown, and tells the conversation. Error codes: intent_not_found,
// intent_ambiguous, intent_transition_illegal (Conflict).
func (n *Node) ResolveIntent(ctx context.Context, user, which string, w effect.Resolution) (client.Intent, error) {
	sc := store.ForUser(user)
	uri, err := n.resolveIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	w.By = user
	if err := n.effects.Resolve(ctx, sc, uri, w); err != nil {
		return client.Intent{}, err
	}
	if inter, ok := uri.Find(record.TypeInteraction); ok {
		in, err := n.effects.Intent(ctx, sc, uri)
		if err != nil {
			return client.Intent{}, err
		}
		at := inter.ChildID(record.TypeRequest, id.Derive("resolved", uri.String()))
		if err := n.requests.Open(context.WithoutCancel(ctx), user, at, requestAbout(uri, &in, record.WishResolve)); err != nil {
			return client.Intent{}, err
		}
		if _, err := n.carry(user, at); err != nil {
			return client.Intent{}, err
		}
	}
	return n.Intent(ctx, user, uri.String())
}

// AnswerIntent records a person's answer about an action that waits for one. hash
// repeats the hash of what was shown (client.Intent.Hash). Error codes: those of
// Decide, intent_not_found, intent_ambiguous.
func (n *Node) AnswerIntent(ctx context.Context, user, which, hash, reason string, approve bool) (client.Intent, error) {
	uri, err := n.resolveIntent(ctx, store.ForUser(user), which)
	if err != nil {
		return client.Intent{}, err
	}
	if err := n.Decide(ctx, user, Verdict{ID: uri.String(), Hash: hash, Approve: approve, Reason: reason}); err != nil {
		return client.Intent{}, err
	}
	return n.Intent(ctx, user, uri.String())
}

// CancelIntent withdraws an action that has not begun. Error codes:
// intent_not_found, intent_ambiguous, intent_transition_illegal (Conflict: it
// has begun, or is settled).
func (n *Node) CancelIntent(ctx context.Context, user, which string) (client.Intent, error) {
	sc := store.ForUser(user)
	uri, err := n.resolveIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	ok, err := n.effects.Cancel(ctx, sc, uri, reasonCancelled)
	if err != nil {
		return client.Intent{}, err
	}
	v, err := n.Intent(ctx, user, uri.String())
	if err == nil && !ok {
		err = fault.New(fault.Conflict, "intent_transition_illegal", "the action is %s: it cannot be cancelled any more", v.State).
			Detail("from", string(v.State)).Detail("to", "cancelled").WithHint("what was done can perhaps be taken back: steward intents undo")
	}
	return v, err
}
