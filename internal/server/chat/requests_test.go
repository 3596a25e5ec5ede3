package chat_test

import (
	"testing"
	"time"

	"steward/internal/runtime"
	"steward/internal/server/chat"
)

func TestRequestFrames(t *testing.T) {
	_, url := serve(t, chat.Options{Node: newDouble(nil)})
	c := dial(t, url, "")
	for _, x := range []struct{ send, code string }{
		{`{"type":"requests","id":"1","limit":-1}`, "member_invalid"},
		{`{"type":"requests","id":"1","limit":5000}`, "member_invalid"},
		{`{"type":"requests","id":"1","request_id":"ffffffff"}`, "request_not_found"},
		{`{"type":"requests","id":"1","open":true}`, "unknown_member"},
		{`{"type":"cancel","id":"1"}`, "member_missing"},
		{`{"type":"resume_turn","id":"1"}`, "member_missing"},
		{`{"type":"resume_turn","id":"1","request_id":"ffffffff"}`, "request_not_found"},
		{`{"type":"cancel","id":"1","request_id":"ffffffff"}`, "request_not_found"},
		{`{"type":"cancel","id":"1","which":"x"}`, "unknown_member"},
	} {
		c.send(x.send)
		f, err := c.read()
		if err != nil || f["type"] != "error" || f["code"] != x.code || f["re"] != "1" {
			t.Errorf("%s: %v %v", x.send, f, err)
		}
	}
}

func TestQuestionsOfTasks(t *testing.T) {
	d := newDouble(func(d *double, t turn) {
		d.tell(t, false, runtime.Frame{Kind: runtime.FrameTask, Task: &runtime.TaskView{ID: number(9), Call: "m/0", Tool: "mill.run", Status: "awaiting_approval",
			Approval: &runtime.ApprovalView{ID: "q", Hash: "h", Reason: "it changes", Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Args: `{"a": 1}`}}})
	})
	_, url := serve(t, chat.Options{Node: d})
	c := dial(t, url, "")
	c.send(`{"type":"message","content":"go"}`)
	for {
		f, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		if f["type"] != "task" {
			continue
		}
		a, ok := f["approval"].(map[string]any)
		args, _ := f["args"].(map[string]any)
		if !ok || a["id"] != "q" || a["hash"] != "h" || a["reason"] != "it changes" || a["expires"] != "2030-01-02T03:04:05Z" || args["a"] != 1.0 {
			t.Errorf("%v", f)
		}
		return
	}
}
