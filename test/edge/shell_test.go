package edge_test

import (
	"strings"
	"testing"

	"steward/internal/toolkit/sandbox"
	"steward/test/edge"
)

// A script of an approved skill runs in the sandbox from the approved copy, and not once a file of it has
// changed.
func TestAScriptOfASkillRuns(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "shell.run", Args: map[string]any{"command": "sh /skills/greet/scripts/hi.sh Ann"}}))})
	n.Write("---\nname: greet\ndescription: Greets people.\n---\nRun scripts/hi.sh NAME.\n", "greet", "SKILL.md")
	n.Write("echo \"Hello, $1.\"\n", "greet", "scripts", "hi.sh")
	n.Must("skills", "add", "greet", "--yes")
	n.Write("echo changed\n", "greet", "scripts", "hi.sh") // the source is not what runs
	n.Serve()
	want := "Hello, Ann.\n"
	if sandbox.Available() != nil {
		want = "tool_unknown"
	}
	for range 2 {
		a := n.Ask("Greet Ann.", func(edge.Approval) string { return "approve" })
		if got := string(a.Results[0].Raw); !strings.Contains(got, strings.ReplaceAll(want, "\n", `\n`)) {
			t.Errorf("%s, want %s", got, want)
		}
		if want != "tool_unknown" {
			want = "skill_changed"
		}
		n.Write("echo evil\n", "data", "skills", "greet", "files", "scripts", "hi.sh")
	}
}
