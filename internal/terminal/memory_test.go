package terminal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
)

// march is when the facts of these tests became true.
var march = time.Date(2024, 3, 2, 12, 0, 0, 0, time.Local)

func news(n int, text string) client.FactNews {
	return client.FactNews{ID: fmt.Sprintf("fact-%d", n), Text: text, Subject: "user", From: march, How: client.FactAdded, Change: fmt.Sprintf("change-%d", n)}
}

func told(did string, list ...client.FactNews) client.Frame {
	return client.Frame{Type: client.FrameMemory, Did: did, Facts: list}
}

// show shows a frame, and returns what is printed.
func (d *drive) frame(f client.Frame) string {
	d.do(continuation(func() tea.Cmd { d.turn.frame(f); return nil }))
	return strings.TrimSpace(d.look())
}

func (d *drive) columns(n int) {
	d.width = n
	d.restyle()
}

// What was recalled is told in one line, however many facts there are.
func TestRecallInOneLine(t *testing.T) {
	car, sister, long := news(1, "My car is blue"), news(2, "My sister Mia lives in Graz"), news(3, strings.Repeat("I like long walks ", 20))
	d := newDrive(t, &down{})
	for _, c := range []struct {
		columns int
		facts   []client.FactNews
		want    string
	}{
		{80, []client.FactNews{car}, "recalled: My car is blue (2 March 2024)"},
		{80, []client.FactNews{car, sister}, "recalled: My car is blue (2 March 2024) +1 more"},
		{100, []client.FactNews{car, sister}, "recalled: My car is blue (2 March 2024); My sister Mia lives in Graz (2 March 2024)"},
		{80, []client.FactNews{car, sister, car, sister}, "recalled: My car is blue (2 March 2024) +3 more"},
		{60, []client.FactNews{long, car}, "recalled: I like long walks I like long walks I li… +1 more"},
	} {
		d.columns(c.columns)
		got := d.frame(told(client.MemoryRecalled, c.facts...))
		if got != c.want || lipgloss.Width(got) >= c.columns {
			t.Errorf("%d columns: %q", c.columns, got)
		}
	}
	// Unfolded, each fact has a line of its own.
	d.columns(80)
	d.do(tea.KeyPressMsg{Code: 'o', Mod: tea.ModCtrl})
	if got := d.look(); strings.Count(got, "recalled: ") != 1 || !strings.Contains(got, "          My car is blue (2 March 2024)") {
		t.Errorf("%q", got)
	}
	if got := d.frame(told(client.MemoryRecalled, car, sister)); got != "recalled: My car is blue (2 March 2024)\n          My sister Mia lives in Graz (2 March 2024)" {
		t.Errorf("%q", got)
	}
}

// What others wrote is a quotation wherever it is shown, and what it contains cannot control the terminal.
func TestForeignFactsAreQuoted(t *testing.T) {
	f := news(1, "The code is 4711\x1b[2J\u202e")
	f.Foreign, f.Source = true, "cld:x"
	d := newDrive(t, &down{facts: client.ConversationMemory{Recalled: []client.FactNews{f}}})
	d.columns(100)
	want := `others wrote "The code is 4711␛[2J<U+202E>" (2 March 2024)`
	for _, did := range []string{client.MemoryRecalled, client.MemorySaved} {
		if got := d.frame(told(did, f)); !strings.Contains(got, want) {
			t.Errorf("%s: %q", did, got)
		}
	}
	d.conv = id.New().String()
	if got := d.line("/memory"); !strings.Contains(got, "1  "+want) {
		t.Errorf("%q", got)
	}
}

