package edge_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// carriedOut is the record of a plan, as far as these tests look at it.
type carriedOut struct {
	ID, Request, Outcome string
	Conversation         string `json:"conversation_id"`
	Edited               bool
	Tasks                []struct {
		Name, State, Agent string
		Tools              []string
	}
	Iterations, Intents, Corrections int
	Tokens                           int64
}

// TestAPlanIsRecorded: what was planned, used, spent and achieved is recorded with the plan's conversation,
// and is deleted with it.
func TestAPlanIsRecorded(t *testing.T) {
	t.Parallel()
	plan := object{"analysis": "two things", "plan": "look, then set", "confidence": 0.9, "subtasks": []object{
		{"name": "clock", "purpose": "Tell the time", "selected_tools": []string{"time.now", "math.add"}, "evaluation": "it is exact"},
		{"name": "tea", "purpose": "Set the tea timer", "after": []string{"clock"}, "selected_tools": []string{"timer.set"}, "agent_system_prompt": "You set timers.", "max_iterations": 4},
	}}
	var judged atomic.Int32
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		system, user := in.Messages[0].Text(), in.User()
		switch {
		case strings.Contains(system, "You plan for a person"):
			if in.Rounds() == 0 {
				return edge.Reply{Input: 50, Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
			}
			return edge.Reply{Text: "answer"}
		case strings.Contains(system, "You judge"):
			return edge.Reply{Text: map[bool]string{true: `{"achieved":false,"reasons":"not exact"}`, false: `{"achieved":true,"reasons":"exact"}`}[judged.Add(1) == 1]}
		case strings.HasPrefix(user, "Tell the time") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "time.now", Args: object{}}}}
		case strings.HasPrefix(user, "Set the tea timer") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: object{"seconds": 60, "name": "tea"}}}}
		}
		return edge.Reply{Text: "did it", Input: 50}
	})})
	n.Serve()
	n.Must("ask", "-q", "--agent", "planner", "Tell the time and make tea")
	var list []carriedOut
	n.JSON(&list, "plans", "list")
	if len(list) != 1 || list[0].Outcome != "done" || list[0].Request != "Tell the time and make tea" {
		t.Fatalf("%+v", list)
	}
	var p carriedOut
	n.JSON(&p, "plans", "show", list[0].ID[:13])
	if len(p.Tasks) != 2 || strings.Join(p.Tasks[0].Tools, " ") != "time.now" || strings.Join(p.Tasks[1].Tools, " ") != "timer.set" ||
		p.Iterations != 6 || p.Intents != 1 || p.Corrections != 1 || p.Tokens < 100 || p.Edited {
		t.Errorf("%+v", p)
	}
	if shown := n.Must("plans", "show", "last"); !inOrder(shown, []string{"Tell the time and make tea", "clock", "time.now", "tea", "timer.set", "steps: look, then set", "prompt: You set timers."}) {
		t.Error(shown)
	}

	// The designed agent is kept, and used once it is approved.
	if r := n.Run("agents", "keep", "last"); r.Code == 0 || !strings.Contains(r.Err, "clock, tea") {
		t.Errorf("%+v", r)
	}
	n.Must("agents", "keep", "last", "tea_maker", "--task", "tea")
	if r := n.Run("ask", "-q", "--agent", "tea_maker", "Set the tea timer"); r.Code == 0 {
		t.Errorf("it is used without an approval: %+v", r)
	}
	shown := n.Must("agents", "show", "tea_maker")
	for _, want := range []string{"Set the tea timer", "You set timers.", "timer.set", "iterations: 4", "say: Set the tea timer"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the kept agent lacks %q: %s", want, shown)
		}
	}
	n.Must("agents", "approve", "tea_maker", "--yes")
	if out := n.Must("ask", "-q", "--agent", "tea_maker", "Set the tea timer"); !strings.Contains(out, "did it") {
		t.Error(out)
	}

	n.Must("conversations", "delete", list[0].Conversation, "--yes")
	if n.JSON(&list, "plans", "list"); len(list) != 0 {
		t.Errorf("a deleted conversation's plan is listed: %+v", list)
	}
}

