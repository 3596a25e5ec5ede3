package edge_test

import (
	"strings"
	"testing"

	"steward/test/edge"
)

// planning is a model that plans one file to be written, and works as the agent that is designed for it.
func planning(t *testing.T) edge.Options {
	plan := object{"analysis": "one file", "plan": "write it", "confidence": 0.9, "subtasks": []object{
		{"name": "look", "purpose": "Tell the time", "selected_tools": []string{"time.now"}},
		{"name": "write", "purpose": "Write\n- look: a second task", "after": []string{"look"}, "evaluation": "the file is there"},
	}}
	return edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person"):
			if in.Rounds() == 0 {
				return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
			}
			return edge.Reply{Text: "answer: " + strings.Join(in.Results(), " ")}
		case strings.Contains(in.Messages[0].Text(), "You judge"):
			return edge.Reply{Text: `{"achieved":true,"reasons":"fine"}`}
		}
		return edge.Reply{Text: "worked on " + in.User()}
	})}
}

// TestAPlanIsDecidedAboutBeforeItBegins: a plan is shown as a person reads it, and is begun as it was
// approved, as it was edited, or not at all.
func TestAPlanIsDecidedAboutBeforeItBegins(t *testing.T) {
	t.Parallel()
	n := edge.New(t, planning(t))
	n.Serve()
	ask := func(command ...string) (short string) {
		t.Helper()
		out := n.Must(command...)
		if !inOrder(out, []string{"plan.start", "steps: write it", "- look: Tell the time", "    tools: time.now", "- write: Write - look: a second task", "    after: look", "    done if: the file is there"}) || strings.Contains(out, "{") {
			t.Errorf("the plan is shown as %s", out)
		}
		var waiting []struct {
			Short string `json:"intent_id"`
		}
		n.JSON(&waiting, "approvals", "list")
		if len(waiting) != 1 {
			t.Fatalf("%+v", waiting)
		}
		if shown := n.Must("approvals", "show", waiting[0].Short); !strings.Contains(shown, "- look: Tell the time") {
			t.Error(shown)
		}
		if list := n.Must("requests", "list"); strings.Contains(list, "look") {
			t.Errorf("the plan has begun: %s", list)
		}
		return waiting[0].Short
	}
	over := func(title, want string) {
		t.Helper()
		n.Until("the end of "+title, func() bool {
			return strings.Contains(n.Run("requests", "show", "last").Out, "✓ "+title)
		})
		if tree := n.Must("requests", "show", "last"); !strings.Contains(tree, "✓ look") || !strings.Contains(tree, want) {
			t.Errorf("want %q: %s", want, tree)
		}
	}
	n.Must("approvals", "approve", ask("plan", "Write one"), "--yes")
	over("Write one", "✓ write")
	n.Must("approvals", "deny", ask("ask", "--plan", "Write two"))
	n.Until("the end without a plan", func() bool { return strings.Contains(n.Run("conversations", "show", "last").Out, "answer:") })
	if said := n.Must("conversations", "show", "last"); strings.Contains(said, "worked on") {
		t.Error(said)
	}
	n.Must("approvals", "approve", ask("plan", "Write three"), "--edit", `{"analysis":"a","plan":"p","confidence":1,"subtasks":[{"name":"look","purpose":"x"},{"name":"mine","purpose":"y"}]}`, "--yes")
	over("Write three", "✓ mine")

	id := ask("plan", "Write four") // a question outlives the process
	n.Kill()
	n.Serve()
	n.Must("approvals", "approve", id, "--yes")
	over("Write four", "✓ write")
}

// TestAPlanOfOneTaskAnswersByItself: the answer of the only agent is that of the turn, and the planner is
// not asked again.
func TestAPlanOfOneTaskAnswersByItself(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case !strings.Contains(in.Messages[0].Text(), "You plan for a person"):
			return edge.Reply{Text: "It is " + strings.Repeat("very ", 2000) + "late."}
		case in.Rounds() > 0:
			t.Error("the planner is asked again")
		}
		return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1, "selected_tools": []string{"time.now"}}}}}
	})})
	if out := n.Must("ask", "-q", "--agent", "planner", "How late is it?"); !strings.HasSuffix(strings.TrimSpace(out), "very late.") || len(out) < 10_000 {
		t.Errorf("%d bytes: %s", len(out), out)
	}
	out := n.Must("conversations", "show", "last")
	if strings.Count(out, "very late.") != 1 {
		t.Error(out)
	}
}
