package terminal_test

import (
	"context"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/server/terminal"
)

// The person edits, asks again, looks at the versions and goes back; nothing
// that was said is lost.
func TestVersions(t *testing.T) {
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
		s.keys("/" + c + "\r")
		s.wait("there is no conversation yet")
	}
	s.keys("one\r")
	s.wait("› one", "you said: one", "scripted/one")
	s.keys("/next\r")
	s.wait("there is no other version after this one")
	s.keys("/again\r")
	s.wait("another answer:", "you said: one", "scripted/one", "this answer (2 of 2) · /prev and /next")
	s.rests() // that it was sent may be told after the answer
	s.keys("/again\r")
	s.wait("another answer:", "you said: one", "this answer (3 of 3)")
	s.rests()
	s.keys("/prev\r")
	s.wait("goes on from here", "› one", "you said: one", "this answer (2 of 3)")
	s.keys("/edit two\r")
	s.wait("› two", "you said: two", "your message (2 of 2)")
	s.keys("/edit\r")
	s.wait("in place of your last message")
	s.keys(" and more\r")
	s.wait("› two and more", "you said: two and more", "your message (3 of 3)")
	s.keys("/prev\r")
	s.wait("you said: two", "your message (2 of 3)")
	s.keys("/prev\r")
	s.wait("you said: one", "your message (1 of 3), this answer (2 of 3)")
	s.keys("/prev\r")
	s.wait("you said: one", "your message (1 of 3), this answer (1 of 3)")
	s.keys("/prev\r")
	s.wait("there is no other version before this one")
	s.keys("/branches\r")
	s.wait("* 1  2 messages  one", "  2  2 messages  ├─ you said: one", "  3  2 messages  └─ you said: one", "  4  2 messages  two", "  5  2 messages  two and more", "/switch NUMBER")
	s.keys("/switch 9\r")
	s.wait("there is no branch 9", "/branches lists them", "branch_not_found")
	s.keys("/switch x\r")
	s.wait("wants a number")
	s.keys("/switch 2\r")
	s.wait("goes on from here", "this answer (2 of 3)")

	// What is being edited is left as it is by Esc, Ctrl-C, and other commands.
	s.keys("/edit\r")
	s.wait("in place of your last message")
	s.keys("\x1b")
	s.wait("Ask something")
	s.keys("three\r")
	s.wait("› three", "you said: three", "scripted/one")
	s.keys("/edit\r")
	s.wait("in place of your last message")
	s.keys("\x03")
	s.wait("Ask something")
	s.keys("four\r")
	s.wait("› four", "you said: four", "scripted/one")

	s.keys("/rewind 2\r")
	s.wait("back before: three", "What was said since is kept: /branches", "› one", "you said: one") // the draft "three" may be drawn before them
	s.keys("\x15instead\r")
	s.wait("› instead", "you said: instead", "your message (2 of 2)")
	s.keys("/rewind 9\r")
	s.wait("there are not so many messages of yours here")
	s.keys("/rewind there\r")
	s.wait("/rewind takes how many")
	s.keys("/pin\r")
	s.wait("pinned: your last message")
	s.keys("/unpin\r")
	s.wait("not pinned any more")
	s.keys("/compact\r")
	s.wait("there is nothing to summarise")
	s.keys("/compact undo\r")
	s.wait("nothing_to_undo")
	s.keys("/compact all\r")
	s.wait("/compact takes undo, or nothing")
	s.keys("/log\r")
	s.wait("the log")

	// While an answer comes, the way is not changed.
	s.hang(n)
	s.keys("/again\r")
	s.wait("wait for the answer, or stop it with Esc, first")
	s.keys("\x1b")
	s.wait("stopped")
	s.keys("/rewind withdraw\r")
	s.wait("back before: hang")
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
}

// The first message can be taken back, and one that failed asked again; what
// a message holds besides its text it keeps when that is edited.
func TestVersionsOfTheBeginning(t *testing.T) {
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
	s.keys("/edit fail\r")
	s.wait("› fail [image]", "request_refused")
	s.keys("/again\r")
	s.wait("another answer:", "request_refused")
	s.rests()
	s.keys("/rewind\r")
	s.wait("back before: fail") // the draft "fail" may be drawn before it
	s.keys("\x15anew\r")
	s.wait("› anew", "you said: anew", "your message (3 of 3)")
	s.keys("/edit\r")
	s.wait("in place of your last message")
	s.keys("\x15/new\r")
	s.wait("a new conversation begins")
	s.keys("\x04")
	s.end()
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
