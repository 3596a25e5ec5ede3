package edge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/test/edge"
)

// TestDenialsOfAChildAgentAreReported: an agent called by another one is denied
// a call but claims success. The denial still shows in the line of the calling
// tool call and in the conversation's log.
func TestDenialsOfAChildAgentAreReported(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case in.Rounds() > 0:
			return edge.Reply{Text: "I did it all."}
		case in.User() == "write it":
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: map[string]any{"path": "notes/a.txt", "content": "x"}}}}
		case in.User() == "pass it on":
			return edge.Reply{Calls: []edge.Call{{Name: "clerk.ask", Args: map[string]any{"request": "write it"}}}}
		}
		return edge.Reply{Calls: []edge.Call{{Name: "desk.ask", Args: map[string]any{"request": "pass it on"}}}}
	})})
	n.Write("folders: [{name: notes, path: "+t.TempDir()+", write: true}]\n", ".config", "steward", "steward.yaml")
	n.Write("name: desk\ndescription: Passes on.\n", "data", "agents", "desk", "agent.yaml")
	n.Write("name: clerk\ndescription: Writes.\ntools: [files.*]\n", "data", "agents", "desk", "agents", "clerk", "agent.yaml")
	n.Must("agents", "approve", "desk", "--all", "--yes")

	if r := n.Run("ask", "write something"); !strings.Contains(r.Err, "← desk.ask ok: denied to agents: files.write; I did it all.") {
		t.Errorf("ask: %s%s", r.Out, r.Err)
	}
	var out struct{ Tools []struct{ Denied []string } }
	if err := json.Unmarshal([]byte(n.Must("ask", "--json", "write something")), &out); err != nil || len(out.Tools) != 1 || strings.Join(out.Tools[0].Denied, " ") != "files.write" {
		t.Errorf("ask --json: %v %+v", err, out)
	}
	log := n.Must("log", "--conversation", "last")
	if !strings.Contains(log, "✗  files.write") || strings.Count(log, "  ✓  ") != 2 {
		t.Errorf("log: %s", log)
	}
	if log = n.Must("log", "--conversation", "last", "--outcome", "failure"); !strings.Contains(log, "✗  files.write") || strings.Contains(log, ".ask") {
		t.Errorf("log of failures: %s", log)
	}

	n.Serve()
	done := n.Dial().Turn(map[string]any{"content": "write something"}, nil)
	if len(done.Results) != 1 || !strings.Contains(string(done.Results[0].Raw), `"denied":["files.write"]`) {
		t.Errorf("over WebSocket: %+v", done.Results)
	}
	if r := n.Run("ask", "write something"); !strings.Contains(r.Err, "denied to agents: files.write") {
		t.Errorf("ask over a socket: %s%s", r.Out, r.Err)
	}
}

// TestTheChatShowsTheSizeOfALongText: the chat shows how much is sent and, if a
// price is known, what it costs.
func TestTheChatShowsTheSizeOfALongText(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(edge.Asked) edge.Reply { return edge.Reply{Text: "read"} })})
	n.Write("prices: {openai/gpt-test: {input: 2}}\nwindows: {openai/gpt-test: 100000, openai/unknown: 100000}\n", ".config", "steward", "steward.yaml")
	long := strings.Repeat("lorem ipsum ", 10_000)
	for _, c := range []struct{ text, model, want string }{
		{long, "openai/gpt-test", "That is 120.0 KB of text, about 30 thousand tokens, about 0.06 USD for each call of the model\n"},
		{long, "openai/unknown", "about 30 thousand tokens\n"},
		{"short", "openai/gpt-test", ""},
	} {
		r := n.RunIn(c.text, "ask", "--model", c.model, "What is this?")
		if r.Code != 0 || !strings.Contains(r.Err, c.want) || c.want == "" && strings.Contains(r.Err, "tokens") {
			t.Errorf("%s: exit %d: %s", c.model, r.Code, r.Err)
		}
	}
}
