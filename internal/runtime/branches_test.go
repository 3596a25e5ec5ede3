package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/conversation"
	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/intent"
	"steward/internal/policy"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

// texts returns the texts of the messages of the preferred branch.
func (w *world) texts(conv id.ID) []string {
	w.t.Helper()
	page := w.messages(conv)
	var out []string
	for _, m := range page {
		out = append(out, m.Text())
	}
	return out
}

func (w *world) expect(conv id.ID, want ...string) {
	w.t.Helper()
	if got := w.texts(conv); !slices.Equal(got, want) {
		w.t.Errorf("the conversation is\n%q\nwant\n%q", got, want)
	}
}

// message returns the id of the nth message of the preferred branch.
func (w *world) message(conv id.ID, n int) id.ID {
	w.t.Helper()
	page, _, err := w.Conversations.Messages(w.t.Context(), store.ForUser("anna"), conv, "", 0, false)
	if err != nil || len(page) <= n {
		w.t.Fatalf("%d messages, %v", len(page), err)
	}
	return page[n].ID
}

// do sends a turn and waits for its end.
func (w *world) do(turn turn.Input) turn.Accepted {
	w.t.Helper()
	acc, err := w.Send(w.t.Context(), "anna", turn)
	ok(w.t, err)
	w.atRest(acc.Conversation)
	return acc
}

func TestReplaceAndRegenerate(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "say one")
	w.turn(conv, "say two")
	first, second, answer := w.message(conv, 0), w.message(conv, 2), w.message(conv, 3)

	edited := turn.Input{Conversation: conv, ClientID: "e1", Content: text("say other"), Replace: second}
	acc := w.do(edited)
	w.expect(conv, "say one", "one", "say other", "other")
	if acc.Branch == "" || acc.Branch == record.MainBranch || acc.Message.Zero() {
		t.Errorf("%+v", acc)
	}
	edited.Content = text("say other") // it is sent again: nothing happens
	if again := w.do(edited); !again.Duplicate || again.Message != acc.Message || again.Interaction != acc.Interaction {
		t.Errorf("%+v, first %+v", again, acc)
	}

	anew := turn.Input{Conversation: conv, ClientID: "r1", Regenerate: answer} // of the other branch
	acc = w.do(anew)
	w.expect(conv, "say one", "one", "say two", "two")
	if again := w.do(anew); !again.Duplicate || again.Interaction != acc.Interaction || again.Seq == 0 {
		t.Errorf("%+v, first %+v", again, acc)
	}
	w.do(turn.Input{Conversation: conv, Replace: first, Content: text("say begin")})
	w.expect(conv, "say begin", "begin")

	list, preferred, err := w.Branches(t.Context(), "anna", conv)
	if err != nil || len(list) != 4 || preferred != list[3].ID {
		t.Fatalf("%+v %s %v", list, preferred, err)
	}
	sib, err := w.Conversations.Siblings(t.Context(), store.ForUser("anna"), conv, second)
	if err != nil || len(sib) != 2 || sib[0].Message != second {
		t.Errorf("%+v %v", sib, err)
	}
	ok(t, w.Switch(t.Context(), "anna", conv, record.MainBranch))
	w.expect(conv, "say one", "one", "say two", "two") // as it always was
	w.turn(conv, "say three")
	w.expect(conv, "say one", "one", "say two", "two", "say three", "three")
	c, err := w.Conversations.Get(t.Context(), store.ForUser("anna"), conv)
	if err != nil || c.Messages != 11 { // of all branches: what was asked and answered
		t.Errorf("%+v %v", c, err)
	}
}

