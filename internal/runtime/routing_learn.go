package runtime

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"

	"steward/internal/conversation"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/kits"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/routing"
	"steward/internal/store"
	"steward/internal/taint"
)

// Routing learns from people. Who names an agent for a message teaches that such
// messages are for it. What was taught is not stored a second time: the run names the
// message, and the newest runs are read. So it goes with the message when that is
// erased, and text that others wrote teaches nothing.

// routers holds what messages are routed by.
type routers struct {
	mu      sync.Mutex
	routers map[string]*routing.Router // by user; "" for those who have taught nothing
	version uint64                     // of the catalog's tree that they were made for
}

// Bounds of what is kept of users.
const (
	maxTaught  = 500  // examples of a user that count, the newest ones
	maxRouters = 16   // in memory
	maxDecided = 1000 // decisions that the figures are about
)

// router returns the router of a user, for these candidates; own are texts about
// what the assistant does. It is made anew if the catalog, or what the user has
// taught, has changed.
func (n *Node) router(ctx context.Context, user string, agents []routing.Agent, own []string) (*routing.Router, error) {
	r := &n.routing
	r.mu.Lock()
	defer r.mu.Unlock()
	var version uint64
	if n.opt.Catalog != nil {
		version = n.opt.Catalog.Tree().Version
	}
	if r.routers == nil || r.version != version {
		r.routers, r.version = map[string]*routing.Router{}, version
	}
	if known := r.routers[user]; known != nil {
		return known, nil
	}
	if len(r.routers) >= maxRouters {
		clear(r.routers)
	}
	examples, err := n.taught(ctx, user)
	if err != nil {
		return nil, err
	}
	for _, x := range examples {
		if x.agent == kits.DefaultAgent {
			own = append(own, x.text)
		} else if i := slices.IndexFunc(agents, func(a routing.Agent) bool { return a.Name == x.agent }); i >= 0 {
			agents[i].Examples = append(slices.Clip(agents[i].Examples), x.text)
		}
	}
	made := r.routers[""]
	if made == nil || len(examples) > 0 {
		made = routing.New(agents, own...)
	}
	if r.routers[user] = made; len(examples) == 0 {
		r.routers[""] = made
	}
	return made, nil
}

// taught is an example of an agent by a user.
type taught struct{ agent, text string }

