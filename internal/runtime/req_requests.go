package runtime

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
)

// Terms by which requests are found.
const (
	termRequest  = "request"  // a request by its id
	termRequests = "requests" // all requests, in the order of their last change
	termOpened   = "opened"   // a task by the interactions that its result opens
)

// requestEngine keeps requests, and the tasks and plans that were carried out, in the store. Safe for
// concurrent use.
type requestEngine struct {
	store         store.Store
	conversations *conversation.Engine
	price         func(model string, u message.Usage) float64 // of a model call, in US dollars; nil: recorded costs are used
	log           *slog.Logger

	mu   sync.Mutex
	rows map[id.ID]struct{} // interactions below which requests are recorded
}

func newRequests(st store.Store, e *conversation.Engine, price func(string, message.Usage) float64, log *slog.Logger) *requestEngine {
	return &requestEngine{store: st, conversations: e, price: price, log: log, rows: map[id.ID]struct{}{}}
}

// note records that requests exist below an interaction.
func (e *requestEngine) note(inter id.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rows[inter] = struct{}{}
}

func (e *requestEngine) noted(inter id.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.rows[inter]
	return ok
}

// forget removes an interaction's note. It reports whether there was one.
func (e *requestEngine) forget(inter id.ID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.rows[inter]
	delete(e.rows, inter)
	return ok
}

// openRequest records, at its URI, a request below a turn, and with the turn's
// first request also the turn itself. An existing record is left as it is. The
// record is durable when openRequest returns.
func (e *requestEngine) openRequest(ctx context.Context, user string, at resource.URI, r record.Request) error {
	sc, turn := store.ForUser(user), record.IDOf(at, record.TypeInteraction)
	for {
		_, err := e.store.Get(ctx, sc, at)
		if fault.Is(err, fault.NotFound) {
			var rows []store.Change
			if rows, err = e.opening(ctx, sc, at, r); err == nil && len(rows) > 0 {
				_, err = e.store.Commit(ctx, sc, store.Batch{Request: turn, Changes: rows})
			}
		}
		if fault.Is(err, fault.Conflict) { // another request below the turn was first: look again
			continue
		}
		if err == nil {
			e.note(turn)
		}
		return err
	}
}

// openTurn records a turn itself, if that is not done already, for a request below it
// that is recorded with something else.
func (e *requestEngine) openTurn(ctx context.Context, user string, inter resource.URI, attended bool) error {
	turn := record.IDOf(inter, record.TypeInteraction)
	if e.noted(turn) {
		return nil
	}
	return e.openRequest(ctx, user, inter.ChildID(record.TypeRequest, turn), record.Request{Kind: record.RequestTurn, Attended: attended})
}

