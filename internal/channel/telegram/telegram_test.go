package telegram_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"

	"steward/internal/channel"
	"steward/internal/channel/channeltest"
	"steward/internal/channel/telegram"
	"steward/internal/fault"
	_ "steward/test/seed"
)

func TestContract(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Service { return newDouble(t) })
}

func TestMentions(t *testing.T) {
	d := newDouble(t)
	entity := func(kind models.MessageEntityType, offset, length int) []models.MessageEntity {
		return []models.MessageEntity{{Type: kind, Offset: offset, Length: length}}
	}
	other := &models.Message{ID: 5, From: &models.User{ID: 4711}}
	cases := []struct {
		text      string
		entities  []models.MessageEntity
		reply     *models.Message
		want      string
		addressed bool
	}{
		// Offsets are in units of UTF-16: an emoji is two.
		{"🙂 @Steward_bot how are you?", entity(models.MessageEntityTypeMention, 3, 12), nil, "🙂 how are you?", true},
		{"how are you, @steward_bot", entity(models.MessageEntityTypeMention, 13, 12), nil, "how are you,", true},
		{"@steward_bot2 hello", entity(models.MessageEntityTypeMention, 0, 13), nil, "@steward_bot2 hello", false},
		// Who writes the name of the bot into a text that is no mention has not called it.
		{"mail me at x@steward_bot", nil, nil, "mail me at x@steward_bot", false},
		{"/stop@steward_bot", entity(models.MessageEntityTypeBotCommand, 0, 17), nil, "/stop", true},
		{"/stop@other_bot", entity(models.MessageEntityTypeBotCommand, 0, 15), nil, "/stop@other_bot", false},
		{"Steward, hello", []models.MessageEntity{{Type: models.MessageEntityTypeTextMention, Offset: 0, Length: 7, User: d.bot()}}, nil, "hello", true},
		{"no, that is wrong", nil, other, "no, that is wrong", false},
	}
	for _, c := range cases {
		m := models.Message{ID: 50, Date: 1700000000, From: &models.User{ID: 1001}, Chat: models.Chat{ID: -5, Type: models.ChatTypeGroup}, Text: c.text, Entities: c.entities, ReplyToMessage: c.reply}
		d.deliverUpdate(models.Update{Message: &m})
	}
	for i, u := range channeltest.Receive(t, d.Channel(), len(cases)) {
		if u.Text != cases[i].want || u.Addressed != cases[i].addressed {
			t.Errorf("%q is received as %q, addressed %v", cases[i].text, u.Text, u.Addressed)
		}
	}
}

// TestAnonymousAdministrators share one account at Telegram, so it must not be taken for a person.
func TestAnonymousAdministrators(t *testing.T) {
	d := newDouble(t)
	m := models.Message{ID: 50, Date: 1700000000, From: &models.User{ID: 1087968824, IsBot: true, Username: "GroupAnonymousBot"},
		SenderChat: &models.Chat{ID: -5, Title: "Family"}, Chat: models.Chat{ID: -5, Type: models.ChatTypeSupergroup}, Text: "open the door"}
	d.deliverUpdate(models.Update{Message: &m})
	if u := channeltest.Receive(t, d.Channel(), 1)[0]; u.From.ID != "chat-5" || !u.From.Bot {
		t.Errorf("the sender is %+v", u.From)
	}
}

// TestForwarded: what others wrote is not the words of the person who forwards it.
func TestForwarded(t *testing.T) {
	d := newDouble(t)
	ann, bob := models.User{ID: 1001, FirstName: "Ann"}, models.User{ID: 1002, FirstName: "Bob"}
	for i, o := range []*models.MessageOrigin{nil,
		{Type: models.MessageOriginTypeUser, MessageOriginUser: &models.MessageOriginUser{SenderUser: bob}},
		{Type: models.MessageOriginTypeUser, MessageOriginUser: &models.MessageOriginUser{SenderUser: ann}},
		{Type: models.MessageOriginTypeHiddenUser, MessageOriginHiddenUser: &models.MessageOriginHiddenUser{SenderUserName: "X"}},
		{Type: models.MessageOriginTypeChannel, MessageOriginChannel: &models.MessageOriginChannel{Chat: models.Chat{ID: -7, Title: "News"}}},
	} {
		d.deliverUpdate(models.Update{Message: &models.Message{ID: 50 + i, Date: 1700000000, From: &ann, Chat: models.Chat{ID: 1001, Type: models.ChatTypePrivate}, Text: "hello", ForwardOrigin: o}})
	}
	want := []string{"", "Bob", "", "X", "News"}
	for i, u := range channeltest.Receive(t, d.Channel(), len(want)) {
		if u.Forwarded != want[i] {
			t.Errorf("%d: forwarded from %q, want %q", i, u.Forwarded, want[i])
		}
	}
}

// TestNumbersBeginAnew: after a week of silence Telegram may continue with a smaller number.
func TestNumbersBeginAnew(t *testing.T) {
	d := newDouble(t)
	c := d.Channel()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	got := make(chan string, 10)
	done := make(chan error, 1)
	go func() {
		done <- c.Run(ctx, func() {}, func(_ context.Context, list []channel.Update) error {
			for _, u := range list {
				got <- u.Text
			}
			return nil
		})
	}()
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "one"})
	if s := <-got; s != "one" {
		t.Fatal(s)
	}
	d.mu.Lock()
	for d.confirmed != d.nextID { // the next call confirms
		grown := d.grown
		d.mu.Unlock()
		select {
		case <-grown:
		case <-time.After(10 * time.Millisecond):
		}
		d.mu.Lock()
	}
	d.raw, d.confirmed, d.nextID = nil, 0, 1000
	d.answers = append(d.answers, `{"ok":true,"result":[]}`) // the long poll ends
	d.wake()
	d.mu.Unlock()
	d.Say(channeltest.Message{From: "1001", Chat: "1001", Text: "two"})
	select {
	case s := <-got:
		if s != "two" {
			t.Error(s)
		}
	case <-ctx.Done():
		t.Error("what came after the silence has not arrived")
	}
	cancel()
	<-done
}

