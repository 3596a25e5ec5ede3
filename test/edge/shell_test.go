package edge_test

import (
	"strings"
	"testing"

	"steward/internal/sandbox"
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

// A standing approval that leaves the command open covers commands that only read. What runs code or writes a
// file is asked about all the same, and no approval stands for it.
func TestAStandingApprovalNeverCoversWhatRunsOrWrites(t *testing.T) {
	t.Parallel()
	if sandbox.Available() != nil {
		return // there is no shell.run then, as TestAScriptOfASkillRuns asserts
	}
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.Rounds() > 0 {
			return edge.Reply{Text: "Done."}
		}
		_, command, _ := strings.Cut(in.User(), "run: ")
		return edge.Reply{Calls: []edge.Call{{Name: "shell.run", Args: map[string]any{"command": command}}}}
	})})
	n.Serve()
	n.Ask("run: ls", func(a edge.Approval) string {
		n.Must("approvals", "approve", a.ID, "--always", "--pattern", "command any", "--yes")
		return ""
	})
	for command, asks := range map[string]bool{
		"ls -la | sort -r": false, "find . -name '*.md'": false,
		`printf -v 'a[$(touch x)0]' 1`: true, `test -v 'a[$(touch x)]'`: true, `read 'a[$(touch x)]'`: true, `compgen -W '$(touch x)'`: true,
		`find . -exec touch x \;`: true, `git -c alias.x='!touch x' x`: true, `awk 'BEGIN{system("touch x")}'`: true,
		"tar --checkpoint-action=exec=x cf a b": true, "sed 1e a": true, "python3 -c 1": true, "sort -o x a": true, "sort --out x a": true,
	} {
		a := n.Ask("run: "+command, func(a edge.Approval) string {
			if r := n.Run("approvals", "approve", a.ID, "--always", "--pattern", "command any", "--yes"); r.Code == 0 {
				t.Errorf("%s: an approval stands", command)
			}
			return "deny"
		})
		if len(a.Results) != 1 || (len(a.Asked) > 0) != asks || asks == (a.Results[0].Status == "ok") {
			t.Errorf("%s: %d questions, results %+v", command, len(a.Asked), a.Results)
		}
	}
}
