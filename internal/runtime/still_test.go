package runtime_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/turn"
	"steward/test/storetest"
)

// newStill makes a node over a store in memory, for tests in a bubble: when all of
// it waits, nothing more happens by itself. It has to be opened.
func newStill(t *testing.T) *world { return made(t, &world{memory: storetest.NewModel()}) }

// talk creates a conversation with one turn that has ended.
func (w *world) talk() id.ID {
	w.t.Helper()
	conv := w.send(id.ID{}, "say hello").Conversation
	synctest.Wait()
	return conv
}

// hangs begins a turn that runs until the model's gate is closed.
func (w *world) hangs(conv id.ID) id.ID {
	w.t.Helper()
	conv = w.send(conv, "hang").Conversation
	synctest.Wait()
	return conv
}

// users returns what the user has said in a conversation.
func (w *world) users(conv id.ID) (out []string) {
	w.t.Helper()
	page := w.messages(conv)
	for _, m := range page {
		if m.Role == message.User {
			out = append(out, m.Text())
		}
	}
	return out
}

// late is the outcome of a function that may take long.
type late[T any] struct {
	v    T
	err  error
	done chan struct{}
}

// aside starts a function, and returns when it has ended or waits.
func aside[T any](do func() (T, error)) *late[T] {
	l := &late[T]{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.v, l.err = do()
	}()
	synctest.Wait()
	return l
}

// over reports whether the function has ended; then v and err are valid.
func (l *late[T]) over() bool {
	synctest.Wait()
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// asks is a message that leads to a question to a person.
const asks = `call ledger.add {"what":"one"}`

// sends starts to send a message of anna's with a fixed client id.
func (w *world) sends(ctx context.Context, conv id.ID, words string, steer bool) *late[turn.Accepted] {
	return aside(func() (turn.Accepted, error) {
		return w.Send(ctx, "anna", turn.Input{Conversation: conv, ClientID: "b", Content: text(words), Attended: true, Steer: steer})
	})
}

// decide answers the only open question.
func (w *world) decide(approve bool) {
	w.t.Helper()
	list, err := w.Effects.Questions(w.t.Context(), "anna")
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%d questions, %v", len(list), err)
	}
	ok(w.t, w.Effects.Decide(w.t.Context(), store.ForUser("anna"), effect.Decision{ID: list[0].ID, Hash: list[0].Hash, Approve: approve}))
	synctest.Wait()
}

// A client that sends a message again while the first one waits is answered as
// soon as the turn has begun, not when it has ended: the turn may wait for a
// person, who is asked on the newer connection.
func TestResendWhileTheFirstWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStill(t).open()
		conv := w.hangs(id.ID{})
		one, two := w.sends(t.Context(), conv, asks, false), w.sends(t.Context(), conv, asks, false)
		if one.over() || two.over() {
			t.Fatal("it did not wait for the turn before")
		}
		close(w.model.gate)
		if !one.over() || !two.over() {
			t.Fatal("who sent it again is not told that it has begun")
		}
		if one.err != nil || two.err != nil || one.v.Duplicate == two.v.Duplicate || one.v.Interaction != two.v.Interaction {
			t.Errorf("%+v, %v; %+v, %v", one.v, one.err, two.v, two.err)
		}
		w.decide(true)
		if got := w.users(conv); !slices.Equal(got, []string{"hang", asks}) || w.ledger.list() != "one" {
			t.Errorf("said: %q, done: %s", got, w.ledger.list())
		}
	})
}

// If the first sender gives up, the second takes its place.
func TestResendReplacesAnAbandonedSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStill(t).open()
		conv := w.hangs(id.ID{})
		first, gone := context.WithCancel(t.Context())
		defer gone()
		one, two := w.sends(first, conv, asks, false), w.sends(t.Context(), conv, asks, false)
		third, gone3 := context.WithCancel(t.Context())
		three := w.sends(third, conv, asks, false)
		gone()
		gone3()
		if !one.over() || !fault.Is(one.err, fault.Cancelled) || !three.over() || !fault.Is(three.err, fault.Cancelled) || two.over() {
			t.Fatalf("%v, %v, %v", one.err, three.err, two.err)
		}
		close(w.model.gate)
		if !two.over() || two.err != nil || two.v.Duplicate {
			t.Fatalf("%+v, %v", two.v, two.err)
		}
		w.decide(true)
		if got := w.users(conv); !slices.Equal(got, []string{"hang", asks}) {
			t.Errorf("said: %q", got)
		}
	})
}

// A steering message that is sent again still steers the turn if the first
// sender gives up.
func TestResendOfSteering(t *testing.T) {
	for _, how := range []string{"both wait", "the first is given up", "the first did not steer"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStill(t).open()
				acc := w.send(id.ID{}, asks)
				synctest.Wait()
				first, gone := context.WithCancel(t.Context())
				defer gone()
				one := w.sends(first, acc.Conversation, "say more", how != "the first did not steer")
				two := w.sends(t.Context(), acc.Conversation, "say more", true)
				if how == "the first is given up" {
					gone()
				}
				synctest.Wait()
				w.decide(true)
				if !two.over() || two.err != nil || two.v.Interaction != acc.Interaction {
					t.Errorf("%+v, %v, not in %s", two.v, two.err, acc.Interaction)
				}
				if !one.over() || one.err == nil && one.v.Interaction != acc.Interaction {
					t.Errorf("%+v, %v, not in %s", one.v, one.err, acc.Interaction)
				}
				if got := w.users(acc.Conversation); !slices.Equal(got, []string{asks, "say more"}) {
					t.Errorf("said: %q", got)
				}
			})
		})
	}
}

