package discord_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/discord"
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

// TestLostSession: when the service has forgotten the session, the histories of known channels tell what was
// missed, in pages, in private chats and in servers.
func TestLostSession(t *testing.T) {
	d := newDouble(t)
	d.Say(channeltest.Message{From: "1002", Chat: "-2001", Group: true, Mention: true, Text: "in the server"})
	channeltest.ReceiveTo(t, d.Channel(), "in the server")
	d.Forget()
	var want []string
	for i := range 25 {
		want = append(want, fmt.Sprint("server ", i))
		d.Say(channeltest.Message{From: "1002", Chat: "-2001", Group: true, Mention: true, Text: want[i]})
	}
	d.Say(channeltest.Message{From: "1002", Chat: "-2001", Group: true, Text: "not for Steward"})
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "private"})
	list := channeltest.ReceiveTo(t, d.Channel(), "private")
	if len(list) != 26 {
		t.Fatalf("%d updates: %+v", len(list), list)
	}
	for i, u := range list {
		if i < 25 && (u.Text != want[i] || !u.Group || !u.Addressed || u.Title != "general") {
			t.Errorf("update %d: %+v", i, u)
		}
		if i == 25 && (u.Group || !u.Addressed) {
			t.Errorf("the private one: %+v", u)
		}
	}
	// What was accepted does not arrive again.
	d.Forget()
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "afterwards"})
	if list := channeltest.ReceiveTo(t, d.Channel(), "afterwards"); len(list) != 1 {
		t.Errorf("%d updates: %+v", len(list), list)
	}
}

// TestRefusedInNewChat: a message in a chat that was unknown is not accepted, and then the session is lost.
func TestRefusedInNewChat(t *testing.T) {
	d := newDouble(t)
	refused := errors.New("the inbox is full")
	d.Say(channeltest.Message{From: "1009", Chat: "1009", Text: "first"})
	err := d.Channel().Run(t.Context(), func() {}, func(context.Context, []channel.Update) error { return refused })
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	d.Forget()
	if list := channeltest.ReceiveTo(t, d.Channel(), "first"); len(list) != 1 || list[0].Address.Chat != "1009" {
		t.Errorf("%+v", list)
	}
}

// TestPressIsAnswered: the service learns that a press was accepted, and not before.
func TestPressIsAnswered(t *testing.T) {
	d := newDouble(t)
	d.Press("1001", "1001", "5", "yes")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := d.Channel().Run(ctx, func() {}, func(_ context.Context, list []channel.Update) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if u := list[0]; u.Kind == channel.Press && d.answered != 0 {
			t.Error("the press is answered before it is accepted")
		}
		d.dispatch("MESSAGE_CREATE", object{"id": d.id(), "channel_id": "1001", "author": author("1001"), "content": "stop", "timestamp": d.now()})
		close(d.news)
		d.news = make(chan struct{})
		if list[0].Text == "stop" {
			cancel()
		}
		return nil
	})
	if d.answered != 1 {
		t.Errorf("%d presses are answered (%v)", d.answered, err)
	}
}

// TestHeartbeat: the connection is kept alive, and given up if the service is silent.
func TestHeartbeat(t *testing.T) {
	d := newDouble(t)
	d.change(func() { d.interval = 400 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			d.mu.Lock()
			beats, news := d.beats, d.news
			d.mu.Unlock()
			if beats >= 3 {
				cancel()
				return
			}
			select {
			case <-news:
			case <-ctx.Done():
			}
		}
	}()
	for c := d.Channel(); ctx.Err() == nil; { // on a slow machine an answer may come too late
		if err := c.Run(ctx, func() {}, nil); ctx.Err() == nil {
			t.Logf("Run: %v", err)
		}
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Fatal("there are no three heartbeats")
	}
	d.change(func() { d.mute = true })
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Channel().Run(ctx, func() {}, nil); ctx.Err() != nil || !fault.HasCode(err, "channel_unreachable") {
		t.Errorf("a silent gateway: %v", err)
	}
}

