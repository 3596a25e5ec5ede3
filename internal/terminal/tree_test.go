package terminal

import (
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"

	"steward/client"
)

// task is a frame about a task of the plan that the call p/0 carries out.
func task(order int, own, parent, status string, more client.Request) client.Frame {
	more.ID, more.Parent, more.Status = own, parent, status
	if more.Title == "" {
		more.Title = own
	}
	return client.Frame{Type: client.FramePlanned, CallID: "p/0", Order: order, Task: &more}
}

// TestAPlanIsShownAsATree: a plan that is carried out is a line a task in the order of the tree, even of
// tasks that are made later. When it is over it is one line, which unfolds.
func TestAPlanIsShownAsATree(t *testing.T) {
	began := time.Unix(990, 0)
	took := func(s time.Duration) client.Request {
		return client.Request{Agent: "designed", Started: began, Ended: began.Add(s), Cost: 0.01}
	}
	tr := newTurn(t, 80)
	show(tr, call("p/0", "plan.start", `{}`, "running"),
		task(1, "weather", "", "running", client.Request{Agent: "designed", Started: began, Message: "weather.forecast"}),
		task(2, "lodging", "", "running", client.Request{Started: began}),
		task(3, "calendar", "", "pending", client.Request{Agent: "planner/scribe"}),
		task(4, "again", "lodging", "judging", client.Request{Agent: "designed", Started: began}),
		task(1, "weather", "", "done", took(3*time.Second)))
	want := `* 1 of 3 tasks done · 0s · $0.0100
  ✓ weather   designed  3s  $0.0100
  * lodging   10s
    * again   designed  10s  is checked
  · calendar  planner/scribe`
	if got := strings.Join(tr.live(9, "*"), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	show(tr, task(3, "calendar", "", "awaiting_approval", client.Request{Agent: "designed", Started: began}))
	question := call("p/0", "plan.start", `{}`, "awaiting_approval")
	question.Approval = &client.Approval{ID: "i", Hash: "h", Agent: "designed/calendar", Tool: "calendar.add"}
	if got := show(tr, question); !strings.Contains(got, "task calendar wants calendar.add") {
		t.Error(got)
	}
	if got := strings.Join(tr.live(9, "*"), "\n"); !strings.Contains(got, "1 waiting for you") || !strings.Contains(got, "? calendar  designed  10s  waits for you") {
		t.Error(got)
	}
	if got := strings.Join(tr.live(4, "*"), "|"); !strings.HasPrefix(got, "* 1 of 3") || !strings.HasSuffix(got, "waits for you") || strings.Contains(got, "weather") {
		t.Error(got)
	}
	if got := tr.live(2, "*"); len(got) != 2 || !strings.Contains(got[1], "calendar") {
		t.Error(got)
	}
	failed := took(time.Second)
	failed.Error, failed.Message = "task_fell_short", "no\x1b[2J\u202e hut"
	got := show(tr, task(4, "again", "lodging", "failed", failed), task(3, "calendar", "", "done", took(time.Second)), result("p/0", "plan.start", "error", "The plan has ended."))
	if got != "\n✗ 2 of 3 tasks done, 1 failed · 0s · $0.0300 · Ctrl-O: tasks" {
		t.Errorf("%q", got)
	}
	show(tr, complete("m", client.Frame{}))
	tr.unfold()
	if got := tr.printed(); !strings.Contains(got, "    ✗ again   designed  1s  $0.0100  failed: fell short, no␛[2J<U+202E> hut\n  ✓ calendar") {
		t.Error(got)
	}
	for width := 1; width < 100; width++ {
		tr := newTurn(t, width)
		for _, n := range []string{"1", "2", "3"} {
			show(tr, task(len(n), n, "", "running", client.Request{Title: strings.Repeat("漢字", 20), Agent: "designed", Started: began, Message: strings.Repeat("x ", 50)}))
		}
		show(tr, task(9, "9", "1", "done", client.Request{Title: strings.Repeat("y", 99)}))
		for _, line := range tr.tree(9, "*") {
			if got := lipgloss.Width(line); got > max(width, 20) {
				t.Errorf("at %d cells a line has %d: %q", width, got, line)
			}
		}
	}
}
