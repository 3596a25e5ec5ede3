package runtime_test

import (
	"testing"
	"testing/synctest"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/store/storetest"
)

// newStill makes a node over a store in memory, for tests in a bubble: when all of
// it waits, nothing more happens by itself. It has to be opened.
func newStill(t *testing.T) *world { return made(t, &world{memory: storetest.NewModel()}) }

// talk has a conversation begin with a turn that is over.
func (w *world) talk() id.ID {
	w.t.Helper()
	conv := w.send(id.ID{}, "say hello").Conversation
	synctest.Wait()
	return conv
}

// hangs begins a turn that goes on until the model's gate is opened.
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

// late is what became of something that may take long.
type late[T any] struct {
	v    T
	err  error
	done chan struct{}
}

// aside begins something, and returns when it is over or waits.
func aside[T any](do func() (T, error)) *late[T] {
	l := &late[T]{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.v, l.err = do()
	}()
	synctest.Wait()
	return l
}

// over reports whether it is over; if so, what became of it can be read.
func (l *late[T]) over() bool {
	synctest.Wait()
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
