package channeltest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/channel"
	"steward/internal/fault"
)

// patience is how long a test waits for what must happen. Only a test that fails waits so long.
const patience = 2 * time.Minute

// world is a double, an adapter, and what the adapter has received.
type world struct {
	t *testing.T
	Service
	ch channel.Channel

	mu       sync.Mutex
	received []channel.Update // each ID once, in the order of its first arrival
	repeats  int
	grown    chan struct{} // closed and replaced when something has arrived
	refuse   func([]channel.Update) error
	stop     func()
}

func watchGoroutines(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, ignore) })
}

func newWorld(t *testing.T, s Service) *world {
	w := &world{t: t, Service: s, ch: s.Channel(), grown: make(chan struct{}), stop: func() {}}
	t.Cleanup(func() { w.stop() })
	return w
}

// connect runs the adapter until the test ends, and connects again whenever the connection is lost. It
// returns when the adapter is connected.
func (w *world) connect() {
	w.t.Helper()
	w.stop()
	ctx, cancel := context.WithCancel(context.Background())
	done, connected := make(chan struct{}), make(chan struct{})
	var once sync.Once
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := w.ch.Run(ctx, func() { once.Do(func() { close(connected) }) }, w.receive)
			if err == nil && ctx.Err() == nil {
				w.t.Error("Run returned nil before its context ended")
			}
			fault.Pause(ctx, 5*time.Millisecond)
		}
	}()
	w.stop = func() { cancel(); w.wait(done, "Run does not end with its context") }
	w.wait(connected, "the adapter does not connect")
}

func (w *world) wait(c <-chan struct{}, why string) {
	w.t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		w.t.Fatal(why)
	}
}

// receive keeps what arrives, unless the test refuses it.
func (w *world) receive(_ context.Context, list []channel.Update) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(list); err != nil {
			return err
		}
	}
	for _, u := range list {
		w.check(u)
		if slices.ContainsFunc(w.received, func(old channel.Update) bool { return old.ID == u.ID }) {
			w.repeats++
			continue
		}
		w.received = append(w.received, u)
	}
	close(w.grown)
	w.grown = make(chan struct{})
	return nil
}

// check tests what is true of every update.
func (w *world) check(u channel.Update) {
	switch {
	case u.ID == "":
		w.t.Errorf("an update without an ID: %+v", u)
	case u.Address.Chat == "":
		w.t.Errorf("an update without a chat: %+v", u)
	case u.From.ID == "":
		w.t.Errorf("an update without a sender: %+v", u)
	case u.Kind != channel.Message && u.Kind != channel.Edited && u.Kind != channel.Press:
		w.t.Errorf("an update of the kind %q", u.Kind)
	case !u.Group && !u.Addressed:
		w.t.Errorf("an update outside of a group is not addressed: %+v", u)
	}
}

// until waits until what has been received satisfies good, and returns it.
func (w *world) until(what string, good func([]channel.Update) bool) []channel.Update {
	w.t.Helper()
	limit := time.After(patience)
	for {
		w.mu.Lock()
		list, grown := slices.Clone(w.received), w.grown
		w.mu.Unlock()
		if good(list) {
			return list
		}
		select {
		case <-grown:
		case <-limit:
			w.t.Fatalf("%s has not arrived; %d updates have, the last ones are: %+v", what, len(list), list[max(0, len(list)-5):])
		}
	}
}

// arrives waits for the message with the text, and returns it.
func (w *world) arrives(text string) channel.Update {
	w.t.Helper()
	var u channel.Update
	w.until(text, func(list []channel.Update) bool {
		i := slices.IndexFunc(list, func(u channel.Update) bool { return u.Text == text })
		if i >= 0 {
			u = list[i]
		}
		return i >= 0
	})
	return u
}

// refusing makes receive fail as f says; nil ends that.
func (w *world) refusing(f func([]channel.Update) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuse = f
}

// at returns the address of a chat that a test names by its number.
func (w *world) at(chat string) channel.Address {
	if a, ok := w.Service.(Addresses); ok {
		chat = a.Address(chat)
	}
	return channel.Address{Chat: chat}
}

func (w *world) texts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var texts []string
	for _, u := range w.received {
		texts = append(texts, u.Text)
	}
	return texts
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// send posts a message that must arrive, and returns its ID.
func (w *world) send(m channel.Outgoing) string {
	w.t.Helper()
	id, err := w.ch.Send(w.context(), m)
	if err != nil || id == "" {
		w.t.Fatalf("Send: %q, %v", id, err)
	}
	return id
}

// fails tests the code of an error.
func (w *world) fails(err error, code string) {
	w.t.Helper()
	if !fault.HasCode(err, code) {
		w.t.Errorf("the error is not %s: %v", code, err)
	}
}

// post returns the only message of the account in a chat.
func (w *world) post(chat string) Post {
	w.t.Helper()
	list := w.Posted(chat)
	if len(list) != 1 {
		w.t.Fatalf("people see %d messages in %s, not 1: %+v", len(list), chat, list)
	}
	return list[0]
}

// text returns Markdown as the adapter sends it, in one part.
func (w *world) text(markdown string) string {
	w.t.Helper()
	parts := w.ch.Render(markdown)
	if len(parts) != 1 {
		w.t.Fatalf("%q is rendered in %d parts", markdown, len(parts))
	}
	return parts[0]
}

var errRefused = errors.New("the inbox is full")
