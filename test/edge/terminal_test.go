//go:build long

package edge_test

import (
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// TestOneInterruptEndsTheQuestionForASecret: the first Ctrl-C ends it, and
// nothing is stored.
func TestOneInterruptEndsTheQuestionForASecret(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	if out, code := n.Type("TOKEN: ", "half a secret\x03", "secrets", "set", "TOKEN"); code != 130 {
		t.Errorf("exit %d: %q", code, out)
	}
	if out, code := n.Type("TOKEN: ", "a whole secret\n", "secrets", "set", "TOKEN"); code != 0 {
		t.Errorf("exit %d: %q", code, out)
	}
	if r := n.Run("secrets", "list"); !strings.Contains(r.Out, "TOKEN") {
		t.Errorf("%+v", r)
	}
}

// TestAPlanIsDecidedAboutAtTheTerminal: steward plan asks the person, and edits in the person's editor.
func TestAPlanIsDecidedAboutAtTheTerminal(t *testing.T) {
	t.Parallel()
	n := edge.New(t, planning(t))
	if out, code := n.Type("[e]dit: ", "y\n", "plan", "Write it down"); code != 0 || !strings.Contains(out, "- look: Tell the time") || !strings.Contains(out, "worked on Tell the time") {
		t.Errorf("%d: %s", code, out)
	}
	if out, code := n.Type("[e]dit: ", "n\n", "plan", "Write it down"); code != 0 || strings.Contains(out, "worked on") {
		t.Errorf("%d: %s", code, out)
	}
	n.Env = append(n.Env, "EDITOR=sed -i s/Tell.the.time/Tell.the.day/")
	if out, code := n.Type("[e]dit: ", "e\n", "plan", "Write it down"); code != 0 || !strings.Contains(out, "worked on Tell.the.day") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestAWatchEnds: an interrupt ends a watch and not the request. A request that was cancelled ends the watch
// with an error code.
func TestAWatchEnds(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 9)
	var free atomic.Bool
	n := edge.New(t, watchable(t, begun, &free))
	n.Serve()
	c := n.Dial()
	defer c.Close()
	c.Send(object{"type": "message", "content": "Do both", "agent": "planner"})
	turn := ""
	for turn == "" {
		turn = c.Read().Interaction
	}
	<-begun
	out, code := n.Type("write (pending)", "\x03", "requests", "watch", "last")
	if code != 130 || !inOrder(out, []string{"… look (running)", "· write (pending)"}) {
		t.Errorf("%d: %s", code, out)
	}
	n.Must("requests", "cancel", turn)
	n.Until("the request has ended", func() bool { return strings.Contains(n.Must("requests", "show", turn), "✗ Do both (stopped") })
	if out, code = n.Screen("requests", "watch", "last"); code != 1 || !strings.Contains(out, "✗ Do both (stopped") {
		t.Errorf("%d: %s", code, out)
	}
}

// TestThePlansOfTheReadme: a list becomes tasks that run side by side; "it" is what the list is about and
// comes after them; what changes something is asked about; one answer comes of it. What fails is told.
func TestThePlansOfTheReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range regexp.MustCompile(`(?m)^steward plan '(.*)'`).FindAllStringSubmatch(string(text), -1) {
		said = append(said, m[1])
	}
	if len(said) != 2 {
		t.Fatalf("%q", said)
	}
	var down atomic.Bool
	n := edge.New(t, edge.Options{})
	n.Env = append(n.Env, "STEWARD_CONFIG="+n.Write(outside(t, &down), "own.yaml"))
	out, code := n.Type("[e]dit: ", "y\ny\n", "plan", said[1])
	for _, part := range []string{"- find lodging: Search the web for", "after: check the weather, find lodging", "It changes your calendar after reading content", "drizzle", "A hut", `Added "weekend mountain trip", Sat`} {
		if code != 0 || !strings.Contains(out, part) {
			t.Errorf("%d, lacks %q: %s", code, part, out)
		}
	}
	tree := n.Must("requests", "show", "last")
	if !inOrder(tree, []string{"✓ check_the_weather", "✓ weather.forecast", "✓ find_lodging", "✓ web.search", "✓ add_it_to_the_calendar", "✓ calendar.add"}) {
		t.Error(tree)
	}
	if out, code := n.Type("[e]dit: ", "y\n", "plan", said[0]); code != 0 || !inOrder(out, []string{"drizzle", "timer"}) {
		t.Errorf("%d: %s", code, out)
	}
	down.Store(true)
	out = n.Must("ask", "-q", "--agent", "planner", said[1])
	if !inOrder(out, []string{"The plan has ended: failed (task_fell_short)", "check_the_weather: failed", "find_lodging: failed", "add_it_to_the_calendar: skipped"}) {
		t.Error(out)
	}
	if tree := n.Must("requests", "show", "last"); !inOrder(tree, []string{"✗ check_the_weather (failed", "✗ find_lodging (failed", "✗ add_it_to_the_calendar (skipped"}) {
		t.Error(tree)
	}
}

// TestWhatAProviderLookedUpIsShownAtATerminal: a source is named, and its title cannot move the cursor.
func TestWhatAProviderLookedUpIsShownAtATerminal(t *testing.T) {
	t.Parallel()
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, _ := searching(t, v)
			a := n.Dial().Turn(map[string]any{"content": "Rain?", "model": v.model}, nil)
			for _, args := range [][]string{{"conversations", "show", a.Conversation}, {"messages", "show", "--conversation", a.Conversation, "last"}, {"ask", "--model", v.model, "Rain?"}} {
				screen, code := n.Screen(args...)
				if code != 0 || !strings.Contains(screen, "Rain") || !strings.Contains(screen, "https://w.test/1") || strings.Contains(screen, "\x1b[2J") {
					t.Errorf("steward %v: %d %q", args, code, screen)
				}
			}
		})
	}
}
