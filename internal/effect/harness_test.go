package effect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/request"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// judge gives one answer.
type judge policy.Verdict

func (j judge) Authorize(context.Context, policy.Question) (policy.Decision, error) {
	return policy.Decision{Verdict: policy.Verdict(j), Reason: "as the test wants it"}, nil
}

type judgeFunc func(context.Context, policy.Question) (policy.Decision, error)

func (f judgeFunc) Authorize(ctx context.Context, q policy.Question) (policy.Decision, error) {
	return f(ctx, q)
}

// doFunc is what a tool does.
type doFunc = func(context.Context, tool.Invocation) (tool.Result, error)

// fake is a tool whose behaviour a test chooses.
type fake struct {
	spec tool.Spec
	call doFunc
	mu   sync.Mutex
}

func (f *fake) Spec() tool.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spec
}

func (f *fake) setVersion(v string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spec.Version = v
}
func (f *fake) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	return f.call(ctx, in)
}

var anyObject = []byte(`{"type":"object"}`)

func query(call doFunc) *fake {
	return &fake{spec: tool.Spec{Name: "test.query", Description: "Reads.", Input: anyObject, Effect: tool.Query, Version: "1"}, call: call}
}

func action(call doFunc) *fake {
	return &fake{spec: tool.Spec{Name: "test.action", Description: "Changes.", Input: anyObject, Effect: tool.Action,
		Delivery: tool.Inline, Version: "1"}, call: call}
}

func gives(res tool.Result) doFunc {
	return func(context.Context, tool.Invocation) (tool.Result, error) { return res, nil }
}

func says(text string) doFunc { return gives(tool.Text(text)) }

func fails(err error) doFunc {
	return func(context.Context, tool.Invocation) (tool.Result, error) { return tool.Result{}, err }
}

// adds counts an effect.
func adds(l *ledger, text string) doFunc {
	return func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		l.add(in.Key)
		return tool.Text(text), nil
	}
}

// settleFunc answers whether an effect happened.
type settleFunc = func(context.Context, tool.Invocation) (bool, tool.Result, error)

// happened answers the same each time.
func happened(yes bool, err error) settleFunc {
	return func(context.Context, tool.Invocation) (bool, tool.Result, error) {
		return yes, tool.Text("it had happened"), err
	}
}

// settler adds an answer to "did it happen?".
type settler struct {
	*fake
	settle settleFunc
}

func (s *settler) Settle(ctx context.Context, in tool.Invocation) (bool, tool.Result, error) {
	return s.settle(ctx, in)
}

// ledger is the outside world: it counts effects by key.
type ledger struct {
	mu   sync.Mutex
	done map[string]int
}

func (l *ledger) add(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = map[string]int{}
	}
	l.done[key]++
}

func (l *ledger) of(key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done[key]
}

func (l *ledger) has(key string) bool { return l.of(key) > 0 }

// total counts effects; a receiver that dedupes takes a key once.
func (l *ledger) total(dedupes bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.done {
		if dedupes {
			times = 1
		}
		n += times
	}
	return n
}

var errCrash = errors.New("the process is dead")

// mortal is a store of a process that dies at its n-th commit, before or after
// it took effect. Once dead, it does nothing any more.
type mortal struct {
	store.Store
	mu    sync.Mutex
	left  int // commits until death; below zero: lives for ever
	after bool
	dead  bool
}

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return store.Receipt{}, errCrash
	}
	m.left--
	if m.left == 0 {
		m.dead = true
		if m.after {
			if _, err := m.Store.Commit(ctx, sc, b); err != nil {
				return store.Receipt{}, err
			}
		}
		return store.Receipt{}, errCrash
	}
	return m.Store.Commit(ctx, sc, b)
}

func (m *mortal) isDead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

func (m *mortal) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	if m.isDead() {
		return resource.Resource{}, errCrash
	}
	return m.Store.Get(ctx, sc, u)
}

func (m *mortal) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	if m.isDead() {
		return store.Page{}, errCrash
	}
	return m.Store.Query(ctx, sc, q)
}

// hooked is a store that calls back before each access, with the batch of a commit.
type hooked struct {
	store.Store
	mu     sync.Mutex
	before func(*store.Batch)
}

