package injection_test

import (
	"strings"
	"testing"

	"steward/internal/policy/flow"
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
		if got, want := len(e.calls), strings.Count(calls, " ; ")+strings.Count(calls, " & ")+1-strings.Count(calls, flow.ExtractTool); got != want {
			t.Errorf("%s: %d calls were made instead of %d", say, got, want)
		}
	}
	t.Logf("%d of %d tasks that only read need no question", free, len(list))
	if free != unasked {
		t.Errorf("%d tasks need no question; write it down here and in docs/operations/security.md", free)
	}
}
