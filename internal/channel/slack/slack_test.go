package slack_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/slack"
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

// receive runs a channel until it has received n updates, each ID once.
func receive(t *testing.T, c channel.Channel, n int) (got []channel.Update) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	known := map[string]bool{}
	err := c.Run(ctx, func() {}, func(_ context.Context, list []channel.Update) error {
		for _, u := range list {
			if !known[u.ID] {
				got = append(got, u)
			}
			known[u.ID] = true
		}
		if len(got) >= n {
			cancel()
		}
		return nil
	})
	if len(got) != n {
		t.Fatalf("received %d updates, not %d (%v): %+v", len(got), n, err, got)
	}
	return got
}

// lose has Slack give up on the events that it has not delivered.
func (d *double) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue, d.low = nil, 0
}

// TestMissed: what Slack has given up on is read in the conversations, in its order, also in threads.
func TestMissed(t *testing.T) {
	d := newDouble(t)
	d.page = 3
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "one"})
	receive(t, d.Channel(), 1)

	var want []string
	for i := range 8 {
		text := fmt.Sprint("missed ", i)
		m := channeltest.Message{From: "1001", Chat: "1001", Text: text}
		if i%2 == 1 {
			m = channeltest.Message{From: "1002", Chat: "-2001", Group: true, Mention: true, Text: text}
		}
		d.Say(m)
		want = append(want, text)
	}
	// A thread that begins with a message which Steward has seen, and one that it has not.
	d.mu.Lock()
	root := d.ts()
	d.history["C2001"] = append(d.history["C2001"],
		encode(object{"type": "message", "user": "U1002", "text": "the root", "ts": root, "thread_ts": root, "latest_reply": d.ts(), "reply_count": 1}),
		encode(object{"type": "message", "user": "U1002", "text": "the reply", "ts": d.ts(), "thread_ts": root, "parent_user_id": "UBOT"}))
	d.mu.Unlock()
	want = append(want, "the root", "the reply")
	d.lose()

	got := receive(t, d.Channel(), 1+len(want))[1:] // the overlap repeats "one"
	for i, u := range got {
		if u.Text != want[i] || u.Group != strings.HasPrefix(u.Address.Chat, "C") {
			t.Errorf("%q is received as %+v", want[i], u)
		}
	}
	if u := got[len(got)-1]; u.Address.Thread != root || !u.Addressed {
		t.Errorf("the reply in a thread is %+v", u)
	}
	if u := got[len(got)-2]; u.Address.Thread != "" || u.Addressed {
		t.Errorf("the root of a thread is %+v", u)
	}
}

// TestBeforeTheBeginning: what was written before Steward came is not for it.
func TestBeforeTheBeginning(t *testing.T) {
	d := newDouble(t)
	d.mu.Lock()
	d.history["D1001"] = []string{encode(object{"type": "message", "user": "U1001", "text": "long ago", "ts": "1600000000.000001"})}
	d.mu.Unlock()
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "hello"})
	if got := receive(t, d.Channel(), 1); got[0].Text != "hello" {
		t.Errorf("received %+v", got)
	}
	data, err := os.ReadFile(filepath.Join(d.dir, "position.json"))
	if err != nil || !strings.Contains(string(data), got(t, d)) {
		t.Errorf("the position is %s (%v)", data, err)
	}
}

// got returns the time of the last message.
func got(t *testing.T, d *double) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.history["D1001"]
	_, ts, _ := strings.Cut(list[len(list)-1], `"ts":"`)
	return ts[:17]
}