func TestInvalidTurns(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "say one")
	answer := w.message(conv, 1)
	other, _ := w.turn(id.ID{}, "say two")
	for name, c := range map[string]struct {
		turn turn.Input
		code string
	}{
		"replace an answer":          {turn.Input{Replace: answer, Content: text("x")}, "not_your_message"},
		"replace another's":          {turn.Input{Replace: w.message(other, 0), Content: text("x")}, "message_not_found"},
		"replace nothing there":      {turn.Input{Replace: id.New(), Content: text("x")}, "message_not_found"},
		"replace by steering":        {turn.Input{Replace: answer, Content: text("x"), Steer: true}, "turn_invalid"},
		"regenerate with words":      {turn.Input{Regenerate: answer, Content: text("x")}, "turn_invalid"},
		"regenerate by steering":     {turn.Input{Regenerate: answer, Steer: true}, "turn_invalid"},
		"regenerate and replace":     {turn.Input{Regenerate: answer, Replace: answer}, "turn_invalid"},
		"regenerate nothing there":   {turn.Input{Regenerate: id.New()}, "message_not_found"},
		"regenerate, unknown model":  {turn.Input{Regenerate: answer, Model: "no/such"}, "model_not_found"},
		"regenerate in nothing":      {turn.Input{Regenerate: answer, Conversation: id.New()}, "conversation_not_found"},
		"replace, no words":          {turn.Input{Replace: w.message(conv, 0)}, "message_empty"},
		"replace, words are no text": {turn.Input{Replace: w.message(conv, 0), Content: text("\xff")}, "message_invalid"},
	} {
		if c.turn.Conversation.Zero() {
			c.turn.Conversation = conv
		}
		if _, err := w.Send(t.Context(), "anna", c.turn); !fault.HasCode(err, c.code) {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
	}
	w.expect(conv, "say one", "one")
	if list, _, err := w.Branches(t.Context(), "anna", conv); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
}

// Replacing a message and moving branches wait for the running turn. A turn
// never changes branch while it runs.
func TestReplaceWhileATurnRuns(t *testing.T) {
	w := newWorld(t)
	w.model.begun = make(chan struct{}, 1)
	conv, _ := w.turn(id.ID{}, "say one")
	first := w.message(conv, 0)
	w.send(conv, "hang")
	<-w.model.begun
	var wg sync.WaitGroup
	wg.Go(func() { w.do(turn.Input{Conversation: conv, Replace: first, Content: text("say begin")}) })
	wg.Go(func() {
		if _, err := w.Fork(t.Context(), "anna", conv, conversation.Fork{Message: first}); err != nil {
			t.Error(err)
		}
	})
	close(w.model.gate)
	wg.Wait()
	ok(t, w.Switch(t.Context(), "anna", conv, record.MainBranch))
	w.expect(conv, "say one", "one", "hang", "half whole")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.model.gate = make(chan struct{})
	w.send(conv, "hang")
	<-w.model.begun
	if err := w.Switch(ctx, "anna", conv, record.MainBranch); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(w.model.gate)
}

// A turn and messages that steer it are sent concurrently to a conversation
// that does not exist yet.
func TestSteeringANewConversation(t *testing.T) {
	w := newWorld(t)
	for range 10 {
		conv := id.ID{}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for _, client := range []string{"a", "b"} {
					_, err := w.Send(t.Context(), "anna", turn.Input{Conversation: conv, ClientID: client, Content: text("say x"), Steer: true})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	list, _, err := w.Conversations.List(t.Context(), store.ForUser("anna"), "", 0)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d conversations, %v", len(list), err)
	}
	for _, c := range list {
		w.atRest(c.ID)
		w.expect(c.ID, "say x", "x")
	}
}

// If an edit could not be recorded, the conversation stays as it was. After a
// restart in the middle of an edited turn, that turn continues.
func TestEditsAndCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "say one")
	first := w.message(conv, 0)
	w.faulty.set(func(store.Batch) error { return full })
	coded(t, second(w.Send(t.Context(), "anna", turn.Input{Conversation: conv, ClientID: "e", Replace: first, Content: text("say two")})), "disk_full")
	w.faulty.set(nil)
	w.reopen()
	w.expect(conv, "say one", "one")
	if list, _, err := w.Branches(t.Context(), "anna", conv); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	w.model.begun = make(chan struct{}, 2)
	edited := turn.Input{Conversation: conv, ClientID: "e", Replace: first, Content: text("hang")}
	acc, err := w.Send(t.Context(), "anna", edited)
	ok(t, err)
	<-w.model.begun
	w.close()
	close(w.model.gate)
	w.open()
	w.until(conv, turn.Cursor{Seq: acc.Seq}, isKind(turn.FrameComplete))
	w.expect(conv, "hang", "half whole")
	edited.Content = text("hang")
	if again := w.do(edited); !again.Duplicate || again.Message != acc.Message {
		t.Errorf("%+v", again)
	}
	anew := turn.Input{Conversation: conv, ClientID: "r", Regenerate: w.message(conv, 1)}
	acc = w.do(anew)
	w.reopen()
	if again := w.do(anew); !again.Duplicate || again.Interaction != acc.Interaction {
		t.Errorf("%+v", again)
	}
	w.expect(conv, "hang", "half whole")
}

