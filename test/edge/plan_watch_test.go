package edge_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"steward/test/edge"
)

// watchable is a model that plans two tasks, one after the other. The first one works until it is let go.
func watchable(t *testing.T, begun chan struct{}, free *atomic.Bool) edge.Options {
	plan := object{"analysis": "a", "plan": "p", "confidence": 1, "subtasks": []object{
		{"name": "look", "purpose": "Do look", "selected_tools": []string{"time.now"}},
		{"name": "write", "purpose": "Do write", "after": []string{"look"}},
	}}
	return edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case strings.Contains(in.Messages[0].Text(), "You plan for a person"):
			if in.Rounds() == 0 {
				return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: plan}}}
			}
			return edge.Reply{Text: "answer"}
		case strings.HasPrefix(in.User(), "Do look") && !free.Load():
			return hangs(begun)
		case strings.HasPrefix(in.User(), "Do look") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "time.now", Args: object{}}}}
		}
		return edge.Reply{Text: "did it"}
	})}
}

// toFile starts a command and returns a function that returns its output so far.
func toFile(t *testing.T, cmd *exec.Cmd) func() string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	cmd.Stdout = f
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() string {
		b, err := os.ReadFile(f.Name())
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
}

// TestARequestIsWatchedUntilItEnds: a watch tells each change of a task as a line, goes on when the Steward
// that it watches is killed and started again, and ends with the outcome of the request.
func TestARequestIsWatchedUntilItEnds(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 9)
	var free atomic.Bool
	n := edge.New(t, watchable(t, begun, &free))
	n.Serve()
	c := n.Dial()
	c.Send(object{"type": "message", "content": "Do both", "agent": "planner"})
	<-begun
	lines, text := n.Command("requests", "watch", "last", "--json"), n.Command("requests", "watch", "last")
	out, plain := toFile(t, lines), toFile(t, text)
	n.Until("the first task", func() bool { return strings.Contains(out(), `"running"`) && strings.Contains(plain(), "look") })
	c.Close()
	n.Kill()
	free.Store(true)
	n.Serve()
	if err := lines.Wait(); err != nil {
		t.Errorf("%v: %s", err, out())
	}
	if err := text.Wait(); err != nil {
		t.Errorf("%v: %s", err, plain())
	}
	var told []string
	dec := json.NewDecoder(strings.NewReader(out()))
	for dec.More() {
		var v struct {
			planned
			Parent string `json:"parent_id"`
			Tool   string
		}
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		if len(v.Below) > 0 || v.Parent == "" != (v.Title == "Do both") {
			t.Errorf("%+v", v)
		}
		told = append(told, v.Title+v.Tool+" "+v.Status)
	}
	if got := strings.Join(told, "\n"); !inOrder(got, []string{"Do both", "plan.start", "look running", "write pending", "look done", "write done"}) {
		t.Error(got)
	}
	if got := plain(); !inOrder(got, []string{"… look (running)", "· write (pending)", "✓ look", "✓ write"}) || strings.Contains(got, "\x1b") {
		t.Error(got)
	}
}

// TestTasksComeAsFrames: over the WebSocket each change of a task is a frame of its own, also for a client
// that comes while the plan is carried out.
func TestTasksComeAsFrames(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 9)
	var free atomic.Bool
	n := edge.New(t, watchable(t, begun, &free))
	n.Serve()
	states := func(frames ...edge.Frame) (out []string) {
		for _, f := range frames {
			var x struct {
				Type string
				Task struct{ Title, Kind, Status, Agent string }
			}
			if err := json.Unmarshal([]byte(f.Raw), &x); err != nil {
				t.Fatal(err)
			}
			if x.Type != "plan_task" {
				continue
			}
			if x.Task.Kind != "plan_task" || x.Task.Agent != "designed" {
				t.Errorf("%s", f.Raw)
			}
			out = append(out, x.Task.Title+" "+x.Task.Status)
		}
		return out
	}
	c := n.Dial()
	defer c.Close()
	c.Send(object{"type": "message", "content": "Do both", "agent": "planner"})
	conv := ""
	for conv == "" {
		conv = c.Read().Conversation
	}
	<-begun
	late := n.Dial()
	defer late.Close()
	late.Send(object{"type": "resume", "conversation_id": conv, "cursor": "now"})
	var seen []string
	for len(seen) < 2 {
		seen = append(seen, states(late.Read())...)
	}
	if got := strings.Join(seen, ", "); got != "look running, write pending" {
		t.Error(got)
	}
	n.Must("requests", "cancel", task(n, "write"))
	var all []string
	for !strings.Contains(strings.Join(all, ", "), "write cancelled") {
		all = append(all, states(c.Read())...)
	}
	if got := strings.Join(all, ", "); !inOrder(got, []string{"look running", "write pending", "write cancelled"}) {
		t.Error(got)
	}
}

// task returns the id of a task of the newest request.
func task(n *edge.Node, name string) string {
	n.T.Helper()
	var tree planned
	n.JSON(&tree, "requests", "show", "last")
	return tree.task(name).ID
}
