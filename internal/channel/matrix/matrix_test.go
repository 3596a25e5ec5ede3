package matrix_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/matrix"
	"steward/internal/fault"
	_ "steward/test/seed"
)

func TestContract(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Service { return newDouble(t) })
}

func TestAnotherMachineGoesOn(t *testing.T) {
	channeltest.Moves(t, func(t *testing.T) channeltest.Service {
		d := newDouble(t)
		d.dir, d.state = channeltest.StateOf(t, d.dir)
		return d
	})
}

// TestEncryptedRoom: in an encrypted room of two the account says once that it cannot read, also after a
// restart; in an encrypted group it is silent.
func TestEncryptedRoom(t *testing.T) {
	d := newDouble(t)
	for n := range 3 {
		d.change(func() {
			d.enter("1001", "1001", false)
			d.enter("1001", "-2001", true)
			for _, room := range []string{"1001", "-2001"} {
				d.add(room, person("1001"), "m.room.encrypted", object{"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA"})
			}
		})
		d.Say(channeltest.Message{From: "1002", Chat: "1002", Text: "end" + string(rune('0'+n))})
		channeltest.ReceiveTo(t, d.Channel(), "end"+string(rune('0'+n)))
	}
	list := d.Posted("1001")
	if len(list) != 1 || !strings.Contains(list[0].Text, "cannot read encrypted messages") {
		t.Errorf("people see %+v", list)
	}
	if list := d.Posted("-2001"); len(list) != 0 {
		t.Errorf("the group sees %+v", list)
	}
}

// TestInvitationsFromHome: with invites: home, people on other servers are not followed into their rooms.
func TestInvitationsFromHome(t *testing.T) {
	d := newDouble(t)
	c := d.channel(map[string]string{"invites": "home"})
	d.change(func() {
		d.member("far", "@eve:elsewhere.example", "@eve:elsewhere.example", "join")
		d.member("far", "@eve:elsewhere.example", self, "invite")
		d.add("far", "@eve:elsewhere.example", "m.room.message", object{"msgtype": "m.text", "body": "from afar"})
	})
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "end"})
	if list := channeltest.ReceiveTo(t, c, "end"); len(list) != 1 {
		t.Errorf("%+v", list)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := d.members["far"][self]; got != "invite" {
		t.Errorf("the account is %q in the room", got)
	}
}

// TestNothingBeforeTheInvitation: what was written before the account was invited is not for it; what was
// written between the invitation and its arrival is, even if that is more than one answer holds.
func TestNothingBeforeTheInvitation(t *testing.T) {
	d := newDouble(t)
	for range 3 * page {
		d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "between"})
	}
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "end"})
	if list := channeltest.ReceiveTo(t, d.Channel(), "end"); len(list) != 3*page+1 {
		t.Errorf("%d updates: %+v", len(list), list)
	}
}

// TestGapAroundJoining: Steward cannot follow an invitation at once, and is stopped. However much is written
// until it comes back, and however that falls into pages, everything since the invitation arrives, in order.
func TestGapAroundJoining(t *testing.T) {
	for _, early := range []int{1, 2, page} {
		for late := range 2*page + 2 {
			d := newDouble(t)
			var want []string
			say := func() {
				want = append(want, fmt.Sprint("message ", len(want)))
				d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: want[len(want)-1]})
			}
			for range early {
				say()
			}
			d.change(func() { d.away = true })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if err := d.Channel().Run(ctx, cancel, nil); ctx.Err() != context.Canceled {
				t.Fatal(err)
			}
			d.change(func() { d.away = false })
			for range late {
				say()
			}
			var got []string
			for _, u := range channeltest.ReceiveTo(t, d.Channel(), want[len(want)-1]) {
				got = append(got, u.Text)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d and %d: got %q", early, late, got)
			}
		}
	}
}

