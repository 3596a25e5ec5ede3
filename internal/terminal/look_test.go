package terminal_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/client"
	"steward/internal/terminal"
)

// TestTheWholeScreen: nothing else is on the screen, and each line is once.
func TestTheWholeScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, options(newNode(t)))
		s.enter("one", "you said: one")
		var lines []string
		for line := range strings.SplitSeq(s.all(), "\n") {
			lines = append(lines, strings.TrimRight(line, " "))
		}
		want := `hello there

› one

you said: one

scripted/one · 2 tokens

› Ask something, or /help`
		if got := strings.TrimRight(strings.Join(lines, "\n"), "\n"); got != want {
			t.Errorf("got:\n%s\nwant:\n%s", got, want)
		}
		s.quit()
	})
}

// TestACallIsAnsweredOnTheScreen: an action waits for the person, who sees its arguments,
// and only what was allowed is done.
func TestACallIsAnsweredOnTheScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		s := start(t, options(n))
		s.keys("put x\r")
		s.shows("to x", "y/n")
		if done := n.put.all(); done != "" {
			t.Errorf("done unasked: %s", done)
		}
		s.press("y", "the tool said: put to x")
		s.keys("put y\r")
		s.shows("to y", "y/n")
		s.press("n", "the tool said: ", "the tool said: ")
		s.keys("put z\r")
		s.shows("to z", "y/n")
		s.press("y", "the tool said: put to z")
		if done := n.put.all(); done != "to x, to z" {
			t.Errorf("done: %s", done)
		}
		s.quit()
	})
}

var counted = regexp.MustCompile(`(?m)^line \d+`)

// TestALongAnswerStaysWhole: an answer that is longer than the screen is in the scrollback
// line by line, and a list of choices leaves nothing behind.
func TestALongAnswerStaysWhole(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {40, 12}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				o := options(n)
				o.Width, o.Height = size[0], size[1]
				s := startSized(t, o)
				const many = 60
				s.keys("count " + strings.Repeat("x", many) + "\r")
				time.Sleep(many * 50 * time.Millisecond)
				s.rests()
				var want []string
				for i := range many {
					want = append(want, fmt.Sprint("line ", i))
				}
				if got := counted.FindAllString(s.all(), -1); !slices.Equal(got, want) {
					t.Errorf("%q\n%s", got, s.all())
				}
				s.enter("/open "+n.newest(t).ID, "opened: count") // now it is printed at once
				if got := counted.FindAllString(s.all(), -1); !slices.Equal(got, append(want, want...)) {
					t.Errorf("%q\n%s", got, s.all())
				}
				s.enter("/model", "type to filter")
				s.keys("\x1b")
				s.lacks("type to filter")
				s.enter("more", "you said: more")
				s.quit()
			})
		})
	}
}

// TestTwoChatsShowTheSame: what is said in one chat is shown in another one with the same
// conversation, also a question, which either of them answers.
func TestTwoChatsShowTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		x := start(t, options(n))
		x.enter("one", "you said: one")
		o := options(n)
		o.Conversation = n.newest(t).ID
		y := start(t, o)
		y.shows("opened: one", "you said: one")
		y.enter("two", "› two", "you said: two")
		x.shows("› two", "you said: two")
		x.keys("put a\r")
		x.shows("to a", "y/n")
		y.shows("to a", "y/n")
		y.press("y", "the tool said: put to a")
		x.shows("the tool said: put to a")
		x.rests()
		y.quit()
		x.enter("three", "you said: three")
		x.quit()
	})
}

// TestNoTextControlsTheTerminal: neither what somebody says nor what the model answers
// reaches the terminal as a picture, a link, the clipboard or another control sequence.
func TestNoTextControlsTheTerminal(t *testing.T) {
	hostile := []struct{ name, text, control string }{
		{"a picture of kitty", "\x1b_Ga=T,f=100;AAAA\x1b\\", "\x1b_G"},
		{"a picture of iTerm2", "\x1b]1337;File=inline=1:AAAA\a", "\x1b]1337"},
		{"a picture of sixels", "\x1bPq#0;2;0;0;0\x1b\\", "\x1bPq"},
		{"a link", "\x1b]8;;http://eve.test\x1b\\x\x1b]8;;\x1b\\", "\x1b]8;;http://eve.test\x1b"},
		{"the clipboard", "\x1b]52;c;ZXZl\a", "\x1b]52"},
		{"a control of C1", "\u009b8m", "\u009b"},
		{"another one", "\u009fGa=T;AAAA\u009c", "\u009f"},
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		s := start(t, options(n))
		s.enter("one", "you said: one")
		conv := n.newest(t).ID
		for _, h := range hostile {
			if _, err := n.Say(t.Context(), client.Message{Conversation: conv, Content: terminal.Words(h.name + ": " + h.text)}); err != nil {
				t.Fatal(err)
			}
			s.shows("› "+h.name, "you said: "+h.name)
		}
		s.mu.Lock()
		raw := s.raw.String()
		s.mu.Unlock()
		for _, h := range hostile {
			if strings.Contains(raw, h.control) {
				t.Errorf("%s is written to the terminal", h.name)
			}
		}
		s.quit()
	})
}
