package page_test

import (
	"bufio"
	"strings"
	"testing"

	"steward/client"
)

// A plan is followed while it is carried out, and what its tasks are about can be changed. What they did can be
// read afterwards. All of it is the user's alone.
func TestAPlanIsFollowedAndSteered(t *testing.T) {
	h := newHouse(t, scripted{})
	h.has(h.get("ana", "/plans", 200), "Nothing is being worked on.", "No plan has been carried out yet.")
	chat := h.say("ana", "Plan a trip", "planner")
	q := h.asked("ana", 1)[0]
	open, err := h.node.Requests(t.Context(), "ana", false, 10)
	if err != nil {
		t.Fatal(err)
	}
	turn := ""
	for _, r := range open {
		if r.Kind == "turn" {
			turn = r.ID
		}
	}
	h.has(h.get("ana", "/plans", 200), "/plans/"+turn, "Plan a trip", "0 of 2 tasks")
	screen := h.get("ana", "/plans/"+turn, 200)
	h.has(screen, `id="tree"`, `data-live="of=plan&amp;request=`+turn, `data-do="task-answer"`, "Which &lt;b&gt;weekend&lt;/b&gt;?", "Cancel all", "-<b>weekend")

	tree, err := h.node.RequestTree(t.Context(), "ana", turn)
	if err != nil {
		t.Fatal(err)
	}
	date, rest := task(&tree, "date"), task(&tree, "rest")
	if date == nil || rest == nil || date.WorkedIn == "" {
		t.Fatalf("%+v", tree)
	}
	h.has(screen, `id="plan-`+date.ID, `id="plan-`+rest.ID, `data-field-order="pause"`)
	conv := strings.TrimPrefix(chat, "/chat/")
	for _, who := range []string{"eve", "eve+admin"} {
		h.get(who, "/plans/"+turn, 404)
		h.has(h.get(who, "/plans", 200), "-Plan a trip")
		if out := h.do(who, "task-edit-ask", map[string]string{"id": rest.ID, "conversation": conv}); out.Error.Code == "" {
			t.Errorf("%+v", out)
		}
		if out := h.do(who, "task-messages", map[string]string{"conversation": date.WorkedIn}); out.Error.Code != "conversation_not_found" {
			t.Errorf("%+v", out)
		}
		if out := h.do(who, "task-order", map[string]string{"id": rest.ID, "order": "cancel"}); out.Error.Code == "" {
			t.Errorf("%+v", out)
		}
	}
	h.has(ptr(h.do("ana", "task-edit-ask", map[string]string{"id": rest.ID, "conversation": conv})).html(), "Do the rest")
	if out := h.do("ana", "task-edit", map[string]string{"id": rest.ID, "conversation": conv, "purpose": "Do nothing"}); out.Error.Code != "" {
		t.Errorf("%+v", out)
	}
	h.do("ana", "task-order", map[string]string{"id": rest.ID, "order": "pause"})
	h.has(h.get("ana", "/plans/"+turn, 200), `data-state="paused"`, `data-field-order="resume"`)
	if out := h.do("ana", "task-order", map[string]string{"id": rest.ID, "order": "resume"}); out.Error.Code != "" {
		t.Errorf("%+v", out)
	}
	h.has(ptr(h.do("ana", "task-cancel-ask", map[string]string{"id": turn, "title": "Plan a trip"})).html(), "What has been done stays done.")

	live := h.request("ana", "GET", "/live?of=plan&request="+turn, nil)
	defer live.Body.Close()
	if out := h.do("ana", "task-answer", map[string]string{"id": q.ID, "hash": q.Hash, "question": "Which <b>weekend</b>?", "answer": "The last one"}); out.Error.Code != "" {
		t.Fatalf("%+v", out)
	}
	lines, ended := bufio.NewScanner(live.Body), false
	lines.Buffer(nil, 1<<20)
	for !ended && lines.Scan() {
		ended = strings.Contains(lines.Text(), `"id":"plan-summary"`) && strings.Contains(lines.Text(), "Ended")
	}
	if !ended {
		t.Fatal(lines.Err())
	}
	plans, err := h.node.Plans(t.Context(), "ana", 10)
	if err != nil || len(plans) != 1 {
		t.Fatal(plans, err)
	}
	h.has(h.get("ana", "/plans", 200), "Nothing is being worked on.", "/plans/"+plans[0].ID)
	h.has(h.get("ana", "/plans/"+plans[0].ID, 200), "Edited", "-data-live", `data-state="done"`, "-Cancel all")
	h.get("eve", "/plans/"+plans[0].ID, 404)
	h.has(ptr(h.do("ana", "task-messages", map[string]string{"conversation": date.WorkedIn, "title": "date"})).html(), "The last one", "date")

	h.has(h.get("ana", "/activity", 200), "/activity/requests/"+turn, "Plan a trip")
	timeline := h.get("ana", "/activity/requests/"+turn, 200)
	h.has(timeline, `id="timeline"`, "Model call", "9 tokens in, 3 out", "Prompt and answer", "allowed by you", "Do nothing")
	h.get("eve", "/activity/requests/"+turn, 404)
	_, after, _ := strings.Cut(timeline, `data-field-conversation="`+date.WorkedIn+`" data-field-message="`)
	answer, _, _ := strings.Cut(after, `"`)
	call := map[string]string{"conversation": date.WorkedIn, "message": answer}
	h.has(ptr(h.do("ana", "model-call", call)).html(), "Instructions", "Tools: ", "Find the date", "person.ask")
	if out := h.do("eve", "model-call", call); out.Error.Code != "message_not_found" {
		t.Errorf("%+v", out)
	}
	h.has(h.get("ana", "/activity/usage?by=agent", 200), "agents of plans", "planner", `role="img"`, `id="usage"`, "-by user")
	h.has(h.get("ana+admin", "/activity/usage", 200), "<rect", "by user", "all users")
	h.has(h.get("eve", "/activity/usage", 200), "No model was called in this time.")
}

