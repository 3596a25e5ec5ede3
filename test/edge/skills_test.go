package edge_test

import (
	"path/filepath"
	"strings"
	"testing"

	"steward/test/edge"
)

// A running Steward knows which skills there are when a turn begins.
func TestSkillsCountFromTheNextTurn(t *testing.T) {
	t.Parallel()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		if in.User() == "Read it." {
			return edge.Steps(edge.Call{Name: "skills.read", Args: map[string]any{"name": "letters"}})(in)
		}
		_, list, _ := strings.Cut(in.Messages[0].Text(), "skills.read:")
		return edge.Reply{Text: "Known:" + list}
	})})
	n.Serve()
	knows := func(want string) {
		t.Helper()
		if a := n.Ask("What do you know?", nil); a.Text != want {
			t.Errorf("%q, want %q", a.Text, want)
		}
	}
	skill := func(description, text string) {
		n.Write("---\nname: letters\ndescription: "+description+"\n---\n"+text+"\n", "letters", "SKILL.md")
	}
	knows("Known:")
	skill("How letters are written.", "Begin with Dear.")
	n.Must("skills", "add", filepath.Join(n.Dir, "letters"), "--yes")
	knows("Known:\n- letters: How letters are written.")
	skill("How notes are written.", "Be short.")
	n.Must("skills", "update", "letters", "--yes")
	knows("Known:\n- letters: How notes are written.")
	if a := n.Ask("Read it.", nil); !strings.Contains(a.Text, "Be short.") {
		t.Error(a.Text)
	}
	n.Must("skills", "remove", "letters")
	knows("Known:")
}
