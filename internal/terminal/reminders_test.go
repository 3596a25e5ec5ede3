package terminal

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/fault"
	"steward/internal/id"
	"steward/internal/message"
)

// told is a reminder as it is told at once.
func remindedOf(msg, text string, at time.Time) remindedMsg {
	return remindedMsg{Reminder: client.Reminder{Conversation: "c", Message: msg, Text: text, At: at}}
}

// alarmTurn returns the frames of the turn that a reminder opens.
func alarmTurn(msg, text string, at time.Time) []client.Frame {
	out := []client.Frame{
		{Type: client.FrameOpened, MessageID: msg, Origin: "alarm:7", At: at, Content: Words(text)},
		token("repeated", text),
		complete("repeated", client.Frame{Content: Words(text), Model: "steward/repeat", DurationMS: 1}),
	}
	for i := range out {
		out[i].Interaction = "of " + msg
	}
	return out
}

// deliver hands frames to the chat as its watch does.
func (d *drive) deliver(frames ...client.Frame) {
	d.watch++
	d.frames = make(chan watched)
	close(d.frames)
	d.do(watched{watch: d.watch, frames: frames})
}

// A reminder is shown at once, whatever is open, and once. What is half typed and the
// question stay.
func TestAReminderIsShownAtOnce(t *testing.T) {
	ask := call("x/1", "files.write", `{"path":"a"}`, "awaiting_approval")
	ask.Approval = &client.Approval{ID: "q", Hash: "h"}
	for name, open := range map[string]struct {
		before func(d *drive)
		stays  string
	}{
		"nothing":    {func(*drive) {}, "half typed"},
		"a question": {func(d *drive) { d.deliver(ask) }, "Allow it? y/n"},
		"an editor": {func(d *drive) {
			d.deliver(ask)
			d.input.Reset()
			d.slowly(press("e"))
		}, "The arguments as you want them:"},
		"a picker": {func(d *drive) {
			d.do(continuation(func() tea.Cmd { return d.pick("model:", "", []string{"one", "two"}, nil) }))
		}, "› one"},
		"an answer": {func(d *drive) { d.deliver(token("m", "An answer that is")) }, "An answer that is"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, &down{})
			d.conv, d.ready = id.New().String(), true
			d.input.SetValue("half typed")
			open.before(d)
			d.look()
			input := d.input.Value()
			d.reminders = make(chan remindedMsg)
			close(d.reminders)
			d.do(remindedOf("m1", "Reminder: drink tea", d.at))
			if got, want := d.look(), "⏰ "+d.at.Local().Format("15:04")+"  drink tea\n"; !strings.HasSuffix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
			if got := stripped(d.screen()); !strings.Contains(got, open.stays) || d.input.Value() != input {
				t.Errorf("%q, input %q", got, d.input.Value())
			}
			d.do(remindedOf("m1", "Reminder: drink tea", d.at)) // after a reconnect
			d.deliver(alarmTurn("m1", "Reminder: drink tea", d.at)...)
			if got := d.look(); strings.Contains(got, "tea") {
				t.Errorf("it is shown again: %q", got)
			}
			d.deliver(alarmTurn("m2", `The timer "eggs" is over.`, d.at)...) // nobody listened when it went off
			d.do(remindedOf("m2", `The timer "eggs" is over.`, d.at))
			if got := d.look(); strings.Count(got, "eggs") != 1 || !strings.Contains(got, "⏰") || strings.Contains(got, "1ms") {
				t.Errorf("%q", got)
			}
		})
	}
}

// The history of a conversation shows a reminder as one, with the time at which it went off.
func TestRemindersOfTheHistory(t *testing.T) {
	tr := newTurn(t, 60)
	at := time.Date(2026, 3, 4, 5, 6, 0, 0, time.Local)
	tr.now = func() time.Time { return at.Add(time.Hour) }
	text := func(s, origin string) []message.Block {
		return []message.Block{&message.Text{Common: message.Common{Origin: origin}, Text: s}}
	}
	for _, m := range []*message.Message{
		{Role: message.User, Blocks: text("hello", "user")},
		{Role: message.Assistant, Blocks: text("Hello.", "model:a/b"), Model: "a/b"},
		{Role: message.User, Blocks: text("Reminder: drink tea", "alarm:7"), At: at},
		{Role: message.Assistant, Blocks: text("Reminder: drink tea", "model:steward/repeat"), Model: "steward/repeat"},
	} {
		tr.renderHistory(m)
	}
	if got := stripped(strings.Join(tr.out, "\n")); got != "› hello\n\nHello.\n\n⏰ 05:06  drink tea" {
		t.Errorf("%q", got)
	}
}

// Wrong arguments are refused with the place where they are wrong, and stay in the editor.
func TestWrongArgumentsAreToldWhere(t *testing.T) {
	for text, want := range map[string]string{
		"{\n  \"a\": 1,\n  é\n}": "line 3, column 3: ",
		"{\"a\": 1":              "line 1, column 7: ",
		"":                       "line 1, column 1: ",
		"[1]":                    "must be a JSON object",
		"null":                   "must be a JSON object",
	} {
		if err := checkArgs(text); !fault.HasCode(err, "args_invalid") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