// TestAPlanIsAnExampleForSimilarRequests: the planner is shown the plan of a similar request that succeeded,
// and no others.
func TestAPlanIsAnExampleForSimilarRequests(t *testing.T) {
	t.Parallel()
	var systems atomic.Value
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		system := in.Messages[0].Text()
		switch {
		case !strings.Contains(system, "You plan for a person"):
			if strings.Contains(in.User(), "lamps") {
				return edge.Refuse(400, `{"error":{"message":"no"}}`)
			}
			return edge.Reply{Text: "did it"}
		case in.Rounds() > 0:
			return edge.Reply{Text: "answer"}
		}
		systems.Store(system)
		return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "walk about: " + in.User(), "purpose": in.User(), "confidence": 1, "selected_tools": []string{"time.now"}}}}}
	})})
	n.Serve()
	ask := func(text string) string {
		t.Helper()
		n.Run("ask", "-q", "--agent", "planner", text)
		system, _ := systems.Load().(string)
		return system
	}
	for _, text := range []string{"Plan a weekend trip to the mountains", "Sort the invoices of October", "Turn off all lamps in the mountain house"} {
		if got := ask(text); strings.Contains(got, "walk about") {
			t.Errorf("%q: %s", text, got)
		}
	}
	got := ask("Plan a trip to the mountains for the weekend after next")
	if !strings.Contains(got, "walk about: Plan a weekend trip to the mountains") || strings.Contains(got, "invoices") || strings.Contains(got, "lamps") {
		t.Error(got)
	}
	if got := ask("What is the capital of Peru?"); strings.Contains(got, "walk about") {
		t.Error(got)
	}
	n.Stop()
	n.Serve()
	if got := ask("Sort the invoices of November"); !strings.Contains(got, "walk about: Sort the invoices of October") {
		t.Errorf("after a restart: %s", got)
	}
	var list []struct {
		Request      string
		Conversation string `json:"conversation_id"`
	}
	n.JSON(&list, "plans", "list")
	for _, p := range list {
		if strings.Contains(p.Request, "October") {
			n.Must("conversations", "delete", "--yes", "--erase", p.Conversation)
		}
	}
	if got := ask("Sort the invoices of December"); strings.Contains(got, "October") || !strings.Contains(got, "walk about: Sort the invoices of November") {
		t.Errorf("after an erasure: %s", got)
	}
}

// TestATaskIsDoneIfItsActionsAre: whatever its agent says, a task whose action was denied is not done, and its
// plan is no example. A person who looks at the plan sees it as it was carried out.
func TestATaskIsDoneIfItsActionsAre(t *testing.T) {
	t.Parallel()
	var systems atomic.Value
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		system := in.Messages[0].Text()
		switch {
		case strings.Contains(system, "You plan for a person"):
			systems.Store(system)
			if in.Rounds() > 0 {
				return edge.Reply{Text: "all of it is done"}
			}
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
				{"name": "note", "purpose": "Write the note", "selected_tools": []string{"todo.add", "files.write"}},
				{"name": "clock", "purpose": "Tell the time", "selected_tools": []string{"time.now"}}}}}}}
		case strings.HasPrefix(in.User(), "Write the note") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "todo.add", Args: object{"title": "milk"}}}}
		}
		return edge.Reply{Text: "did it"}
	})})
	n.Serve()
	n.Run("ask", "-q", "--agent", "planner", "Note the milk for the party")
	var list []carriedOut
	n.JSON(&list, "plans", "list")
	if len(list) != 1 || list[0].Outcome != "failed" {
		t.Fatalf("%+v", list)
	}
	var p carriedOut
	n.JSON(&p, "plans", "show", list[0].ID)
	if len(p.Tasks) != 2 || p.Tasks[0].State != "failed" || p.Tasks[1].State != "done" {
		t.Errorf("%+v", p.Tasks)
	}
	if shown := n.Must("requests", "show", "last"); !strings.Contains(shown, "✗ note") || !strings.Contains(shown, "✓ clock") {
		t.Error(shown)
	}
	n.Run("ask", "-q", "--agent", "planner", "Note the milk for the other party")
	if system, _ := systems.Load().(string); strings.Contains(system, "Plans of similar requests") {
		t.Errorf("a plan that failed is an example: %s", system)
	}
}
