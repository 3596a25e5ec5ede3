package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/requests"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

func TestStopBeforeACallGoesToTheBackground(t *testing.T) {
	w, b := newSlowWorld(t)
	w.opt.IdleFor = 0
	acc := w.send(id.ID{}, `call slow.later {"what":"tea"}`)
	<-b.begun
	ok(t, w.Stop(t.Context(), "anna", acc.Conversation))
	w.atRest(acc.Conversation)
	w.settled()
	got := w.resultsOf(acc.Conversation)
	if len(got) != 1 || got[0] != message.Interrupted && got[0] != message.Accepted {
		t.Errorf("results: %v", got)
	}
	close(b.gate)
	w.settled()
}

func TestStopDoesNotEndABackgroundCall(t *testing.T) {
	w, b := newSlowWorld(t)
	w.model.begun = make(chan struct{}, 1)
	conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
	w.send(conv, "hang")
	<-w.model.begun
	close(b.gate) // its result waits for its turn
	ok(t, w.Stop(t.Context(), "anna", conv))
	w.settled()
	if msgs := w.openings(conv); len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "did flour") {
		t.Errorf("%v", msgs)
	}
}

func TestCancelledBackgroundCall(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			w, b := newSlowWorld(t)
			conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
			task := w.rows()[record.RequestTask][0].ID
			coded(t, w.CancelRequest(t.Context(), "ben", task.String()), "request_not_found") // a stranger
			if restart {                                                                      // the node dies right after the word
				w.faulty.set(func(bt store.Batch) error {
					for _, c := range bt.Changes {
						var r record.Request
						if c.URI.Type() == record.TypeRequest && record.Decode(c.URI, c.Body, &r) == nil && r.Answered.IsZero() {
							return nil
						}
					}
					return errors.New("the machine is off")
				})
			}
			ok(t, w.CancelRequest(t.Context(), "anna", task.String()))
			if restart {
				w.kill()
				w.open()
			}
			w.settled()
			msgs := w.openings(conv)
			if len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "it was stopped") {
				t.Fatalf("%v", msgs)
			}
			if b.count("flour") != 1 {
				t.Errorf("it worked %d times", b.count("flour"))
			}
			if r := w.rows()[record.RequestTask][0]; r.Error != "cancelled" || r.Status != record.TaskError {
				t.Errorf("%+v", r)
			}
			coded(t, w.CancelRequest(t.Context(), "anna", task.String()), "request_closed") // again
		})
	}
}

func TestCancellingATurnCancelsItsBackgroundCalls(t *testing.T) {
	w, _ := newSlowWorld(t)
	_, frames := w.turn(id.ID{}, "call slow.work {\"what\":\"a\"}\ncall slow.work {\"what\":\"b\"}")
	ok(t, w.CancelRequest(t.Context(), "anna", frames[0].Interaction.String()[:30]))
	w.settled()
	for _, r := range w.rows()[record.RequestTask] {
		if r.Error != "cancelled" {
			t.Errorf("%+v", r)
		}
	}
	coded(t, w.CancelRequest(t.Context(), "anna", id.New().String()), "request_not_found")
}

func TestBackgroundCallOfADeletedConversation(t *testing.T) {
	w, b := newSlowWorld(t)
	conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
	ok(t, w.Delete(t.Context(), "anna", conv))
	w.settled()
	if r := w.rows()[record.RequestTask][0]; r.Error != "untold" || r.Told {
		t.Errorf("%+v", r)
	}
	if b.count("flour") != 1 {
		t.Errorf("it worked %d times", b.count("flour"))
	}
}

// A crash at each commit of a turn that begins a background call, and of what
// follows: the result is delivered once.
func TestCrashAtEachCommitOfABackgroundCall(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		died := false
		t.Run(fmt.Sprint("commit ", n), func(t *testing.T) {
			w, b := newSlowWorld(t)
			conv, _ := w.turn(id.ID{}, "say hello")
			w.atRest(conv)
			close(b.gate)
			fail, off := after(n - 1)
			w.faulty.set(fail)
			turn := turn.Input{Conversation: conv, ClientID: "c", Attended: true, Content: text(`call slow.work {"what":"flour"}`)}
			_, err := w.Send(t.Context(), "anna", turn)
			eventually(t, "it is over, or the machine off", func() bool {
				return isClosed(off) || len(w.openOnes()) == 0 && len(w.rows()[record.RequestTask]) == 1 && !w.Running("anna", conv)
			})
			if died = isClosed(off); died {
				w.kill()
				w.open()
			}
			if err != nil {
				ok(t, second(w.Send(t.Context(), "anna", turn)))
			}
			eventually(t, "the result is told", func() bool { return len(w.openings(conv)) > 0 && !w.Running("anna", conv) })
			w.settled()
			if got := fmt.Sprint(w.resultsOf(conv)); got != "[accepted]" || len(w.openings(conv)) != 1 {
				t.Errorf("results %s, %d openings", got, len(w.openings(conv)))
			}
			if rows := w.rows(); len(rows[record.RequestTask]) != 1 || len(rows[record.RequestTurn]) != 1 {
				t.Errorf("%+v", rows)
			}
		})
		if !died {
			if n < 8 {
				t.Errorf("only %d commits", n)
			}
			return
		}
	}
}

