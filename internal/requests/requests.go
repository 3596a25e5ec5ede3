// Package requests keeps requests in the store, and shows them.
//
// A request is work that goes on: a turn, an agent that was asked, a background call, an action that a
// person repeats, a call from outside. Its record stands below the turn that led to it; a call from outside
// stands apart. A turn gets a record of its own with the first request below it, and most turns have none.
//
// A request is open, then answered once its own work is over, and closed once everything below it is
// closed. Everybody checks the parent after committing their own change (CloseDone), so whoever closes the
// last child sees that it was the last. A closed request carries the sum of what it has used.
//
// The result of a background call is delivered by a turn of its own, in the conversation that made the
// call and in those above it, up to the person's; the call is closed when that has happened (told.go). A
// plan and its tasks stand below the turn, too (plans.go, tasks.go).
//
// Views are drawn from the store alone (draw.go, tree.go), so that they can be read without a node.
package requests

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
)

// Terms by which requests are found.
const (
	termRequest  = "request"  // a request by its id
	termRequests = "requests" // all requests, in the order of their last change
	termOpened   = "opened"   // a task by the interactions that its result opens
)

// Options are the parts of an Engine. Store, Conversations, Effects and Spec are required.
type Options struct {
	Store         store.Store
	Conversations *conversation.Engine
	Effects       *effect.Engine
	Price         func(model string, u message.Usage) float64 // of a model call, in US dollars; nil: recorded costs are used
	Spec          func(name string) (tool.Spec, bool)         // of tools that were called
	Zone          func(user string) *time.Location            // a user's time zone; nil, or a nil result: unknown
	Log           *slog.Logger
}

// Engine keeps requests, and the tasks and plans that were carried out, in the store. Safe for
// concurrent use.
type Engine struct {
	store         store.Store
	conversations *conversation.Engine
	effects       *effect.Engine
	price         func(model string, u message.Usage) float64
	spec          func(name string) (tool.Spec, bool)
	zone          func(user string) *time.Location
	log           *slog.Logger

	mu   sync.Mutex
	rows map[id.ID]string // interactions below which requests are recorded, and their users
}

// New returns an engine made of the given parts.
func New(o Options) *Engine {
	return &Engine{store: o.Store, conversations: o.Conversations, effects: o.Effects, price: o.Price, spec: o.Spec, zone: o.Zone, log: o.Log,
		rows: map[id.ID]string{}}
}

// MarkRequests notes that requests exist below an interaction of a user.
func (e *Engine) MarkRequests(user string, inter id.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rows[inter] = user
}

// HasRequests reports whether requests exist below an interaction.
func (e *Engine) HasRequests(inter id.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.rows[inter]
	return ok
}

// UnmarkRequests removes an interaction's note. It reports whether there was one.
func (e *Engine) UnmarkRequests(inter id.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.rows[inter]
	delete(e.rows, inter)
	return ok
}

// Drop drops the notes of a user, on whom another node works.
func (e *Engine) Drop(user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.rows, func(_ id.ID, of string) bool { return of == user })
}

// Open records, at its URI, a request below a turn, and with the turn's
// first request also the turn itself. An existing record is left as it is. The
// record is durable when openRequest returns.
func (e *Engine) Open(ctx context.Context, user string, at resource.URI, r record.Request) error {
	sc, turn := store.ForUser(user), record.IDOf(at, record.TypeInteraction)
	for {
		_, err := e.store.Get(ctx, sc, at)
		if fault.Is(err, fault.NotFound) {
			var rows []store.Change
			if rows, err = e.OpenChanges(ctx, sc, at, r); err == nil && len(rows) > 0 {
				_, err = e.store.Commit(ctx, sc, store.Batch{Request: turn, Changes: rows})
			}
		}
		if fault.Is(err, fault.Conflict) { // another request below the turn was first: look again
			continue
		}
		if err == nil {
			e.MarkRequests(user, turn)
		}
		return err
	}
}

// OpenTurn records a turn itself, if that is not done already, for a request below it
// that is recorded with something else.
func (e *Engine) OpenTurn(ctx context.Context, user string, inter resource.URI, attended bool) error {
	turn := record.IDOf(inter, record.TypeInteraction)
	if e.HasRequests(turn) {
		return nil
	}
	return e.Open(ctx, user, inter.ChildID(record.TypeRequest, turn), record.Request{Kind: record.RequestTurn, Attended: attended})
}

