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
