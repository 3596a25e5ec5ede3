package effect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/policy"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	_ "steward/test/seed"
	"steward/test/storetest"
)

// plainTool is a receiver that can neither be asked nor knows a key again; the
// process can die in it, and it refuses for sure when it is told to.
type plainTool struct {
	*fake
	m    *machine
	kind string
}

func (p *plainTool) one(in tool.Invocation) (tool.Result, error) {
	switch p.m.inside {
	case "refuse":
		p.m.inside = ""
		return tool.Result{}, tool.NotDone(fault.New(fault.Unavailable, "down", "it is down"))
	case "before":
		p.m.inside = ""
		p.m.process.kill()
		return tool.Result{}, errCrash
	case "after":
		p.m.inside = ""
		p.m.process.kill()
		p.m.done.add(in.Key)
		return tool.Result{}, errCrash
	}
	if p.m.process.isDead() {
		return tool.Result{}, errCrash
	}
	p.m.done.add(in.Key)
	return tool.Text("done"), nil
}

func (p *plainTool) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	return p.one(in)
}

func (p *plainTool) CallAll(_ context.Context, ins []tool.Invocation) []tool.Outcome {
	out := make([]tool.Outcome, len(ins))
	for i, in := range ins {
		out[i].Result, out[i].Err = p.one(in)
	}
	return out
}

func (p *plainTool) Undo(_ context.Context, in tool.Invocation, _ tool.Result) (tool.Result, error) {
	if !p.m.back.has(in.Key) {
		p.m.back.add(in.Key)
	}
	if p.m.inside == "after" {
		p.m.inside = ""
		p.m.process.kill()
		return tool.Result{}, errCrash
	}
	return tool.Text("taken back"), nil
}

// askable is a receiver that can be asked.
type askable struct{ *plainTool }

func (a *askable) Settle(_ context.Context, in tool.Invocation) (bool, tool.Result, error) {
	return a.m.done.has(in.Key), tool.Text("done"), nil
}

// machine is the engine with a world, a store and a process that dies.
type machine struct {
	store   store.Store
	process *mortal
	engine  *Engine
	done    ledger // effects by key
	back    ledger // effects that were taken back
	judge   *laws
	wg      sync.WaitGroup
	refused bool   // a tool was told to refuse
	inside  string // what the next call of a tool does: "before", "after", "refuse", or nothing
	tools   map[string]tool.Tool
	inter   resource.URI
	open    []Call // calls whose result is not known yet
	steps   map[resource.URI]tool.Tool
	n       int
}

func newMachine() *machine {
	m := &machine{store: storetest.NewModel(), judge: &laws{}, tools: map[string]tool.Tool{}, steps: map[resource.URI]tool.Tool{}, inter: interaction}
	for _, kind := range []string{"plain", "asked", "dedupes"} {
		for _, d := range []tool.Delivery{tool.Inline, tool.Deferred} {
			p := &plainTool{fake: action(nil), m: m, kind: kind}
			p.spec.Name, p.spec.Delivery, p.spec.Dedupes = "test."+kind+"_"+string(d), d, kind == "dedupes"
			var t tool.Tool = p
			if kind == "asked" {
				t = &askable{p}
			}
			m.tools[p.spec.Name] = t
		}
	}
	m.live()
	return m
}

// live begins a life of the process.
func (m *machine) live() {
	m.process = &mortal{Store: m.store, left: -1}
	m.engine = engine(m.process, m.judge)
}

// answers answers each question at once.
func (m *machine) answers(yes bool) func(Progress) {
	e := m.engine
	return func(p Progress) {
		if p.Status == Awaiting {
			m.wg.Go(func() {
				err := e.Decide(context.Background(), store.ForUser("ann"), Decision{ID: p.Question.ID, Hash: p.Question.Hash, Approve: yes})
				if err != nil && !errors.Is(err, errCrash) && !fault.Is(err, fault.Conflict) {
					panic(err)
				}
			})
		}
	}
}

// crashed begins another life where the last one has ended.
func (m *machine) crashed(t *rapid.T, err error) bool {
	m.wg.Wait()
	if err == nil && !m.process.isDead() {
		return false
	}
	if !m.process.isDead() {
		t.Fatalf("an error, and nothing had crashed: %v", err)
	}
	m.live()
	return true
}

func (m *machine) run(t *rapid.T, c Call, yes bool) {
	c.Notify = m.answers(yes)
	res, err := m.engine.Run(context.Background(), c)
	if m.crashed(t, err) || err != nil {
		m.open = append(m.open, c)
		return
	}
	if res == nil {
		t.Fatal("no result")
	}
}

