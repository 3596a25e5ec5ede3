package edge_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

type object = map[string]any

// TestAPlanRunsAsATreeOfTasks: a planner's plan is carried out by agents that are designed for
// its tasks; what comes after others gets their outputs, and one answer comes of it.
func TestAPlanRunsAsATreeOfTasks(t *testing.T) {
	t.Parallel()
	plan := object{"analysis": "two things", "plan": "look, then remind", "confidence": 0.9, "subtasks": []object{
		{"name": "clock", "purpose": "Tell the time in Tokyo", "selected_tools": []string{"time.now"}},
		{"name": "sum", "purpose": "Add 40 and 2", "selected_tools": []string{"math.add"}},
		{"name": "tea", "purpose": "Set a timer for the sum in minutes", "after": []string{"sum", "clock"}, "selected_tools": []string{"timer.set"}, "agent_system_prompt": "You set timers."},
	}}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		system, user := in.Messages[0].Text(), in.User()
		call := func(name string, args object) edge.Reply {
			if in.Rounds() == 0 {
				return edge.Reply{Calls: []edge.Call{{Name: name, Args: args}}}
			}
			return edge.Reply{Text: "done: " + strings.Join(in.Results(), " ")}
		}
		switch {
		case strings.Contains(system, "You plan for a person"):
			if !strings.Contains(system, "- timer.set") {
				t.Errorf("the planner is not told of timer.set: %s", system)
			}
			return call("plan.start", plan)
		case strings.HasPrefix(user, "Tell the time"):
			return call("time.now", object{"zone": "Asia/Tokyo"})
		case strings.HasPrefix(user, "Add 40 and 2"):
			return call("math.add", object{"a": 40, "b": 2})
		case strings.HasPrefix(user, "Set a timer"):
			if !strings.Contains(user, "done: 42") || !strings.Contains(system, "You set timers.") || len(in.Tools) > 5 {
				t.Errorf("%d tools, system %q, user %q", len(in.Tools), system, user)
			}
			return call("timer.set", object{"seconds": 2520, "name": "tea"})
		}
		t.Errorf("unexpected: %s", in.Body)
		return edge.Reply{Text: "?"}
	})})
	out := n.Run("ask", "--agent", "planner", "Time in Tokyo, and a timer for 40 and 2 minutes")
	t.Log(out)
	if !strings.Contains(out.Out, "tea: done") || !strings.Contains(out.Out, "clock: done") {
		t.Errorf("%+v", out)
	}
	want := []string{"✓ plan.start", "├─ ✓ clock", "│  └─ ✓ time.now", "├─ ✓ sum", "└─ ✓ tea", "   └─ ✓ timer.set"}
	if tree := n.Must("requests", "show", "last"); !inOrder(tree, want) {
		t.Errorf("%s\nlacks one of %q", tree, want)
	}
}

// TestAKilledTreeGoesOn: Steward is killed while some tasks of a tree are done, some are being
// worked on and some have not begun. After the next start each effect has happened once, and the
// one answer comes.
func TestAKilledTreeGoesOn(t *testing.T) {
	t.Parallel()
	leaf := func(name string, after ...string) object {
		return object{"name": name, "purpose": "Set the timer " + name, "after": append([]string{}, after...), "selected_tools": []string{"timer.set"}}
	}
	plan := object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
		leaf("one"), leaf("two"),
		{"name": "more", "purpose": "More timers", "after": []string{"one"}, "subtasks": []object{leaf("three"), leaf("four", "three")}},
	}}
	var killed atomic.Bool
	begun := make(chan struct{}, 1)
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		first, _, _ := strings.Cut(in.User(), "\n")
		name, isTask := strings.CutPrefix(first, "Set the timer ")
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person") && in.Rounds() == 0:
			return edge.Reply{Input: 10_000, Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
		case !isTask:
			return edge.Reply{Text: "answer: " + strings.Join(in.Results(), " ")}
		case in.Rounds() == 0:
			return edge.Reply{Input: 10_000, Calls: []edge.Call{{Name: "timer.set", Args: object{"seconds": 3600, "name": name}}}}
		case name == "three" && !killed.Load():
			return hangs(begun)
		}
		return edge.Reply{Input: 10_000, Text: "set " + name}
	})})
	n.Serve()
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "content": "Set four timers", "agent": "planner"})
	conversation := ""
	for conversation == "" {
		if f := c.Read(); f.Type == "accepted" {
			conversation = f.Conversation
		}
	}
	<-begun
	c.Close()
	n.Kill()
	killed.Store(true)
	n.Serve()
	n.Until("the answer", func() bool { return strings.Contains(last(n, conversation), "answer: ") })
	var p carriedOut
	n.JSON(&p, "plans", "show", "last")
	if p.Tokens < 90_000 { // nine calls, most of them before the kill
		t.Errorf("the plan has used %d tokens", p.Tokens)
	}
	text := n.Must("ask", "-q", "--model", "offline/steward", "List the timers")
	for _, name := range []string{"one", "two", "three", "four"} {
		if strings.Count(text, `"`+name+`"`) != 1 {
			t.Errorf("the timer %s is not set once: %s", name, text)
		}
		if got := last(n, conversation); !strings.Contains(got, "set "+name) {
			t.Errorf("the answer lacks %s: %s", name, got)
		}
	}
}

