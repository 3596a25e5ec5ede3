package channeltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
)

func testCheck(t *testing.T, w *world) {
	name, err := w.ch.Check(w.context())
	if err != nil || name == "" {
		t.Fatalf("Check: %q, %v", name, err)
	}
	if l := w.ch.Limits(); l.Text <= 0 {
		t.Errorf("limits without a length of messages: %+v", l)
	}
}

// testOrder: what people write arrives as they wrote it, in their order.
func testOrder(t *testing.T, w *world) {
	w.Say(Message{From: "1001", Chat: "1001", Text: "before the connection"})
	w.connect()
	var want []string
	want = append(want, "before the connection")
	for i := range 20 {
		text := fmt.Sprintf("message %d: 5 < 6 & *not bold* 𝒳 äöü 👩‍👩‍👧", i)
		w.Say(Message{From: "1001", Chat: "1001", Text: text})
		want = append(want, text)
	}
	list := w.until("all messages", func(list []channel.Update) bool { return len(list) >= len(want) })
	got := w.texts()
	if w.Traits().Unordered {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("received\n%q\nwant\n%q", got, want)
	}
	for _, u := range list {
		if u.Kind != channel.Message || u.Group || u.Message == "" || u.At.IsZero() || u.From.ID != list[0].From.ID || u.Address != list[0].Address {
			t.Errorf("update %+v", u)
		}
	}
}

// testAcknowledge: what receive has refused arrives again over the next connection, with the same IDs.
func testAcknowledge(t *testing.T, w *world) {
	refused := make(chan []channel.Update, 1)
	w.refusing(func(list []channel.Update) error {
		select {
		case refused <- list:
		default:
		}
		return errRefused
	})
	w.Say(Message{From: "1001", Chat: "1001", Text: "one"})
	w.Say(Message{From: "1001", Chat: "1001", Text: "two"})
	ctx := w.context()
	err := w.ch.Run(ctx, func() {}, w.receive)
	if !errors.Is(err, errRefused) {
		t.Fatalf("Run does not return the error of receive: %v", err)
	}
	w.refusing(nil)
	w.connect()
	again := w.until("both messages", func(list []channel.Update) bool { return len(list) >= 2 })
	if first := <-refused; !slices.ContainsFunc(again, func(u channel.Update) bool { return u.ID == first[0].ID }) {
		t.Errorf("the ID was %s, and is another one when the message is delivered again: %+v", first[0].ID, again)
	}
}

// testAcknowledgeAcrossStart: the same after a restart of Steward.
func testAcknowledgeAcrossStart(t *testing.T, w *world) {
	if w.Traits().Forgets {
		return // the service does not tell a new adapter what it has missed
	}
	w.refusing(func([]channel.Update) error { return errRefused })
	w.Say(Message{From: "1001", Chat: "1001", Text: "one"})
	if err := w.ch.Run(w.context(), func() {}, w.receive); !errors.Is(err, errRefused) {
		t.Fatalf("Run does not return the error of receive: %v", err)
	}
	w.refusing(nil)
	w.ch = w.Channel()
	w.connect()
	w.arrives("one")

	// What was accepted need not arrive again, and what came while Steward was stopped must.
	w.stop()
	w.Say(Message{From: "1001", Chat: "1001", Text: "two"})
	w.ch = w.Channel()
	w.connect()
	w.arrives("two")
}

// testAcknowledgePress: the same for a press, which stands in no history.
func testAcknowledgePress(t *testing.T, w *world) {
	if w.ch.Limits().Buttons == 0 {
		return // the service has no buttons
	}
	at := w.at("1001")
	id := w.send(channel.Outgoing{Key: "k1", At: at, Text: w.text("Shall I?"), Buttons: []channel.Button{{Label: "Yes", Data: "yes"}}})
	w.refusing(func([]channel.Update) error { return errRefused })
	w.Press("1001", "1001", id, "yes")
	if err := w.ch.Run(w.context(), func() {}, w.receive); !errors.Is(err, errRefused) {
		t.Fatalf("Run does not return the error of receive: %v", err)
	}
	w.refusing(nil)
	w.connect()
	w.until("the press", func(list []channel.Update) bool {
		return slices.ContainsFunc(list, func(u channel.Update) bool { return u.Kind == channel.Press && u.Button == "yes" && u.Message == id })
	})
}

