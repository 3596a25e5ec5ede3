package messaging_test

import (
	"strings"
	"testing"

	"steward/internal/channel"
)

// want fails the test unless a chat shows exactly these texts after the first skip.
func want(t testing.TB, s *service, chat string, skip int, texts ...string) {
	t.Helper()
	got := s.seen(chat)
	if len(got) < skip {
		t.Fatalf("%s shows only %q", chat, got)
	}
	if g, w := strings.Join(got[skip:], "\n--\n"), strings.Join(texts, "\n--\n"); g != w {
		t.Fatalf("%s shows\n%s\nwant\n%s", chat, g, w)
	}
}

// greeted is how many posts a paired person has got: the code and the welcome.
const greeted = 2

func TestAMessageIsAnsweredOnce(t *testing.T) {
	inWorld(t, usual, func(w *world, s *service) {
		s.say(by("ann", "1", "say hi"), by("ann", "2", "say there"), by("ann", "1", "say hi"))
		settle()
		s.say(by("ann", "1", "say hi"))
		settle()
		want(t, s, "chat-ann", greeted, "hi", "there")
		w.close()
		w.open(0, false)
		s.say(by("ann", "2", "say there"), by("ann", "3", "say again"))
		settle()
		want(t, s, "chat-ann", greeted, "hi", "there", "again")
	})
}

func TestAStrangerGetsOneCodeAndNothingElse(t *testing.T) {
	inWorld(t, usual, func(w *world, s *service) {
		s.say(by("eve", "e1", "say secrets"), by("eve", "e2", "/help"), by("eve", "e3", "/approve"))
		settle()
		got := s.seen("chat-eve")
		if len(got) != 1 || !codeIn.MatchString(got[0]) {
			t.Fatalf("eve sees %q", got)
		}
		group := channel.Update{ID: "g1", Kind: channel.Message, Address: channel.Address{Chat: "group"}, From: channel.Sender{ID: "eve"}, Group: true, Addressed: true, Text: "say hi"}
		forged := by("ann", "f1", "say hi")
		forged.Unproven = "DMARC: no alignment"
		s.say(group, forged)
		settle()
		want(t, s, "group", 0)
		want(t, s, "chat-ann", greeted)
		if list, err := w.engine.Inbox(t.Context(), "ann", true); err != nil || len(list) != 0 {
			t.Fatal(list, err)
		}
	})
}