// TestRoomOfTwoBecomesGroup: when a third person comes in, the room is a group from then on.
func TestRoomOfTwoBecomesGroup(t *testing.T) {
	d := newDouble(t)
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "alone"})
	if u := channeltest.ReceiveTo(t, d.Channel(), "alone")[0]; u.Group || !u.Addressed {
		t.Errorf("%+v", u)
	}
	c := d.Channel()
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "still alone"})
	channeltest.ReceiveTo(t, c, "still alone")
	d.change(func() { d.member("1001", person("1001"), person("1002"), "invite") })
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "not alone"})
	if u := channeltest.ReceiveTo(t, c, "not alone")[0]; !u.Group || u.Addressed || u.Title != "The family" {
		t.Errorf("%+v", u)
	}
}

func TestMentions(t *testing.T) {
	d := newDouble(t)
	d.change(func() { d.enter("1001", "-2001", true) })
	mine := object{"user_ids": []string{self}}
	for _, c := range []struct {
		content   object
		text      string
		addressed bool
	}{
		{object{"body": "Steward: hello", "m.mentions": mine}, "hello", true},
		{object{"body": "@steward hello", "m.mentions": mine}, "hello", true},
		{object{"body": "hello " + self + ", how are you?", "m.mentions": mine}, "hello , how are you?", true},
		{object{"body": "Steward: hello", "m.mentions": object{}}, "hello", false},
		{object{"body": "Steward is nice", "m.mentions": object{}}, "Steward is nice", false},
		{object{"body": "Steward: hello"}, "hello", true}, // a program that does not know m.mentions
		{object{"body": "Steward is nice"}, "Steward is nice", false},
		{object{"body": self + " hello"}, "hello", true},
		{object{"body": "hi @room", "m.mentions": object{"room": true}}, "hi @room", false},
		{object{"body": "> <@a:b> old\n\nnew", "m.mentions": mine, "m.relates_to": object{"m.in_reply_to": object{"event_id": "$0"}}}, "new", true},
	} {
		c.content["msgtype"] = "m.text"
		d.change(func() { d.add("-2001", person("1001"), "m.room.message", c.content) })
		if u := channeltest.ReceiveTo(t, d.Channel(), c.text)[0]; u.Addressed != c.addressed {
			t.Errorf("%v: %+v", c.content, u)
		}
	}
}

// TestPlainText: programs that show no HTML show the same words.
func TestPlainText(t *testing.T) {
	d := newDouble(t)
	c := d.Channel()
	for i, markdown := range []string{"plain", "**bold** and [a link](https://example.com/a)", "one\n\ntwo"} {
		if _, err := c.Send(t.Context(), channel.Outgoing{Key: "k" + string(rune('0'+i)), At: channel.Address{Chat: "1001"}, Text: c.Render(markdown)[0]}); err != nil {
			t.Fatal(err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var bodies []string
	for _, e := range d.log {
		if e.body["sender"] == self && e.body["type"] == "m.room.message" {
			content := e.body["content"].(object)
			if mentions, ok := content["m.mentions"].(object); !ok || len(mentions) > 0 {
				t.Errorf("mentions: %v", content["m.mentions"])
			}
			bodies = append(bodies, content["body"].(string))
		}
	}
	if got, want := strings.Join(bodies, "|"), "plain|bold and a link (https://example.com/a)|one\n\ntwo"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNew(t *testing.T) {
	for _, o := range []channel.Options{{}, {Token: "x", BaseURL: "matrix.example.org"}, {Token: "x", Settings: map[string]string{"invites": "none"}}, {Token: "x", Settings: map[string]string{"colour": "red"}}} {
		o.Client, o.Log = http.DefaultClient, slog.New(slog.DiscardHandler)
		if _, err := matrix.New(o); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	o := channel.Options{Token: "x", Client: &http.Client{Transport: refusing{}}, Log: slog.New(slog.DiscardHandler)}
	c, err := matrix.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Fetch(t.Context(), channel.Attachment{Ref: "https://example.org/x"}); !fault.HasCode(err, "channel_rejected") {
		t.Errorf("Fetch: %v", err)
	}
}

// refusing makes no connection.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nothing may be requested")
}