func testDuplicates(t *testing.T, w *world) {
	w.connect()
	w.Say(Message{From: "1001", Chat: "1001", Text: "one"})
	w.Say(Message{From: "1001", Chat: "1001", Text: "one"})
	w.until("both messages", func(list []channel.Update) bool { return len(list) >= 2 })
	w.Redeliver()
	w.Say(Message{From: "1001", Chat: "1001", Text: "three"})
	w.arrives("three")
	if got := w.texts(); !slices.Equal(got, []string{"one", "one", "three"}) {
		t.Errorf("messages that are delivered again have other IDs: %q", got)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d updates arrived again", w.repeats) // an adapter may know them itself
}

func testLostConnections(t *testing.T, w *world) {
	w.connect()
	var want []string
	for i := range 30 {
		text := fmt.Sprint("message ", i)
		w.Say(Message{From: "1001", Chat: "1001", Text: text})
		want = append(want, text)
		if i%3 == 0 {
			w.Drop()
		}
		if i%10 == 5 {
			w.arrives(text)
		}
	}
	w.until("every message", func(list []channel.Update) bool { return len(list) >= len(want) })
	got := w.texts()
	if w.Traits().Unordered {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Errorf("received\n%q\nwant\n%q", got, want)
	}
}

func testStop(t *testing.T, w *world) {
	ctx, cancel := context.WithCancel(context.Background())
	done, connected := make(chan error, 1), make(chan struct{}, 2)
	go func() { done <- w.ch.Run(ctx, func() { connected <- struct{}{} }, w.receive) }()
	select {
	case <-connected:
	case <-time.After(patience):
		t.Fatal("the adapter does not connect")
	}
	w.Say(Message{From: "1001", Chat: "1001", Text: "one"})
	w.arrives("one")
	cancel()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("Run does not end with its context")
	}
	if len(connected) != 0 {
		t.Error("Run has called connected twice")
	}
}

// testRevoked: a token that the service does not accept is told as such, and not tried for ever.
func testRevoked(t *testing.T, w *world) {
	w.Revoke()
	_, err := w.ch.Check(w.context())
	w.fails(err, "channel_token")
	w.fails(w.ch.Run(w.context(), func() { t.Error("the adapter is connected") }, w.receive), "channel_token")
	_, err = w.ch.Send(w.context(), channel.Outgoing{Key: "k1", At: w.at("1001"), Text: w.text("hello")})
	w.fails(err, "channel_token")
}

func testOffline(t *testing.T, w *world) {
	w.Offline(true)
	if err := w.ch.Run(w.context(), func() { t.Error("the adapter is connected") }, w.receive); err == nil {
		t.Fatal("Run returned nil without a connection")
	}
	if _, err := w.ch.Check(w.context()); err == nil {
		t.Fatal("Check returned nil without a connection")
	}
	w.Offline(false)
	w.Say(Message{From: "1001", Chat: "1001", Text: "one"})
	w.connect()
	w.arrives("one")
}

func testChange(t *testing.T, w *world) {
	if w.Traits().NoChange {
		return // people cannot change what they have written
	}
	w.connect()
	id := w.Say(Message{From: "1001", Chat: "1001", Text: "turn of the light"})
	first := w.arrives("turn of the light")
	w.Change("1001", id, "turn off the light")
	changed := w.arrives("turn off the light")
	if changed.Kind != channel.Edited || changed.Message != first.Message || changed.ID == first.ID || changed.From.ID != first.From.ID {
		t.Errorf("the message was %+v and is %+v", first, changed)
	}
}

