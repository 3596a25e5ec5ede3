package activity

import (
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"steward/client"
	"steward/internal/conversation/worklog"
	"steward/internal/id"
	"steward/internal/message"
)

func TestLogTable(t *testing.T) {
	now := time.Date(2026, 11, 5, 15, 0, 0, 0, time.Local)
	list := []client.LogEntry{
		{ID: "01a1ff6f-c954-7ddb-aa54-d12f9f000001/1", At: now.AddDate(0, 0, -9), Tool: "files.read", Summary: "Read notes/todo.txt", Impact: []string{"notes/todo.txt"}, Outcome: string(worklog.Success), Obsolete: true, Title: "Chores"},
		{ID: "01a1ff6f-c954-7ddb-aa54-d12f9f000002/12", At: now.AddDate(0, 0, -1), Tool: "mail.send", Summary: "Send a letter", Impact: []string{"bob@example.org"}, Outcome: string(worklog.Pending), Error: "it waits for approval", Title: "漢字の題名がここにあります"},
		{ID: "01a1ff6f-c954-7ddb-aa54-d12f9f000003/0", At: now, Tool: "a_category_with_a.very_long_name", Summary: strings.Repeat("long ", 30), Outcome: string(worklog.Partial), Error: strings.Repeat("why ", 40), Title: "x\x1b[31m"},
	}
	got := LogTable(list, 0, true, now)
	for _, want := range []string{"Tuesday, 27 October 2026\n15:00  ✓  files.read  ", "  Read notes/todo.txt (obsolete)  ", "\n\nYesterday\n15:00  …  mail.send  ",
		"Send a letter → bob@example.org  ", "\n\nToday\n15:00  ?  a_category_with_a.very_long_name  long long", "  x [31m ", "  000002/12\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	for _, width := range []int{80, 100, 66} {
		for line := range strings.Lines(LogTable(list, width, true, now)) {
			if w := lipgloss.Width(strings.TrimSuffix(line, "\n")); w > width && width >= 80 {
				t.Errorf("%d columns of %d: %s", w, width, line)
			}
		}
	}
	if got := LogTable(list[:1], 80, false, now); got != "Tuesday, 27 October 2026\n15:00  ✓  files.read  Read notes/todo.txt (obsolete)  000001/1\n" {
		t.Errorf("%q", got)
	}
}

func TestCallText(t *testing.T) {
	m := &message.Message{ID: id.New(), Role: message.Assistant, Blocks: []message.Block{&message.ToolCall{Name: "files.write", Args: []byte(`{"path":"a","content":"one\n\ttwo\n","n":{"x":1}}`)}}}
	res := &message.Message{ID: id.New(), Role: message.Tool, Blocks: []message.Block{&message.ToolResult{Rest: "cld:x", Content: []message.Block{&message.Text{Text: "line\r\n\x1b[31mred\n\n"}}}}}
	en := client.LogEntry{ID: m.ID.String() + "/0", At: time.Date(2026, 11, 5, 15, 0, 0, 0, time.Local), Tool: "files.write", Summary: "Write a", Outcome: string(worklog.Success)}
	got := callText(en, []*message.Message{m, res})
	for _, want := range []string{"✓ Write a\n\noutcome       success\n", "arguments\n  content:\n    one\n        two\n  n: {\"x\":1}\n  path: a\n", "result\n  line\n   [31mred\n  [the rest is kept as cld:x]\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks\n%s", got, want)
		}
	}
	m.Blocks[0].(*message.ToolCall).Args = []byte("no JSON")
	if got := callText(en, []*message.Message{m}); !strings.Contains(got, "arguments\n  no JSON\n") || strings.Contains(got, "result") {
		t.Error(got)
	}
}
