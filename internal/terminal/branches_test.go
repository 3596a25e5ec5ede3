package terminal_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"steward/client"
	"steward/internal/terminal"
)

// The person edits, asks again, looks at the versions and goes back; no message
// is lost.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		o := options(n)
		o.Log = func(_ context.Context, conv string, width int) (string, error) {
			if conv == "" || width != 79 {
				t.Errorf("%s %d", conv, width)
			}
			return "the log\n", nil
		}
		s := start(t, o)
		s.wait(hint)
		for _, c := range []string{"edit", "again", "prev", "branches", "switch 1", "rewind", "pin", "compact", "log"} {
			s.enter("/"+c, "there is no conversation yet")
		}
		s.enter("one", "› one", "you said: one", "scripted/one")
		s.enter("/next", "there is no other version after this one")
		s.enter("/again", "another answer:", "you said: one", "scripted/one", "this answer (2 of 2) · /prev and /next")
		s.enter("/again", "another answer:", "you said: one", "this answer (3 of 3)")
		s.enter("/prev", "continues from here", "› one", "you said: one", "this answer (2 of 3)")
		s.enter("/edit two", "› two", "you said: two", "your message (2 of 2)")
		s.enter("/edit", "replaces your last message")
		s.enter(" and more", "› two and more", "you said: two and more", "your message (3 of 3)")
		s.enter("/prev", "you said: two", "your message (2 of 3)")
		s.enter("/prev", "you said: one", "your message (1 of 3), this answer (2 of 3)")
		s.enter("/prev", "you said: one", "your message (1 of 3), this answer (1 of 3)")
		s.enter("/prev", "there is no other version before this one")
		s.enter("/branches", "* 1  2 messages  one", "  2  2 messages  ├─ you said: one", "  3  2 messages  └─ you said: one", "  4  2 messages  two", "  5  2 messages  two and more", "/switch NUMBER")
		s.enter("/switch 9", "there is no branch 9", "/branches lists them", "branch_not_found")
		s.enter("/switch x", "needs a number")
		s.enter("/switch 2", "continues from here", "this answer (2 of 3)")

		// Esc, Ctrl-C and other commands leave the edited message unchanged.
		s.enter("/edit", "replaces your last message")
		s.keys("\x1b")
		s.wait("Ask something")
		s.enter("three", "› three", "you said: three", "scripted/one")
		s.enter("/edit", "replaces your last message")
		s.keys("\x03")
		s.wait("Ask something")
		s.enter("four", "› four", "you said: four", "scripted/one")

		s.enter("/rewind 2", "back before: three", "The later messages are kept: /branches", "› one", "you said: one")
		s.enter("\x15instead", "› instead", "you said: instead", "your message (2 of 2)")
		s.enter("/rewind 9", "you have not sent that many messages here")
		s.enter("/rewind there", "/rewind takes the number")
		s.enter("/pin", "pinned: your last message")
		s.enter("/unpin", "unpinned: your")
		s.enter("/compact", "nothing to summarise")
		s.enter("/compact undo", "nothing_to_undo")
		s.enter("/compact all", "/compact takes no argument except undo")
		s.enter("/log", "the log")

		// The branch cannot be changed during an answer.
		s.hangingIndent(n)
		s.enter("/again", "wait for the answer first, or stop it with Esc")
		s.keys("\x1b")
		s.wait("stopped")
		s.enter("/rewind withdraw", "back before: hang")
		s.keys("\x15/quit\r")
		s.end()

		list, err := n.Conversations(t.Context(), 10)
		if err != nil || len(list) != 1 {
			t.Fatalf("%d conversations, %v", len(list), err)
		}
		branches, err := n.Branches(t.Context(), list[0].ID, false)
		if err != nil || len(branches) != 7 {
			t.Errorf("%d branches, %v", len(branches), err)
		}
	})
}

// The first message can be rewound, and a failed one asked again. An edited message
// keeps its other blocks.
func TestVersionsOfTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		look := append(terminal.Words("look"), client.Block{Type: "image", MIME: "image/png", Data: []byte{1}})
		acc, err := terminal.Follow(t.Context(), n.Client, client.Message{Content: look}, func(client.Frame) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		o := options(n)
		o.Conversation = acc.Conversation
		s := start(t, o)
		s.wait("opened: look", "[image]", "you said: look")
		s.enter("/edit fail", "› fail [image]", "request_refused")
		s.enter("/again", "another answer:", "request_refused")
		s.enter("/rewind", "back before: fail")
		s.enter("\x15anew", "› anew", "you said: anew", "your message (3 of 3)")
		s.enter("/edit", "replaces your last message")
		s.enter("\x15/new", "a new conversation begins")
		s.keys("\x04")
		s.end()
	})
}

func TestTree(t *testing.T) {
	type item struct{ id, parent string }
	var b strings.Builder
	for _, l := range terminal.Tree([]item{{"a", ""}, {"b", "a"}, {"c", "b"}, {"d", "a"}, {"e", "gone"}, {"f", "d"}}, func(i item) string { return i.id }, func(i item) string { return i.parent }) {
		b.WriteString(l.Head + l.Item.id + "\n")
	}
	if want := "a\n├─ b\n│  └─ c\n└─ d\n   └─ f\ne\n"; b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}
