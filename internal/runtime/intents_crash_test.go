package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/runtime"
	"steward/internal/tool"
)

// A crash at each commit of a turn that queues two actions, one of which fails:
// each is done once, and the failure is told once.
func TestACrashAtEachStepOfSettling(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		s := newShop("shop.order", tool.Deferred)
		s.spec.Dedupes = true
		s.fail["caviar"] = fault.New(fault.Invalid, "too_dear", "that is too dear")
		w := made(t, &world{judge: allows{}, more: []tool.Tool{s}})
		fail, crashed := after(n)
		w.fail = fail
		w.open()
		acc, err := w.Send(t.Context(), "anna", runtime.Turn{ClientID: "the one", Content: text(order("tea", "caviar")), Attended: true})
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
func (w *world) again(clientID, words string) runtime.Accepted {
	w.t.Helper()
	acc := w.sent(runtime.Turn{ClientID: clientID, Content: text(words), Attended: true})
	return acc
}

// A crash at each commit of taking an action back: it is taken back once, and
// told once, whether the node finds what is left or the person asks again.
func TestACrashAtEachStepOfTakingBack(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		s := newShop("shop.order", tool.Inline)
		w := newShopWorld(t, s, allows{"shop.order": policy.Ask})
		acc := w.send(id.ID{}, order("tea"))
		f := w.approve(acc.Conversation, runtime.Cursor{}, true)
		w.until(acc.Conversation, runtime.Cursor{}, isKind(runtime.FrameComplete))
		w.quietened(acc.Conversation)
		own := w.intents(runtime.IntentFilter{})[0]
		if f.Call == nil || own.State != intent.Done {
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
		_, err := w.UndoIntent(ctx, "anna", own.ID.String())
		if err == nil {
			eventually(t, "it comes to be", func() bool {
				return isClosed(crashed) || len(w.heard(acc.Conversation, "intent:shop.order")) == 1 && len(w.openOnes()) == 0
			})
		}
		cancel()
		w.kill()
		w.open()
		if _, err := w.UndoIntent(t.Context(), "anna", own.ID.String()); err != nil && !fault.HasCode(err, "intent_undone") {
			t.Errorf("a crash after %d commits: asked again: %v", n, err)
		}
		w.quietened(acc.Conversation)
		if told := w.heard(acc.Conversation, "intent:shop.order"); len(told) != 1 || !strings.Contains(told[0], "has taken back") {
			t.Errorf("a crash after %d commits: told %q", n, told)
		}
		if s.list() != "tea,-tea" {
			t.Errorf("a crash after %d commits: done %s", n, s.list())
		}
		if v, err := w.Intent(t.Context(), "anna", own.URI); err != nil || v.Undone.Zero() {
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

func (w *world) openOnes() []runtime.RequestView {
	w.t.Helper()
	list, err := w.Requests(w.t.Context(), "anna", false, 100)
	ok(w.t, err)
	return list
}

// A run that cannot go on after a restart leaves nothing behind that a later
// turn would do again: what its calls had begun is settled when it is given up.
func TestWhatARunHadBegunThatIsGivenUp(t *testing.T) {
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
	acc := w.sent(runtime.Turn{Agent: "post", Content: text(`call mail.send {}`), Attended: true})
	<-began
	w.close()
	g.plant()
	w.open()
	w.atRest(acc.Conversation)
	list := w.intents(runtime.IntentFilter{})
	if len(list) != 1 || list[0].State != intent.Unknown || !list[0].Dead {
		t.Errorf("after it was given up: %+v", list)
	}
	w.close()
	g.plant(agentOf("post", send))
	w.open()
	ok(t, second(w.Send(t.Context(), "anna", runtime.Turn{Conversation: acc.Conversation, Agent: "post", Content: text("say hello"), Attended: true})))
	w.atRest(acc.Conversation)
	if res := w.results(acc.Conversation); len(res) != 1 || res[0].Status != message.UnknownEnd {
		t.Errorf("%+v", res)
	}
	if len(began) > 0 {
		t.Error("it was sent again")
	}
	if list := w.intents(runtime.IntentFilter{}); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}
