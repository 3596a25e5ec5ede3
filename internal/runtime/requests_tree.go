package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// RequestView is a request as it is shown to a person, with what it led to:
// turns, and below them tool calls, asked agents and tasks.
type RequestView struct {
	ID           id.ID         `json:"id,omitzero"` // zero for a tool call that is no request itself
	User         string        `json:"user,omitzero"`
	Kind         string        `json:"kind"`
	Title        string        `json:"title,omitzero"`  // of a turn: how the message begins; never anything secret
	Origin       string        `json:"origin,omitzero"` // of a turn: who opened it
	Agent        string        `json:"agent,omitzero"`
	Tool         string        `json:"tool,omitzero"`
	Call         string        `json:"call,omitzero"` // "MESSAGE/BLOCK"
	Conversation id.ID         `json:"conversation_id,omitzero"`
	Interaction  id.ID         `json:"interaction_id,omitzero"`
	State        string        `json:"state"`           // record.RequestOpen, record.RequestAnswered or RequestClosed
	Status       string        `json:"status,omitzero"` // of a call: its result's, or callRunning; of a task: its last step
	Intent       string        `json:"intent,omitzero"` // the state of an action's intent
	Wish         string        `json:"wish,omitzero"`   // of a task about an action: record.WishQueued, …
	Message      string        `json:"message,omitzero"`
	Progress     float64       `json:"progress,omitzero"`
	Outcome      string        `json:"outcome,omitzero"`
	Error        string        `json:"error,omitzero"`
	Started      time.Time     `json:"started,omitzero"`
	Ended        time.Time     `json:"ended,omitzero"`    // zero: not ended
	TookMS       *int64        `json:"took_ms,omitempty"` // once it has ended; set when encoded
	Usage        message.Usage `json:"usage,omitzero"`
	Cost         float64       `json:"cost,omitzero"` // US dollars
	Below        []RequestView `json:"below,omitzero"`
}

// A kind of view that no record has, and the state of a closed request.
const (
	requestTool   = "tool" // a call that was answered directly
	RequestClosed = "closed"
)

// Took returns how long the request took, or has taken until now.
func (v *RequestView) Took(now time.Time) time.Duration {
	if v.Started.IsZero() {
		return 0
	}
	if !v.Ended.IsZero() {
		now = v.Ended
	}
	return max(0, now.Sub(v.Started))
}

// MarshalJSON implements json.Marshaler.
func (v RequestView) MarshalJSON() ([]byte, error) {
	type plain RequestView
	if !v.Started.IsZero() && !v.Ended.IsZero() {
		ms := v.Took(v.Ended).Milliseconds()
		v.TookMS = &ms
	}
	return json.Marshal(plain(v))
}

// RequestTree returns the turn that a request belongs to, with everything that
// the turn led to. which is the id of the turn's interaction or of any request
// below it, or at least the first 8 characters of such an id. Error codes:
// request_not_found, request_ambiguous.
func (k *Records) RequestTree(ctx context.Context, user, which string) (RequestView, error) {
	st, sc := k.store, store.ForUser(user)
	own, err := resolveRequest(ctx, st, sc, which)
	if err != nil {
		return RequestView{}, err
	}
	r, err := findRequest(ctx, st, sc, own)
	if err != nil {
		return RequestView{}, err
	}
	if r.Kind == record.RequestCall { // it is not below a turn
		return viewOf(&r), nil
	}
	conv, root, err := rootOf(ctx, st, sc, &r)
	if err != nil {
		return RequestView{}, err
	}
	d := drawer{ctx: ctx, st: st, sc: sc, price: k.parts.Price}
	return d.turn(record.InteractionURI(conv, root), 0)
}

// Requests returns the user's open requests or, if all is set, the most recently
// changed ones; at most limit of them, newest first, without the requests below
// them.
func (k *Records) Requests(ctx context.Context, user string, all bool, limit int) ([]RequestView, error) {
	return k.requests(ctx, store.ForUser(user), all, limit)
}

// EverybodysRequests is like Requests, for all users. It is for admins.
func (k *Records) EverybodysRequests(ctx context.Context, all bool, limit int) ([]RequestView, error) {
	return k.requests(ctx, store.ForNode(resource.System), all, limit)
}

