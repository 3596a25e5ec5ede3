package edge_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/test/edge"
)

type rpcTask struct {
	Name, State, CompletedAt string
	Completed                bool
	Meta                     struct{ URI, Purpose string }
	Output                   struct{ Content string }
	Subtasks                 []rpcTask
}

// TestPlansOverRPC: plan.Plan and assistant.Assistant answer with the message as it was recorded and with the answer, the same
// message is processed once, and the tasks are told to nobody else.
func TestPlansOverRPC(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1,
				"subtasks": []object{{"name": "one", "purpose": "Do one"}, {"name": "two", "purpose": "Do two", "after": []string{"one"}}}}}}}
		case in.Rounds() > 0:
			return edge.Reply{Text: "both are done"}
		}
		purpose, _, _ := strings.Cut(in.User(), "\n")
		return edge.Reply{Text: "I did: " + purpose}
	})})
	type said struct {
		Role, Content, Conversation string
		Meta                        struct{ URI string }
	}
	process := func(method string, in object) (out []said) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		status, answer := n.HTTP("POST", method, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...), "Content-Type", "application/connect+json")
		for r := bytes.NewReader(answer); status == 200; {
			var head [5]byte
			if _, err := r.Read(head[:]); err != nil || head[0] != 0 {
				return out
			}
			var m said
			text := make([]byte, binary.BigEndian.Uint32(head[1:]))
			if _, err := r.Read(text); err != nil || json.Unmarshal(text, &m) != nil {
				t.Fatalf("%v: %s", err, text)
			}
			out = append(out, m)
		}
		t.Fatalf("%d: %s", status, answer)
		return nil
	}
	got := process("/plan.Plan/Process", object{"content": "Do both", "id": "mine"})
	last := got[len(got)-1]
	if got[0].Role != "user" || got[0].Content != "Do both" || last.Role != "assistant" || last.Content != "both are done" || !strings.Contains(last.Meta.URI, last.Conversation) {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{"one: running", "one: done", "two: running", "two: done"} {
		if !slices.ContainsFunc(got, func(m said) bool {
			return m.Role == "tool" && m.Content == want && strings.Contains(m.Meta.URI, "/plan.Task.")
		}) {
			t.Errorf("no message says %q: %+v", want, got)
		}
	}
	conversation := got[0].Conversation
	if again := process("/plan.Plan/Process", object{"content": "Do both", "id": "mine", "conversation": conversation}); again[len(again)-1] != last {
		t.Errorf("%+v", again)
	}
	tasks := func(headers ...string) (out struct{ Tasks []rpcTask }) {
		t.Helper()
		status, answer := n.HTTP("POST", "/plan.Plan/ListTasks", object{"uri": "cld:common.Conversation." + conversation}, headers...)
		if status != 200 || json.Unmarshal(answer, &out) != nil {
			t.Fatalf("%d: %s", status, answer)
		}
		return out
	}
	all := tasks().Tasks
	if len(all) != 1 || !all[0].Completed || len(all[0].Subtasks) != 2 || all[0].Subtasks[1].Output.Content != "I did: Do two" || all[0].Subtasks[0].State != "done" ||
		all[0].Subtasks[0].CompletedAt == "" || !strings.HasPrefix(all[0].Subtasks[0].Meta.URI, all[0].Meta.URI+"/plan.Task.") || all[0].Subtasks[0].Meta.Purpose != "Do one" {
		t.Errorf("%+v", all)
	}
	var names []string
	for after, pages := "", 1; ; pages++ {
		var page struct {
			Tasks []rpcTask
			Next  string
		}
		status, answer := n.HTTP("POST", "/plan.Plan/ListTasks", object{"uri": "cld:common.Conversation." + conversation, "limit": 2, "after": after})
		if status != 200 || json.Unmarshal(answer, &page) != nil || pages > 3 {
			t.Fatalf("%d: %s", status, answer)
		}
		for _, x := range page.Tasks {
			names = append(names, x.Name)
			for _, sub := range x.Subtasks {
				names = append(names, sub.Name)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if slices.Sort(names); strings.Join(names, " ") != "one request two" {
		t.Errorf("in pages: %q", names)
	}
	if others := tasks("Authorization", "Bearer "+n.Key("bob")); len(others.Tasks) > 0 {
		t.Errorf("a stranger is told %+v", others)
	}
	if got := process("/assistant.Assistant/Process", object{"content": "Say it", "conversation": conversation, "assistant": "assistant"}); len(got) != 2 || got[1].Content != "I did: Say it" {
		t.Errorf("%+v", got)
	}
	if status, answer := n.HTTP("POST", "/assistant.Assistant/ListAssistants", object{}); status != 200 || !strings.Contains(string(answer), `"path":"planner"`) {
		t.Errorf("%d: %s", status, answer)
	}
}

// TestAPlanOverRPCWaitsForApprovals: what a task wants to do waits among the approvals, the stream says so, and it
// goes on with the answer.
func TestAPlanOverRPCWaitsForApprovals(t *testing.T) {
	t.Parallel()
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1,
				"subtasks": []object{{"name": "note", "purpose": "Note the milk", "selected_tools": []string{"todo.add"}}, {"name": "rest", "purpose": "Do the rest", "after": []string{"note"}}}}}}}
		case strings.HasPrefix(in.User(), "Note the milk") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "todo.add", Args: object{"title": "milk"}}}}
		}
		return edge.Reply{Text: "all is done"}
	})})
	body, err := json.Marshal(object{"content": "Note the milk and do the rest"})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan string, 1)
	go func() {
		status, answer := n.HTTP("POST", "/plan.Plan/Process", append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...), "Content-Type", "application/connect+json")
		over <- fmt.Sprint(status, " ", string(answer))
	}()
	var questions []struct{ ID, Tool string }
	n.Until("the question", func() bool { n.JSON(&questions, "approvals", "list"); return len(questions) > 0 })
	if questions[0].Tool != "todo.add" {
		t.Errorf("%+v", questions)
	}
	n.Must("approvals", "approve", questions[0].ID, "--yes")
	if said := <-over; !inOrder(said, []string{"note: awaiting_approval (", "note: done", "rest: done", "all is done"}) {
		t.Error(said)
	}
}
