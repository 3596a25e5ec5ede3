package requests

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"steward/client"
	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/resource"
	"steward/internal/store"
)

// A kind of view that no record has, and the state of a closed request.
const (
	viewTool = "tool" // a call that was answered directly
	Closed   = "closed"
)

// RequestTree returns the turn that a request belongs to, with everything that
// the turn led to. which is the id of the turn's interaction or of any request
// below it, or at least the first 8 characters of such an id. Error codes:
// request_not_found, request_ambiguous.
func (e *Engine) RequestTree(ctx context.Context, user, which string) (client.Request, error) {
	st, sc := e.store, store.ForUser(user)
	own, err := ResolveRequest(ctx, st, sc, which)
	if err != nil {
		return client.Request{}, err
	}
	r, err := FindRequest(ctx, st, sc, own)
	if err != nil {
		return client.Request{}, err
	}
	if r.Kind == record.RequestCall { // it is not below a turn
		return viewOf(&r), nil
	}
	conv, root, err := rootOf(ctx, st, sc, &r)
	if err != nil {
		return client.Request{}, err
	}
	d := drawer{ctx: ctx, st: st, sc: sc, price: e.price}
	return d.turn(record.InteractionURI(conv, root), 0)
}

// Requests returns the user's open requests or, if all is set, the most recently
// changed ones; at most limit of them, newest first, without the requests below
// them.
func (e *Engine) Requests(ctx context.Context, user string, all bool, limit int) ([]client.Request, error) {
	return e.requests(ctx, store.ForUser(user), all, limit)
}

// EverybodysRequests is like Requests, for all users. It is for admins.
func (e *Engine) EverybodysRequests(ctx context.Context, all bool, limit int) ([]client.Request, error) {
	return e.requests(ctx, store.ForNode(resource.System), all, limit)
}

