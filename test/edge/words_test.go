package edge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/test/edge"
)

// TestACallIsToldInTheSameWordsEverywhere: each tool_call whose arguments are complete says in words
// what it does, without secrets, and the work log says the same.
func TestACallIsToldInTheSameWordsEverywhere(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("aB3x", 9)
	calls := []struct {
		edge.Call
		want string
	}{
		{edge.Call{Name: "timer.set", Args: map[string]any{"seconds": 5400, "name": "bread"}}, "Set a timer for 1 hour 30 minutes: bread"},
		{edge.Call{Name: "math.multiply", Args: map[string]any{"a": 6, "b": 7}}, "Multiply 6 by 7"},
		{edge.Call{Name: "desk.ask", Args: map[string]any{"request": "say hello"}}, "Ask desk: say hello"},
		{edge.Call{Name: "files.read", Args: map[string]any{"path": "notes/" + token}}, "Read notes/[secret]"},
	}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() > 0 || in.User() != "do it" {
			return edge.Reply{Text: "hello"}
		}
		var reply edge.Reply
		for _, c := range calls {
			reply.Calls = append(reply.Calls, c.Call)
		}
		return reply
	})})
	n.Write("folders: [{name: notes, path: "+t.TempDir()+"}]\n", ".config", "steward", "steward.yaml")
	n.Write("name: desk\ndescription: Says hello.\n", "data", "agents", "desk", "agent.yaml")
	n.Must("agents", "approve", "desk", "--all", "--yes")
	n.Serve()
	done := n.Dial().Turn(map[string]any{"content": "do it"}, nil)
	said := map[string]string{}
	for _, f := range done.Frames {
		var call struct{ Name, Summary, Status string }
		if err := json.Unmarshal(f.Raw, &call); err != nil {
			t.Fatal(err)
		}
		switch {
		case f.Type == "tool_call" && call.Status == "running":
			said[call.Name] = call.Summary
		case call.Summary != "":
			t.Errorf("a call that is not complete, or over, has a summary: %s", f.Raw)
		}
	}
	var log struct {
		Entries []struct{ Tool, Summary string }
	}
	if err := json.Unmarshal([]byte(n.Must("log", "--json", "--conversation", done.Conversation)), &log.Entries); err != nil {
		t.Fatal(err)
	}
	logged := map[string]string{}
	for _, en := range log.Entries {
		logged[en.Tool] = en.Summary
	}
	for _, c := range calls {
		if said[c.Name] != c.want || logged[c.Name] != c.want {
			t.Errorf("%s is told as %q and logged as %q, want %q", c.Name, said[c.Name], logged[c.Name], c.want)
		}
	}
}
