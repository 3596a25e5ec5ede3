package edge_test

import (
	"strings"
	"testing"

	"steward/test/edge"
)

// TestADesignedAgentOutlivesItsTree: what an agent did that was designed for a task is still that agent's after a
// restart, when its tree is over: it is undone with its tool. The agent is nobody else's.
func TestADesignedAgentOutlivesItsTree(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case in.User() == "A timer of an hour, please" && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: object{"analysis": "a", "plan": "p", "confidence": 1, "purpose": "Set a timer", "selected_tools": []string{"timer.set"}}}}}
		case in.User() == "Set a timer" && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "timer.set", Args: object{"seconds": 3600, "name": "earlgrey"}}}}
		}
		return edge.Reply{Text: "set"}
	})})
	n.Serve()
	n.Must("ask", "-q", "--agent", "planner", "A timer of an hour, please")
	n.Stop()
	n.Serve()
	var done []struct{ ID, Tool, Agent, State string }
	n.JSON(&done, "intents", "list")
	if len(done) != 1 || done[0].Tool != "timer.set" || !strings.HasPrefix(done[0].Agent, "designed/") {
		t.Fatalf("%+v", done)
	}
	n.Must("intents", "undo", done[0].ID)
	if left := n.Must("ask", "-q", "--model", "offline/steward", "List the timers"); strings.Contains(left, "earlgrey") {
		t.Errorf("the timer is still there: %s", left)
	}
	for _, args := range [][]string{{"ask", "--agent", done[0].Agent, "Who are you?"}, {"resources", "get", "cld:agent.Agent." + strings.ReplaceAll(done[0].Agent, "/", "%2F")}} {
		if r := n.Run(args...); r.Code == 0 || !strings.Contains(r.Err, "there is no") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}
