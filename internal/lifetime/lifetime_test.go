package lifetime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"steward/internal/lifetime"
)

// Wait returns after everything that began before the end, and nothing begins
// after it.
func TestEndWaitsForWhatBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		l := lifetime.New(parent)
		if cancel(); l.Err() != nil {
			t.Fatal("it ended with its parent")
		}
		cause := errors.New("closing")
		began, finish := make(chan struct{}), make(chan struct{})
		if !l.Go(func() { close(began); <-l.Done(); <-finish }) {
			t.Fatal("nothing runs before the end")
		}
		<-began
		release, ok := l.Hold()
		if !ok || !l.End(cause) || l.End(errors.New("again")) || context.Cause(l) != cause {
			t.Fatal("it does not end once, with its cause")
		}
		if _, ok := l.Hold(); ok || l.Go(func() { t.Error("it ran after the end") }) {
			t.Error("something begins after the end")
		}
		waited := make(chan struct{})
		go func() { l.Wait(); close(waited) }()
		release()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait did not wait")
		default:
		}
		close(finish)
		<-waited
	})
}

// What is done for a user ends with the user's part, and can begin again in the next one. The end of the whole ends
// all parts.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole := lifetime.New(t.Context())
		if whole.Of("ann") != whole || whole.Left("ann") != nil || whole.Divided() {
			t.Error("an undivided lifetime has parts")
		}
		if ctx, release, ok := whole.Stay(t.Context(), "ann"); !ok || ctx != t.Context() {
			t.Error("staying in an undivided lifetime costs something")
		} else {
			release()
		}
		left := errors.New("left")
		whole.Divide(left)
		if _, _, ok := whole.Stay(t.Context(), "ann"); ok || whole.Has("ann") || context.Cause(whole.Of("ann")) != left || whole.Of("") != whole {
			t.Error("something begins for a user without a part")
		}
		if !whole.Begin("ann") || whole.Begin("ann") || !whole.Begin("ben") || len(whole.Users()) != 2 {
			t.Fatal("parts do not begin once")
		}
		ctx, release, ok := whole.Stay(t.Context(), "ann")
		if !ok || !whole.Busy("ann") || whole.Busy("ben") {
			t.Fatal("nothing can be done for a user with a part")
		}
		over := make(chan struct{})
		go func() { defer close(over); whole.Leave("ann", left) }()
		<-whole.Left("ann")
		synctest.Wait()
		select {
		case <-over:
			t.Error("Leave does not wait")
		default:
		}
		if context.Cause(ctx) != left || ctx.Err() == nil {
			t.Errorf("the request goes on: %v", context.Cause(ctx))
		}
		release()
		<-over
		if whole.Busy("ann") || !whole.Begin("ann") || !whole.Has("ann") {
			t.Error("a user does not come back")
		}
		done := make(chan struct{})
		if !whole.Of("ann").Go(func() { defer close(done); <-whole.Of("ann").Done() }) {
			t.Error("nothing runs in the next part")
		}
		cause := errors.New("closing")
		whole.End(cause)
		whole.Wait()
		<-done
		if context.Cause(whole.Of("ben")) != cause || whole.Of("ben").Go(func() {}) {
			t.Error("a part outlives the whole")
		}
	})
}