func (k *Records) requests(ctx context.Context, sc store.Scope, all bool, limit int) ([]RequestView, error) {
	st := k.store
	out := []RequestView{}
	if all {
		q := store.Query{Term: store.Term{Name: termRequests}, Reverse: true, Limit: min(limit, store.DefaultLimit)}
		for r, err := range requestsIn(ctx, st, sc, q) {
			if err != nil {
				return nil, err
			}
			if out = append(out, viewOf(&r)); len(out) == limit {
				break
			}
		}
	} else {
		open, err := openRequests(ctx, st, sc)
		if err != nil {
			return nil, err
		}
		for i := range open {
			out = append(out, viewOf(&open[i]))
		}
	}
	if err := k.held(ctx, sc, &out); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b RequestView) int { return b.Started.Compare(a.Started) })
	out = out[:min(len(out), limit)]
	d := drawer{ctx: ctx, st: st, sc: sc}
	for i := range out {
		if err := d.entitle(&out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// The statuses of a turn that is open but not running.
const (
	requestParked  = "parked"
	requestWaiting = "waiting for its model"
)

// held marks the turns that are parked or wait for their model, and adds those
// that have no record because they led to no other request.
func (k *Records) held(ctx context.Context, sc store.Scope, list *[]RequestView) error {
	runs, err := k.conversations.OpenRuns(ctx, sc, resource.URI{})
	for i := range runs {
		r := &runs[i]
		if r.Parked.IsZero() && r.Waits == "" {
			continue
		}
		at := slices.IndexFunc(*list, func(v RequestView) bool { return v.ID == r.Interaction })
		if at < 0 {
			at = len(*list)
			*list = append(*list, RequestView{ID: r.Interaction, User: userOf(r.Space), Kind: record.RequestTurn, Agent: r.Agent,
				Conversation: r.Conversation, Interaction: r.Interaction, State: record.RequestOpen, Started: r.Started})
		}
		v := &(*list)[at]
		if v.Status, v.Message = requestWaiting, r.Waits; !r.Parked.IsZero() {
			v.Status, v.Message = requestParked, fmt.Sprintf("Steward crashed %d times in a row while it ran; steward requests resume goes on with it", r.Crashes)
		}
	}
	return err
}

// entitle sets the title of a turn or of an asked agent to what was asked.
func (d *drawer) entitle(v *RequestView) error {
	if v.Conversation.Zero() { // a call from outside: its tool says what it is
		return nil
	}
	at := record.InteractionURI(v.Conversation, v.Interaction)
	switch v.Kind {
	case record.RequestAgent:
		r, err := d.st.Get(d.ctx, d.sc, at.ChildID(record.TypeRequest, v.ID))
		if err != nil {
			return notThere(err)
		}
		own, err := decodeRequest(r)
		if err != nil || own.Conversation.Zero() {
			return err
		}
		at = record.InteractionURI(own.Conversation, own.Interaction)
	case record.RequestTurn:
	default:
		return nil
	}
	msgs, err := d.messages(at)
	for _, m := range msgs {
		if v.Title == "" && m.Role == message.User {
			v.Title = beginning(m)
		}
	}
	return err
}

// viewOf returns the view of a request's own record.
func viewOf(r *storedRequest) RequestView {
	v := RequestView{ID: r.ID, User: userOf(r.space), Kind: r.Kind, Agent: r.Agent, Tool: r.Tool, State: r.state, Message: r.Message,
		Progress: r.Progress, Outcome: r.Outcome, Error: r.Error, Started: r.Created, Ended: r.Answered, Usage: r.Usage, Cost: r.Cost,
		Conversation: record.IDOf(r.at, record.TypeConversation), Interaction: record.IDOf(r.at, record.TypeInteraction)}
	if r.state == "" {
		v.State = RequestClosed
	}
	if r.Kind == record.RequestTask {
		v.Status, v.Wish = r.Status, r.Wish
	}
	if !r.Call.Message.Zero() {
		v.Call = callID(r.Call)
	}
	return v
}

func requestNotFound(which string) error {
	return fault.New(fault.NotFound, "request_not_found", "there is no request %.80q", which).
		WithHint("steward requests list --all shows the newest ones")
}

// shortest is the least number of characters of an id that names a request.
const shortest = 8

// resolveRequest returns the id, of a request or of an interaction, that a text
// names.
func resolveRequest(ctx context.Context, st store.Store, sc store.Scope, which string) (id.ID, error) {
	return named(which, "request", "requests", requestNotFound(which), func(yield func(id.ID, error) bool) {
		for _, typ := range []string{record.TypeRequest, record.TypeInteraction} {
			for it, err := range store.Items(ctx, st, sc, store.Query{Type: typ, NoBody: true, Limit: 1000}) {
				if own, ok := id.Parse(it.URI.ID()); (ok || err != nil) && !yield(own, err) {
					return
				}
			}
		}
	})
}

// named returns the id that which spells out, or the only id among all that
// begins with it. kind is the prefix of the error codes.
func named(which, kind, things string, missing error, all iter.Seq2[id.ID, error]) (id.ID, error) {
	which = strings.ToLower(strings.TrimSpace(which))
	if own, ok := id.Parse(which); ok && !own.Zero() {
		return own, nil
	}
	if len(which) < shortest {
		return id.ID{}, fault.New(fault.Invalid, kind+"_ambiguous", "%q may be the beginning of many %s", which, things).
			WithHint("name at least %d characters of the id", shortest)
	}
	var found []id.ID
	for own, err := range all {
		if err != nil {
			return id.ID{}, err
		}
		if strings.HasPrefix(own.String(), which) && !slices.Contains(found, own) {
			found = append(found, own)
		}
	}
	switch len(found) {
	case 0:
		return id.ID{}, missing
	case 1:
		return found[0], nil
	}
	return id.ID{}, fault.New(fault.Conflict, kind+"_ambiguous", "%q begins the ids of %d %s", which, len(found), things).
		WithHint("name more of the id, such as %s", found[0])
}

// findRequest returns a request by its id. A turn that led to no request has no
// record; for such a turn only the id and the place are set.
func findRequest(ctx context.Context, st store.Store, sc store.Scope, own id.ID) (storedRequest, error) {
	page, err := st.Query(ctx, sc, store.Query{Term: store.Term{Name: termRequest, Value: own.String()}, Type: record.TypeRequest, Limit: 1})
	if err != nil {
		return storedRequest{}, err
	}
	if len(page.Items) > 0 {
		return decodeRequest(page.Items[0].Resource)
	}
	for it, err := range store.Items(ctx, st, sc, store.Query{Type: record.TypeInteraction, NoBody: true, Limit: 1000}) {
		if err != nil {
			return storedRequest{}, err
		}
		if record.IDOf(it.URI, record.TypeInteraction) == own {
			r := storedRequest{at: it.URI.ChildID(record.TypeRequest, own), space: it.Space}
			r.ID = own
			return r, nil
		}
	}
	return storedRequest{}, requestNotFound(own.String())
}

// rootOf returns the conversation and the interaction of the turn that a request
// belongs to.
func rootOf(ctx context.Context, st store.Store, sc store.Scope, r *storedRequest) (conv, root id.ID, err error) {
	conv, root = record.IDOf(r.at, record.TypeConversation), r.Root
	inter := record.IDOf(r.at, record.TypeInteraction)
	c, found, err := getConversation(ctx, st, sc, conv)
	if err == nil && !found {
		err = requestNotFound(r.ID.String())
	}
	if err != nil {
		return conv, root, err
	}
	if root.Zero() {
		rc, _, err := lineage(ctx, st, sc, c, inter)
		if err != nil {
			return conv, root, err
		}
		if root = rc.Root; root.Zero() {
			return conv, inter, nil
		}
	}
	for c, err = range upward(ctx, st, sc, conv) {
		if err != nil {
			return conv, root, err
		}
	}
	if !c.Asked.Zero() { // it was erased or deleted
		err = requestNotFound(r.ID.String())
	}
	return c.ID, root, err
}
