package activity

import (
	"strings"
	"testing"
	"time"

	"steward/client"
	"steward/internal/id"
	"steward/internal/record"
)

func TestRequestTreeIsDrawn(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.Local)
	now := at.Add(90 * time.Second)
	x := func(n byte) string { return id.ID{0: n, 6: 0x70, 8: 0x80}.String() }
	ms := func(n int) time.Time { return at.Add(time.Duration(n) * time.Millisecond) }
	tree := client.Request{ID: x(1), Kind: requestTurn, Origin: "user", Title: "Plan\x1b my day", State: requestAnswered, Outcome: "answered",
		Conversation: x(2), Started: at, Ended: ms(2100), Usage: client.Usage{Input: 100, Output: 20}, Cost: 0.0123,
		Below: []client.Request{
			{Kind: requestTool, Tool: "time.now", State: RequestClosed, Status: "ok", Started: at, Ended: ms(3)},
			{ID: x(3), Kind: requestAgent, Agent: "personal_assistant/email", Title: "Write to Bob", State: RequestClosed, Outcome: "answered", Status: "ok",
				Started: at, Ended: ms(1500), Usage: client.Usage{Input: 40}, Below: []client.Request{
					{Kind: requestTool, Tool: "email.send", State: RequestClosed, Status: "denied", Intent: "denied", Message: "the user denied it", Started: at, Ended: ms(700)}}},
			{ID: x(4), Kind: RequestTask, Tool: "archive.count", State: requestOpen, Status: record.TaskRunning, Progress: 0.5, Message: "page 2 of 4", Started: at},
			{ID: x(5), Kind: RequestTask, Tool: "archive.pack", State: RequestClosed, Status: record.TaskCompleted, Outcome: "ok", Message: "packed", Started: at, Ended: ms(900),
				Below: []client.Request{{ID: x(6), Kind: requestTurn, Origin: "tool:archive.pack", Agent: "assistant", Title: "archive.pack has ended: it was done.", State: RequestClosed,
					Outcome: "answered", Started: ms(1000), Ended: ms(1200), Usage: client.Usage{Input: 60, Output: 20}}}},
		}}
	want := `request      01000000-0000-7000-8000-000000000000
conversation 02000000-0000-7000-8000-000000000000
began        2030-01-02 03:04:05

                                                         time  tokens     cost
… Plan  my day (answered, waits for requests below it)   2.1s     120  $0.0123
├─ ✓ time.now                                             3ms
├─ ✓ agent personal_assistant/email: Write to Bob        1.5s      40
│  └─ ✗ email.send (denied, the user denied it)         700ms
├─ … task archive.count (running, 50%, page 2 of 4)     1m30s
└─ ✓ task archive.pack                                  900ms
   └─ ✓ « assistant is notified                         200ms      80
`
	if got := requestTree(&tree, 0, now); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, l := range strings.Split(requestTree(&tree, 60, now), "\n")[4:] {
		if n := len([]rune(l)); n > 60 {
			t.Errorf("%d wide: %s", n, l)
		}
	}
	ended := client.Request{Kind: requestTurn, Title: "Plan my day", State: requestOpen, Outcome: "answered"} // and closed in a moment
	if mark, what := requestMark(&ended), requestWhat(&ended); mark != "✓" || what != "Plan my day" {
		t.Errorf("%s %s", mark, what)
	}
	table := requestTable([]client.Request{tree, tree.Below[2], tree.Below[3]}, false, 0, now)
	wantTable := "01-02 03:04  …  01000000-0000   2.1s  Plan  my day (answered, waits for requests below it)\n" +
		"01-02 03:04  …  04000000-0000  1m30s  task archive.count (running, 50%, page 2 of 4)\n" +
		"01-02 03:04  ✓  05000000-0000  900ms  task archive.pack\n"
	if table != wantTable {
		t.Errorf("got\n%s\nwant\n%s", table, wantTable)
	}
}
