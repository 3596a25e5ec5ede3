package api

import (
	"context"
	"net/http"
	"time"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/runtime"
	"steward/internal/server/httpauth"
	"steward/internal/store"
)

// Intender tells of actions and does what a person wants of them;
// runtime.Node is one. which is an id, at least 8 characters of its beginning,
// or the URI of the intent.
type Intender interface {
	Intents(ctx context.Context, user string, f runtime.IntentFilter, after store.Cursor, limit int) ([]runtime.IntentView, store.Cursor, error)
	Intent(ctx context.Context, user, which string) (runtime.IntentView, error)
	AnswerIntent(ctx context.Context, user, which, hash, reason string, approve bool) (runtime.IntentView, error)
	CancelIntent(ctx context.Context, user, which string) (runtime.IntentView, error)
	RetryIntent(ctx context.Context, user, which string) (runtime.IntentView, error)
	UndoIntent(ctx context.Context, user, which string) (runtime.IntentView, error)
	ResolveIntent(ctx context.Context, user, which string, w effect.Resolution) (runtime.IntentView, error)
}

// wishWait is how long a caller waits for what becomes of his wish; it goes on
// by itself.
const wishWait = time.Minute

// actions are the routes of actions.
func (f *server) actions() map[string]serve {
	return map[string]serve{
		"GET /intents?state&dead&conversation&after&limit": f.intents,
		"GET /intents/{id}":          f.intent,
		"POST /intents/{id}/approve": f.answerIntent(true),
		"POST /intents/{id}/deny":    f.answerIntent(false),
		"POST /intents/{id}/cancel":  f.wishIntent(Intender.CancelIntent),
		"POST /intents/{id}/retry":   f.wishIntent(Intender.RetryIntent),
		"POST /intents/{id}/undo":    f.wishIntent(Intender.UndoIntent),
		"POST /intents/{id}/resolve": f.resolveIntent,
	}
}

// intender is the node, where it has actions.
func (f *server) intender() (Intender, error) {
	if n, ok := f.Node.(Intender); ok {
		return n, nil
	}
	return nil, fault.New(fault.Unsupported, "intents_unsupported", "this server has no actions").WithHint("ask the Steward that has the data folder in use")
}

// intents answers with a user's actions, those that changed last first.
func (f *server) intents(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	n, err := f.intender()
	if err != nil {
		return err
	}
	after, limit, err := page(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	filter := runtime.IntentFilter{State: intent.State(q.Get("state"))}
	if filter.Dead, err = flagOf(q.Get("dead"), "dead"); err != nil {
		return err
	}
	if s := q.Get("conversation"); s != "" {
		own, ok := id.Parse(s)
		if !ok {
			return fault.New(fault.Invalid, "conversation_invalid", "%.80q is no id of a conversation", s).WithHint("GET %s/conversations lists them", Prefix)
		}
		filter.Conversation = own
	}
	list, next, err := n.Intents(r.Context(), c.User, filter, after, limit)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, struct {
		Intents []runtime.IntentView `json:"intents"`
		Next    store.Cursor         `json:"next,omitempty"`
	}{list, next})
}

// intent answers with everything about an action.
func (f *server) intent(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	n, err := f.intender()
	if err != nil {
		return err
	}
	v, err := n.Intent(r.Context(), c.User, r.PathValue("id"))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, v)
}

// wishIntent does what a person wants of an action.
func (f *server) wishIntent(do func(n Intender, ctx context.Context, user, which string) (runtime.IntentView, error)) serve {
	return func(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
		n, err := f.intender()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(r.Context(), wishWait)
		defer cancel()
		v, err := do(n, ctx, c.User, r.PathValue("id"))
		if err != nil {
			return err
		}
		status := http.StatusOK
		if v.State.InFlight() {
			status = http.StatusAccepted
		}
		return reply(w, status, v)
	}
}

// answerIntent records a person's word about an action that waits for it.
func (f *server) answerIntent(approve bool) serve {
	return func(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
		n, err := f.intender()
		if err != nil {
			return err
		}
		var in struct {
			Hash   string `json:"hash"`
			Reason string `json:"reason"`
		}
		if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
			return err
		}
		said, err := httpauth.Answer{Hash: in.Hash, Reason: in.Reason}.Verdict(c, r.PathValue("id"), approve)
		if err != nil {
			return err
		}
		v, err := n.AnswerIntent(r.Context(), c.User, said.ID, said.Hash, said.Reason, said.Approve)
		if err != nil {
			return err
		}
		return reply(w, http.StatusOK, v)
	}
}

// resolveIntent records a person's word about an action of which nobody knew
// whether it was done.
func (f *server) resolveIntent(w http.ResponseWriter, r *http.Request, c httpauth.Caller) error {
	n, err := f.intender()
	if err != nil {
		return err
	}
	var in struct {
		Done *bool  `json:"done"`
		Note string `json:"note"`
	}
	if err := httpauth.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	if in.Done == nil {
		return fault.New(fault.Invalid, "done_missing", "it is not said whether the action was done").WithHint("set done to true or false")
	}
	v, err := n.ResolveIntent(r.Context(), c.User, r.PathValue("id"), effect.Resolution{Done: *in.Done, Note: in.Note})
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, v)
}
