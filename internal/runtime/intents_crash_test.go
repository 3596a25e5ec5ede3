package runtime_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
	"steward/internal/work"
)

// A crash at each commit of a turn that queues two actions, one of which fails:
// each is done once, and the failure is reported once.
func TestCrashAtEachCommitOfSettling(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		s := newShop("shop.order", tool.Deferred)
		s.spec.Dedupes = true
		s.fail["caviar"] = fault.New(fault.Invalid, "too_dear", "that is too dear")
		w := made(t, &world{judge: allows{}, more: []tool.Tool{s}})
		fail, crashed := after(n)
		w.fail = fail
		w.open()
		acc, err := w.Send(t.Context(), "anna", turn.Input{ClientID: "the one", Content: text(order("tea", "caviar")), Attended: true})
		if err == nil {
			eventually(t, "it comes to be", func() bool {
				return isClosed(crashed) || len(w.heard(acc.Conversation, "intent:shop.order")) == 1 && len(w.openOnes()) == 0
			})
		}
		w.kill()
		w.fail = nil
		w.open()
		acc = w.again("the one", order("tea", "caviar"))
		w.atRest(acc.Conversation)
		w.quietened(acc.Conversation)
		if told := w.heard(acc.Conversation, "intent:shop.order"); len(told) != 1 || !strings.Contains(told[0], "too dear") {
			t.Errorf("a crash after %d commits: told %q", n, told)
		}
		s.mu.Lock()
		if len(s.orders) != 1 {
			t.Errorf("a crash after %d commits: orders %v", n, s.orders)
		}
		s.mu.Unlock()
		w.close()
		if !isClosed(crashed) {
			if n < 12 {
				t.Errorf("the whole took %d commits only", n)
			}
			return
		}
	}
}

// again sends a turn that may have been sent before.
func (w *world) again(clientID, words string) turn.Accepted {
	w.t.Helper()
	acc := w.sent(turn.Input{ClientID: clientID, Content: text(words), Attended: true})
	return acc
}

// A crash at each commit of an undo: the action is undone once and reported
// once, whether the next start continues or the person asks again.
func TestCrashAtEachCommitOfUndoing(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		s := newShop("shop.order", tool.Inline)
		w := newShopWorld(t, s, allows{"shop.order": policy.Ask})
		acc := w.send(id.ID{}, order("tea"))
		f := w.approve(acc.Conversation, turn.Cursor{}, true)
		w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
		w.quietened(acc.Conversation)
		own := w.intents(requests.IntentFilter{})[0]
		if f.Call == nil || own.State != string(intent.Done) {
			t.Fatalf("%+v", own)
		}
		fail, crashed := after(n)
		w.faulty.set(fail)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		go func() {
			select {
			case <-crashed:
				cancel()
			case <-ctx.Done():
			}
		}()
		_, err := w.UndoIntent(ctx, "anna", own.ID)
		if err == nil {
			eventually(t, "it comes to be", func() bool {
				return isClosed(crashed) || len(w.heard(acc.Conversation, "intent:shop.order")) == 1 && len(w.openOnes()) == 0
			})
		}
		cancel()
		w.kill()
		w.open()
		if _, err := w.UndoIntent(t.Context(), "anna", own.ID); err != nil && !fault.HasCode(err, "intent_undone") {
			t.Errorf("a crash after %d commits: asked again: %v", n, err)
		}
		w.quietened(acc.Conversation)
		if told := w.heard(acc.Conversation, "intent:shop.order"); len(told) != 1 || !strings.Contains(told[0], "has taken back") {
			t.Errorf("a crash after %d commits: told %q", n, told)
		}
		if s.list() != "tea,-tea" {
			t.Errorf("a crash after %d commits: done %s", n, s.list())
		}
		if v, err := w.Intent(t.Context(), "anna", own.URI); err != nil || v.Undone == "" {
			t.Errorf("a crash after %d commits: %+v, %v", n, v, err)
		}
		w.close()
		if !isClosed(crashed) {
			if n < 8 {
				t.Errorf("the whole took %d commits only", n)
			}
			return
		}
	}
}

func (w *world) openOnes() []client.Request {
	w.t.Helper()
	list, err := w.Requests(w.t.Context(), "anna", false, 100)
	ok(w.t, err)
	return list
}

