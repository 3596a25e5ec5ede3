package runtime_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/runtime"
)

// asks is a message upon which a person is asked.
const asks = `call ledger.add {"what":"one"}`

// sends begins to send a message of anna's by the client's own id.
func (w *world) sends(ctx context.Context, conv id.ID, words string, steer bool) *late[runtime.Accepted] {
	return aside(func() (runtime.Accepted, error) {
		return w.Send(ctx, "anna", runtime.Turn{Conversation: conv, ClientID: "b", Content: text(words), Attended: true, Steer: steer})
	})
}

// decide answers the one question that stands.
func (w *world) decide(approve bool) {
	w.t.Helper()
	list, err := w.Approvals(w.t.Context(), "anna")
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%d questions, %v", len(list), err)
	}
	ok(w.t, w.Decide(w.t.Context(), "anna", runtime.Verdict{ID: list[0].ID, Hash: list[0].Hash, Approve: approve}))
	synctest.Wait()
}

// Who sends a message again while the first sending of it waits for its turn
// is told as soon as it has begun, not when it has ended: it may wait for a
// person, who is asked on the newer connection.
func TestSentAgainWhileTheFirstWaits(t *testing.T) {
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

// Where the first sending was given up, the other one goes on in its place.
func TestSentAgainAndTheFirstGivenUp(t *testing.T) {
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

// A message that steers a turn, and is sent again, still steers it when the
// first sending is given up.
func TestSteeringSentAgain(t *testing.T) {
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

// Who waits for another one to send the same does not wait for longer than
// the node is there.
func TestSentAgainWhileTheNodeCloses(t *testing.T) {
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