// OpenChanges returns the changes that record a request below a turn, and the first
// time also the turn itself.
func (e *Engine) OpenChanges(ctx context.Context, sc store.Scope, at resource.URI, r record.Request) ([]store.Change, error) {
	var turn []store.Change
	if inter := at.Parent(); !e.HasRequests(record.IDOf(inter, record.TypeInteraction)) {
		c, err := e.conversations.Get(ctx, sc, record.IDOf(inter, record.TypeConversation))
		if err == nil {
			turn, err = e.TurnChanges(ctx, sc, c, inter, r.Attended)
		}
		if err != nil {
			return nil, err
		}
	}
	if r.Kind == record.RequestTurn {
		return turn, nil
	}
	r.User = sc.Actor
	if r.Created.IsZero() {
		r.Created = time.Now().UTC().Truncate(time.Millisecond)
	}
	return append(turn, Put(at, &r, record.RequestOpen, store.If{Absent: true})), nil
}

// TurnChanges returns the change that records the turn of an interaction, unless it is
// recorded already or is itself the work of a recorded request.
func (e *Engine) TurnChanges(ctx context.Context, sc store.Scope, c record.Conversation, inter resource.URI, attended bool) ([]store.Change, error) {
	own := record.IDOf(inter, record.TypeInteraction)
	rc, above, err := Lineage(ctx, e.store, sc, c, own)
	if err != nil {
		return nil, err
	}
	if above.Kind == record.RequestAgent { // its own record stands for the turn
		return nil, nil
	}
	at := inter.ChildID(record.TypeRequest, own)
	if _, err := e.store.Get(ctx, sc, at); !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	row := record.Request{Parent: rc.Parent, Root: cmp.Or(rc.Root, own), Kind: record.RequestTurn, Agent: cmp.Or(c.Agent, kits.DefaultAgent), User: sc.Actor,
		Attended: attended, Created: time.Now().UTC().Truncate(time.Millisecond)}
	return []store.Change{Put(at, &row, record.RequestOpen, store.If{Absent: true})}, nil
}

// Put returns the change that stores a request in a state, with the terms by which it is found.
func Put(at resource.URI, r *record.Request, state string, cond store.If) store.Change {
	ch := store.Change{URI: at, Body: record.Encode(r), State: state, If: cond,
		Terms: []store.Term{{Name: termRequest, Value: at.ID()}, {Name: termRequests}}}
	if own, ok := id.Parse(at.ID()); ok && r.Kind == record.RequestTask && !r.Answered.IsZero() {
		for k := range MaxLevels {
			ch.Terms = append(ch.Terms, store.Term{Name: termOpened, Value: Opened(own, k).String()})
		}
	}
	return ch
}

// MaxLevels bounds how far up the answer to a task's result is passed. It is the
// depth to which agents can ask each other.
const MaxLevels = 9