func (e *Engine) requests(ctx context.Context, sc store.Scope, all bool, limit int) ([]client.Request, error) {
	st := e.store
	out := []client.Request{}
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
		open, err := OpenRequests(ctx, st, sc)
		if err != nil {
			return nil, err
		}
		for i := range open {
			out = append(out, viewOf(&open[i]))
		}
	}
	if err := e.markHeld(ctx, sc, &out); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b client.Request) int { return b.Started.Compare(a.Started) })
	out = out[:min(len(out), limit)]
	d := drawer{ctx: ctx, st: st, sc: sc}
	for i := range out {
		if err := d.setTitle(&out[i]); err != nil {
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

// markHeld marks the turns that are parked or wait for their model, and adds those
// that have no record because they led to no other request.
func (e *Engine) markHeld(ctx context.Context, sc store.Scope, list *[]client.Request) error {
	runs, err := e.conversations.OpenRuns(ctx, sc, resource.URI{})
	for i := range runs {
		r := &runs[i]
		if r.Parked.IsZero() && r.Waits == "" {
			continue
		}
		at := slices.IndexFunc(*list, func(v client.Request) bool { return v.ID == r.Interaction.String() })
		if at < 0 {
			at = len(*list)
			*list = append(*list, client.Request{ID: r.Interaction.String(), User: UserOf(r.Space), Kind: record.RequestTurn, Agent: r.Agent,
				Conversation: r.Conversation.String(), Interaction: r.Interaction.String(), State: record.RequestOpen, Started: r.Started})
		}
		v := &(*list)[at]
		if v.Status, v.Message = requestWaiting, r.Waits; !r.Parked.IsZero() {
			v.Status, v.Message = requestParked, fmt.Sprintf("Steward crashed %d times in a row while it ran; steward requests resume goes on with it", r.Crashes)
		}
	}
	return err
}

// setTitle sets the title of a turn or of an asked agent to what was asked.
func (d *drawer) setTitle(v *client.Request) error {
	conv, inside := id.Parse(v.Conversation)
	inter, _ := id.Parse(v.Interaction)
	if !inside { // a call from outside: its tool says what it is
		return nil
	}
	at := record.InteractionURI(conv, inter)
	switch v.Kind {
	case record.RequestAgent:
		r, err := d.st.Get(d.ctx, d.sc, at.Child(record.TypeRequest, v.ID))
		if err != nil {
			return IgnoreNotFound(err)
		}
		own, err := decode(r)
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
			v.Title = conversation.Beginning(m)
		}
	}
	return err
}

// viewOf returns the view of a request's own record.
func viewOf(r *Stored) client.Request {
	v := client.Request{ID: r.ID.String(), User: UserOf(r.Space), Kind: r.Kind, Agent: r.Agent, Tool: r.Tool, State: r.State, Message: r.Message,
		Progress: r.Progress, Outcome: r.Outcome, Error: r.Error, Started: r.Created, Ended: r.Answered, Usage: client.Usage(r.Usage), Cost: r.Cost,
		Conversation: IDText(record.IDOf(r.At, record.TypeConversation)), Interaction: IDText(record.IDOf(r.At, record.TypeInteraction))}
	if r.State == "" {
		v.State = Closed
	}
	if r.Kind == record.RequestTask {
		v.Status, v.Wish = r.Status, r.Wish
	}
	if !r.Call.Message.Zero() {
		v.Call = CallID(r.Call)
	}
	return v
}

// IDText returns an id as text, or "" for the zero id.
func IDText(x id.ID) string {
	if x.Zero() {
		return ""
	}
	return x.String()
}

func requestNotFound(which string) error {
	return fault.New(fault.NotFound, "request_not_found", "there is no request %.80q", which).
		WithHint("steward requests list --all shows the newest ones")
}

// MinPrefix is the least number of characters of an id that names a request.
const MinPrefix = 8

// ResolveRequest returns the id, of a request or of an interaction, that a text
// names.
func ResolveRequest(ctx context.Context, st store.Store, sc store.Scope, which string) (id.ID, error) {
	return ResolvePrefix(which, "request", "requests", requestNotFound(which), func(yield func(id.ID, error) bool) {
		for _, typ := range []string{record.TypeRequest, record.TypeInteraction} {
			for it, err := range store.Items(ctx, st, sc, store.Query{Type: typ, NoBody: true, Limit: 1000}) {
				if own, ok := id.Parse(it.URI.ID()); (ok || err != nil) && !yield(own, err) {
					return
				}
			}
		}
	})
}

// ResolvePrefix returns the id that which spells out, or the only id among all that
// begins with it. kind is the prefix of the error codes.
func ResolvePrefix(which, kind, things string, missing error, all iter.Seq2[id.ID, error]) (id.ID, error) {
	which = strings.ToLower(strings.TrimSpace(which))
	if own, ok := id.Parse(which); ok && !own.Zero() {
		return own, nil
	}
	if len(which) < MinPrefix {
		return id.ID{}, fault.New(fault.Invalid, kind+"_ambiguous", "%q may be the beginning of many %s", which, things).
			WithHint("name at least %d characters of the id", MinPrefix)
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

// FindRequest returns a request by its id. A turn that led to no request has no
// record; for such a turn only the id and the place are set.
func FindRequest(ctx context.Context, st store.Store, sc store.Scope, own id.ID) (Stored, error) {
	page, err := st.Query(ctx, sc, store.Query{Term: store.Term{Name: termRequest, Value: own.String()}, Type: record.TypeRequest, Limit: 1})
	if err != nil {
		return Stored{}, err
	}
	if len(page.Items) > 0 {
		return decode(page.Items[0].Resource)
	}
	for it, err := range store.Items(ctx, st, sc, store.Query{Type: record.TypeInteraction, NoBody: true, Limit: 1000}) {
		if err != nil {
			return Stored{}, err
		}
		if record.IDOf(it.URI, record.TypeInteraction) == own {
			r := Stored{At: it.URI.ChildID(record.TypeRequest, own), Space: it.Space}
			r.ID = own
			return r, nil
		}
	}
	return Stored{}, requestNotFound(own.String())
}

// rootOf returns the conversation and the interaction of the turn that a request
// belongs to.
func rootOf(ctx context.Context, st store.Store, sc store.Scope, r *Stored) (conv, root id.ID, err error) {
	conv, root = record.IDOf(r.At, record.TypeConversation), r.Root
	inter := record.IDOf(r.At, record.TypeInteraction)
	c, found, err := Conversation(ctx, st, sc, conv)
	if err == nil && !found {
		err = requestNotFound(r.ID.String())
	}
	if err != nil {
		return conv, root, err
	}
	if root.Zero() {
		rc, _, err := Lineage(ctx, st, sc, c, inter)
		if err != nil {
			return conv, root, err
		}
		if root = rc.Root; root.Zero() {
			return conv, inter, nil
		}
	}
	for c, err = range ancestors(ctx, st, sc, conv) {
		if err != nil {
			return conv, root, err
		}
	}
	if !c.Asked.Zero() { // it was erased or deleted
		err = requestNotFound(r.ID.String())
	}
	return c.ID, root, err
}

// CallID returns the text form of a call's identity.
func CallID(r message.Ref) string { return r.Message.String() + "/" + strconv.Itoa(r.Block) }