// When a run cannot continue after a restart, the effects that its calls had
// begun are settled, so that no later turn repeats them.
func TestEffectsOfARunThatIsGivenUp(t *testing.T) {
	w := made(t, &world{judge: allows{}})
	began := make(chan struct{}, 9)
	send := newTool(tool.Spec{Name: "mail.send", Description: "It sends.", Effect: tool.Action, Timeout: time.Hour},
		func(ctx context.Context, in tool.Invocation, _ struct{}) (string, error) {
			began <- struct{}{}
			<-ctx.Done() // it is sent, and the answer is not heard of
			return "", ctx.Err()
		})
	g := &grove{}
	g.plant(agentOf("post", send))
	w.opt.Catalog = g
	w.open()
	acc := w.sent(turn.Input{Agent: "post", Content: text(`call mail.send {}`), Attended: true})
	<-began
	w.close()
	g.plant()
	w.open()
	w.atRest(acc.Conversation)
	list := w.intents(requests.IntentFilter{})
	if len(list) != 1 || list[0].State != string(intent.Unknown) || !list[0].Dead {
		t.Errorf("after it was given up: %+v", list)
	}
	w.close()
	g.plant(agentOf("post", send))
	w.open()
	ok(t, second(w.Send(t.Context(), "anna", turn.Input{Conversation: acc.Conversation, Agent: "post", Content: text("say hello"), Attended: true})))
	w.atRest(acc.Conversation)
	if res := w.results(acc.Conversation); len(res) != 1 || res[0].Status != message.UnknownEnd {
		t.Errorf("%+v", res)
	}
	if len(began) > 0 {
		t.Error("it was sent again")
	}
	if list := w.intents(requests.IntentFilter{}); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

func TestInvalidIntentRequests(t *testing.T) {
	s := newShop("shop.order", tool.Inline)
	w := newShopWorld(t, s, allows{})
	ctx := t.Context()
	for _, which := range []string{"", "abc", "12345678", id.New().String(), "cld:x.Y.1", "cld:effect.Intent.1"} {
		if _, err := w.Intent(ctx, "anna", which); !fault.HasCode(err, "intent_not_found") && !fault.HasCode(err, "intent_ambiguous") {
			t.Errorf("%q: %v", which, err)
		}
		if _, err := w.RetryIntent(ctx, "anna", which); err == nil {
			t.Errorf("%q was tried again", which)
		}
	}
	coded(t, third(w.Intents(ctx, "anna", requests.IntentFilter{State: "odd"}, "", 10)), "state_invalid")
	conv, _ := w.turn(id.ID{}, `call ledger.add {"what":"x"}`)
	w.quietened(conv)
	in := w.intents(requests.IntentFilter{})[0]
	coded(t, second(w.UndoIntent(ctx, "anna", in.ID)), "intent_not_undoable") // what cannot be taken back was
	x, err := w.ExecuteTool(ctx, "anna", work.Execution{Tool: "shop.order", Args: []byte(`{"what":"tea"}`)})
	if err != nil || x.Result.Status != message.OK {
		t.Fatal(x, err)
	}
	if _, err := w.UndoIntent(ctx, "anna", w.intents(requests.IntentFilter{})[0].ID); !fault.HasCode(err, "intent_outside") {
		t.Errorf("%v", err)
	}
}

func TestAnswerIntentNeedsItsHash(t *testing.T) {
	s := newShop("shop.order", tool.Deferred)
	w := newShopWorld(t, s, allows{"shop.order": policy.Ask})
	conv, _ := w.turn(id.ID{}, order("tea"))
	in := w.intents(requests.IntentFilter{State: intent.Awaiting})[0]
	v, err := w.Intent(t.Context(), "anna", in.ID)
	if err != nil || v.Hash == "" || v.Expires.IsZero() {
		t.Fatalf("%+v, %v", v, err)
	}
	if _, err := w.AnswerIntent(t.Context(), "anna", in.ID, "x", "", true); !fault.Is(err, fault.Conflict) {
		t.Errorf("another hash: %v", err)
	}
	coded(t, second(w.AnswerIntent(t.Context(), "bert", in.ID, v.Hash, "", true)), "intent_not_found") // somebody else
	if v, err = w.AnswerIntent(t.Context(), "anna", in.ID, v.Hash, "", true); err != nil || v.State == string(intent.Awaiting) {
		t.Errorf("%+v, %v", v, err)
	}
	w.quietened(conv)
	if s.list() != "tea" {
		t.Errorf("done %s", s.list())
	}
}

// A caller that does not wait gets the current state. The retry continues, even
// over a restart.
func TestLongRetryContinues(t *testing.T) {
	s := newShop("shop.order", tool.Inline)
	s.spec.Dedupes = true
	w := newShopWorld(t, s, allows{})
	s.fail["tea"] = tool.NotDone(fault.New(fault.Unavailable, "shop_closed", "the shop is closed"))
	conv, _ := w.turn(id.ID{}, order("tea"))
	own := w.intents(requests.IntentFilter{Dead: true})[0]
	delete(s.fail, "tea")
	s.gate = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		eventually(t, "it comes to be", func() bool { return len(w.intents(requests.IntentFilter{State: intent.Executing})) == 1 })
		cancel()
	}()
	v, err := w.RetryIntent(ctx, "anna", own.ID)
	if err != nil || v.State != string(intent.Executing) || v.Retries != own.ID {
		t.Fatalf("%+v, %v", v, err)
	}
	w.close()
	close(s.gate)
	w.open()
	w.quietened(conv)
	if v, err = w.Intent(t.Context(), "anna", v.URI); err != nil || v.State != string(intent.Done) || s.list() != "tea" {
		t.Errorf("%+v, %v; done %s", v, err, s.list())
	}
	if told := w.heard(conv, "intent:shop.order"); len(told) != 1 || !strings.Contains(told[0], "tried again") {
		t.Errorf("told %q", told)
	}
}