// TestSpoiltPosition: a file that cannot be read is as none.
func TestSpoiltPosition(t *testing.T) {
	for _, content := range []string{"", "{", `{"newest":"x"}`, `{"newest":"99999999999999999999.000000"}`} {
		d := newDouble(t)
		if err := os.WriteFile(filepath.Join(d.dir, "position.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "hello"})
		receive(t, d.Channel(), 1)
	}
}

func TestTexts(t *testing.T) {
	d := newDouble(t)
	cases := []struct {
		text, want string
		addressed  bool
	}{
		{"<@UBOT> what is <http://example.com|example.com>?", "what is http://example.com?", true},
		{"<@UBOT|steward>, <https://example.com/a?b=1&amp;c=2|this page>", "this page (https://example.com/a?b=1&c=2)", true},
		{"hey <@UBOT> and <@U7|bob>, &lt;b&gt; &amp;amp;", "hey and @bob, <b> &amp;", true},
		{"<!here> <#C1|general> <mailto:a@b.c|a@b.c> <!date^1^x|today>", "@here #general a@b.c today", false},
		{"&lt;@UBOT&gt; is how one writes it", "<@UBOT> is how one writes it", false},
	}
	d.mu.Lock()
	for _, c := range cases {
		d.event(object{"type": "message", "channel": "C2001", "channel_type": "channel", "user": "U1001", "ts": d.ts(), "text": c.text})
	}
	d.mu.Unlock()
	for i, u := range receive(t, d.Channel(), len(cases)) {
		if u.Text != cases[i].want || u.Addressed != cases[i].addressed {
			t.Errorf("%q is received as %q, addressed %v", cases[i].text, u.Text, u.Addressed)
		}
	}
}

// TestOwnMessages are not answered, and other apps are known as such.
func TestOwnMessages(t *testing.T) {
	d := newDouble(t)
	d.mu.Lock()
	for _, from := range []object{{"user": "UBOT"}, {"bot_id": "BBOT"}, {"bot_id": "BBOT", "subtype": "bot_message"}, {"user": "U7", "bot_id": "B7"}} {
		e := object{"type": "message", "channel": "C2001", "channel_type": "channel", "ts": d.ts(), "text": "I am a bot"}
		for k, v := range from {
			e[k] = v
		}
		d.event(e)
	}
	d.mu.Unlock()
	if u := receive(t, d.Channel(), 1)[0]; !u.From.Bot || u.From.ID != "botB7" {
		t.Errorf("received %+v", u)
	}
}

func TestDisconnect(t *testing.T) {
	for reason, code := range map[string]string{"refresh_requested": "channel_lost", "warning": "channel_lost", "link_disabled": "channel_disabled"} {
		d := newDouble(t)
		d.stop = reason
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err := d.Channel().Run(ctx, func() {}, func(context.Context, []channel.Update) error { return nil })
		cancel()
		if !fault.HasCode(err, code) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestTokenStaysAtSlack: a file whose address is elsewhere is not fetched, since the token would go along.
func TestTokenStaysAtSlack(t *testing.T) {
	for _, address := range []string{"https://evil.example.com/x", "http://files.slack.com/x", "https://slack.com.evil.example/x", "https://x@files.slack.com/", "file:///etc/passwd", ""} {
		s := channeltest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/files.info" {
				t.Errorf("%s is requested", r.URL)
			}
			answer(w, object{"file": object{"id": "F1", "url_private": address}})
		}))
		c, err := slack.New(channel.Options{Token: botToken, BaseURL: s.URL, Client: s.Client(), Log: slog.New(slog.DiscardHandler), Settings: map[string]string{"app_token": appToken}})
		if err != nil {
			t.Fatal(err)
		}
		body, err := c.Fetch(t.Context(), channel.Attachment{Ref: "F1"})
		if err == nil {
			io.Copy(io.Discard, body)
			body.Close()
			t.Errorf("%q is fetched", address)
		}
	}
}

func TestNew(t *testing.T) {
	good := map[string]string{"app_token": appToken}
	for _, token := range []string{botToken + " " + appToken, appToken + "\n" + botToken + "\n", botToken + "," + appToken} {
		if _, err := slack.New(channel.Options{Token: token, Client: http.DefaultClient, Log: slog.New(slog.DiscardHandler)}); err != nil {
			t.Error(err)
		}
	}
	for _, o := range []channel.Options{{}, {Token: botToken}, {Token: appToken, Settings: good}, {Token: botToken, Settings: map[string]string{"app_token": botToken}}, {Token: botToken + " " + appToken + " x"},
		{Token: botToken, Settings: good, BaseURL: "slack"}, {Token: botToken, Settings: map[string]string{"app_token": appToken, "x": "y"}}} {
		o.Client, o.Log = http.DefaultClient, slog.New(slog.DiscardHandler)
		if _, err := slack.New(o); err == nil || strings.Contains(err.Error(), "of_a_double") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
