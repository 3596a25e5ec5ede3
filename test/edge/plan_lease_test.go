package edge_test

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"steward/test/edge"
)

// TestAParkedTreeGoesOnWhenItIsResumed: a tree of tasks is handed over at a SIGTERM, then is
// being worked on at two crashes in a row, and so its turn is parked. When a person resumes it, it goes
// on where it was: what was done stays done, each effect happens once, and no task is given up.
func TestAParkedTreeGoesOnWhenItIsResumed(t *testing.T) {
	t.Parallel()
	leaf := func(name string, after ...string) object {
		return object{"name": name, "purpose": "Set the timer " + name, "after": append([]string{}, after...), "selected_tools": []string{"timer.set"}}
	}
	plan := object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{leaf("one"),
		{"name": "more", "purpose": "More timers", "after": []string{"one"}, "subtasks": []object{leaf("two"), leaf("three"), leaf("four", "three")}}}}
	var free atomic.Bool
	begun := make(chan struct{}, 1)
	n := edge.Serve(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		first, _, _ := strings.Cut(in.User(), "\n")
		name, isTask := strings.CutPrefix(first, "Set the timer ")
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
		case !isTask:
			return edge.Reply{Text: "answer: " + strings.Join(in.Results(), " ")}
		case in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: object{"seconds": 3600, "name": name}}}}
		case name == "three" && !free.Load(): // its timer is set, and it has not said so yet
			return hangs(begun)
		}
		return edge.Reply{Text: "set " + name}
	})})
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "content": "Set four timers", "agent": "planner"})
	var conversation, turn string
	for conversation == "" {
		if f := c.Read(); f.Type == "accepted" {
			conversation, turn = f.Conversation, f.Interaction
		}
	}
	c.Close()
	<-begun
	if p, err := os.FindProcess(n.PID()); err != nil || p.Signal(syscall.SIGTERM) != nil {
		t.Fatal(err)
	}
	n.Until("the end of Steward", func() bool { return !n.Alive() })
	n.Stop() // also tells how it ended
	for range 2 {
		n.Serve()
		<-begun
		n.Kill()
	}
	n.Serve()
	parked := func(r request) bool { return r.ID == turn && r.Status == "parked" }
	if list := requests(n); !slices.ContainsFunc(list, parked) {
		t.Errorf("%+v", list)
	}
	free.Store(true)
	n.Must("requests", "resume", turn)
	n.Until("the answer", func() bool { return strings.Contains(last(n, conversation), "answer: ") })
	text := n.Must("ask", "-q", "--model", "offline/steward", "List the timers")
	for _, name := range []string{"one", "two", "three", "four"} {
		if strings.Count(text, `"`+name+`"`) != 1 {
			t.Errorf("the timer %s is not set once: %s", name, text)
		}
		if got := last(n, conversation); !strings.Contains(got, "set "+name) {
			t.Errorf("the answer lacks %s: %s", name, got)
		}
	}
	var p planned
	n.Get("/api/v1/requests/"+turn, &p)
	for _, name := range []string{"one", "more", "two", "three", "four"} {
		if got := p.task(name).Status; got != "done" {
			t.Errorf("the task %s is %s", name, got)
		}
	}
}
