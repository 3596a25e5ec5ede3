package terminal

import (
	"bytes"
	"strings"
	"testing"

	"steward/client"
	"steward/internal/record"
)

func openedFrame(text string) client.Frame {
	return client.Frame{Type: client.FrameOpened, Content: Words(text)}
}

func TestTasksAreShownWhileTheyGoOn(t *testing.T) {
	tr := newTurn(t, 60)
	task := client.Frame{Type: client.FrameTask, ID: "1", Tool: "archive.count", Status: record.TaskAcknowledged}
	got := show(tr, call("m/0", "archive.count", "{}", "running"), task, result("m/0", "archive.count", "accepted", "Acknowledged: …"))
	if want := "… archive.count → goes on in the background"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	task.Status, task.Progress, task.Message = record.TaskRunning, 0.5, "page\x1b[2J 200"
	if got := show(tr, task); got != "" {
		t.Errorf("printed %q", got)
	}
	if got := tr.live(5, "*"); len(got) != 1 || !strings.HasPrefix(got[0], "∙ archive.count in the background 50%: page") || strings.Contains(got[0], "\x1b[2J") {
		t.Errorf("live: %q", got)
	}
	// It asks, and is answered.
	task.Status, task.Args, task.Approval = client.CallAwaiting, []byte(`{"a":1}`), &client.Approval{ID: "q", Reason: "it changes something"}
	if got := show(tr, task); !strings.Contains(got, "? archive.count") || !strings.Contains(got, `"a":1`) {
		t.Errorf("the question: %q", got)
	}
	if a, n := tr.pending(); n != 1 || a.Approval.ID != "q" {
		t.Errorf("%d questions wait", n)
	}
	task.Status, task.Approval = record.TaskRunning, nil
	show(tr, task)
	if _, n := tr.pending(); n != 0 {
		t.Errorf("%d questions wait", n)
	}
	task.Status = record.TaskCompleted
	if got := show(tr, task); got != "" || len(tr.live(5, "*")) != 0 {
		t.Errorf("%q, live %q", got, tr.live(5, "*"))
	}
	if got := show(tr, openedFrame("archive.count has ended: it was done.\n--- 1\nsecret")); got != "\n« archive.count has ended: it was done." || !tr.running {
		t.Errorf("opened: %q", got)
	}
}

func TestTasksAsPlainText(t *testing.T) {
	var out, notes bytes.Buffer
	w := &Writer{Out: &out, Notes: &notes}
	task := client.Frame{Type: client.FrameTask, ID: "1", Tool: "archive.count", Status: record.TaskAcknowledged}
	half, end := task, task
	half.Status, half.Message = record.TaskRunning, "page 200"
	end.Status = record.TaskCompleted
	for _, f := range []client.Frame{token("1", "It is under way."), task, half, half, end,
		openedFrame("archive.count has ended: it was done.\nmore"), token("2", "81,204 words.")} {
		if err := w.Frame(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if want := "It is under way.\n81,204 words.\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	want := "∙ archive.count in the background: running, page 200\n∙ archive.count in the background: completed\n« archive.count has ended: it was done.\n"
	if notes.String() != want {
		t.Errorf("%q, want %q", notes.String(), want)
	}
}
