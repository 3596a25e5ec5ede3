package runtime_test

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/id"
	"steward/internal/llm"
	"steward/internal/message"
	"steward/internal/policy"
	"steward/internal/runtime"
	"steward/internal/store"
	"steward/internal/store/storetest"
	"steward/internal/tool"
)

// still is a node over a store in memory, for tests in a bubble: when all of it
// waits, nothing more happens by itself.
type still struct {
	*runtime.Node
	t      *testing.T
	model  *scripted
	ledger *ledger
	faulty *faulty
	st     store.Store
	judge  policy.Authorizer
	more   []tool.Tool
	opt    runtime.Options
}

// newStill makes one, which has to be opened, in a bubble.
func newStill(t *testing.T) *still {
	w := &still{t: t, model: &scripted{gate: make(chan struct{})}, ledger: &ledger{}, judge: policy.Fixed{}}
	w.faulty = &faulty{Store: storetest.NewModel()}
	w.st = w.faulty
	return w
}

func (w *still) open() *still {
	w.t.Helper()
	models, err := llm.New(llm.Config{Providers: []llm.Provider{w.model},
		Aliases: map[string]llm.Alias{"default": {Models: []string{"test/m"}}}, Retry: llm.RetryPolicy{Attempts: 1}})
	if err != nil {
		w.t.Fatal(err)
	}
	opt := w.opt
	opt.Store, opt.Models, opt.Authorizer = w.st, models, w.judge
	opt.Tools = (&world{t: w.t, ledger: w.ledger, more: w.more}).tools()
	opt.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	if w.Node, err = runtime.Open(context.Background(), opt); err != nil {
		w.t.Fatal(err)
	}
	return w
}

func (w *still) close() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.Close(ctx); err != nil {
		w.t.Error("Close:", err)
	}
}

// send sends a message of anna's, and fails where it is not accepted.
func (w *still) send(conv id.ID, words string) runtime.Accepted {
	w.t.Helper()
	acc, err := w.Send(w.t.Context(), "anna", runtime.Turn{Conversation: conv, Content: text(words), Attended: true})
	if err != nil {
		w.t.Fatalf("Send(%q): %v", words, err)
	}
	return acc
}

// talk has a conversation begin with a turn that is over.
func (w *still) talk() id.ID {
	w.t.Helper()
	conv := w.send(id.ID{}, "say hello").Conversation
	synctest.Wait()
	return conv
}

// hangs begins a turn that goes on until the model's gate is opened.
func (w *still) hangs(conv id.ID) id.ID {
	w.t.Helper()
	conv = w.send(conv, "hang").Conversation
	synctest.Wait()
	return conv
}

// users returns what the user has said in a conversation.
func (w *still) users(conv id.ID) (out []string) {
	w.t.Helper()
	page, _, err := w.Messages(w.t.Context(), "anna", conv, "", 0)
	if err != nil {
		w.t.Fatal(err)
	}
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
