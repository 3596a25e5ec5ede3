package edge_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"steward/test/edge"
)

// TestATaskAsksThePerson: a task of a tree asks the person. The question is shown with the tree, outlives a crash, and is
// asked once; what the person answers, or that there is no answer, reaches the task, which goes on.
func TestATaskAsksThePerson(t *testing.T) {
	t.Parallel()
	plan := object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
		{"name": "date", "purpose": "Find the date", "selected_tools": []string{}}, {"name": "rest", "purpose": "Do the rest", "after": []string{"date"}}}}
	var mu sync.Mutex
	var told []string
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		user := in.User()
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
		case strings.HasPrefix(user, "Find the date") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "person.ask", Args: object{"question": "Which weekend suits you?"}}}}
		case strings.HasPrefix(user, "Find the date"):
			mu.Lock()
			defer mu.Unlock()
			told = append(told, strings.Join(in.Results(), " "))
			return edge.Reply{Text: "heard: " + strings.Join(in.Results(), " ")}
		}
		return edge.Reply{Text: "answer: " + user + strings.Join(in.Results(), " ")}
	})})
	n.Serve()
	c := n.Dial()
	defer c.Close()
	turn, waits := "", ""
	start := func() (conversation string) {
		t.Helper()
		c.Send(object{"type": "message", "content": "Plan a trip", "agent": "planner"})
		for waits = ""; waits == ""; {
			switch f := c.Read(); {
			case f.Type == "accepted":
				turn, conversation = f.Interaction, f.Conversation
			case f.Type == "plan_task":
				var x struct {
					Approval string `json:"approval_id"`
				}
				if err := json.Unmarshal(f.Raw, &x); err != nil {
					t.Fatal(err)
				}
				waits = x.Approval
			}
		}
		return conversation
	}
	questions := func() (ids []string) {
		t.Helper()
		var list []struct {
			ID   string
			Args struct{ Question string }
		}
		n.JSON(&list, "approvals", "list")
		for _, q := range list {
			if q.Args.Question != "Which weekend suits you?" {
				t.Errorf("%+v", q)
			}
			ids = append(ids, q.ID)
		}
		return ids
	}
	conversation := start()
	if out := n.Must("requests", "show", turn); !inOrder(out, []string{"… date", "person.ask", "Which weekend suits you?", "· rest"}) {
		t.Error(out)
	}
	if q := questions(); len(q) != 1 || q[0] != waits {
		t.Fatalf("%v, and the tree waits for %s", q, waits)
	}
	named := func(out string) {
		t.Helper()
		if !strings.Contains(out, "planner > an agent for the task date: Find the date") || strings.Contains(out, "designed/") {
			t.Error(out)
		}
	}
	out := n.Must("approvals", "show", waits)
	if named(out); !strings.Contains(out, "A task of the plan has a question") {
		t.Error(out)
	}
	c.Close()
	n.Kill()
	named(n.Must("approvals", "show", waits))
	n.Serve()
	n.Until("the question after the crash", func() bool { return len(questions()) == 1 })
	if q := questions(); q[0] != waits {
		t.Errorf("it is another question: %v", q)
	}
	if r := n.Run("approvals", "approve", waits, "--answer", "The last one of May", "--always", "--yes"); r.Code != 2 {
		t.Errorf("an answer for always: %+v", r)
	}
	n.Must("approvals", "approve", waits, "--answer", "The last one of May", "--yes")
	n.Until("the answer", func() bool { return strings.Contains(last(n, conversation), "The last one of May") })
	if out := n.Must("requests", "show", turn); !inOrder(out, []string{"✓ date", "✓ person.ask", "✓ rest"}) {
		t.Error(out)
	}
	var actions []struct{ ID string }
	n.JSON(&actions, "intents", "list")
	if out := n.Must("intents", "show", actions[0].ID); !strings.Contains(out, "planner › an agent for the task date: Find the date") || strings.Contains(out, "designed/") {
		t.Error(out)
	}

	c = n.Dial()
	defer c.Close()
	conversation = start()
	n.Must("approvals", "deny", waits)
	n.Until("the second answer", func() bool { return strings.Contains(last(n, conversation), "answer: ") })
	alone := n.Run("ask", "-q", "--agent", "planner", "Plan a trip")
	if mu.Lock(); len(told) != 3 || !strings.HasSuffix(told[0], "The user answers: The last one of May") || !strings.Contains(told[1], "enied") || !strings.Contains(told[2], "nobody can be asked here") {
		t.Errorf("%q\n%+v", told, alone)
	}
	mu.Unlock()
}