func (m *machine) settle(t *rapid.T, stopped, yes bool) {
	st := Settlement{Under: m.inter, Scope: store.ForUser("ann"), Attended: true, Stopped: stopped, Notify: m.answers(yes),
		Tools: func(_, name string) (tool.Tool, bool) { tl, ok := m.tools[name]; return tl, ok }}
	st.Request = callOf(nil, "{}").Request
	_, err := m.engine.Settle(context.Background(), st)
	m.crashed(t, err)
}

// all returns every intent with its place.
func (m *machine) all(t *rapid.T) map[resource.URI]intent.Intent {
	out := map[resource.URI]intent.Intent{}
	for it, err := range store.Items(context.Background(), m.store, store.ForUser("ann"), store.Query{Under: m.inter, Type: TypeIntent}) {
		if err != nil {
			t.Fatal(err)
		}
		in, err := intent.Decode(it.Body)
		if err != nil {
			t.Fatal(err)
		}
		out[it.URI] = in
	}
	return out
}

// pick draws an intent in one of the states.
func (m *machine) pick(t *rapid.T, states ...intent.State) (resource.URI, intent.Intent, bool) {
	var found []resource.URI
	all := m.all(t)
	for uri, in := range all {
		if slices.Contains(states, in.State) {
			found = append(found, uri)
		}
	}
	slices.SortFunc(found, func(a, b resource.URI) int { return strings.Compare(a.String(), b.String()) })
	if len(found) == 0 {
		return resource.URI{}, intent.Intent{}, false
	}
	uri := rapid.SampledFrom(found).Draw(t, "which")
	return uri, all[uri], true
}

// follow has a person want something; again and again, until it is known.
func (m *machine) follow(t *rapid.T, w Step, states ...intent.State) {
	uri, in, ok := m.pick(t, states...)
	if !ok {
		return
	}
	tl, at := m.tools[in.Tool], successorURI(uri, w)
	_, known := m.steps[at]
	m.steps[at] = tl // whether it is recorded is not known after a crash
	_, err := m.engine.Again(context.Background(), store.ForUser("ann"), uri, w, tl, nil)
	switch {
	case m.crashed(t, ignoreConflict(err)):
	case err != nil && !known:
		delete(m.steps, at)
	case err == nil:
		m.carry(t, at, tl)
	}
}

func (m *machine) carry(t *rapid.T, at resource.URI, tl tool.Tool) {
	c, err := m.engine.CallOf(context.Background(), store.ForUser("ann"), at, tl)
	if fault.Is(err, fault.NotFound) {
		delete(m.steps, at)
		return
	}
	if m.crashed(t, err) {
		return
	}
	c.Request = callOf(nil, "{}").Request
	c.Notify = m.answers(true)
	_, err = m.engine.Run(context.Background(), c)
	if !m.crashed(t, ignoreConflict(err)) && err == nil {
		delete(m.steps, at)
	}
}

func ignoreConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}

// check holds the world against what is recorded.
func (m *machine) check(t *rapid.T) {
	for uri, in := range m.all(t) {
		effects, back := m.done.of(in.Key), m.back.of(in.Key)
		kind := in.Tool[len("test."):]
		unique := effects
		if len(kind) > 7 && kind[:7] == "dedupes" && unique > 1 {
			unique = 1 // the receiver took it once
		}
		about := fmt.Sprintf("%s %s of %s (%d effects, %d taken back)", uri.ID(), in.State, kind, effects, back)
		switch {
		case unique > 1:
			t.Fatalf("done twice: %s", about)
		case in.Undoes != "":
			if effects != 0 {
				t.Fatalf("an undoing has an effect of its own: %s", about)
			}
		case in.State == intent.Done && effects == 0:
			if twin := m.twinDone(t, in.Key); !twin {
				t.Fatalf("said to be done: %s", about)
			}
		case in.State.Settled() && in.State != intent.Done && in.State != intent.Unknown && effects > 0:
			if !m.twinDone(t, in.Key) {
				t.Fatalf("said not to be done: %s", about)
			}
		case in.State == intent.Unknown && (kind[:5] == "asked" || !m.refused && len(kind) > 7 && kind[:7] == "dedupes"):
			t.Fatalf("could have been found out: %s", about)
		case in.Undone != "" && back != 1:
			t.Fatalf("said to be taken back: %s", about)
		case back > 1:
			t.Fatalf("taken back twice: %s", about)
		}
		if in.Dead && in.State != intent.Failed && in.State != intent.Unknown {
			t.Fatalf("dead, and %s", about)
		}
		if in.Retried != "" {
			u, err := resource.Parse(in.Retried)
			if next, ok := m.all(t)[u]; err != nil || !ok || next.Retries != uri.String() || next.Key == in.Key {
				t.Fatalf("tried again by nothing: %s", about)
			}
		}
	}
}