// newSlowLevels returns a world in which an agent two levels down has slow tools.
func newSlowLevels(t testing.TB) (*world, *bench) {
	b := newBench()
	w := made(t, &world{})
	g := &grove{}
	g.plant(agentOf("personal"), agentOf("personal/miller", b.tools(t)...))
	w.opt.Catalog = g
	w.open()
	return w, b
}

const askMiller = `call slow.work {"what":"flour"}`

// grind makes the agent two levels down begin a background call, and returns the
// frames of the turn.
func (w *world) grind() (id.ID, []turn.Frame) {
	w.t.Helper()
	return w.turn(id.ID{}, ask("personal", ask("miller", askMiller)))
}

func TestBackgroundResultOfAnAgentIsPassedUp(t *testing.T) {
	w, b := newSlowLevels(t)
	conv, frames := w.grind()
	if got := said(frames); !strings.HasPrefix(got, "ok: ok: accepted: Acknowledged") {
		t.Errorf("it said %q", got)
	}
	top := frames[0].Interaction
	in := b.invocation()
	if in.Agent != "personal/miller" || in.Request.Zero() || in.Parent.Zero() || in.Request == top || !strings.HasPrefix(in.Trace, "00-"+strings.ReplaceAll(top.String(), "-", "")) {
		t.Errorf("the lineage of the call: %+v", in)
	}
	eventually(t, "four requests are open: the turn, both agents, the task", func() bool {
		open, err := w.Requests(t.Context(), "anna", false, 10)
		ok(t, err)
		return len(open) == 4
	})
	close(b.gate)
	w.settled()
	msgs := w.openings(conv)
	if len(msgs) != 1 || msgs[0].Blocks[0].Base().Origin != "agent:personal" || !message.LabelsOf(msgs[0].Blocks).Has(message.Untrusted) ||
		!strings.Contains(msgs[0].Text(), "The agent personal, which you had asked, has more to say") {
		t.Fatalf("what came up: %v", msgs)
	}
	rows := w.rows()
	if len(rows[record.RequestAgent]) != 2 || len(rows[record.RequestTask]) != 1 || len(rows[record.RequestTurn]) != 1 {
		t.Fatalf("%+v", rows)
	}
	task, turn := rows[record.RequestTask][0], rows[record.RequestTurn][0]
	if task.Root != top || task.Agent != "personal/miller" || turn.ID != top {
		t.Errorf("task %+v, turn %+v", task, turn)
	}
	// Three turns of two calls each, and three that the result opened.
	if task.Usage.Input != 30 || turn.Usage.Input != 90 {
		t.Errorf("the task used %+v, the turn %+v", task.Usage, turn.Usage)
	}
	for _, which := range []string{top.String(), task.ID.String(), task.ID.String()[:9], rows[record.RequestAgent][0].ID.String(), task.Interaction.String()} {
		tree, err := w.RequestTree(t.Context(), "anna", which)
		if err != nil || tree.ID != top.String() || tree.State != requests.Closed || tree.Usage.Input != 90 {
			t.Fatalf("%s: %+v %v", which, tree, err)
		}
		personal := tree.Below[0]
		miller := personal.Below[0]
		grinding := miller.Below[0]
		if personal.Agent != "personal" || miller.Agent != "personal/miller" || grinding.Kind != record.RequestTask || grinding.Status != record.TaskCompleted ||
			len(grinding.Below) != 3 || grinding.Below[0].Origin != "tool:slow.work" || grinding.Below[1].Origin != "agent:personal/miller" || grinding.Below[2].Origin != "agent:personal" {
			t.Errorf("%+v", tree)
		}
	}
	coded(t, second(w.RequestTree(t.Context(), "ben", top.String())), "request_not_found") // a stranger
	coded(t, second(w.RequestTree(t.Context(), "anna", "0123")), "request_ambiguous")
	coded(t, second(w.RequestTree(t.Context(), "anna", "ffffffff-ffff")), "request_not_found")
}

