package websocket_test

import (
	"context"
	"encoding/json"
	"iter"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"steward/internal/effect"
	"steward/internal/fault"
	"steward/internal/intent"
	"steward/internal/resource"
	"steward/internal/runtime"
	"steward/internal/server/websocket"
	"steward/internal/store"
	"steward/internal/turn"
)

// waits returns the question that waits in the examples.
func waits(p intent.Pattern, hash string) effect.Question {
	return effect.Question{ID: "cld:effect.Intent.1", Short: number(33).String(), Tool: "files.write", Version: "1",
		Args: jsontext.Value(`{"path":"note.txt","text":"hello"}`), User: "local", Agent: "assistant",
		Labels: []string{"untrusted"}, Read: []string{`web.fetch {"url":"https://example.org"}`},
		Reason: "files.write changes something", Rule: "default/tools.rego:60", Pattern: p,
		Asked: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Expires: time.Date(2030, 1, 9, 3, 4, 5, 0, time.UTC), Hash: hash, Yours: true}
}

func exactly() intent.Pattern {
	return intent.Pattern{"path": {Is: jsontext.Value(`"note.txt"`)}, "text": {Is: jsontext.Value(`"hello"`)}}
}

// Approvals returns the double's one question.
func (d *double) Questions(_ context.Context, user string) ([]effect.Question, error) {
	if user != "local" {
		return nil, d.failed()
	}
	return []effect.Question{waits(exactly(), "9f86d081")}, d.failed()
}

func (d *double) Question(_ context.Context, sc store.Scope, which string, p intent.Pattern) (effect.Question, error) {
	if !slices.Contains(sc.Read, resource.UserSpace("local")) || which != "cld:effect.Intent.1" {
		return effect.Question{}, fault.New(fault.NotFound, "approval_not_found", "there is no question %q", which)
	}
	if p == nil {
		return waits(exactly(), "9f86d081"), nil
	}
	return waits(p, "b94d27b9"), nil
}

// FollowReminders yields one reminder.
func (d *double) FollowReminders(ctx context.Context, user string) iter.Seq[runtime.Reminder] {
	return func(yield func(runtime.Reminder) bool) {
		if yield(runtime.Reminder{Conversation: number(1), Message: number(0x16), Text: "Reminder: tea", At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}) {
			<-ctx.Done()
		}
	}
}

