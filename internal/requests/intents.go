package requests

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"steward/client"
	"steward/internal/conversation/worklog"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/record"
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
func (e *Engine) Intents(ctx context.Context, user string, f IntentFilter, after store.Cursor, limit int) ([]client.Intent, store.Cursor, error) {
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
	out, log := []client.Intent{}, e.WorkLog(user)
	for {
		q.Limit = min(max(limit-len(out), 1), store.DefaultLimit)
		page, err := e.store.Query(ctx, store.ForUser(user), q)
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
		Conversation: IDText(record.IDOf(r.URI, record.TypeConversation)), Interaction: IDText(record.IDOf(r.URI, record.TypeInteraction)),
		Request: IDText(in.Request), Created: in.Created, Changed: r.At, Call: CallID(in.Call),
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

// WorkLog returns the work log in the words for a user.
func (e *Engine) WorkLog(user string) *worklog.Engine {
	var zone *time.Location
	if e.zone != nil {
		zone = e.zone(user)
	}
	return worklog.New(e.store, e.spec, zone)
}

// Intent returns everything about one of a user's actions. which is its id, at
// least the first 8 characters of it, or its URI. Error codes: intent_not_found,
// intent_ambiguous.
func (e *Engine) Intent(ctx context.Context, user, which string) (client.Intent, error) {
	sc := store.ForUser(user)
	uri, err := e.FindIntent(ctx, sc, which)
	if err != nil {
		return client.Intent{}, err
	}
	r, err := e.store.Get(ctx, sc, uri)
	if err != nil {
		return client.Intent{}, err
	}
	in, err := intent.Decode(r.Body)
	if err != nil {
		return client.Intent{}, err
	}
	v := intentView(r, &in, e.WorkLog(user))
	v.Called = Called(e.store)(ctx, in.Agent)
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
		q, err := e.effects.Question(ctx, sc, v.URI, nil)
		if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Conflict) { // answered in the meantime
			return v, err
		}
		v.Hash = q.Hash
	}
	v.History, err = history(ctx, e.store, sc, uri)
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
		for _, x := range page.Entries {
			if x.Body == nil {
				continue
			}
			in, err := intent.Decode(x.Body)
			if err != nil {
				return nil, err
			}
			out = append(out, client.IntentStep{At: x.At, Actor: x.Actor, State: string(in.State), Reason: in.Reason})
		}
		if q.After = page.Next; !page.More {
			return out, nil
		}
	}
}

// FindIntent returns the URI of the intent that a text names.
func (e *Engine) FindIntent(ctx context.Context, sc store.Scope, which string) (resource.URI, error) {
	missing := fault.New(fault.NotFound, "intent_not_found", "there is no action %.200q", which).WithHint("steward intents list shows them")
	which = strings.TrimSpace(which)
	if strings.HasPrefix(which, "cld:") {
		uri, err := resource.Parse(which)
		if err != nil || uri.Type() != effect.TypeIntent {
			return uri, missing
		}
		if _, err = e.store.Get(ctx, sc, uri); fault.Is(err, fault.NotFound) {
			err = missing
		}
		return uri, err
	}
	own, err := ResolvePrefix(which, "intent", "actions", missing, func(yield func(id.ID, error) bool) {
		q := store.Query{Term: store.Term{Name: effect.TermIntents}, Type: effect.TypeIntent, Reverse: true, NoBody: true, Limit: 1000}
		for it, err := range store.Items(ctx, e.store, sc, q) {
			if !yield(effect.IntentID(it.URI), err) {
				return
			}
		}
	})
	if err != nil {
		return resource.URI{}, err
	}
	page, err := e.store.Query(ctx, sc, store.Query{Term: store.Term{Name: effect.TermIntent, Value: own.String()}, Type: effect.TypeIntent, Limit: 1, NoBody: true})
	if err == nil && len(page.Items) == 0 {
		err = missing
	}
	if err != nil {
		return resource.URI{}, err
	}
	return page.Items[0].URI, nil
}
