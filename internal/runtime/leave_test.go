package runtime_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/runtime"
)

// Who deletes a conversation, or rewinds it and calls off what came after,
// does not wait for messages that wait for their turn: those are refused, and
// nobody is asked on behalf of them.
func TestWhatWaitsIsRefusedWhenAConversationIsLeft(t *testing.T) {
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
				var waiting []*late[runtime.Accepted]
				for range 3 {
					waiting = append(waiting, aside(func() (runtime.Accepted, error) {
						return w.Send(t.Context(), "anna", runtime.Turn{Conversation: conv, Content: text(asks), Attended: true})
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
				if list, err := w.Approvals(t.Context(), "anna"); err != nil || len(list) != 0 {
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

// A turn that had begun when the conversation was left, but of which nothing
// ran yet, is stopped too.
func TestWhatIsAboutToRunIsStoppedWhenAConversationIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, gate := newStill(t), make(chan struct{})
		var holds atomic.Bool
		w.opt.Profile = func(context.Context, string) (string, error) { // it is asked for while a turn begins
			if holds.Load() {
				<-gate
			}
			return "", nil
		}
		w.open()
		conv := w.talk()
		holds.Store(true)
		begins := aside(func() (runtime.Accepted, error) {
			return w.Send(t.Context(), "anna", runtime.Turn{Conversation: conv, Content: text(asks), Attended: true})
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