func TestConflict(t *testing.T) {
	d := newDouble(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	first := make(chan error, 1)
	nothing := func(context.Context, []channel.Update) error { return nil }
	go func() { first <- d.Channel().Run(ctx, func() {}, nothing) }()
	for polling := 0; polling == 0; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		polling = d.polling
		d.mu.Unlock()
	}
	second := make(chan error, 1)
	go func() { second <- d.Channel().Run(ctx, func() {}, nothing) }()
	if err := <-first; !fault.HasCode(err, "channel_conflict") {
		t.Errorf("the first one ends with %v", err)
	}
	cancel()
	<-second
}

// TestTokenStaysSecret although it is a part of every address.
func TestTokenStaysSecret(t *testing.T) {
	d := newDouble(t)
	var log strings.Builder
	c, err := telegram.New(channel.Options{Token: token, BaseURL: d.URL, Client: d.Client(), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	d.Offline(true)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var errs []error
	_, err = c.Check(ctx)
	errs = append(errs, err)
	_, err = c.Send(ctx, channel.Outgoing{Key: "k", At: channel.Address{Chat: "1"}, Text: "x"})
	errs = append(errs, err)
	d.Offline(false)
	_, err = c.Fetch(ctx, channel.Attachment{Ref: "nothing"})
	errs = append(errs, err)
	d.mu.Lock()
	d.files["gone"] = nil
	d.mu.Unlock()
	d.Drop()
	for _, err := range errs {
		if err == nil || strings.Contains(err.Error(), "AAF") {
			t.Errorf("error: %v", err)
		}
	}
	if strings.Contains(log.String(), "AAF") {
		t.Errorf("log: %s", log.String())
	}
}

func TestNew(t *testing.T) {
	for _, o := range []channel.Options{{}, {Token: "secret"}, {Token: token, BaseURL: "telegram"}, {Token: token, Settings: map[string]string{"tokn": "x"}}} {
		o.Client, o.Log = http.DefaultClient, slog.New(slog.DiscardHandler)
		if _, err := telegram.New(o); err == nil || o.Token != "" && strings.Contains(err.Error(), o.Token) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestTwoFiles: the first one carries the text, the second one follows.
func TestTwoFiles(t *testing.T) {
	d := newDouble(t)
	c := d.Channel()
	m := channel.Outgoing{Key: "k", At: channel.Address{Chat: "1001", Thread: "7"}, Text: "<b>two</b>",
		Attachments: []channel.Attachment{{Name: "a.png", MediaType: "image/png", Data: []byte("a")}, {Name: "b.txt", MediaType: "text/plain", Data: []byte("b")}}}
	id, err := c.Send(t.Context(), m)
	list := d.Posted("1001")
	if err != nil || len(list) != 2 || list[0].ID != id || list[0].Text != "two" || string(list[1].Files[0].Data) != "b" || list[1].Thread != "7" {
		t.Errorf("%v: %+v", err, list)
	}
	m.Text = strings.Repeat("long ", 300) // no caption
	if _, err = c.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if list = d.Posted("1001"); len(list) != 5 || len(list[2].Files) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestPressIsAnswered, or the button would show a waiting sign for a minute.
func TestPressIsAnswered(t *testing.T) {
	d := newDouble(t)
	d.Press("1001", "1001", "7", "yes")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Channel().Run(ctx, func() {}, func(_ context.Context, list []channel.Update) error {
			if list[0].Button != "yes" {
				t.Errorf("received %+v", list)
			}
			return nil
		})
	}()
	for answered := false; !answered && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		answered = len(d.pressed) == 1
		d.mu.Unlock()
	}
	if ctx.Err() != nil {
		t.Error("the press is not answered")
	}
	cancel()
	<-done
}

func TestFetchRefusesPaths(t *testing.T) {
	for _, p := range []string{"", "../../bot1/getMe", "/etc/passwd", "a/../../b", "a//b"} {
		s := channeltest.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/getFile") {
				t.Errorf("%s is requested", r.URL.Path)
			}
			answer(w, map[string]string{"file_path": p})
		}))
		c, err := telegram.New(channel.Options{Token: token, BaseURL: s.URL, Client: s.Client(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		body, err := c.Fetch(t.Context(), channel.Attachment{Ref: "x"})
		if err == nil {
			io.Copy(io.Discard, body)
			body.Close()
			t.Errorf("%q is fetched", p)
		}
	}
}

// TestMarkupThatIsRefused is posted as plain text, since an answer without styles is better than none.
func TestMarkupThatIsRefused(t *testing.T) {
	d := newDouble(t)
	_, err := d.Channel().Send(t.Context(), channel.Outgoing{Key: "k", At: channel.Address{Chat: "1001"}, Text: "<b>a &lt; b"})
	if list := d.Posted("1001"); err != nil || len(list) != 1 || list[0].Text != "a < b" {
		t.Errorf("%v: %+v", err, list)
	}
}