// inOrder reports whether a text contains others, one after the other.
func inOrder(text string, parts []string) bool {
	for _, p := range parts {
		_, rest, ok := strings.Cut(text, p)
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// planned is a request as the API tells it, as far as these tests look at it.
type planned struct {
	ID, Title, Status, State string
	Below                    []planned
}

// task finds a task of a plan by its name.
func (p planned) task(name string) planned {
	if p.Title == name && p.Status != "" {
		return p
	}
	for _, b := range p.Below {
		if t := b.task(name); t.ID != "" {
			return t
		}
	}
	return planned{}
}

// TestAPersonOrdersTasks: tasks of a tree are paused, resumed, edited, cancelled and retried while
// it is being worked on, and a task that asks the person waits for the answer.
func TestAPersonOrdersTasks(t *testing.T) {
	t.Parallel()
	subtask := func(name string, after ...string) object {
		return object{"name": name, "purpose": "Do " + name, "after": append([]string{}, after...), "selected_tools": []string{"files.write"}}
	}
	plan := object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{subtask("slow"), subtask("doomed"), subtask("later", "slow"), subtask("note", "slow")}}
	begun := make(chan struct{}, 9)
	var free atomic.Bool
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		first, _, _ := strings.Cut(in.User(), "\n")
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person"):
			if in.Rounds() == 0 {
				return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
			}
			return edge.Reply{Text: "answer: " + strings.Join(in.Results(), " ")}
		case first == "Do doomed", first == "Do slow" && !free.Load():
			return hangs(begun)
		case first == "Do note" && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: object{"path": "workspace/note.txt", "content": "x"}}}}
		}
		return edge.Reply{Text: "did " + strings.TrimPrefix(first, "Do ") + strings.Join(in.Results(), " ")}
	})})
	n.Serve()
	c := n.Dial()
	defer c.Close()
	c.Send(map[string]any{"type": "message", "content": "Do it all", "agent": "planner"})
	var turn string
	for turn == "" {
		if f := c.Read(); f.Type == "accepted" {
			turn = f.Interaction
		}
	}
	state := func(name string) planned {
		var p planned
		n.Get("/api/v1/requests/"+turn, &p)
		return p.task(name)
	}
	reaches := func(name, status string) {
		t.Helper()
		n.Until(name+" to be "+status, func() bool { return state(name).Status == status })
	}
	order := func(want int, method, name, path string, body any) {
		t.Helper()
		if status, answer := n.HTTP(method, "/api/v1/requests/"+state(name).ID+path, body); status != want {
			t.Errorf("%s %s%s: %d %s", method, name, path, status, answer)
		}
	}
	<-begun
	<-begun
	stranger := []string{"Authorization", "Bearer " + n.Key("bob")}
	for _, o := range [][2]string{{"POST", "/pause"}, {"POST", "/resume"}, {"POST", "/retry"}, {"PATCH", ""}, {"DELETE", ""}} {
		var body any
		if o[0] == "PATCH" {
			body = object{"purpose": "mine"}
		}
		if status, answer := n.HTTP(o[0], "/api/v1/requests/"+state("slow").ID+o[1], body, stranger...); status != 404 {
			t.Errorf("a stranger's %s %s: %d %s", o[0], o[1], status, answer)
		}
	}
	order(204, "POST", "slow", "/pause", nil)
	reaches("slow", "paused")
	order(409, "POST", "slow", "/pause", nil)
	order(204, "PATCH", "later", "", object{"purpose": "Do something else"})
	order(400, "PATCH", "later", "", object{"purpose": "x", "selected_tools": []string{"no.such"}})
	order(204, "DELETE", "doomed", "", nil)
	reaches("doomed", "cancelled")
	free.Store(true)
	order(204, "POST", "slow", "/resume", nil)
	reaches("later", "done")
	order(409, "POST", "later", "/retry", nil)
	n.Until("the question", func() bool { return strings.Contains(n.Run("approvals", "list").Out, "Write ") })
	var questions []struct{ ID string }
	n.JSON(&questions, "approvals", "list")
	n.Must("approvals", "approve", questions[0].ID, "--yes")
	n.Until("the answer", func() bool { return strings.Contains(n.Run("requests", "show", turn).Out, "✓ Do it all") })
	var carried struct {
		Edited bool
		Plan   struct {
			Subtasks []struct{ Name, Purpose string }
		}
	}
	n.JSON(&carried, "plans", "show", "last")
	if !carried.Edited || len(carried.Plan.Subtasks) != 4 || carried.Plan.Subtasks[2].Purpose != "Do something else" {
		t.Errorf("the plan as it was carried out: %+v", carried)
	}
	tree := n.Must("requests", "show", turn)
	if !inOrder(tree, []string{"✓ slow", "✗ doomed (cancelled", "✓ later", "✓ note", "✓ files.write"}) {
		t.Error(tree)
	}
}

// TestABadPlanGoesBack: a plan that does not hold is not begun; the model is told why and corrects it.
func TestABadPlanGoesBack(t *testing.T) {
	t.Parallel()
	var told atomic.Value
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		plan := object{"analysis": "a", "plan": "p", "confidence": 1, "selected_tools": []string{"timer.sett"}}
		switch {
		case !strings.Contains(in.Messages[0].Text(), "You plan for a person"):
			return edge.Reply{Text: "worked"}
		case in.Rounds() == 1:
			told.Store(in.Results()[0])
			plan["selected_tools"] = []string{"timer.set"}
		case in.Rounds() == 2:
			return edge.Reply{Text: "answer: " + in.Results()[0]}
		}
		return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
	})})
	out := n.Must("ask", "-q", "--agent", "planner", "A timer")
	if why, _ := told.Load().(string); !strings.Contains(why, "unknown_tool") || !strings.Contains(why, "timer.set") || !strings.Contains(out, "worked") {
		t.Errorf("told %q, answered %q", told.Load(), out)
	}
}