// testGroups: in a group it is known whether a message is meant for Steward.
func testGroups(t *testing.T, w *world) {
	if w.Traits().NoGroups {
		return // the service has no groups
	}
	w.connect()
	chat := "-2001"
	w.Say(Message{From: "1002", Chat: chat, Group: true, Text: "lunch?"})
	w.Say(Message{From: "1001", Chat: chat, Group: true, Mention: true, Text: "what is the time?"})
	asked := w.arrives("what is the time?")
	if !asked.Group || !asked.Addressed {
		t.Errorf("a mention is not addressed: %+v", asked)
	}
	posted := w.send(channel.Outgoing{Key: "k1", At: asked.Address, Text: w.text("It is noon.")})
	if !w.Traits().NoReplies {
		w.Say(Message{From: "1001", Chat: chat, Group: true, ReplyTo: posted, Text: "and now?"})
		if u := w.arrives("and now?"); !u.Addressed || u.ReplyTo != posted {
			t.Errorf("a reply to the account is not addressed: %+v", u)
		}
	}
	// A service need not deliver what is not addressed. If it does, nobody may think that it was.
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, u := range w.received {
		if u.Text == "lunch?" && (u.Addressed || !u.Group || u.From.ID == asked.From.ID) {
			t.Errorf("a message among people: %+v", u)
		}
	}
}

func testThreads(t *testing.T, w *world) {
	if w.Traits().NoThreads {
		return // the service has no threads
	}
	w.connect()
	top := w.Say(Message{From: "1001", Chat: "-2001", Group: true, Mention: true, Text: "at the top"})
	_ = top
	w.Say(Message{From: "1001", Chat: "-2001", Thread: "77", Group: true, Mention: true, Text: "in a thread"})
	u := w.arrives("in a thread")
	if u.Address.Thread == "" || u.Address.Chat != w.arrives("at the top").Address.Chat {
		t.Fatalf("the thread is lost: %+v", u)
	}
	w.send(channel.Outgoing{Key: "k1", At: u.Address, Text: w.text("answer")})
	if p := w.post("-2001"); p.Thread != "77" {
		t.Errorf("the answer is not in the thread: %+v", p)
	}
}

// testHostile: whatever arrives, what comes after it arrives too.
func testHostile(t *testing.T, w *world) {
	w.connect()
	w.Say(Message{From: "1001", Chat: "1001", Text: "before"})
	w.arrives("before")
	w.Hostile()
	w.Say(Message{From: "1001", Chat: "1001", Text: "after"})
	w.arrives("after")
}

// testStorm: messages in both directions while the service does everything that services do. What people
// wrote arrives once by its ID; what Steward sends is posted once unless the adapter has said that it does
// not know.
func testStorm(t *testing.T, w *world) {
	w.connect()
	n := storm
	uncertain := map[string]bool{}
	for i := range n {
		text := fmt.Sprintf("message-%03d.", i)
		w.Say(Message{From: "1001", Chat: "1001", Text: text})
		switch i % 12 {
		case 2:
			w.Drop()
		case 4:
			w.LimitNext(1, time.Second)
		case 7:
			w.SwallowNext(1)
		case 9:
			w.Redeliver()
		}
		m := channel.Outgoing{Key: fmt.Sprint("key-", i), At: w.at("1001"), Text: w.text(text)}
		for range 5 {
			_, err := w.ch.Send(w.context(), m)
			if err == nil {
				break
			}
			if fault.HasCode(err, "channel_limited") || fault.HasCode(err, "channel_unreachable") {
				continue
			}
			if !fault.HasCode(err, "channel_uncertain") {
				t.Fatalf("Send: %v", err)
			}
			if !w.ch.Limits().Repeatable {
				uncertain[text] = true
				break
			}
		}
	}
	w.until("every message", func(list []channel.Update) bool { return len(list) >= n })
	if got := w.texts(); len(got) != n {
		t.Errorf("%d different updates for %d messages", len(got), n)
	}
	times := map[string]int{}
	for _, p := range w.Posted("1001") {
		times[p.Text]++
	}
	for i := range n {
		text := fmt.Sprintf("message-%03d.", i)
		if times[text] != 1 && !(uncertain[text] && times[text] == 0) {
			t.Errorf("%q is posted %d times (uncertain: %v)", text, times[text], uncertain[text])
		}
	}
}
