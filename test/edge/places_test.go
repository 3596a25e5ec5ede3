package edge_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/edge"
)

// A data folder that was mistyped is not made silently.
func TestADataFolderThatIsNotThere(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	typed := filepath.Join(n.Dir, "homw", "steward")
	if r := n.Run("ask", "hello", "--data", typed); r.Code == 0 || !strings.Contains(r.Err, "[data_missing]") || !strings.Contains(r.Err, "mkdir -p "+filepath.Dir(typed)) {
		t.Errorf("a folder in one that is not there: %+v", r)
	}
	if _, err := os.Stat(filepath.Dir(typed)); err == nil {
		t.Error("it was made")
	}
	typed = filepath.Join(n.Dir, "stewrad")
	if r := n.Run("ask", "hello", "--data", typed); r.Code != 0 || !strings.Contains(r.Err, "created a new data folder at "+typed) {
		t.Errorf("a new folder: %+v", r)
	}
	if r := n.Run("ask", "hello", "--data", typed); strings.Contains(r.Err, "new data folder") {
		t.Errorf("it was told twice: %+v", r)
	}
}

// A relative folder of agents works, also for agents with programs, whose paths have to be whole. A Steward that
// runs already has its own agents, and the command says so.
func TestARelativeFolderOfAgents(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	n.Write("name: lamp\ndescription: Switches the lamp.\nprocess:\n  lamp:\n    command: ./lamp\n    tools: [{name: state, description: Tells whether the lamp is on., effect: query}]\n", "mine", "lamp", "agent.yaml")
	n.Write(edge.Tool+`answer '"it is on"'`, "mine", "lamp", "lamp")
	n.Must("--agents", "mine", "agents", "approve", "lamp", "--yes")
	if out := n.Must("--agents", "./mine/", "ask", "--agent", "lamp", "lamp state"); !strings.Contains(out, "it is on") {
		t.Errorf("the agent's program: %s", out)
	}
	n.Serve()
	for _, args := range [][]string{{"ask", "hello"}, {"agents", "list"}} {
		if r := n.Run(append([]string{"--agents", "mine"}, args...)...); !strings.Contains(r.Err, "--agents has no effect here: a Steward already runs") {
			t.Errorf("%v beside a running Steward: %+v", args, r)
		}
	}
}

// A group of commands alone lists what its subcommand list does.
func TestGroupsOfCommandsList(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{})
	n.Must("ask", "What is 6 times 7?")
	found := 0
	for _, c := range n.Commands() {
		group, list := strings.CutSuffix(c, " list")
		if !list || group == "branch" || group == "backup" { // the one wants a conversation, the other makes a backup
			continue
		}
		found++
		alone, whole := n.Run(strings.Fields(group)...), n.Run(strings.Fields(c)...)
		if alone != whole || alone.Code != 0 || strings.Contains(alone.Out, "Usage:") {
			t.Errorf("%s: %+v, but %s: %+v", group, alone, c, whole)
		}
	}
	if found < 10 {
		t.Errorf("only %d groups were tried", found)
	}
}
