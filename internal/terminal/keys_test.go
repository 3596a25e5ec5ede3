package terminal

import (
	"errors"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"steward/client"
	"steward/internal/id"
)

func TestMessagesWaitForTheOneBeforeThem(t *testing.T) {
	d := newDrive(t, &down{})
	d.sending = "first"
	for _, text := range []string{"second", "third"} {
		d.input.SetValue(text)
		d.slowly(press("enter"))
	}
	if !slices.Equal(d.outbox, []string{"second", "third"}) || d.input.Value() != "" {
		t.Fatalf("%q %q", d.outbox, d.input.Value())
	}
	if s := stripped(d.screen()); !strings.Contains(s, "then: second") || !strings.Contains(s, "then: third") {
		t.Errorf("%s", s)
	}
	d.update(sent{Accepted: client.Accepted{Conversation: id.New().String()}, text: "first"})
	if d.sending != "second" || !slices.Equal(d.outbox, []string{"third"}) {
		t.Errorf("%q %q", d.sending, d.outbox)
	}
	d.do(sent{text: "second", err: errors.New("it is down")})
	if len(d.outbox) != 0 || d.input.Value() != "second" || !strings.Contains(d.look(), "not sent: third") {
		t.Errorf("%q %q", d.outbox, d.input.Value())
	}
}

// An answer can come before the report that its message was accepted. Another answer
// to the same message has no frame with a user's message.
func TestAnAnswerComesBeforeTheReportOfItsMessage(t *testing.T) {
	conv := id.New().String()
	complete := client.Frame{Type: client.FrameComplete}
	for name, frames := range map[string][]client.Frame{
		"text":  {{Type: client.FrameToken, Text: "done"}, complete},
		"none":  {complete},
		"error": {{Type: client.FrameError, Err: errDown}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDrive(t, &down{})
			d.conv, d.sending = conv, "another answer, please"
			d.show(watched{watch: d.watch, frames: frames})
			d.update(sent{Accepted: client.Accepted{Conversation: conv, Message: id.New().String()}})
			if d.busy() {
				t.Error("the chat waits for an answer that was there already")
			}
		})
	}
}

func TestADraftThatWasClearedComesBack(t *testing.T) {
	d := newDrive(t, &down{})
	d.input.SetValue("half a thought")
	d.slowly(press("ctrl+c"))
	if d.input.Value() != "" {
		t.Fatal(d.input.Value())
	}
	d.slowly(tea.KeyPressMsg{Code: tea.KeyUp})
	if d.input.Value() != "half a thought" {
		t.Errorf("%q", d.input.Value())
	}
}

func TestTheSizeOfALongTextIsToldBeforeItIsSent(t *testing.T) {
	d := newDrive(t, &down{})
	d.input.SetValue(strings.Repeat("many words ", 10_000))
	if got := stripped(d.screen()); !strings.Contains(got, "That is 110.0 KB of text, about 27 thousand tokens · Enter sends it") {
		t.Errorf("%.200s", got)
	}
	d.update(press("enter"))
	if d.sending == "" {
		t.Error("it is not sent")
	}
}

func TestAModelThatIsNotThereIsNotTaken(t *testing.T) {
	d := newDrive(t, &down{})
	for name, want := range map[string]string{
		"nosuch": "there is no model nosuch; /model lists them", "openai/gpt-6": "did you mean /model openai/gpt-5?", "nosuch/x": "there is no model nosuch/x",
	} {
		d.do(d.runCommand("/model " + name)())
		if got := d.look(); d.model != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q is used: %s", name, d.model, got)
		}
	}
	for _, name := range []string{"default", "openai/gpt-5", "anthropic/claude-x"} { // an unlisted vendor may offer it
		if d.do(d.runCommand("/model " + name)()); d.model != name {
			t.Errorf("%s is not taken: %s", name, d.look())
		}
	}
}