// A retry of which nothing was recorded can be requested again. A request of an
// older Steward, which recorded it before its intent, is closed.
func TestRetryOfWhichNothingWasRecorded(t *testing.T) {
	s := newShop("shop.order", tool.Inline)
	w := newShopWorld(t, s, allows{})
	s.fail["tea"] = tool.NotDone(fault.New(fault.Unavailable, "shop_closed", "the shop is closed"))
	conv, _ := w.turn(id.ID{}, order("tea"))
	w.quietened(conv)
	own := w.intents(requests.IntentFilter{Dead: true})[0]
	failed := own.ID
	fits := s.spec.Input
	reopen := func(more ...tool.Tool) {
		w.kill()
		w.faulty.set(nil)
		w.more = more
		w.open()
	}
	s.spec.Input = []byte(`{"type":"object","properties":{"size":{"type":"string"}},"required":["size"]}`)
	reopen(s)
	coded(t, second(w.RetryIntent(t.Context(), "anna", failed)), "args_invalid") // arguments that the tool does not take any more
	s.spec.Input = fits
	reopen(s)
	w.faulty.set(func(b store.Batch) error {
		if slices.ContainsFunc(b.Changes, func(c store.Change) bool { return c.URI.Type() == effect.TypeIntent }) {
			return errCrash
		}
		return nil
	})
	if _, err := w.RetryIntent(t.Context(), "anna", failed); err == nil {
		t.Fatal("it was done")
	}
	w.faulty.set(nil)
	w.plantOldRetry(own)
	reopen(s)
	w.quietened(conv)
	if open := w.openOnes(); len(open) > 0 {
		t.Errorf("still open: %+v", open)
	}
	if told := w.heard(conv, "intent:shop.order"); len(told) > 0 {
		t.Errorf("told %q", told)
	}
	delete(s.fail, "tea")
	again, err := w.RetryIntent(t.Context(), "anna", failed)
	if err != nil || again.State != string(intent.Done) || s.list() != "tea" {
		t.Errorf("%+v, %v; %s", again, err, s.list())
	}
	coded(t, second(w.RetryIntent(t.Context(), "anna", failed)), "intent_retried")
}

// plantOldRetry records the request of a retry as older versions did, which
// recorded its intent later.
func (w *world) plantOldRetry(of client.Intent) {
	w.t.Helper()
	conv, _ := id.Parse(of.Conversation)
	inter, _ := id.Parse(of.Interaction)
	at := record.RequestURI(conv, inter, id.Derive("wish", of.URI))
	r := record.Request{Parent: inter, Root: inter, Kind: record.RequestTask, Agent: of.Agent, Tool: of.Tool,
		Args: string(of.Args), User: "anna", Attended: true, Status: record.TaskAcknowledged, Created: time.Now(),
		Intent: of.URI + "/effect.Intent.retry-1", Wish: record.WishRetry}
	_, err := w.faulty.Commit(w.t.Context(), store.ForUser("anna"), store.Batch{Changes: []store.Change{{URI: at, Body: record.Encode(r),
		State: record.RequestOpen, Terms: []store.Term{{Name: "request", Value: at.ID()}, {Name: "requests"}}}}})
	ok(w.t, err)
}
