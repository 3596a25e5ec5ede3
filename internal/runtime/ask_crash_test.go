package runtime_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/turn"
	_ "steward/test/seed"
)

var errCrash = errors.New("the machine is gone")

// after returns a failure of the store: the first n commits succeed, all others
// fail. crashed is closed at the first failure.
func after(n int) (fail func(store.Batch) error, crashed chan struct{}) {
	var mu sync.Mutex
	crashed = make(chan struct{})
	return func(store.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n >= 0 {
			return nil
		}
		if n == -1 {
			close(crashed)
		}
		return errCrash
	}, crashed
}

// isClosed reports whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// through sends a turn of anna's, approves every question, and returns the answer,
// or nothing if the store has crashed before.
func (w *world) through(words string, crashed <-chan struct{}) (id.ID, string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	go func() {
		select {
		case <-crashed:
			cancel()
		case <-ctx.Done():
		}
	}()
	acc, err := w.Send(ctx, "anna", turn.Input{ClientID: "the one", Content: text(words), Attended: true})
	if err != nil {
		w.gone(crashed, err)
		return id.ID{}, ""
	}
	var out strings.Builder
	for f, err := range w.Watch(ctx, "anna", acc.Conversation, turn.Cursor{}) {
		switch {
		case err != nil:
			w.gone(crashed, err)
			return id.ID{}, ""
		case f.Kind == turn.FrameToken:
			out.WriteString(f.Text)
		case f.Kind == turn.FrameReset:
			out.Reset()
		case f.Kind == turn.FrameComplete:
			return acc.Conversation, f.Stored.Text()
		case f.Kind == turn.FrameError && f.Err.Code == "turn_parked":
			if err := w.ResumeRequest(ctx, "anna", f.Interaction.String()); err != nil {
				w.gone(crashed, err)
				return id.ID{}, ""
			}
		case f.Kind == turn.FrameError:
			w.gone(crashed, f.Err)
			return id.ID{}, ""
		case f.Kind == turn.FrameCall && f.Call.Approval != nil:
			a := f.Call.Approval
			err := w.Effects.Decide(ctx, store.ForUser("anna"), effect.Decision{ID: a.ID, Hash: a.Hash, Approve: true})
			if err != nil && !fault.Is(err, fault.Conflict) {
				w.gone(crashed, err)
				return id.ID{}, ""
			}
		}
	}
	w.gone(crashed, ctx.Err())
	return id.ID{}, ""
}

// gone fails the test unless the store has crashed.
func (w *world) gone(crashed <-chan struct{}, err error) {
	w.t.Helper()
	if !isClosed(crashed) {
		w.t.Fatalf("it failed, and nothing had crashed: %v", err)
	}
}

// kill ends the node as a crash does: nothing more is recorded.
func (w *world) kill() {
	w.t.Helper()
	w.faulty.set(func(store.Batch) error { return errCrash })
	ctx := context.Background()
	if err := w.Node.Close(ctx); err != nil && !errors.Is(err, errCrash) {
		w.t.Fatal("Close:", err)
	}
	ok(w.t, w.shut())
	w.Node = nil
}

func TestCrashAtEachCommitOfAsking(t *testing.T) {
	t.Parallel()
	words := ask("personal", ask("email", `call mail.send {"what":"hello"}`)+"\n"+`call look.up {}`)
	const want = "ok: ok: ok: done hello; ok: there"
	plant := func(w *world) *grove {
		g := &grove{}
		g.plant(agentOf("personal", query("look.up", "there", 0)), agentOf("personal/email", w.action("mail.send")))
		return g
	}
	for n := 1; ; n++ {
		w := made(t, &world{})
		w.opt.Catalog = plant(w)
		fail, crashed := after(n)
		w.fail = fail
		w.open()
		_, answer := w.through(words, crashed)
		w.kill()
		w.fail = nil
		w.open()
		conv, answer2 := w.through(words, nil)
		if answer2 != want || answer != "" && answer != want {
			t.Errorf("a crash after %d commits: the answers are %q and %q", n, answer, answer2)
		}
		if got := w.ledger.list(); got != "hello" {
			t.Errorf("a crash after %d commits: done is %q", n, got)
		}
		w.closed(conv, 3)
		w.close()
		if !isClosed(crashed) {
			if n < 15 {
				t.Errorf("the whole took %d commits only", n)
			}
			return
		}
	}
}

// An agent whose asking turn was stopped before a crash does not continue.
func TestOrphanedAgentIsStopped(t *testing.T) {
	w, _ := newLevels(t)
	w.model.begun = make(chan struct{}, 9)
	acc := w.send(id.ID{}, ask("personal", "hang"))
	<-w.model.begun
	child := w.below("personal")
	w.faulty.set(func(b store.Batch) error { // the end of the run below is not recorded
		for _, c := range b.Changes {
			if c.URI.Type() == record.TypeRun && record.IDOf(c.URI, record.TypeConversation) == child {
				return errCrash
			}
		}
		return nil
	})
	ok(t, w.Stop(t.Context(), "anna", acc.Conversation))
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	w.kill()
	w.open()
	w.atRest(child)
	for _, r := range w.closed(acc.Conversation, 2) {
		if r.Outcome != "stopped" {
			t.Errorf("%s %s ended as %s %s", r.Kind, r.Agent, r.Outcome, r.Error)
		}
	}
	if len(w.model.begun) > 0 {
		t.Error("its model was asked again")
	}
}

func TestRunOfAnAgentThatIsGoneAfterARestart(t *testing.T) {
	w, g := newLevels(t)
	w.model.begun = make(chan struct{}, 9)
	acc := w.send(id.ID{}, ask("personal", "hang"))
	<-w.model.begun
	alone := w.sent(turn.Input{Agent: "weather", Content: text("hang")})
	<-w.model.begun
	w.close()
	g.plant()
	w.open()
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if res := w.results(acc.Conversation)[0]; !strings.Contains(res.Text(), "personal") {
		t.Errorf("the call of who is gone: %s %s", res.Status, res.Text())
	}
	end, err := conversationEngine(w).End(t.Context(), store.ForUser("anna"), alone.Conversation, alone.Interaction)
	if err != nil || end.Run.Outcome != "failed" || end.Run.Error != "agent_not_approved" {
		t.Errorf("the run of who is gone: %+v, %v", end.Run, err)
	}
	w.closed(acc.Conversation, 2)
}

// opened opens the world. It returns false if the store crashes meanwhile.
func (w *world) opened(crashed <-chan struct{}) bool {
	w.t.Helper()
	if err := w.tryOpen(); err != nil {
		w.gone(crashed, err)
		ok(w.t, w.shut())
		return false
	}
	return true
}