// Lineage returns the request context of an interaction's turn. above is the
// request that the turn answers (of kind agent) or that opened it (a task); its
// kind is zero if a person opened the turn.
func Lineage(ctx context.Context, st store.Store, sc store.Scope, c record.Conversation, inter id.ID) (rc request.Context, above Stored, err error) {
	rc.ID = inter
	if !c.Asked.Zero() {
		if above, err = Load(ctx, st, sc, c.Asked); IgnoreNotFound(err) != nil {
			return rc, above, err
		}
		rc.Lineage = above.Lineage
		for _, err := range ancestors(ctx, st, sc, record.IDOf(c.Asked, record.TypeConversation)) {
			if err != nil {
				return rc, above, err
			}
			rc.Depth++
		}
	}
	if !above.At.Zero() && above.Interaction == inter {
		rc.Parent, rc.Root = above.Parent, above.Root
		return rc, above, nil
	}
	page, err := st.Query(ctx, sc, store.Query{Term: store.Term{Name: termOpened, Value: inter.String()}, Type: record.TypeRequest, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return rc, Stored{}, err
	}
	above, err = decode(page.Items[0].Resource)
	rc.Parent, rc.Root = above.ID, above.Root
	return rc, above, err
}

// Stored is a record.Request with its place and version in the store.
type Stored struct {
	record.Request
	At      resource.URI
	Space   resource.Space
	Version uint64
	State   string
}

// Load reads the request at a URI.
func Load(ctx context.Context, st store.Store, sc store.Scope, at resource.URI) (Stored, error) {
	r, err := st.Get(ctx, sc, at)
	if err != nil {
		return Stored{}, err
	}
	return decode(r)
}

func decode(r resource.Resource) (Stored, error) {
	out := Stored{At: r.URI, Space: r.Space, Version: r.Version, State: r.State}
	err := record.Decode(r.URI, r.Body, &out.Request)
	out.ID, _ = id.Parse(r.URI.ID())
	return out, err
}

// Change changes a request that is not closed. do may run more than once;
// the state that it sets is the state by which the request is indexed. A request
// that does not exist or is closed is left alone.
func (e *Engine) Change(ctx context.Context, sc store.Scope, at resource.URI, do func(*Stored) error) (Stored, error) {
	for {
		r, err := Load(ctx, e.store, sc, at)
		if fault.Is(err, fault.NotFound) || err == nil && r.State == "" {
			return r, nil
		}
		if err == nil {
			err = do(&r)
		}
		if err != nil {
			if errors.Is(err, ErrUnchanged) {
				err = nil
			}
			return r, err
		}
		rec, err := e.store.Commit(ctx, sc, store.Batch{Request: r.ID,
			Changes: []store.Change{Put(at, &r.Request, r.State, store.If{Version: r.Version})}})
		if err == nil {
			r.Version = rec.Versions[0]
		}
		if !fault.Is(err, fault.Conflict) {
			return r, err
		}
	}
}

// ErrUnchanged aborts a change that would change nothing.
var ErrUnchanged = errors.New("unchanged")

// Answer records that the work of a request is over. It closes the
// request, and those above it, if nothing is left to wait for, and reports whether
// the request is closed. Calling it again has no effect.
func (e *Engine) Answer(ctx context.Context, user string, at resource.URI, outcome, code string) (closed bool, err error) {
	ctx, sc := context.WithoutCancel(ctx), store.ForUser(user)
	r, err := e.Change(ctx, sc, at, func(r *Stored) error { return e.AnswerTo(ctx, sc, r, outcome, code, nil) })
	if err == nil && r.State == "" && !r.At.Zero() {
		at, err = e.wasClosed(ctx, sc, r)
	}
	if err != nil {
		return false, err
	}
	return r.State == "", e.CloseDone(ctx, user, at) // also if what is below it was closed meanwhile
}

// AnswerTo makes an open request an answered one, and a closed one if nothing is left
// to wait for. final is the answer, if it is not stored yet.
func (e *Engine) AnswerTo(ctx context.Context, sc store.Scope, r *Stored, outcome, code string, final *message.Message) error {
	if r.State != record.RequestOpen {
		return ErrUnchanged
	}
	r.State, r.Outcome, r.Error = record.RequestAnswered, outcome, code
	r.Answered = time.Now().UTC().Truncate(time.Millisecond)
	if r.Kind == record.RequestTask { // whoever delivers its result has to see that it was answered
		return nil
	}
	return e.close(ctx, sc, r, final)
}

// RequestOf returns the recorded request that a session's turn works on: that of the
// asker, or the turn's own. It is zero if there is none.
func (e *Engine) RequestOf(s *conversation.Session) resource.URI {
	inter := record.IDOf(s.Interaction(), record.TypeInteraction)
	if asked := s.Conversation().Asked; record.IDOf(asked, record.TypeRequest) == inter {
		return asked
	}
	if e.HasRequests(inter) {
		return s.Interaction().ChildID(record.TypeRequest, inter)
	}
	return resource.URI{}
}

// AnswerByRun answers a request with the outcome of an interaction's run. It
// returns false if there is none that has ended.
func (e *Engine) AnswerByRun(ctx context.Context, user string, at, inter resource.URI) (bool, error) {
	run, found, err := LastRun(ctx, e.store, store.ForUser(user), inter)
	if err != nil || !found || run.Ended.IsZero() {
		return false, err
	}
	_, err = e.Answer(ctx, user, at, run.Outcome, run.Error)
	return true, err
}

// CloseDone closes a request whose work is over and below which nothing is open,
// and then the requests above it for which the same holds. Everybody checks the
// parent after committing their own change, so whoever closes the last child sees
// that it was the last.
func (e *Engine) CloseDone(ctx context.Context, user string, at resource.URI) error {
	ctx, sc := context.WithoutCancel(ctx), store.ForUser(user)
	for !at.Zero() {
		r, err := e.Change(ctx, sc, at, func(r *Stored) error {
			if err := e.close(ctx, sc, r, nil); err != nil {
				return err
			}
			if r.State != "" {
				return ErrUnchanged
			}
			return nil
		})
		if err != nil || r.State != "" || r.At.Zero() {
			return err
		}
		if at, err = e.wasClosed(ctx, sc, r); err != nil {
			return err
		}
	}
	return nil
}

// close makes an answered request a closed one if nothing below it is open. final is
// its answer, if it is not stored yet.
func (e *Engine) close(ctx context.Context, sc store.Scope, r *Stored, final *message.Message) error {
	if r.State != record.RequestAnswered {
		return nil
	}
	if r.Kind == record.RequestTask && r.Error != CodeUndelivered && !r.Quiet() {
		if told, err := e.delivered(ctx, sc, r); !told || err != nil {
			return err
		}
	}
	sum := Tally{Price: e.price}
	if err := sum.All(ctx, e.store, sc, r); err != nil || sum.open {
		return err
	}
	if final != nil {
		sum.Message(final)
	}
	r.Usage, r.Cost = sum.Usage, sum.Cost
	r.State, r.Closed = "", time.Now().UTC().Truncate(time.Millisecond)
	return nil
}

// wasClosed returns the request above one that was closed.
func (e *Engine) wasClosed(ctx context.Context, sc store.Scope, r Stored) (resource.URI, error) {
	e.log.Debug("a request is closed", "request", r.ID.String(), "kind", r.Kind, "outcome", r.Outcome, "error", r.Error)
	return e.parent(ctx, sc, r)
}

// Interactions returns the interactions in which the work of a request is done. The
// requests that it led to are below them.
func Interactions(ctx context.Context, st store.Store, sc store.Scope, r *Stored) ([]resource.URI, error) {
	switch r.Kind {
	case record.RequestTurn, "": // a turn that led to no request has no record
		return []resource.URI{r.At.Parent()}, nil
	case record.RequestAgent:
		if !r.Conversation.Zero() && !r.Interaction.Zero() {
			return []resource.URI{record.InteractionURI(r.Conversation, r.Interaction)}, nil
		}
	case record.RequestTask:
		if r.Told {
			return passage(ctx, st, sc, r)
		}
	}
	return nil, nil
}

// parent returns the request that waits for r, or the zero URI if none does.
func (e *Engine) parent(ctx context.Context, sc store.Scope, r Stored) (resource.URI, error) {
	inter := r.At.Parent()
	own := record.IDOf(inter, record.TypeInteraction)
	if own.Zero() || r.Kind == record.RequestTurn && r.Parent.Zero() { // a person asked
		return resource.URI{}, nil
	}
	if r.Kind != record.RequestTurn {
		at := inter.ChildID(record.TypeRequest, own)
		if _, err := e.store.Get(ctx, sc, at); !fault.Is(err, fault.NotFound) {
			return at, err
		}
	}
	c, err := e.store.Get(ctx, sc, record.ConversationURI(record.IDOf(inter, record.TypeConversation)))
	if err != nil {
		return resource.URI{}, IgnoreNotFound(err)
	}
	conv, err := record.DecodeConversation(c.URI, c.Body)
	if err != nil {
		return resource.URI{}, err
	}
	_, above, err := Lineage(ctx, e.store, sc, conv, own)
	return above.At, IgnoreNotFound(err)
}

// IgnoreNotFound ignores an error that says that something has been erased meanwhile.
func IgnoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

// UserOf returns the user whose space it is.
func UserOf(s resource.Space) string { return strings.TrimPrefix(string(s), "user:") }
