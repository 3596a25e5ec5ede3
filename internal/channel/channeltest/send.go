package channeltest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/channel"
	"steward/internal/fault"
)

func testSend(t *testing.T, w *world) {
	// Sending needs no Run.
	first := w.send(channel.Outgoing{Key: "k1", At: w.at("1001"), Text: w.text("5 < 6 & 7 > 2 – **bold** `code` 👩‍👩‍👧")})
	second := w.send(channel.Outgoing{Key: "k2", At: w.at("1001"), ReplyTo: first, Text: w.text("two"), Silent: true})
	if first == second {
		t.Errorf("both messages have the ID %s", first)
	}
	list := w.Posted("1001")
	if len(list) != 2 || list[0].Text != "5 < 6 & 7 > 2 – bold code 👩‍👩‍👧" || list[1].Text != "two" {
		t.Fatalf("people see %+v", list)
	}
	if list[0].ID != first || list[1].ID != second || !w.Traits().NoReplies && list[1].ReplyTo != first {
		t.Errorf("the IDs are %s and %s; people see %+v", first, second, list)
	}
}

func testEdit(t *testing.T, w *world) {
	at := w.at("1001")
	id := w.send(channel.Outgoing{Key: "k1", At: at, Text: w.text("I am thinking")})
	edit := func(markdown string) error {
		return w.ch.Edit(w.context(), at, id, channel.Outgoing{At: at, Text: w.text(markdown)})
	}
	if w.ch.Limits().EditEvery == 0 {
		w.fails(edit("done"), "channel_unsupported")
		return
	}
	for range 2 { // an edit may be repeated
		if err := edit("**done**"); err != nil {
			t.Fatal(err)
		}
	}
	if p := w.post("1001"); p.Text != "done" || p.ID != id {
		t.Errorf("people see %+v", p)
	}
	w.LimitNext(1, 3*time.Second)
	w.fails(edit("more"), "channel_limited")
	w.fails(w.ch.Edit(w.context(), at, id+"9", channel.Outgoing{At: at, Text: w.text("x")}), "channel_rejected")
}

func testButtons(t *testing.T, w *world) {
	if w.ch.Limits().Buttons == 0 {
		return // the service has no buttons
	}
	w.connect()
	at := w.at("1001")
	buttons := []channel.Button{{Label: "Allow <once>", Data: strings.Repeat("a", 64)}, {Label: "Deny", Data: "deny:1"}}
	id := w.send(channel.Outgoing{Key: "k1", At: at, Text: w.text("Turn off the light?"), Buttons: buttons})
	if p := w.post("1001"); !slices.Equal(p.Buttons, buttons) {
		t.Errorf("people see the buttons %+v", p.Buttons)
	}
	w.Press("1001", "1001", id, buttons[1].Data)
	w.Press("1001", "1001", id, buttons[0].Data)
	pressed := func(data string) channel.Update {
		var u channel.Update
		w.until("the press", func(list []channel.Update) bool {
			i := slices.IndexFunc(list, func(u channel.Update) bool { return u.Kind == channel.Press && u.Button == data })
			if i >= 0 {
				u = list[i]
			}
			return i >= 0
		})
		return u
	}
	one, two := pressed(buttons[1].Data), pressed(buttons[0].Data)
	if one.ID == two.ID || one.Message != id || one.Address != at || !one.Addressed {
		t.Errorf("pressed: %+v, %+v", one, two)
	}
	w.Say(Message{From: "1001", Chat: "1001", Text: "who am I?"})
	if u := w.arrives("who am I?"); u.From.ID != one.From.ID {
		t.Errorf("%s pressed and %s writes", one.From.ID, u.From.ID)
	}
	if w.ch.Limits().EditEvery == 0 {
		return
	}
	if err := w.ch.Edit(w.context(), at, id, channel.Outgoing{At: at, Text: w.text("Denied.")}); err != nil {
		t.Fatal(err)
	}
	if p := w.post("1001"); len(p.Buttons) != 0 || p.Text != "Denied." {
		t.Errorf("an edit without buttons leaves %+v", p)
	}
}

func testTyping(t *testing.T, w *world) {
	if err := w.ch.Typing(w.context(), w.at("1001")); err != nil {
		t.Fatal(err)
	}
	if n := w.Typing("1001"); n != 1 && !w.Traits().NoTyping {
		t.Errorf("people have seen %d times that the account is writing", n)
	}
}

func (w *world) hello(key string) channel.Outgoing {
	return channel.Outgoing{Key: key, At: w.at("1001"), Text: w.text("hello")}
}

func testLimited(t *testing.T, w *world) {
	w.LimitNext(1, 7*time.Second)
	_, err := w.ch.Send(w.context(), w.hello("k1"))
	w.fails(err, "channel_limited")
	if after := fault.Of(err).After; after != 7*time.Second {
		t.Errorf("the pause is %s, not 7s", after)
	}
	if list := w.Posted("1001"); len(list) != 0 {
		t.Errorf("people see %+v", list)
	}
	w.send(w.hello("k1"))
	w.post("1001")
}

