package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
	"steward/internal/store"
)

func TestStopBeforeItIsATask(t *testing.T) {
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

func TestStopDoesNotEndATask(t *testing.T) {
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

func TestCancelledTaskIsToldSo(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			w, b := newSlowWorld(t)
			conv, _ := w.turn(id.ID{}, `call slow.work {"what":"flour"}`)
			task := w.rows()[record.RequestTask][0].ID
			if err := w.CancelRequest(t.Context(), "ben", task.String()); !fault.HasCode(err, "request_not_found") {
				t.Errorf("a stranger: %v", err)
			}
			if restart { // the node dies right after the word
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
			if err := w.CancelRequest(t.Context(), "anna", task.String()); !fault.HasCode(err, "request_closed") {
				t.Errorf("again: %v", err)
			}
		})
	}
}

func TestCancellingATurnCancelsWhatItLedTo(t *testing.T) {
	w, _ := newSlowWorld(t)
	_, frames := w.turn(id.ID{}, "call slow.work {\"what\":\"a\"}\ncall slow.work {\"what\":\"b\"}")
	ok(t, w.CancelRequest(t.Context(), "anna", frames[0].Interaction.String()[:30]))
	w.settled()
	for _, r := range w.rows()[record.RequestTask] {
		if r.Error != "cancelled" {
			t.Errorf("%+v", r)
		}
	}
	if err := w.CancelRequest(t.Context(), "anna", id.New().String()); !fault.HasCode(err, "request_not_found") {
		t.Error(err)
	}
}

func TestTaskOfADeletedConversation(t *testing.T) {
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

// The machine goes off at each commit of a turn that begins a task, and of
// what follows: the result is told once all the same.
func TestTaskAndCrashes(t *testing.T) {
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
			turn := runtime.Turn{Conversation: conv, ClientID: "c", Attended: true, Content: text(`call slow.work {"what":"flour"}`)}
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