// A crash at each commit after an agent's background call has ended.
func TestCrashAtEachCommitOfPassingUp(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		died := false
		t.Run(fmt.Sprint("commit ", n), func(t *testing.T) {
			w, b := newSlowLevels(t)
			conv, _ := w.grind()
			w.atRest(conv)
			fail, crashed := after(n - 1)
			w.faulty.set(fail)
			close(b.gate)
			eventually(t, "it is over, or the machine off", func() bool {
				died = isClosed(crashed)
				return died || len(w.openOnes()) == 0
			})
			if died {
				w.kill()
				w.open()
			}
			w.settled()
			if msgs := w.openings(conv); len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "did flour") {
				t.Errorf("%v", msgs)
			}
			if turn := w.rows()[record.RequestTurn]; len(turn) != 1 || turn[0].Usage.Input != 90 {
				t.Errorf("%+v", turn)
			}
		})
		if !died {
			if n < 12 {
				t.Errorf("only %d commits", n)
			}
			return
		}
	}
}

func TestDeletingEndsBackgroundCallsOfAgents(t *testing.T) {
	w, _ := newSlowLevels(t)
	conv, _ := w.grind()
	ok(t, w.Delete(t.Context(), "anna", conv))
	w.settled()
	if r := w.rows()[record.RequestTask][0]; r.Error != "untold" {
		t.Errorf("%+v", r)
	}
}

func TestCancellingATurnReachesBackgroundCallsOfAgents(t *testing.T) {
	w, _ := newSlowLevels(t)
	_, frames := w.grind()
	ok(t, w.CancelRequest(t.Context(), "anna", frames[0].Interaction.String()))
	w.settled()
	if r := w.rows()[record.RequestTask][0]; r.Error != "cancelled" || r.Outcome != "interrupted" {
		t.Errorf("%+v", r)
	}
}

func TestHooksSeeBackgroundResults(t *testing.T) {
	b := newBench()
	close(b.gate)
	w := made(t, &world{})
	g := &grove{}
	miller := agentOf("miller", b.tools(t)...)
	var mu sync.Mutex
	var saw []string
	miller.Hooks = map[string][]tool.Hook{tool.AfterTool: {outerHook(func(ev tool.HookEvent) tool.HookAnswer {
		mu.Lock()
		defer mu.Unlock()
		if saw = append(saw, ev.Text); strings.HasPrefix(ev.Text, "did ") {
			text := "did it, says the hook"
			return tool.HookAnswer{Text: &text}
		}
		return tool.HookAnswer{}
	})}}
	g.plant(miller)
	w.opt.Catalog = g
	w.open()
	acc := w.sent(turn.Input{Agent: "miller", Content: text(askMiller), Attended: true})
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameOpened))
	w.settled()
	if msgs := w.openings(acc.Conversation); len(msgs) != 1 || !strings.Contains(msgs[0].Text(), "did it, says the hook") || strings.Contains(msgs[0].Text(), "did flour") {
		t.Errorf("%v", msgs)
	}
	if mu.Lock(); len(saw) != 2 {
		t.Errorf("the hook saw %q", saw)
	}
	mu.Unlock()
}

// failsOnce makes the store fail once, when the end of a run is recorded, and then
// once when the request of a background call is read.
func (w *world) failsOnce() {
	var once, read sync.Once
	w.faulty.set(func(b store.Batch) (err error) {
		for _, c := range b.Changes {
			var r record.Run
			if c.URI.Type() == record.TypeRun && record.Decode(c.URI, c.Body, &r) == nil && !r.Ended.IsZero() {
				once.Do(func() {
					err = full
					w.faulty.mu.Lock()
					defer w.faulty.mu.Unlock()
					w.faulty.unread = func(u resource.URI) (fails bool) {
						if u.Type() == record.TypeRequest && u.ID() != u.Parent().ID() {
							read.Do(func() { fails = true })
						}
						return fails
					}
				})
			}
		}
		return err
	})
}

// The result of a background call is delivered even if the store fails for a
// moment while an agent answers it. Nobody has to say anything or restart.
func TestDeliveryContinuesAfterTheStoreFailed(t *testing.T) {
	for _, words := range []string{askMiller, ask("personal", ask("miller", askMiller))} {
		t.Run(words, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, b := newStill(t), newBench()
				g := &grove{}
				g.plant(agentOf("personal"), agentOf("personal/miller", b.tools(t)...))
				w.opt.Catalog, w.more = g, b.tools(t)
				w.open()
				conv := w.send(id.ID{}, words).Conversation
				synctest.Wait()
				w.failsOnce()
				close(b.gate)
				time.Sleep(time.Hour)
				open, err := w.Requests(t.Context(), "anna", false, 10)
				if err != nil || len(open) != 0 {
					t.Errorf("%d requests are still open, %v", len(open), err)
				}
				if got := w.users(conv); len(got) != 2 || !strings.Contains(got[1], "did flour") {
					t.Errorf("told: %q", got)
				}
			})
		})
	}
}