// A sender that waits for another one with the same message ends when the node
// closes.
func TestResendWhileTheNodeCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStill(t).open()
		conv := w.hangs(id.ID{})
		one, two := w.sends(t.Context(), conv, asks, false), w.sends(t.Context(), conv, asks, false)
		w.close()
		if !one.over() || !two.over() || !fault.HasCode(one.err, "closing") || !fault.HasCode(two.err, "closing") {
			t.Errorf("%v, %v", one.err, two.err)
		}
	})
}

// Deleting a conversation, or rewinding it with withdrawal, does not wait for
// waiting messages: they are refused, and nobody is asked on their behalf.
func TestWaitingMessagesAreRefusedAtDeleteAndRewind(t *testing.T) {
	for name, leave := range map[string]func(*world, context.Context, id.ID, id.ID) error{
		"delete": func(w *world, ctx context.Context, conv, _ id.ID) error { return w.Delete(ctx, "anna", conv) },
		"rewind": func(w *world, ctx context.Context, conv, msg id.ID) error {
			_, _, err := w.Rewind(ctx, "anna", conv, msg, true)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newStill(t).open()
				acc := w.send(id.ID{}, "say hello")
				synctest.Wait()
				conv := w.hangs(acc.Conversation)
				var waiting []*late[turn.Accepted]
				for range 3 {
					waiting = append(waiting, aside(func() (turn.Accepted, error) {
						return w.Send(t.Context(), "anna", turn.Input{Conversation: conv, Content: text(asks), Attended: true})
					}))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if err := leave(w, ctx, conv, acc.Message); err != nil {
					t.Errorf("it waits for what waits: %v", err)
				}
				for _, x := range waiting {
					if !x.over() || !fault.HasCode(x.err, "turn_withdrawn") {
						t.Errorf("%+v, %v", x.v, x.err)
					}
				}
				if list, err := w.Effects.Questions(t.Context(), "anna"); err != nil || len(list) != 0 {
					t.Errorf("asked: %+v, %v", list, err)
				}
				if name == "delete" {
					return
				}
				w.send(conv, "say more") // from now on all is as ever
				synctest.Wait()
				if got := w.users(conv); !slices.Equal(got, []string{"say hello", "say more"}) {
					t.Errorf("said: %q", got)
				}
			})
		})
	}
}

// A turn that is just beginning when the conversation is deleted is stopped
// too.
func TestDeleteStopsATurnThatIsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := newStill(t), make(chan struct{})
		var holds atomic.Bool
		w.opt.Profile = func(context.Context, string, string) (string, error) { // it is asked for while a turn begins
			if holds.Load() {
				<-gate
			}
			return "", nil
		}
		w.open()
		conv := w.talk()
		holds.Store(true)
		begins := aside(func() (turn.Accepted, error) {
			return w.Send(t.Context(), "anna", turn.Input{Conversation: conv, Content: text(asks), Attended: true})
		})
		if begins.over() {
			t.Fatal("nothing holds it")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		gone := aside(func() (struct{}, error) { return struct{}{}, w.Delete(ctx, "anna", conv) })
		close(gate)
		if !begins.over() || begins.err != nil {
			t.Errorf("%+v, %v", begins.v, begins.err)
		}
		if !gone.over() || gone.err != nil {
			t.Error("it waits for what was about to run:", gone.err)
		}
	})
}

// After Close nothing begins any more, since the store may be closed. Here the
// turn of an agent that is gone is given up just then, which would otherwise
// settle what the turn had queued.
func TestNothingBeginsAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, g := newStill(t), &grove{}
		g.plant(agentOf("personal"))
		looked := 0
		w.opt.Catalog = g
		w.open()
		send := func(conv id.ID) (turn.Accepted, error) {
			return w.Send(t.Context(), "anna", turn.Input{Conversation: conv, Agent: "personal", Content: text("say hello")})
		}
		w.failsOnce()
		acc, err := send(id.ID{})
		ok(t, err)
		synctest.Wait()
		g.plant()
		gate := make(chan struct{})
		w.faulty.set(func(b store.Batch) error {
			for _, c := range b.Changes {
				var r record.Run
				if c.URI.Type() == record.TypeRun && record.Decode(c.URI, c.Body, &r) == nil && !r.Ended.IsZero() {
					<-gate
				}
			}
			return nil
		})
		next := aside(func() (turn.Accepted, error) { return send(acc.Conversation) })
		if next.over() {
			t.Fatalf("it did not come to be given up: %v", next.err)
		}
		st := w.faulty
		w.close()
		st.breaks(func(q store.Query) bool {
			if q.Type == record.TypeRequest && q.State == record.RequestOpen {
				looked++
			}
			return false
		})
		close(gate)
		if !next.over() || !fault.HasCode(next.err, "closing") {
			t.Error(next.err)
		}
		if looked > 0 { // it had led to nothing
			t.Errorf("after the end it looked %d times for what is open", looked)
		}
	})
}
