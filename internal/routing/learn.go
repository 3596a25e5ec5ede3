package routing

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/taint"
)

// Routing learns from people. Who names an agent for a message teaches that such
// messages are for it. What was taught is not stored a second time: the run names the
// message, and the newest runs are read. So it goes with the message when that is
// erased, and text that others wrote teaches nothing.

// Bounds of what is kept of users.
const (
	maxTaught  = 500  // examples of a user that count, the newest ones
	maxRouters = 16   // in memory
	maxDecided = 1000 // decisions that the figures are about
)

// Router returns the router of a user for the candidates. It is rebuilt if the
// catalog, or what the user has taught, has changed.
func (e *Engine) Router(ctx context.Context, user string) (*Router, error) {
	return e.router(ctx, user, false)
}

// router returns the router of a user, for the candidates of messages or, with nested, for those of tasks.
func (e *Engine) router(ctx context.Context, user string, nested bool) (*Router, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var version uint64
	if e.opt.Catalog != nil {
		version = e.opt.Catalog.Tree().Version
	}
	if e.routers == nil || e.version != version {
		e.routers, e.version = map[routerKey]*Router{}, version
	}
	if cached := e.routers[routerKey{user, nested}]; cached != nil {
		return cached, nil
	}
	if len(e.routers) >= maxRouters {
		clear(e.routers)
	}
	examples, err := e.taughtExamples(ctx, user)
	if err != nil {
		return nil, err
	}
	agents, own := e.candidates(nested)
	for _, x := range examples {
		if x.agent == kits.DefaultAgent {
			own = append(own, x.text)
		} else if i := slices.IndexFunc(agents, func(a Agent) bool { return a.Name == x.agent }); i >= 0 {
			agents[i].Examples = append(slices.Clip(agents[i].Examples), x.text)
		}
	}
	router := e.routers[routerKey{"", nested}]
	if router == nil || len(examples) > 0 {
		router = New(agents, own...)
	}
	if e.routers[routerKey{user, nested}] = router; len(examples) == 0 {
		e.routers[routerKey{"", nested}] = router
	}
	return router, nil
}

// example is an example of an agent by a user.
type example struct{ agent, text string }

// taughtExamples returns what a user has taught, the newest first.
func (e *Engine) taughtExamples(ctx context.Context, user string) ([]example, error) {
	sc, known := store.ForUser(user), map[string]bool{}
	var out []example
	for run, err := range routedRuns(ctx, e.opt.Store, sc, record.TermNamed, maxTaught) {
		if err != nil {
			return nil, err
		}
		r, err := e.opt.Store.Get(ctx, sc, run.Route.Said)
		if fault.Is(err, fault.NotFound) {
			continue // erased
		} else if err != nil {
			return nil, err
		}
		m, err := record.DecodeMessage(r.URI, r.Body)
		if err != nil {
			return nil, err
		}
		text, _ := taint.Words([]*message.Message{m})
		if text == "" || known[text] {
			continue
		}
		known[text] = true
		out = append(out, example{run.Agent, text})
	}
	return out, nil
}

// routedRuns yields at most so many of the newest runs with a term of routing.
func routedRuns(ctx context.Context, st store.Store, sc store.Scope, term string, most int) func(func(record.Run, error) bool) {
	return func(yield func(record.Run, error) bool) {
		for it, err := range store.Items(ctx, st, sc, store.Query{Term: store.Term{Name: term}, Type: record.TypeRun, Reverse: true}) {
			var run record.Run
			if err == nil {
				err = record.Decode(it.URI, it.Body, &run)
			}
			run.URI = it.URI
			if most--; !yield(run, err) || err != nil || most == 0 {
				return
			}
		}
	}
}

// Named returns the record of a turn whose agent a person names, with what it
// teaches: that what the person typed is for this agent. Only a change teaches, for
// in a chat every message may name the agent.
func (e *Engine) Named(ctx context.Context, user string, s *conversation.Session, agent string, m *message.Message, inter id.ID) *record.Route {
	r := &record.Route{Path: record.RouteNamed}
	said, at := m, record.InteractionURI(s.Conversation().ID, inter)
	if m == nil {
		if said = LastSaid(s); said == nil {
			return r
		}
		e, err := e.opt.Conversations.Find(ctx, store.ForUser(user), s.Conversation().ID, said.ID)
		if err != nil {
			return r
		}
		at = record.InteractionURI(s.Conversation().ID, e.Interaction)
	}
	text, _ := taint.Words([]*message.Message{said})
	if FollowsUp(text) {
		return r
	}
	before, routed := e.routedBefore(ctx, user, text)
	corrects := routed && before != agent
	conv := s.Conversation()
	if !corrects && !s.Head().Zero() && cmp.Or(conv.Agent, kits.DefaultAgent) == agent {
		return r
	}
	r.Said = at.ChildID(record.TypeMessage, said.ID)
	if corrects {
		r.Instead = before
	}
	return r
}

// maxRecent is how many decisions a person may correct by naming another agent.
const maxRecent = 20

// routedBefore returns the agent that routing has recently chosen for the same words,
// in any conversation.
func (e *Engine) routedBefore(ctx context.Context, user, text string) (string, bool) {
	sc := store.ForUser(user)
	for run, err := range routedRuns(ctx, e.opt.Store, sc, record.TermRouted, maxRecent) {
		if err != nil {
			return "", false
		}
		for m, err := range requests.MessagesUnder(ctx, e.opt.Store, sc, run.URI.Parent()) {
			if err != nil {
				return "", false
			}
			if said, _ := taint.Words([]*message.Message{m}); said != "" && strings.EqualFold(strings.TrimSpace(said), strings.TrimSpace(text)) {
				return run.Agent, true
			}
		}
	}
	return "", false
}

// Learn rebuilds the user's router once something was taught, so that the next
// message finds it.
func (e *Engine) Learn(user string, run *record.Run) {
	if run.Term() != record.TermNamed {
		return
	}
	e.mu.Lock()
	delete(e.routers, routerKey{user, false})
	delete(e.routers, routerKey{user, true})
	e.mu.Unlock()
	e.opt.Go(func() {
		if _, err := e.Router(e.opt.Life, user); err != nil {
			e.opt.Log.Warn("cannot apply yet what was taught about routing", "error", err)
		}
	})
}

// Drop forgets what is kept in memory of a user, on whom another node works.
func (e *Engine) Drop(user string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.routers, routerKey{user, false})
	delete(e.routers, routerKey{user, true})
}

// Explain says which agent a message would get at the beginning of a
// conversation. No model is asked. Error codes: routing_off, message_empty.
func (e *Engine) Explain(ctx context.Context, user, text string) (Decision, error) {
	if e.opt.Mode == Off {
		return Decision{}, fault.New(fault.Unsupported, "routing_off", "messages are not routed: the assistant gets those that name no agent").
			WithHint("set routing: auto in the settings")
	}
	if strings.TrimSpace(text) == "" {
		return Decision{}, fault.New(fault.Invalid, "message_empty", "the message is empty").WithHint("write something")
	}
	d := e.Decide(ctx, &Question{User: user, Text: text, local: true})
	if d == nil {
		d = &Decision{Agent: kits.DefaultAgent, Route: record.Route{Path: record.RouteDefault}, Ranked: []Ranked{}}
	}
	return *d, nil
}