// taught returns what a user has taught, the newest first.
func (n *Node) taught(ctx context.Context, user string) ([]taught, error) {
	sc, known := store.ForUser(user), map[string]bool{}
	var out []taught
	for run, err := range routedRuns(ctx, n.opt.Store, sc, record.TermNamed, maxTaught) {
		if err != nil {
			return nil, err
		}
		r, err := n.opt.Store.Get(ctx, sc, run.Route.Said)
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
		out = append(out, taught{run.Agent, text})
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

// named returns the record of a turn whose agent a person names, with what it
// teaches: that what the person typed is for this agent. Only a change teaches, for
// in a chat every message may name the agent.
func (n *Node) named(ctx context.Context, c *chat, s *conversation.Session, t *Turn, m *message.Message, inter id.ID) *record.Route {
	r := &record.Route{Path: record.RouteNamed}
	said, at := m, record.InteractionURI(c.id, inter)
	if m == nil {
		if said = lastSaid(s); said == nil {
			return r
		}
		e, err := n.conversations.Find(ctx, store.ForUser(c.user), c.id, said.ID)
		if err != nil {
			return r
		}
		at = record.InteractionURI(c.id, e.Interaction)
	}
	text, _ := taint.Words([]*message.Message{said})
	if routing.FollowsUp(text) {
		return r
	}
	before, routed := n.routedBefore(ctx, c.user, text)
	corrects := routed && before != t.Agent
	conv := s.Conversation()
	if !corrects && !s.Head().Zero() && cmp.Or(conv.Agent, kits.DefaultAgent) == t.Agent {
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

// routedBefore returns the agent that routing has lately chosen for the same words,
// in any conversation.
func (n *Node) routedBefore(ctx context.Context, user, text string) (string, bool) {
	sc := store.ForUser(user)
	for run, err := range routedRuns(ctx, n.opt.Store, sc, record.TermRouted, maxRecent) {
		if err != nil {
			return "", false
		}
		for m, err := range requests.MessagesUnder(ctx, n.opt.Store, sc, run.URI.Parent()) {
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

// learn makes the user's router anew once something was taught, so that the next
// message finds it.
func (n *Node) learn(c *chat, run *record.Run) {
	if run.Term() != record.TermNamed {
		return
	}
	n.routing.mu.Lock()
	delete(n.routing.routers, c.user)
	n.routing.mu.Unlock()
	n.goes(func() {
		agents, own := n.kits.Candidates()
		if _, err := n.router(n.life, c.user, agents, own); err != nil {
			n.log.Warn("what was taught about routing is not known yet", "error", err)
		}
	})
}

// ExplainRoute says which agent a message would get at the beginning of a
// conversation. No model is asked. Error codes: routing_off, message_empty.
func (n *Node) ExplainRoute(ctx context.Context, user, text string) (Decision, error) {
	if n.opt.Routing == RoutingOff {
		return Decision{}, fault.New(fault.Unsupported, "routing_off", "messages are not routed: the assistant gets those that name no agent").
			WithHint("set routing: auto in the settings")
	}
	if strings.TrimSpace(text) == "" {
		return Decision{}, fault.New(fault.Invalid, "message_empty", "the message is empty").WithHint("write something")
	}
	d := n.decide(ctx, &unclear{user: user, text: text, local: true})
	if d == nil {
		d = &Decision{Agent: kits.DefaultAgent, Route: record.Route{Path: record.RouteDefault}, Ranked: []routing.Ranked{}}
	}
	return *d, nil
}

// RouteStats are figures about a user's newest decisions.
type RouteStats struct {
	Decisions int                   `json:"decisions"`
	Corrected int                   `json:"corrected"` // decisions after which the person named another agent for the same words
	Taught    int                   `json:"taught"`    // messages for which the person named an agent
	Fallbacks int                   `json:"fallbacks"` // decisions for the planner after which planning failed, and the candidate answered
	Paths     map[string]int        `json:"paths"`
	Times     map[string]RouteTimes `json:"times"` // "route": of the decision; "direct" and "planned": of whole turns
}

// RouteTimes are times in milliseconds.
type RouteTimes struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
}

// RouteStats returns figures about the newest decisions of routing for a user.
func (k *Records) RouteStats(ctx context.Context, user string) (RouteStats, error) {
	out := RouteStats{Paths: map[string]int{}, Times: map[string]RouteTimes{}}
	sc, times := store.ForUser(user), map[string][]float64{}
	for run, err := range routedRuns(ctx, k.store, sc, record.TermRouted, maxDecided) {
		if err != nil {
			return out, err
		}
		out.Decisions++
		out.Paths[run.Route.Path]++
		if run.Route.Fallback {
			out.Fallbacks++
		}
		times["route"] = append(times["route"], run.Route.Millis)
		kind := "direct"
		if run.Agent == kits.PlannerAgent {
			kind = "planned"
		}
		if !run.Ended.IsZero() {
			times[kind] = append(times[kind], float64(run.Ended.Sub(run.Started).Microseconds())/1000+run.Route.Millis)
		}
	}
	for run, err := range routedRuns(ctx, k.store, sc, record.TermNamed, maxDecided) {
		if err != nil {
			return out, err
		}
		if out.Taught++; run.Route.Instead != "" {
			out.Corrected++
		}
	}
	for name, list := range times {
		slices.Sort(list)
		at := func(q float64) float64 { return list[int(math.Ceil(q*float64(len(list))))-1] }
		out.Times[name] = RouteTimes{len(list), at(0.5), at(0.95)}
	}
	return out, nil
}