// TestReasonsToHangUp: what the service says when it closes the connection decides what a person is told.
func TestReasonsToHangUp(t *testing.T) {
	for code, want := range map[websocket.StatusCode]string{4000: "channel_unreachable", 4004: "channel_token", 4014: "channel_setting", 4009: "channel_unreachable", 1001: "channel_unreachable"} {
		d := newDouble(t)
		d.change(func() { d.hangUp = code })
		err := d.Channel().Run(t.Context(), func() { t.Error("it is connected") }, nil)
		if !fault.HasCode(err, want) || strings.Contains(err.Error(), token) {
			t.Errorf("%d: %v", code, err)
		}
		// Afterwards it works again, with the session or with a new one.
		d.change(func() { d.hangUp = 0 })
		d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "after"})
		channeltest.ReceiveTo(t, d.Channel(), "after")
	}
}

// TestTooManySessions: the service withdraws a token whose account begins too many sessions in a day.
func TestTooManySessions(t *testing.T) {
	d := newDouble(t)
	d.change(func() { d.starts, d.session, d.log = 0, "", nil })
	d.Forget()
	err := d.Channel().Run(t.Context(), func() { t.Error("it is connected") }, nil)
	if !fault.HasCode(err, "channel_limited") || fault.Of(err).After != time.Hour {
		t.Errorf("%v", err)
	}
}

func TestMentionsOfOthersAreNames(t *testing.T) {
	d := newDouble(t)
	d.change(func() {
		body := object{"id": d.id(), "channel_id": "-2001", "guild_id": "5000", "author": author("1001"), "timestamp": d.now(),
			"content": "<@" + self + "> ask <@!71002> <@71003>", "mentions": []any{object{"id": self}, author("1002")}}
		d.dispatch("MESSAGE_CREATE", body)
	})
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "end"})
	if got := channeltest.ReceiveTo(t, d.Channel(), "end")[0].Text; got != "ask @Person 1002 <@71003>" {
		t.Errorf("%q", got)
	}
}

func TestAnotherAccountsFileIsNotUsed(t *testing.T) {
	d := newDouble(t)
	b, err := json.Marshal(object{"account": "1", "session": "stale", "seq": 99, "channels": object{"1001": "99999999"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "discord.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err = d.Channel().Run(ctx, cancel, nil)
	if ctx.Err() != context.Canceled {
		t.Fatal(err)
	}
}

func TestNew(t *testing.T) {
	opt := func(token, base string, settings map[string]string) channel.Options {
		return channel.Options{Token: token, BaseURL: base, Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler), Settings: settings}
	}
	for _, o := range []channel.Options{opt("", "", nil), opt("a\nb", "", nil), opt("x", "ftp://x", nil), opt("x", "", map[string]string{"guild": "1"})} {
		if _, err := discord.New(o); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	c, err := discord.New(opt("Bot abc", "", nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"https://example.org/x", "http://cdn.discordapp.com/x", "file:///etc/passwd", "https://cdn.discordapp.com.example.org/x", ""} {
		if _, err := c.Fetch(t.Context(), channel.Attachment{Ref: ref}); !fault.HasCode(err, "channel_rejected") {
			t.Errorf("%s: %v", ref, err)
		}
	}
}

func TestRenderEscapesMarks(t *testing.T) {
	c, err := discord.New(channel.Options{Token: "x", Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for markdown, want := range map[string]string{
		"a\\*b\\* https://example.com/a_b_c?d=*": "a\\*b\\* https://example.com/a_b_c?d=\\*",
		"**bold** *it* ~~no~~ `a_b`":             "**bold** *it* ~~no~~ `a_b`",
		"[text](https://example.com/(x))":        "[text](https://example.com/%28x%29)",
		"\\# no heading":                         "\\# no heading",
		"<@123> <:a:1> ||x||":                    "\\<@123> \\<:a:1> \\|\\|x\\|\\|",
		"``a`b``":                                "`` a`b ``",
		"> quoted":                               "> quoted",
	} {
		if got := strings.Join(c.Render(markdown), "|"); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", markdown, got, want)
		}
	}
}