// opening returns the changes that record a request below a turn, and the first
// time also the turn itself.
func (e *requestEngine) opening(ctx context.Context, sc store.Scope, at resource.URI, r record.Request) ([]store.Change, error) {
	var turn []store.Change
	if inter := at.Parent(); !e.noted(record.IDOf(inter, record.TypeInteraction)) {
		c, err := e.conversations.Get(ctx, sc, record.IDOf(inter, record.TypeConversation))
		if err == nil {
			turn, err = e.turnRow(ctx, sc, c, inter, r.Attended)
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
	return append(turn, putRequest(at, &r, record.RequestOpen, store.If{Absent: true})), nil
}

// turnRow returns the change that records the turn of an interaction, unless it is
// recorded already or is itself the work of a recorded request.
func (e *requestEngine) turnRow(ctx context.Context, sc store.Scope, c record.Conversation, inter resource.URI, attended bool) ([]store.Change, error) {
	own := record.IDOf(inter, record.TypeInteraction)
	rc, above, err := lineage(ctx, e.store, sc, c, own)
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
	return []store.Change{putRequest(at, &row, record.RequestOpen, store.If{Absent: true})}, nil
}

func putRequest(at resource.URI, r *record.Request, state string, cond store.If) store.Change {
	ch := store.Change{URI: at, Body: record.Encode(r), State: state, If: cond,
		Terms: []store.Term{{Name: termRequest, Value: at.ID()}, {Name: termRequests}}}
	if own, ok := id.Parse(at.ID()); ok && r.Kind == record.RequestTask && !r.Answered.IsZero() {
		for k := range maxLevels {
			ch.Terms = append(ch.Terms, store.Term{Name: termOpened, Value: opened(own, k).String()})
		}
	}
	return ch
}

// maxLevels bounds how far up the answer to a task's result is passed. It is the
// depth to which agents can ask each other.
const maxLevels = 9

// lineage returns the request context of an interaction's turn. above is the
// request that the turn answers (of kind agent) or that opened it (a task); its
// kind is zero if a person opened the turn.
func lineage(ctx context.Context, st store.Store, sc store.Scope, c record.Conversation, inter id.ID) (rc request.Context, above storedRequest, err error) {
	rc.ID = inter
	if !c.Asked.Zero() {
		if above, err = loadRequest(ctx, st, sc, c.Asked); notThere(err) != nil {
			return rc, above, err
		}
		rc.Lineage = above.Lineage
		for _, err := range upward(ctx, st, sc, record.IDOf(c.Asked, record.TypeConversation)) {
			if err != nil {
				return rc, above, err
			}
			rc.Depth++
		}
	}
	if !above.at.Zero() && above.Interaction == inter {
		rc.Parent, rc.Root = above.Parent, above.Root
		return rc, above, nil
	}
	page, err := st.Query(ctx, sc, store.Query{Term: store.Term{Name: termOpened, Value: inter.String()}, Type: record.TypeRequest, Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return rc, storedRequest{}, err
	}
	above, err = decodeRequest(page.Items[0].Resource)
	rc.Parent, rc.Root = above.ID, above.Root
	return rc, above, err
}

// storedRequest is a record.Request with its place and version in the store.
type storedRequest struct {
	record.Request
	at      resource.URI
	space   resource.Space
	version uint64
	state   string
}

func loadRequest(ctx context.Context, st store.Store, sc store.Scope, at resource.URI) (storedRequest, error) {
	r, err := st.Get(ctx, sc, at)
	if err != nil {
		return storedRequest{}, err
	}
	return decodeRequest(r)
}

func decodeRequest(r resource.Resource) (storedRequest, error) {
	out := storedRequest{at: r.URI, space: r.Space, version: r.Version, state: r.State}
	err := record.Decode(r.URI, r.Body, &out.Request)
	out.ID, _ = id.Parse(r.URI.ID())
	return out, err
}

// changeRequest changes a request that is not closed. do may run more than once;
// the state that it sets is the state by which the request is indexed. A request
// that does not exist or is closed is left alone.
func (e *requestEngine) changeRequest(ctx context.Context, sc store.Scope, at resource.URI, do func(*storedRequest) error) (storedRequest, error) {
	for {
		r, err := loadRequest(ctx, e.store, sc, at)
		if fault.Is(err, fault.NotFound) || err == nil && r.state == "" {
			return r, nil
		}
		if err == nil {
			err = do(&r)
		}
		if err != nil {
			if errors.Is(err, errUnchanged) {
				err = nil
			}
			return r, err
		}
		rec, err := e.store.Commit(ctx, sc, store.Batch{Request: r.ID,
			Changes: []store.Change{putRequest(at, &r.Request, r.state, store.If{Version: r.version})}})
		if err == nil {
			r.version = rec.Versions[0]
		}
		if !fault.Is(err, fault.Conflict) {
			return r, err
		}
	}
}

// errUnchanged aborts a change that would change nothing.
var errUnchanged = errors.New("unchanged")

// answerRequest records that the work of a request is over. It closes the
// request, and those above it, if nothing is left to wait for, and reports whether
// the request is closed. Calling it again has no effect.
func (e *requestEngine) answerRequest(ctx context.Context, user string, at resource.URI, outcome, code string) (closed bool, err error) {
	ctx, sc := context.WithoutCancel(ctx), store.ForUser(user)
	r, err := e.changeRequest(ctx, sc, at, func(r *storedRequest) error { return e.answerTo(ctx, sc, r, outcome, code, nil) })
	if err == nil && r.state == "" && !r.at.Zero() {
		at, err = e.wasClosed(ctx, sc, r)
	}
	if err != nil {
		return false, err
	}
	return r.state == "", e.closeDone(ctx, user, at) // also if what is below it was closed meanwhile
}

// answerTo makes an open request an answered one, and a closed one if nothing is left
// to wait for. final is the answer, if it is not stored yet.
func (e *requestEngine) answerTo(ctx context.Context, sc store.Scope, r *storedRequest, outcome, code string, final *message.Message) error {
	if r.state != record.RequestOpen {
		return errUnchanged
	}
	r.state, r.Outcome, r.Error = record.RequestAnswered, outcome, code
	r.Answered = time.Now().UTC().Truncate(time.Millisecond)
	if r.Kind == record.RequestTask { // whoever delivers its result has to see that it was answered
		return nil
	}
	return e.shut(ctx, sc, r, final)
}

// worksOn returns the recorded request that a session's turn works on: that of the
// asker, or the turn's own. It is zero if there is none.
func (e *requestEngine) worksOn(s *conversation.Session) resource.URI {
	inter := record.IDOf(s.Interaction(), record.TypeInteraction)
	if asked := s.Conversation().Asked; record.IDOf(asked, record.TypeRequest) == inter {
		return asked
	}
	if e.noted(inter) {
		return s.Interaction().ChildID(record.TypeRequest, inter)
	}
	return resource.URI{}
}

// answerByRun answers a request with the outcome of an interaction's run. It
// returns false if there is none that has ended.
func (e *requestEngine) answerByRun(ctx context.Context, user string, at, inter resource.URI) (bool, error) {
	run, found, err := lastRun(ctx, e.store, store.ForUser(user), inter)
	if err != nil || !found || run.Ended.IsZero() {
		return false, err
	}
	_, err = e.answerRequest(ctx, user, at, run.Outcome, run.Error)
	return true, err
}

// closeDone closes a request whose work is over and below which nothing is open,
// and then the requests above it for which the same holds. Everybody checks the
// parent after committing their own change, so whoever closes the last child sees
// that it was the last.
func (e *requestEngine) closeDone(ctx context.Context, user string, at resource.URI) error {
	ctx, sc := context.WithoutCancel(ctx), store.ForUser(user)
	for !at.Zero() {
		r, err := e.changeRequest(ctx, sc, at, func(r *storedRequest) error {
			if err := e.shut(ctx, sc, r, nil); err != nil {
				return err
			}
			if r.state != "" {
				return errUnchanged
			}
			return nil
		})
		if err != nil || r.state != "" || r.at.Zero() {
			return err
		}
		if at, err = e.wasClosed(ctx, sc, r); err != nil {
			return err
		}
	}
	return nil
}

// shut makes an answered request a closed one if nothing below it is open. final is
// its answer, if it is not stored yet.
func (e *requestEngine) shut(ctx context.Context, sc store.Scope, r *storedRequest, final *message.Message) error {
	if r.state != record.RequestAnswered {
		return nil
	}
	if r.Kind == record.RequestTask && r.Error != codeUntold && !r.quiet() {
		if told, err := e.toldThrough(ctx, sc, r); !told || err != nil {
			return err
		}
	}
	sum := tally{price: e.price}
	if err := sum.all(ctx, e.store, sc, r); err != nil || sum.open {
		return err
	}
	if final != nil {
		sum.message(final)
	}
	r.Usage, r.Cost = sum.usage, sum.cost
	r.state, r.Closed = "", time.Now().UTC().Truncate(time.Millisecond)
	return nil
}

// wasClosed returns the request above one that was closed.
func (e *requestEngine) wasClosed(ctx context.Context, sc store.Scope, r storedRequest) (resource.URI, error) {
	e.log.Debug("a request is closed", "request", r.ID.String(), "kind", r.Kind, "outcome", r.Outcome, "error", r.Error)
	return e.above(ctx, sc, r)
}

// places returns the interactions in which the work of a request is done. The
// requests that it led to are below them.
func places(ctx context.Context, st store.Store, sc store.Scope, r *storedRequest) ([]resource.URI, error) {
	switch r.Kind {
	case record.RequestTurn, "": // a turn that led to no request has no record
		return []resource.URI{r.at.Parent()}, nil
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

// above returns the request that waits for r, or the zero URI if none does.
func (e *requestEngine) above(ctx context.Context, sc store.Scope, r storedRequest) (resource.URI, error) {
	inter := r.at.Parent()
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
		return resource.URI{}, notThere(err)
	}
	conv, err := record.DecodeConversation(c.URI, c.Body)
	if err != nil {
		return resource.URI{}, err
	}
	_, above, err := lineage(ctx, e.store, sc, conv, own)
	return above.at, notThere(err)
}

// notThere ignores an error that says that something has been erased meanwhile.
func notThere(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func userOf(s resource.Space) string { return strings.TrimPrefix(string(s), "user:") }