// Ctrl-Z undoes what was remembered last, one fact each time, by the change that was shown.
func TestUndoByOneKey(t *testing.T) {
	remote := &down{}
	d := newDrive(t, remote)
	d.columns(80)
	key := tea.KeyPressMsg{Code: 'z', Mod: tea.ModCtrl}
	undo := func(want string) {
		t.Helper()
		d.do(key)
		if got := strings.Join(strings.Fields(d.look()), " "); !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	undo("nothing was remembered here")
	if got := d.frame(told(client.MemorySaved, news(1, "My car is blue"))); got != "remembered: My car is blue (2 March 2024) · Ctrl-Z undoes it" {
		t.Errorf("%q", got)
	}
	if got := d.frame(told(client.MemorySaved, news(2, "A"), news(3, "B"))); got != "remembered: A (2 March 2024); B (2 March 2024) · Ctrl-Z undoes the last" {
		t.Errorf("%q", got)
	}
	d.frame(told(client.MemoryForgotten, client.FactNews{ID: "fact-2"})) // elsewhere
	undo("undone; no longer remembered: B")
	remote.restored = "My car is red"
	undo("undone; it is again: My car is red")
	undo("nothing was remembered here")
	if got := strings.Join(remote.undone, " "); got != "change-3 change-1" {
		t.Errorf("%s", got)
	}
	d.frame(told(client.MemorySaved, news(4, "C")))
	remote.refuses = fault.New(fault.Conflict, "changed_since", "it has changed since")
	undo("[changed_since]")
}

// /memory lists what the conversation has recalled and saved, and erases by number once that is confirmed.
func TestMemoryCommand(t *testing.T) {
	saved := news(2, "My sister Mia lives in Graz")
	saved.Source = "cld:x"
	remote := &down{}
	d := newDrive(t, remote)
	d.columns(80)
	d.conv = id.New().String()
	if got := d.line("/memory"); !strings.Contains(got, "recalled nothing") {
		t.Errorf("%q", got)
	}
	remote.facts = client.ConversationMemory{Recalled: []client.FactNews{news(1, "My car is blue")}, Saved: []client.FactNews{saved}}
	if got := d.line("/memory"); !strings.Contains(got, "recalled in this conversation:\n  1  My car is blue (2 March 2024)\nsaved from this conversation:\n  2  My sister Mia") {
		t.Errorf("%q", got)
	}
	for line, want := range map[string]string{"/memory forget": "needs a number", "/memory forget 3": "needs a number", "/memory forget x": "needs a number", "/memory all": "takes nothing"} {
		if got := d.line(line); !strings.Contains(got, want) {
			t.Errorf("%s: %q", line, got)
		}
	}
	d.line("/memory forget 1")
	if len(d.picking.items) != 2 { // it was said nowhere
		t.Errorf("%q", d.picking.items)
	}
	d.do(press("enter")) // keep it
	d.line("/memory forget 2")
	d.do(tea.KeyPressMsg{Code: tea.KeyDown})
	d.do(tea.KeyPressMsg{Code: tea.KeyDown})
	d.do(press("enter"))
	if got := d.look(); !strings.Contains(got, "forgotten") || strings.Join(remote.forgot, " ") != "facts/fact-2?turns=true" {
		t.Errorf("%q %q", got, remote.forgot)
	}
}

// What was read from a conversation after the person had left is told when the person returns; what the person has
// saved by hand is not.
func TestMemoryWhileAway(t *testing.T) {
	read := client.Fact{ID: "fact-1", Text: "My sister Mia lives in Graz", Subject: "user", From: march,
		History: []client.FactChange{{ID: "change-1", Actor: "extraction", What: client.FactAdded, At: march.Add(time.Hour)}}}
	own := client.Fact{ID: "fact-2", Text: "My car is blue", Subject: "user", From: march, History: []client.FactChange{{ID: "change-2", Actor: "user", What: client.FactAdded, At: march.Add(time.Hour)}}}
	remote := &down{changed: []client.Fact{own, read}}
	d := newDrive(t, remote)
	d.columns(100)
	if d.followMemory() != nil {
		t.Error("somebody who was never here has missed nothing")
	}
	d.past.used = march
	d.do(d.followMemory()())
	if got := strings.TrimSpace(d.look()); got != "remembered since you were here: My sister Mia lives in Graz (2 March 2024) · Ctrl-Z undoes it" {
		t.Errorf("%q", got)
	}
	d.do(tea.KeyPressMsg{Code: 'z', Mod: tea.ModCtrl})
	if strings.Join(remote.undone, " ") != "change-1" {
		t.Errorf("%q", remote.undone)
	}
}
