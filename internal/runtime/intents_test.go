package runtime_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// allows is an authorizer that allows everything, but for the tools that it names;
// "" names all.
type allows map[string]policy.Verdict

func (a allows) Authorize(_ context.Context, q policy.Question) (policy.Decision, error) {
	v := cmp.Or(a[q.Tool.Name], a[""], policy.Allow)
	return policy.Decision{Verdict: v, Reason: "as the test wants it", Rule: "test.rule", Version: "v7"}, nil
}

// shop is an action tool that recognizes keys, can undo, and can be made to fail.
type shop struct {
	spec tool.Spec

	mu     sync.Mutex
	orders map[string]string // by key
	lines  []string          // what was done, in order
	fail   map[string]error  // by what is ordered
	lost   bool              // the outcome of the next order is not heard of
	gate   chan struct{}     // nil: open
}

func newShop(name string, delivery tool.Delivery) *shop {
	return &shop{orders: map[string]string{}, fail: map[string]error{}, spec: tool.Spec{Name: name, Description: "Orders something.", Effect: tool.Action,
		Delivery: delivery, Version: "1", Input: []byte(`{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`)}}
}

func (s *shop) Spec() tool.Spec { return s.spec }

func (s *shop) Call(ctx context.Context, in tool.Invocation) (tool.Result, error) {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order(in)
}

func (s *shop) order(in tool.Invocation) (tool.Result, error) {
	what := strings.TrimSuffix(strings.TrimPrefix(string(in.Args), `{"what":"`), `"}`)
	if err := s.fail[what]; err != nil {
		return tool.Result{}, err
	}
	s.orders[in.Key] = what
	s.lines = append(s.lines, what)
	if s.lost {
		s.lost = false
		return tool.Result{}, errors.New("the line went dead")
	}
	return tool.Text("ordered " + what), nil
}

func (s *shop) Undo(_ context.Context, in tool.Invocation, _ tool.Result) (tool.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what, ok := s.orders[in.Key]
	if ok {
		delete(s.orders, in.Key)
		s.lines = append(s.lines, "-"+what)
	}
	return tool.Text("the order is cancelled"), nil
}

func (s *shop) list() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, ",")
}

func newShopWorld(t testing.TB, s *shop, judge policy.Authorizer) *world {
	return made(t, &world{judge: judge, more: []tool.Tool{s}}).open()
}

func order(what ...string) string {
	var lines []string
	for _, x := range what {
		lines = append(lines, fmt.Sprintf(`call shop.order {"what":%q}`, x))
	}
	return strings.Join(lines, "\n")
}

// quietened waits until a conversation is at rest and all requests are closed.
func (w *world) quietened(conv id.ID) {
	w.t.Helper()
	w.atRest(conv)
	w.settled()
	w.atRest(conv)
}

func (w *world) intents(f requests.IntentFilter) []client.Intent {
	w.t.Helper()
	list, _, err := w.Intents(w.t.Context(), "anna", f, "", 100)
	ok(w.t, err)
	return list
}

// heard returns the messages of an origin in a conversation, in order.
func (w *world) heard(conv id.ID, origin string) []string {
	w.t.Helper()
	var out []string
	list := w.messages(conv)
	for _, e := range list {
		if e.Message.Role == message.User && e.Message.Blocks[0].Base().Origin == origin {
			out = append(out, e.Message.Text())
		}
	}
	return out
}

func TestQueuedActionsAreDoneWhenTheTurnEnds(t *testing.T) {
	s := newShop("shop.order", tool.Deferred)
	w := newShopWorld(t, s, allows{})
	s.gate = make(chan struct{})
	conv, frames := w.turn(id.ID{}, order("tea", "milk", "tea"))
	if got := said(frames); strings.Count(got, "queued: Queued") != 3 {
		t.Errorf("the answer: %q", got)
	}
	list, err := w.Requests(t.Context(), "anna", false, 10)
	if err != nil || len(list) < 2 {
		t.Errorf("the turn is closed before what it queued is settled: %+v, %v", list, err)
	}
	close(s.gate)
	w.quietened(conv)
	if s.list() != "tea,milk" {
		t.Errorf("done: %s", s.list())
	}
	if told := w.heard(conv, "intent:shop.order"); len(told) != 0 {
		t.Errorf("what went well was told: %q", told)
	}
	var states []string
	for _, in := range w.intents(requests.IntentFilter{Conversation: conv}) {
		states = append(states, string(in.State))
		if in.Rule != "test.rule" || in.Policy != "v7" || !in.Deferred || in.Agent != "assistant" || in.Conversation != conv.String() {
			t.Errorf("%+v", in)
		}
	}
	slices.Sort(states)
	if got := strings.Join(states, " "); got != "cancelled done done" {
		t.Errorf("the actions are %s", got)
	}
	tree, err := w.RequestTree(t.Context(), "anna", list[0].ID)
	if err != nil || tree.State != requests.Closed || len(tree.Below) != 3 || tree.Below[0].Wish != record.WishQueued || tree.Below[0].Intent != "done" {
		t.Errorf("%+v, %v", tree, err)
	}
}