func TestRewindWithdrawsWaitingActions(t *testing.T) {
	w := newWorld(t)
	conv, _ := w.turn(id.ID{}, "say one")
	to := w.message(conv, 1)
	w.send(conv, "call ledger.add {\"what\":\"x\"}\ncall ledger.add {\"what\":\"y\"}")
	var asked []string
	w.until(conv, turn.Cursor{}, func(f turn.Frame) bool {
		if f.Call != nil && f.Call.Approval != nil && !slices.Contains(asked, f.Call.Approval.ID+" "+f.Call.Approval.Hash) {
			asked = append(asked, f.Call.Approval.ID+" "+f.Call.Approval.Hash)
		}
		return len(asked) == 2
	})
	if _, _, err := w.Rewind(t.Context(), "anna", conv, id.New(), true); !fault.HasCode(err, "message_not_found") || !w.Running("anna", conv) {
		t.Errorf("what runs was stopped for nothing: %v", err)
	}
	if _, _, err := w.Rewind(t.Context(), "bert", conv, to, true); !fault.Is(err, fault.NotFound) {
		t.Error(err)
	}
	ctx := t.Context()
	b, n, err := w.Rewind(ctx, "anna", conv, to, true)
	if err != nil || n != 2 {
		t.Fatalf("%+v, %d withdrawn, %v", b, n, err)
	}
	w.expect(conv, "say one", "one")
	for _, a := range asked {
		name, hash, _ := strings.Cut(a, " ")
		coded(t, w.Effects.Decide(t.Context(), store.ForUser("anna"), effect.Decision{ID: name, Hash: hash, Approve: true}), "approval_decided")
	}
	w.turn(conv, "say on")
	if w.ledger.list() != "" {
		t.Errorf("the ledger has %q", w.ledger.list())
	}
	if _, n, err := w.Rewind(t.Context(), "anna", conv, to, true); err != nil || n != 0 {
		t.Errorf("%d withdrawn, %v", n, err)
	}
}

// Rewind also withdraws a queued action that waits for an approval, even if its
// branch was deleted.
func TestRewindWithdrawsQueuedActions(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		w := newShopWorld(t, newShop("shop.order", tool.Deferred), allows{"shop.order": policy.Ask})
		conv, _ := w.turn(id.ID{}, "say one")
		to := w.message(conv, 1)
		ok(t, second(w.Fork(t.Context(), "anna", conv, conversation.Fork{})))
		w.turn(conv, order("tea"))
		if deleted {
			list, preferred, err := w.Branches(t.Context(), "anna", conv)
			if err != nil || len(list) != 2 {
				t.Fatal(list, err)
			}
			ok(t, w.DeleteBranch(t.Context(), "anna", conv, preferred))
		}
		if _, n, err := w.Rewind(t.Context(), "anna", conv, to, false); err != nil || n != 0 {
			t.Fatalf("%d withdrawn, %v", n, err)
		}
		if _, n, err := w.Rewind(t.Context(), "anna", conv, to, true); err != nil || n != 1 {
			t.Errorf("deleted %v: %d withdrawn, %v", deleted, n, err)
		}
		w.quietened(conv)
		if in := w.intents(requests.IntentFilter{})[0]; in.State != string(intent.Cancelled) {
			t.Errorf("deleted %v: %+v", deleted, in)
		}
	}
}