func (h *hooked) set(before func(*store.Batch)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = before
}

func (h *hooked) call(b *store.Batch) {
	h.mu.Lock()
	before := h.before
	h.mu.Unlock()
	if before != nil {
		before(b)
	}
}

func (h *hooked) Commit(ctx context.Context, sc store.Scope, b store.Batch) (store.Receipt, error) {
	h.call(&b)
	return h.Store.Commit(ctx, sc, b)
}

func (h *hooked) Get(ctx context.Context, sc store.Scope, u resource.URI) (resource.Resource, error) {
	h.call(nil)
	return h.Store.Get(ctx, sc, u)
}

func (h *hooked) Query(ctx context.Context, sc store.Scope, q store.Query) (store.Page, error) {
	h.call(nil)
	return h.Store.Query(ctx, sc, q)
}

var (
	conversation = resource.Root("common.Conversation", "c1")
	interaction  = conversation.Child("common.Interaction", "i1")
)

// callOf is a call of a tool with arguments, in a message of its own.
func callOf(t tool.Tool, args string) Call {
	msg := id.New()
	c := Call{
		Args: []byte(args), Ref: message.Ref{Message: msg, Block: 1}, Message: interaction.ChildID("common.Message", msg),
		Scope: store.ForUser("ann"), Agent: "assistant", Attended: true,
		Request: request.Context{ID: id.New(), User: "ann", Conversation: conversation},
	}
	if t != nil {
		c.Tool, c.Name = t, t.Spec().Name
	}
	return c
}

func engine(s store.Store, j policy.Authorizer) *Engine {
	return New(Options{Store: s, Authorizer: j, Log: quiet})
}

// open returns an engine over a real store.
func open(t testing.TB, j policy.Authorizer) (store.Store, *Engine) {
	s := openStore(t)
	return s, engine(s, j)
}

// answer answers a question as a user.
func answer(t testing.TB, e *Engine, user string, q *Question, approve bool) {
	t.Helper()
	decided(t, e, user, Decision{ID: q.ID, Hash: q.Hash, Approve: approve}, "")
}

// decided gives an answer, which must have the error code.
func decided(t testing.TB, e *Engine, user string, d Decision, code string) {
	t.Helper()
	if err := e.Decide(context.Background(), store.ForUser(user), d); err != nil && code == "" || code != "" && !fault.HasCode(err, code) {
		t.Errorf("%s decides %+v: %v; want %q", user, d, err, code)
	}
}

// oneGrant returns the grants of ann, who has one.
func oneGrant(t testing.TB, e *Engine) []Grant {
	t.Helper()
	list, err := e.Grants(context.Background(), "ann", false)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	return list
}

// plant records an intent as an earlier run left it.
func plant(t testing.TB, s store.Store, c Call, in intent.Intent) {
	t.Helper()
	in.Tool, in.Args, in.ArgsHash, in.User, in.Call = "test.action", "{}", intent.HashArgs([]byte("{}")), "ann", c.Ref
	in.Version, in.Key = cmp.Or(in.Version, "1"), "the key"
	body, err := intent.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, store.Change{URI: IntentURI(c.Message, c.Ref.Block), Body: body, State: in.State.Mark()})
}

// put commits a change of ann's.
func put(t testing.TB, s store.Store, c store.Change) {
	t.Helper()
	if _, err := s.Commit(context.Background(), store.ForUser("ann"), store.Batch{Changes: []store.Change{c}}); err != nil {
		t.Fatal(err)
	}
}

// run runs a call that must not end in an error.
func run(t testing.TB, e *Engine, c Call) *message.ToolResult {
	t.Helper()
	res, err := e.Run(context.Background(), c)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return res
}

// expect checks a result's status and that its text holds the words.
func expect(t testing.TB, res *message.ToolResult, status message.Status, words ...string) {
	t.Helper()
	if res == nil || res.Status != status {
		t.Fatalf("got %s; want %s", describe(res), status)
	}
	for _, w := range words {
		if !strings.Contains(res.Text(), w) {
			t.Errorf("%q does not say %q", res.Text(), w)
		}
	}
	for _, b := range res.Content {
		if b.Base().Origin == "" {
			t.Errorf("a block has no origin: %+v", b)
		}
	}
	m := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{res}}
	if err := message.Validate(m); err != nil {
		t.Errorf("the result cannot be stored: %v", err)
	}
}