func testRejected(t *testing.T, w *world) {
	w.RefuseNext(1)
	_, err := w.ch.Send(w.context(), w.hello("k1"))
	w.fails(err, "channel_rejected")
	if list := w.Posted("1001"); len(list) != 0 {
		t.Errorf("people see %+v", list)
	}
}

// testUncertain: an answer that is lost is not taken for a failure; and if the adapter claims that the
// service recognizes a key, it does.
func testUncertain(t *testing.T, w *world) {
	w.SwallowNext(1)
	_, err := w.ch.Send(w.context(), w.hello("k1"))
	w.fails(err, "channel_uncertain")
	w.post("1001")
	if w.ch.Limits().Repeatable {
		if id := w.send(w.hello("k1")); w.post("1001").ID != id {
			t.Errorf("the message that was sent twice has the ID %s", id)
		}
		w.send(w.hello("k2"))
		if n := len(w.Posted("1001")); n != 2 {
			t.Errorf("people see %d messages after two keys", n)
		}
	}
}

// testStalled: a caller that waits no longer does not know what has happened either.
func testStalled(t *testing.T, w *world) {
	double, ok := w.Service.(Stalls)
	if !ok {
		return // the double cannot stall
	}
	double.StallNext(1)
	ctx, cancel := context.WithCancel(w.context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := w.ch.Send(ctx, w.hello("k1"))
		failed <- err
	}()
	for len(w.Posted("1001")) == 0 && w.context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	w.fails(<-failed, "channel_uncertain")

	// Nothing is uncertain about what was never begun.
	_, err := w.ch.Send(ctx, w.hello("k2"))
	w.fails(err, "channel_unreachable")
	w.post("1001")
}

func testUnreachable(t *testing.T, w *world) {
	w.Offline(true)
	_, err := w.ch.Send(w.context(), w.hello("k1"))
	w.fails(err, "channel_unreachable")
	w.Offline(false)
	if list := w.Posted("1001"); len(list) != 0 {
		t.Errorf("people see %+v", list)
	}
	w.send(w.hello("k1"))
}

func files() []File {
	return []File{
		{Name: "list & notes.pdf", MediaType: "application/pdf", Data: bytes.Repeat([]byte("%PDF-\x00\xff"), 300)},
		{Name: "cat.jpg", MediaType: "image/jpeg", Data: []byte("\xff\xd8\xff\xe0 a cat")},
		{Name: "voice.ogg", MediaType: "audio/ogg", Voice: true, Data: []byte("OggS a voice")},
	}
}

func testAttachmentsIn(t *testing.T, w *world) {
	if w.ch.Limits().Attachment == 0 {
		return // the service has no attachments
	}
	w.connect()
	for _, f := range files() {
		text := "here is " + f.Name
		w.Say(Message{From: "1001", Chat: "1001", Text: text, Files: []File{f}})
		u := w.arrives(text)
		if len(u.Attachments) != 1 {
			t.Fatalf("%s arrives as %+v", f.Name, u)
		}
		a := u.Attachments[0]
		kind, _, _ := strings.Cut(f.MediaType, "/")
		if !strings.HasPrefix(a.MediaType, kind+"/") || a.Voice != f.Voice || a.Ref == "" {
			t.Errorf("%s arrives as %+v", f.Name, a)
		}
		body, err := w.ch.Fetch(w.context(), a)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(body)
		body.Close()
		if err != nil || !bytes.Equal(data, f.Data) {
			t.Errorf("%s has %d bytes, not %d (%v)", f.Name, len(data), len(f.Data), err)
		}
	}
}

func testAttachmentsOut(t *testing.T, w *world) {
	limit := w.ch.Limits().Attachment
	if limit == 0 {
		return // the service has no attachments
	}
	at := w.at("1001")
	for i, f := range files() {
		m := channel.Outgoing{Key: "k" + string(rune('1'+i)), At: at, Text: w.text("here is a **file**")}
		m.Attachments = []channel.Attachment{{Ref: "x", Name: f.Name, MediaType: f.MediaType, Voice: f.Voice, Size: int64(len(f.Data)), Data: f.Data}}
		w.send(m)
	}
	var got []File
	for _, p := range w.Posted("1001") {
		got = append(got, p.Files...)
	}
	if len(got) != 3 {
		t.Fatalf("people see %d files: %+v", len(got), got)
	}
	for i, f := range files() {
		if !bytes.Equal(got[i].Data, f.Data) || got[i].Voice != f.Voice && got[i].Voice {
			t.Errorf("%s is posted as %+v", f.Name, got[i])
		}
	}
	if limit > 64<<20 {
		return
	}
	_, err := w.ch.Send(w.context(), channel.Outgoing{Key: "k9", At: at, Text: w.text("a large one"),
		Attachments: []channel.Attachment{{Name: "large.bin", MediaType: "application/octet-stream", Data: make([]byte, limit+1)}}})
	w.fails(err, "channel_rejected")
}
