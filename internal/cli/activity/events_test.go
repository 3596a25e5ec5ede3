package activity

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"steward/internal/cli/command"
	"steward/internal/events"
	"steward/internal/resource"
)

// Output for a terminal fits into its lines, and contains nothing that moves its
// cursor.
func TestEventsOnATerminal(t *testing.T) {
	var out bytes.Buffer
	w := &eventPrinter{app: &command.Program{Stdout: &out}, width: 78}
	conv := resource.Root("common.Conversation", "0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6d")
	now := time.Now()
	at := time.Date(now.Year(), now.Month(), now.Day(), 12, 0, 0, 0, time.Local)
	for _, x := range []events.Event{
		{Source: "user:ana", Time: at, Detail: events.Put, Resources: []events.Resource{{URI: conv.Child("common.Message", "0198c9a2-7f3e-7b11-8c7e-5a3f1d2b4c6e"), State: "new"}}},
		{Source: "agent:mail/\x1b[2J", Time: at, Detail: events.Delete, Published: true, Resources: []events.Resource{{URI: resource.Root("a.A", "x\x1b[31m")}, {URI: resource.Root("a.A", "y")}}},
		{Source: "system", Time: at.AddDate(0, 0, 1), Detail: events.Get, Resources: []events.Resource{{URI: resource.Root("a.A", strings.Repeat("z", 200))}}},
	} {
		if err := w.event(&x); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(out.String(), "\n")
	if lines[0] != "Today" || lines[1] != "12:00:00  put          user:ana          common.Message 1d2b4c6e, common.Conv…" ||
		lines[3] != "12:00:00  says delete  agent:mail/ [2J   a.A y" || lines[4] != "" || !strings.HasPrefix(lines[6], "12:00:00  get          system            a.A zzz") {
		t.Errorf("%s", out.String())
	}
	for _, l := range lines {
		if strings.Contains(l, "\x1b") || len([]rune(l)) > 78 {
			t.Errorf("%q", l)
		}
	}
}
