package main

import (
	"strings"
	"testing"
	"time"

	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/runtime"
)

func TestRequestTreeIsDrawn(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	now := at.Add(90 * time.Second)
	x := func(n byte) id.ID { return id.ID{0: n, 6: 0x70, 8: 0x80} }
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	tree := runtime.RequestView{ID: x(1), Kind: record.RequestTurn, Origin: "user", Title: "Plan\x1b my day", State: record.RequestAnswered, Outcome: "answered",
		Conversation: x(2), Started: at, Ended: ms(2100), Usage: message.Usage{Input: 100, Output: 20}, Cost: 0.0123,
		Below: []runtime.RequestView{
			{Kind: runtime.RequestTool, Tool: "time.now", State: runtime.RequestClosed, Status: "ok", Started: at, Ended: ms(3)},
			{ID: x(3), Kind: record.RequestAgent, Agent: "personal_assistant/email", Title: "Write to Bob", State: runtime.RequestClosed, Outcome: "answered", Status: "ok",
				Started: at, Ended: ms(1500), Usage: message.Usage{Input: 40}, Below: []runtime.RequestView{
					{Kind: runtime.RequestTool, Tool: "email.send", State: runtime.RequestClosed, Status: "denied", Intent: "denied", Message: "the user said no", Started: at, Ended: ms(700)}}},
			{ID: x(4), Kind: record.RequestTask, Tool: "archive.count", State: record.RequestOpen, Status: record.TaskRunning, Progress: 0.5, Message: "page 2 of 4", Started: at},
			{ID: x(5), Kind: record.RequestTask, Tool: "archive.pack", State: runtime.RequestClosed, Status: record.TaskCompleted, Outcome: "ok", Message: "packed", Started: at, Ended: ms(900),
				Below: []runtime.RequestView{{ID: x(6), Kind: record.RequestTurn, Origin: "tool:archive.pack", Agent: "assistant", Title: "archive.pack has ended: it was done.", State: runtime.RequestClosed,
					Outcome: "answered", Started: ms(1000), Ended: ms(1200), Usage: message.Usage{Input: 60, Output: 20}}}},
		}}
	want := `request      01000000-0000-7000-8000-000000000000
conversation 02000000-0000-7000-8000-000000000000
began        2030-01-02 03:04:05

                                                      time  tokens     cost
… Plan  my day (answered, waits for what it led to)   2.1s     120  $0.0123
├─ ✓ time.now                                          3ms
├─ ✓ agent personal_assistant/email: Write to Bob     1.5s      40
│  └─ ✗ email.send (denied, the user said no)        700ms
├─ … task archive.count (running, 50%, page 2 of 4)  1m30s
└─ ✓ task archive.pack                               900ms
   └─ ✓ « assistant is told                          200ms      80
`
	if got := requestTree(&tree, 0, now); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, l := range strings.Split(requestTree(&tree, 60, now), "\n")[4:] {
		if n := len([]rune(l)); n > 60 {
			t.Errorf("%d wide: %s", n, l)
		}
	}
	table := requestTable([]runtime.RequestView{tree, tree.Below[2], tree.Below[3]}, false, 0, now)
	wantTable := "01-02 03:04  …  01000000-0000   2.1s  Plan  my day (answered, waits for what it led to)\n" +
		"01-02 03:04  …  04000000-0000  1m30s  task archive.count (running, 50%, page 2 of 4)\n" +
		"01-02 03:04  ✓  05000000-0000  900ms  task archive.pack\n"
	if table != wantTable {
		t.Errorf("got\n%s\nwant\n%s", table, wantTable)
	}
}