func describe(res *message.ToolResult) string {
	if res == nil {
		return "no result"
	}
	return fmt.Sprintf("%s: %s", res.Status, res.Text())
}

// stateOf reads the intent of a call.
func stateOf(t testing.TB, s store.Store, c Call) intent.Intent {
	t.Helper()
	r, err := s.Get(context.Background(), c.Scope, IntentURI(c.Message, c.Ref.Block))
	if err != nil {
		t.Fatal(err)
	}
	in, err := intent.Decode(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != in.State.Mark() {
		t.Errorf("the intent is %s, and marked %q", in.State, r.State)
	}
	return in
}

// noIntent checks that nothing was recorded for a call.
func noIntent(t testing.TB, s store.Store, c Call) {
	t.Helper()
	if _, err := s.Get(context.Background(), c.Scope, IntentURI(c.Message, c.Ref.Block)); !fault.Is(err, fault.NotFound) {
		t.Errorf("an intent is there: %v", err)
	}
}

// answers returns a Notify that answers each question of ann's, from another goroutine of
// the group.
func answers(t testing.TB, e *Engine, wg *sync.WaitGroup, approve bool) func(Progress) {
	return func(p Progress) {
		if p.Status == Awaiting {
			wg.Go(func() {
				err := e.Decide(context.Background(), store.ForUser("ann"), Decision{ID: p.Question.ID, Hash: p.Question.Hash, Approve: approve})
				if err != nil && !errors.Is(err, errCrash) {
					t.Errorf("Decide: %v", err)
				}
			})
		}
	}
}

// answering makes c answer its questions, besides what its Notify does already.
func answering(t testing.TB, e *Engine, c *Call, approve bool) *sync.WaitGroup {
	var wg sync.WaitGroup
	before, answer := c.Notify, answers(t, e, &wg, approve)
	c.Notify = func(p Progress) {
		if before != nil {
			before(p)
		}
		answer(p)
	}
	return &wg
}

// runAnswering runs a call and answers its questions.
func runAnswering(t testing.TB, e *Engine, c Call, approve bool) *message.ToolResult {
	t.Helper()
	wg := answering(t, e, &c, approve)
	defer wg.Wait()
	return run(t, e, c)
}

// isState checks the state of a call's intent, and returns it.
func isState(t testing.TB, s store.Store, c Call, want intent.State) intent.Intent {
	t.Helper()
	in := stateOf(t, s, c)
	if in.State != want {
		t.Errorf("the intent is %s, want %s: %+v", in.State, want, in)
	}
	return in
}

// deferred is an action whose calls are queued.
func deferred(l *ledger) *fake {
	a := action(func(_ context.Context, in tool.Invocation) (tool.Result, error) {
		l.add(in.Key)
		return tool.Text("done " + string(in.Args)), nil
	})
	a.spec.Delivery = tool.Deferred
	return a
}

// queue makes calls of a tool, which are queued.
func queue(t testing.TB, e *Engine, tl tool.Tool, args ...string) []Call {
	t.Helper()
	var out []Call
	for _, a := range args {
		c := callOf(tl, a)
		expect(t, run(t, e, c), message.Queued)
		out = append(out, c)
	}
	return out
}

func settlement(c Call, tools ...tool.Tool) Settlement {
	return Settlement{Under: interaction, Scope: c.Scope, Request: c.Request, Attended: true,
		Tools: func(_, name string) (tool.Tool, bool) {
			for _, t := range tools {
				if t.Spec().Name == name {
					return t, true
				}
			}
			return nil, false
		}}
}

// settle settles what is queued, and checks the statuses of the outcomes.
func settle(t testing.TB, e *Engine, st Settlement, want ...message.Status) []Outcome {
	t.Helper()
	out, err := e.Settle(context.Background(), st)
	if err != nil || len(out) != len(want) {
		t.Fatalf("%d outcomes, want %d: %v", len(out), len(want), err)
	}
	for i, o := range out {
		expect(t, o.Result, want[i])
	}
	return out
}