func TestStopCancelsQueuedActions(t *testing.T) {
	s := newShop("shop.order", tool.Deferred)
	w := newShopWorld(t, s, allows{})
	w.model.begun = make(chan struct{}, 1)
	w.model.obey = true
	hangs := newTool(tool.Spec{Name: "go.on", Description: "Waits.", Effect: tool.Query}, func(ctx context.Context, _ tool.Invocation, _ struct{}) (string, error) {
		w.model.begun <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	w.close()
	w.more = append(w.more, hangs)
	w.open()
	acc := w.send(id.ID{}, order("tea")+"\ncall go.on {}")
	<-w.model.begun
	eventually(t, "it comes to be", func() bool { return len(w.intents(requests.IntentFilter{State: intent.Approved})) == 1 })
	ok(t, w.Stop(t.Context(), "anna", acc.Conversation))
	w.quietened(acc.Conversation)
	if in := w.intents(requests.IntentFilter{})[0]; in.State != string(intent.Cancelled) || s.list() != "" {
		t.Errorf("%+v; done %q", in, s.list())
	}
	if told := w.heard(acc.Conversation, "intent:shop.order"); len(told) != 0 {
		t.Errorf("who stopped it was told of it: %q", told)
	}
}

func TestQueuedActionThatNeedsAnApproval(t *testing.T) {
	for _, yes := range []bool{true, false} {
		s := newShop("shop.order", tool.Deferred)
		w := newShopWorld(t, s, allows{"shop.order": policy.Ask})
		conv, _ := w.turn(id.ID{}, order("tea"))
		w.close() // the question outlives the process
		w.open()
		frames := w.until(conv, turn.Cursor{}, func(f turn.Frame) bool { return f.Kind == turn.FrameTask && f.Task.Approval != nil })
		a := frames[len(frames)-1].Task.Approval
		if s.list() != "" || a.Tool != "shop.order" {
			t.Fatalf("done %q, asked %+v", s.list(), a)
		}
		ok(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: a.ID, Hash: a.Hash, Approve: yes}))
		w.quietened(conv)
		told := w.heard(conv, "intent:shop.order")
		if yes && (s.list() != "tea" || len(told) != 0) || !yes && (s.list() != "" || len(told) != 1 || !strings.Contains(told[0], "the user denied it")) {
			t.Errorf("yes %v: done %q, told %q", yes, s.list(), told)
		}
		w.close()
	}
}

// Concurrent runs never settle each other's actions, and each keeps its order.
func TestConcurrentRunsDoNotMix(t *testing.T) {
	t.Parallel()
	s := newShop("shop.order", tool.Deferred)
	w := newShopWorld(t, s, allows{})
	const runs, each = 12, 5
	var wg sync.WaitGroup
	convs := make([]id.ID, runs)
	for i := range runs {
		wg.Go(func() {
			var what []string
			for k := range each {
				what = append(what, fmt.Sprintf("%d.%d", i, k))
			}
			acc, err := w.Send(t.Context(), "anna", turn.Input{Content: text(order(what...)), Attended: true})
			if err != nil {
				t.Error(err)
			}
			convs[i] = acc.Conversation
		})
	}
	wg.Wait()
	for _, c := range convs {
		w.atRest(c)
		w.quietened(c)
	}
	at := map[string]int{} // how far each run has come
	for _, line := range strings.Split(s.list(), ",") {
		run, k, _ := strings.Cut(line, ".")
		if k != fmt.Sprint(at[run]) {
			t.Errorf("run %s has done %s in place of %d", run, k, at[run])
		}
		at[run]++
	}
	for i, c := range convs {
		list := w.intents(requests.IntentFilter{Conversation: c})
		if len(list) != each || at[fmt.Sprint(i)] != each {
			t.Errorf("run %d has %d actions and did %d", i, len(list), at[fmt.Sprint(i)])
		}
		for _, in := range list {
			if in.State != string(intent.Done) || !strings.Contains(string(in.Args), fmt.Sprintf(`"%d.`, i)) || in.Request != in.Interaction {
				t.Errorf("run %d: %+v", i, in)
			}
		}
	}
}