// task returns a task of a tree by its name.
func task(r *client.Request, name string) *client.Request {
	if r.Kind == "plan_task" && r.Title == name {
		return r
	}
	for i := range r.Below {
		if found := task(&r.Below[i], name); found != nil {
			return found
		}
	}
	return nil
}

func ptr[T any](x T) *T { return &x }

// The inbox has the questions of each conversation, what was decided, and what is allowed from now on. Actions can
// be explained and taken back.
func TestTheInboxAndDecisions(t *testing.T) {
	h := newHouse(t, scripted{})
	h.has(h.get("ana", "/approvals", 200), "Nothing waits for you.", "There are none.", "You have not decided about anything yet.")
	chat := h.say("ana", "test.put milk", "")
	q := h.asked("ana", 1)[0]
	h.has(h.get("ana", "/approvals", 200), `id="q-`+q.Short, chat)
	h.has(h.get("eve", "/approvals", 200), "Nothing waits for you.")
	if out := h.do("ana", "answer", map[string]string{"id": q.ID, "hash": q.Hash, "verdict": "allow", "standing": "always"}); out.Error.Code != "" {
		t.Fatalf("%+v", out)
	}
	h.asked("ana", 0)
	second := h.say("ana", "test.put bread", "")
	q2 := h.asked("ana", 1)[0]
	if out := h.do("ana", "answer", map[string]string{"id": q2.ID, "hash": q2.Hash, "verdict": "deny", "reason": "we have enough"}); out.Error.Code != "" {
		t.Fatalf("%+v", out)
	}
	h.asked("ana", 0)
	inbox := h.get("ana", "/approvals", 200)
	h.has(inbox, "test.put", "in force", "everywhere", "denied by you", "we have enough", "allowed by you")
	_, after, _ := strings.Cut(inbox, `id="grant-`)
	grant, _, _ := strings.Cut(after, `"`)
	h.has(ptr(h.do("ana", "grant-edit-ask", map[string]string{"id": grant})).html(), `what is &#34;milk&#34;`)
	wider := h.do("ana", "grant-edit", map[string]string{"id": grant, "pattern": "what any", "length": "24h"})
	h.has(wider.html(), "Allow more than now?", "what any", `name="hash"`)
	if out := h.do("eve", "grant-revoke", map[string]string{"id": grant}); out.Error.Code != "grant_not_found" {
		t.Errorf("%+v", out)
	}
	narrow := h.do("ana", "grant-edit", map[string]string{"id": grant, "pattern": `what is "milk"`, "length": "24h"})
	h.has(narrow.html(), `id="grants"`, "-for ever")
	h.has(ptr(h.do("ana", "grant-revoke-ask", map[string]string{"id": grant, "tool": "test.put"})).html(), "You will be asked about test.put again")
	h.has(ptr(h.do("ana", "grant-revoke", map[string]string{"id": grant})).html(), "There are none.")

	h.has(h.get("ana", "/activity/decisions", 200), `id="intent-`+q.Short, `id="intent-`+q2.Short, "Undo …")
	h.has(h.get("ana", "/activity/decisions?state=denied", 200), "-intent-"+q.Short, "intent-"+q2.Short)
	h.has(h.get("eve", "/activity/decisions", 200), "There are no such actions.")
	h.has(h.get("ana", "/activity/log?tool=test.*&outcome=success", 200), "intent-"+q.Short, "-intent-"+q2.Short, chat, "-"+second)
	h.has(h.get("ana", "/activity/log?conversation="+strings.TrimPrefix(second, "/chat/"), 200), "-intent-"+q.Short, "intent-"+q2.Short, "Only of one conversation:")
	h.has(h.get("ana", "/activity/log?since=2001-01-01&until=2001-01-31", 200), "There are no such tool calls.")
	h.get("ana", "/activity/log?since=today", 400)
	h.has(h.get("ana", "/activity/log?limit=1&tool=test.*", 200), "/activity/log?limit=4&amp;tool=test.%2A", "-intent-"+q.Short)
	h.has(h.get("ana", "/activity/decisions?limit=1", 200), "limit=4", "Show more", "-intent-"+q.Short)
	h.has(ptr(h.do("ana", "why", map[string]string{"id": q2.Short})).html(), "How it was decided", "How policy decides today", "All rules")
	if out := h.do("eve", "why", map[string]string{"id": q2.Short}); out.Error.Code != "intent_not_found" {
		t.Errorf("%+v", out)
	}
	h.has(ptr(h.do("ana", "intent-ask", map[string]string{"id": q.Short, "what": "undo", "summary": "x"})).html(), "Undo?", `data-do="intent-do"`)
	if out := h.do("eve", "intent-do", map[string]string{"id": q.Short, "what": "undo"}); out.Error.Code != "intent_not_found" {
		t.Errorf("%+v", out)
	}
	if out := h.do("ana", "intent-do", map[string]string{"id": q.Short, "what": "undo"}); out.Error.Code != "" || out.Toast == "" {
		t.Errorf("%+v", out)
	}
}