// twinDone reports whether an intent with the key is done, or may be.
func (m *machine) twinDone(t *rapid.T, key string) bool {
	for _, in := range m.all(t) {
		if in.Key == key && (in.State == intent.Done || in.State == intent.Unknown || in.State == intent.Executing) {
			return true
		}
	}
	return false
}

// However calls, queues, approvals, crashes, batches, undoings, retries and
// people's words follow each other: no effect happens twice, what is said to
// be done is, what is said not to be done is not, and unknown is said only
// where nobody could find out.
func TestTheMachineOfEffects(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		names := rapid.SampledFrom([]string{"test.plain_inline", "test.asked_inline", "test.dedupes_inline", "test.plain_deferred", "test.asked_deferred", "test.dedupes_deferred"})
		t.Repeat(map[string]func(*rapid.T){
			"": m.check,
			"call": func(t *rapid.T) {
				m.n++
				c := callOf(m.tools[names.Draw(t, "tool")], fmt.Sprintf(`{"n":%d}`, rapid.IntRange(0, 3).Draw(t, "n")))
				c.Ref.Message = id.Derive("machine", fmt.Sprint(m.n))
				c.Message = m.inter.ChildID("common.Message", c.Ref.Message)
				m.run(t, c, rapid.Bool().Draw(t, "yes"))
			},
			"go on": m.goOn,
			"settle": func(t *rapid.T) {
				m.settle(t, rapid.IntRange(0, 5).Draw(t, "stopped") == 0, rapid.Bool().Draw(t, "yes"))
			},
			"law": func(t *rapid.T) {
				v := rapid.SampledFrom([]policy.Verdict{policy.Allow, policy.Allow, policy.Ask, policy.Deny})
				m.judge.set(policy.PointTool, policy.Decision{Verdict: v.Draw(t, "tool")})
				m.judge.set(policy.PointIntent, policy.Decision{Verdict: v.Draw(t, "intent")})
			},
			"die soon": func(t *rapid.T) {
				m.process.mu.Lock()
				m.process.left, m.process.after = rapid.IntRange(1, 6).Draw(t, "commits"), rapid.Bool().Draw(t, "after")
				m.process.mu.Unlock()
			},
			"inside": func(t *rapid.T) {
				m.inside = rapid.SampledFrom([]string{"before", "after", "refuse"}).Draw(t, "how")
				m.refused = m.refused || m.inside == "refuse"
			},
			"restart": func(*rapid.T) { m.live() },
			"retry":   func(t *rapid.T) { m.follow(t, Retry, intent.Failed, intent.Cancelled, intent.Expired) },
			"undo":    func(t *rapid.T) { m.follow(t, Undo, intent.Done) },
			"resolve": func(t *rapid.T) {
				uri, in, ok := m.pick(t, intent.Unknown)
				if !ok {
					return
				}
				happened := m.done.has(in.Key)
				if in.Undoes != "" {
					return
				}
				m.crashed(t, m.engine.Resolve(context.Background(), store.ForUser("ann"), uri, Resolution{Done: happened}))
			},
			"withdraw": func(t *rapid.T) {
				uri, _, ok := m.pick(t, intent.Proposed, intent.Awaiting, intent.Approved)
				if ok {
					_, err := m.engine.Cancel(context.Background(), store.ForUser("ann"), uri, "as the test wants it")
					m.crashed(t, err)
				}
			},
		})
		m.finish(t)
	})
}

// goOn runs the calls and steps again whose result is not known yet.
func (m *machine) goOn(t *rapid.T) {
	open := m.open
	m.open = nil
	for _, c := range open {
		m.run(t, c, true)
	}
	for own, tl := range m.steps {
		m.carry(t, own, tl)
	}
}

// finish lets all come to its end: nothing is left on its way.
func (m *machine) finish(t *rapid.T) {
	m.live()
	m.inside = ""
	for range 3 {
		m.goOn(t)
		m.settle(t, false, true)
	}
	m.check(t)
	for uri, in := range m.all(t) {
		if !in.State.Settled() {
			t.Fatalf("%s is left %s", uri, in.State)
		}
	}
}
