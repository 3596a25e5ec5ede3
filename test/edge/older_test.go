package edge_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"steward/test/edge"
)

// testdata/older.tar.gz is the data folder of an older Steward, with the agent
// lists. It predates the rewrite of background calls, context windows and the
// agents' databases (commit 2a78422). That Steward was killed while an action
// waited for an answer. The folder holds a conversation with two branches and
// with pinned and obsolete messages, a deleted conversation, a standing
// approval, a user with a key, a secret and a published event. The action can
// be answered until 2126, and the deletion can be undone until 2036.
func TestADataFolderOfAnOlderVersion(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{SQLite: true})
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", "testdata/older.tar.gz", "-C", n.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.Write("agents: ["+n.Dir+"/agents]\nkeep: {deleted: 87600h}\n", ".config", "steward", "steward.yaml")
	check := func(args, want string) {
		t.Helper()
		if got := n.Must(strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("steward %s: no %q in\n%s", args, want, got)
		}
	}
	const sums = "01a20a7b-c3ae-7794-bb1c-53d0df2b6cfd"
	check("audit verify", "The log is intact: 113 entries.")
	check("agents list", `agents no longer have domains: "task" is not supported; write tools: [todo.*]`)
	check("conversations list", "What is 17 * 23?")
	check("conversations show "+sums, "Multiply (a 20, b 23): 460.")
	check("branch list --conversation "+sums, "main         12 messages")
	check("branch switch main --conversation "+sums, "")
	check("conversations show "+sums, "Multiply (a 19, b 23): 437.")
	check("messages changes --conversation "+sums, "obsolete  you")
	check("search marmalade", "Compute the sha256")
	check("grants list", `task.add: title = "buy milk"`)
	check("keys list", "sk-steward-MhniVU…  good")
	check("users list", "ada    member  enabled")
	check("secrets list", "DOOR")
	check("resources list --limit 1000", "event.Event.01a20a7b-c88d-70ba-b937-d4df6e1ccdb9")
	check("conversations undelete 01a20a7b-c94c-7b30-af73-780d59d9d065", "")
	check("conversations show 01a20a7b-c94c-7b30-af73-780d59d9d065", "Add (a 2, b 2): 4.")

	// The agent's domain is gone, and with it the tool of the action that waits: it is cancelled
	// and never done, and its turn ends.
	todo := func() string {
		b, err := os.ReadFile(n.Dir + "/agents/lists/todo.md")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	n.Serve()
	n.Until("no action waits or goes on", func() bool {
		var list []struct{ State string }
		if err := json.Unmarshal([]byte(n.Must("--json", "intents", "list")), &list); err != nil || len(list) != 2 {
			t.Fatal(list, err)
		}
		return list[0].State == "cancelled" && list[1].State == "done"
	})
	n.Until("no request is open", func() bool { return strings.TrimSpace(n.Must("--json", "requests", "list")) == "[]" })
	if got := todo(); strings.Contains(got, "call Ann") || strings.Count(got, "] buy milk") != 1 {
		t.Error(got)
	}
	// Written as it says, the agent works again.
	n.Write("name: lists\ndescription: Keeps the to-do list of tasks.\ntools: [todo.*]\n", "agents", "lists", "agent.yaml")
	check("agents approve lists --yes", "")
	check("agents list", "lists  approved")
	n.Stop()
	check("audit verify", "The log is intact")
}