// FollowApprovals yields the one question, and an empty list once it is
// answered.
func (d *double) FollowApprovals(ctx context.Context, user string) iter.Seq2[[]effect.Question, error] {
	return func(yield func([]effect.Question, error) bool) {
		list, err := d.Questions(ctx, user)
		if !yield(list, err) || err != nil {
			return
		}
		for ctx.Err() == nil {
			d.mu.Lock()
			answered, changed := len(d.verdicts) > 0, d.changed
			d.mu.Unlock()
			if answered && !yield(nil, nil) {
				return
			}
			if answered {
				<-ctx.Done()
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

func TestApprovalFrames(t *testing.T) {
	d := newDouble(nil)
	_, url := serve(t, websocket.Options{Node: d})
	c := dial(t, url, "")
	if f := c.ask(`{"type":"approve","id":"2","approval_id":"q","hash":"h","standing":"conversation","pattern":{"path":{"like":"a*"}},"until":"2030-01-02T03:04:05Z"}`, nil); f["type"] != "ok" {
		t.Fatal(f)
	}
	want := effect.Decision{ID: "q", Hash: "h", Approve: true, Standing: effect.InConversation, Pattern: intent.Pattern{"path": {Like: "a*"}}, Until: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)}
	if !reflect.DeepEqual(d.verdicts, []effect.Decision{want}) {
		t.Errorf("%+v", d.verdicts)
	}
}

func TestApprovalsAreFollowed(t *testing.T) {
	d := newDouble(nil)
	_, url := serve(t, websocket.Options{Node: d})
	c := dial(t, url, "")
	if f := c.ask(`{"type":"approvals","id":"1","follow":true}`, nil); f["type"] != "approvals" || len(f["approvals"].([]any)) != 1 {
		t.Fatal(f)
	}
	if f := c.ask(`{"type":"approvals","id":"2","follow":true}`, nil); f["code"] != "approvals_followed" {
		t.Fatal(f)
	}
	c.send(`{"type":"deny","approval_id":"cld:effect.Intent.1","hash":"9f86d081"}`)
	if f, err := c.read(); err != nil || f["type"] != "approvals" || f["re"] != "1" || len(f["approvals"].([]any)) != 0 {
		t.Fatal(f, err)
	}
	eve := dial(t, url, "eve")
	if f := eve.ask(`{"type":"approvals","id":"1"}`, nil); len(f["approvals"].([]any)) != 0 {
		t.Errorf("told a foreign user: %v", f)
	}
	if f := eve.ask(`{"type":"approval","id":"1","approval_id":"cld:effect.Intent.1"}`, nil); f["code"] != "approval_not_found" {
		t.Errorf("told a foreign user: %v", f)
	}
	broken := newDouble(nil)
	broken.fail = fault.New(fault.Unavailable, "disk_full", "no room")
	_, url = serve(t, websocket.Options{Node: broken})
	c = dial(t, url, "")
	for _, send := range []string{`{"type":"approvals","id":"1"}`, `{"type":"approvals","id":"1","follow":true}`} {
		if f := c.ask(send, nil); f["code"] != "disk_full" || f["re"] != "1" {
			t.Errorf("%s: %v", send, f)
		}
	}
}

func TestAllOfAQuestionIsTold(t *testing.T) {
	d := newDouble(func(d *double, t accepted) {
		q := waits(exactly(), "h")
		d.tell(t, true, turn.Frame{Kind: turn.FrameCall, Message: d.newID(), Call: &turn.CallView{ID: "m/0", Name: "desk.ask", Args: "{}", Status: "awaiting_approval",
			Approval: &turn.ApprovalView{ID: q.ID, Hash: q.Hash, Reason: q.Reason, Rule: q.Rule, Labels: q.Labels, Read: q.Read, Approvers: "parents", Foreign: true,
				Pattern: q.Pattern, NoGrant: "because", Agent: "desk", Tool: q.Tool, Args: string(q.Args)}}})
	})
	_, url := serve(t, websocket.Options{Node: d})
	c := dial(t, url, "")
	c.send(`{"type":"message","content":"go"}`)
	for {
		f, err := c.read()
		if err != nil {
			t.Fatal(err)
		}
		if f["type"] != "tool_call" {
			continue
		}
		b, err := json.Marshal(f["approval"])
		if err != nil {
			t.Fatal(err)
		}
		const want = `{"agent":"desk","approvers":"parents","args":{"path":"note.txt","text":"hello"},"foreign":true,"hash":"h","id":"cld:effect.Intent.1","labels":["untrusted"],` +
			`"no_grant":"because","pattern":{"path":{"is":"note.txt"},"text":{"is":"hello"}},"read":["web.fetch {\"url\":\"https://example.org\"}"],` +
			`"reason":"files.write changes something","rule":"default/tools.rego:60","tool":"files.write"}`
		if string(b) != want {
			t.Errorf("%s", b)
		}
		return
	}
}

func TestQuestionsOfTasks(t *testing.T) {
	d := newDouble(func(d *double, t accepted) {
		d.tell(t, false, turn.Frame{Kind: turn.FrameTask, Task: &turn.TaskView{ID: number(9), Call: "m/0", Tool: "mill.run", Status: "awaiting_approval",
			Approval: &turn.ApprovalView{ID: "q", Hash: "h", Reason: "it changes", Expires: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Args: `{"a": 1}`}}})
	})
	_, url := serve(t, websocket.Options{Node: d})
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
