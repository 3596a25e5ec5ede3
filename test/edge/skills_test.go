package edge_test

import (
	"path/filepath"
	"strings"
	"sync"
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

// The skills are the machine's own user's: nobody else reads them or learns of them, whatever their role. A token
// in a skill is not printed where it is approved.
func TestSkillsBelongToTheMachinesOwnUser(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var prompts []string
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		mu.Lock()
		defer mu.Unlock()
		prompts = append(prompts, in.Messages[0].Text())
		if in.Rounds() == 0 {
			return edge.Reply{Calls: []edge.Call{{Name: "skills.read", Args: map[string]any{"name": "letters"}}}}
		}
		return edge.Reply{Text: strings.Join(in.Results(), "\n")}
	})})
	const token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
	n.Write("---\nname: letters\ndescription: PRIVATE-PURPOSE.\n---\nPRIVATE-WORDS. GITHUB_TOKEN="+token+"\n", "letters", "SKILL.md")
	n.Write("password: "+token+"\n", "letters", "more.yaml")
	add, show := n.Run("skills", "add", filepath.Join(n.Dir, "letters"), "--yes"), n.Run("skills", "show", "letters")
	for _, r := range []edge.Result{add, show} {
		if r.Code != 0 || strings.Contains(r.Out+r.Err, token) || !strings.Contains(r.Out, "PRIVATE-WORDS") || !strings.Contains(r.Out, "[secret]") {
			t.Errorf("%+v", r)
		}
	}
	if !strings.Contains(add.Err, "looks like a secret") {
		t.Errorf("nothing says that there is one: %s", add.Err)
	}
	n.Must("users", "add", "gus", "--role", "guest")
	n.Must("users", "add", "mia", "--role", "member")
	n.Must("users", "add", "bot", "--role", "service")
	n.Serve()
	for _, user := range []string{"gus", "mia", "bot"} {
		_, b := n.HTTP("POST", "/v1/chat/completions", map[string]any{"model": "default", "messages": []any{map[string]any{"role": "user", "content": "Go on."}}},
			"Authorization", "Bearer "+n.Key(user))
		if strings.Contains(string(b), "PRIVATE") {
			t.Errorf("%s: %s", user, b)
		}
	}
	mu.Lock()
	if all := strings.Join(prompts, "\n"); len(prompts) == 0 || strings.Contains(all, "PRIVATE") {
		t.Errorf("others' models learn of the skills, or were not asked: %s", all)
	}
	mu.Unlock()
	if a := n.Ask("Read it.", nil); !strings.Contains(a.Text, "PRIVATE-WORDS") {
		t.Errorf("the owner cannot read it: %s", a.Text)
	}
}