func TestQueuedActionIsCancelled(t *testing.T) {
	s := newShop("shop.order", tool.Deferred)
	w := newShopWorld(t, s, allows{"shop.order": policy.Ask})
	conv, _ := w.turn(id.ID{}, order("tea"))
	in := w.intents(requests.IntentFilter{State: intent.Awaiting})
	if len(in) != 1 {
		t.Fatal(in)
	}
	v, err := w.CancelIntent(t.Context(), "anna", in[0].ID)
	if err != nil || v.State != string(intent.Cancelled) {
		t.Fatalf("%+v, %v", v, err)
	}
	w.quietened(conv)
	if told := w.heard(conv, "intent:shop.order"); len(told) != 1 || s.list() != "" {
		t.Errorf("told %q, done %q", told, s.list())
	}
}

// Queued actions of a deleted conversation, or below a cancelled request, are
// withdrawn.
func TestQueuedActionsEndWithTheirConversationOrRequest(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		s := newShop("shop.order", tool.Deferred)
		w := newShopWorld(t, s, allows{"shop.order": policy.Ask})
		conv, _ := w.turn(id.ID{}, order("tea"))
		w.until(conv, turn.Cursor{}, func(f turn.Frame) bool { return f.Kind == turn.FrameTask && f.Task.Approval != nil })
		in := w.intents(requests.IntentFilter{State: intent.Awaiting})[0]
		var err error
		if deleted {
			err = w.Delete(t.Context(), "anna", conv)
		} else {
			err = w.CancelRequest(t.Context(), "anna", in.Interaction)
		}
		ok(t, err)
		eventually(t, "it comes to be", func() bool {
			v, err := w.Intent(t.Context(), "anna", in.URI)
			return err == nil && v.State == string(intent.Cancelled) && len(w.openOnes()) == 0
		})
		if s.list() != "" {
			t.Errorf("done %s", s.list())
		}
		w.close()
	}
}

// An action that has begun continues to its end, and the caller of
// CancelRequest is told so. Others that have not begun are cancelled
// nevertheless.
func TestQueuedActionThatHasBegunIsNotCancelled(t *testing.T) {
	s := newShop("shop.order", tool.Deferred)
	s.gate = make(chan struct{})
	w := newShopWorld(t, s, allows{})
	conv, _ := w.turn(id.ID{}, order("tea", "salt"))
	eventually(t, "it comes to be", func() bool { return len(w.intents(requests.IntentFilter{State: intent.Executing})) == 1 })
	in := w.intents(requests.IntentFilter{State: intent.Executing})[0]
	coded(t, w.CancelRequest(t.Context(), "anna", in.Interaction), "request_begun") // cancelled
	close(s.gate)
	w.quietened(conv)
	if s.list() != "tea" {
		t.Errorf("done %s", s.list())
	}
	if told := w.heard(conv, "intent:shop.order"); len(told) != 1 || !strings.Contains(told[0], "salt") {
		t.Errorf("told %q", told)
	}
}

// The conversation is told if the tool of a queued action no longer exists.
func TestToolOfAQueuedActionIsGone(t *testing.T) {
	s := newShop("shop.order", tool.Deferred)
	w := newShopWorld(t, s, allows{"shop.order": policy.Ask})
	conv, _ := w.turn(id.ID{}, order("tea"))
	own := w.intents(requests.IntentFilter{})[0]
	w.close()
	w.more = nil
	w.open()
	w.quietened(conv)
	if told := w.heard(conv, "intent:shop.order"); len(told) != 1 || !strings.Contains(told[0], "no longer exists") {
		t.Errorf("told %q", told)
	}
	coded(t, second(w.RetryIntent(t.Context(), "anna", own.ID)), "tool_unknown")
}
