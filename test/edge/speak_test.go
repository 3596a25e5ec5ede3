//go:build long

package edge

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAPersonaIsOfTheAgentThatTalks: the persona of the settings, one that is chosen in the chat, and
// none. The agent that is asked by the one that talks never has one, and the tools stay the same.
func TestAPersonaIsOfTheAgentThatTalks(t *testing.T) {
	t.Parallel()
	var asked []string // which prompt and how many tools
	o := Options{Model: Script(t, func(in Asked) Reply {
		who, how := "root", "plain"
		prompt := in.Messages[0].Text()
		if strings.Contains(prompt, "You keep the desk.") {
			who = "desk"
		}
		for _, has := range []string{"Your name: James", "polite and formal", "British English"} {
			if strings.Contains(prompt, has) {
				how = has
			}
		}
		asked = append(asked, who+" "+how)
		if who == "root" && in.Rounds() == 0 {
			return Reply{Calls: []Call{{Name: "desk.ask", Args: map[string]any{"request": "look"}}}}
		}
		return Reply{Text: who + " speaks"}
	})}
	n := New(t, o)
	n.Write("profile:\n  persona: butler\n  personas:\n    butler: {name: James, tone: dry}\n", ".config", "steward", "steward.yaml")
	n.Write("profile: {personas: {evil: {name: Mallory}}}\n", "steward.yaml") // a project's file
	n.Write("name: desk\ndescription: Keeps the desk.\nmodel: default\n", "data", "agents", "desk", "agent.yaml")
	n.Write("You keep the desk.", "data", "agents", "desk", "PROMPT.md")
	n.Must("agents", "approve", "desk", "--yes")
	asked = nil
	out, code := n.Dialog([]step{
		{"Ask something", "one\r"}, {"root speaks", "/persona\r"}, {"(now butler)", "formal\r"},
		{"has the persona formal", "two\r"}, {"root speaks", "/persona evil\r"}, {"persona_unknown", "/persona off\r"},
		{"speaks as usual", "three\r"}, {"root speaks", "/quit\r"},
	}, "chat")
	want := "root Your name: James,desk plain,root Your name: James,root polite and formal,desk plain,root polite and formal,root plain,desk plain,root plain"
	if got := strings.Join(asked, ","); code != 0 || got != want {
		t.Errorf("%d\ngot  %s\nwant %s\n%s", code, got, want, out)
	}
	if r := n.Run("ask", "--agent", "desk", "four"); r.Code != 0 || asked[len(asked)-1] != "desk Your name: James" { // only for the assistant it is off
		t.Errorf("%+v %v", r, asked)
	}
	n.Write("profile: {persona: nobody}\n", ".config", "steward", "steward.yaml")
	if r := n.Run("ask", "five"); r.Code != 1 || !strings.Contains(r.Err, "the personas are brief, formal, warm and off") {
		t.Errorf("%+v", r)
	}
}

// TestAFolderIsGrantedInTheChat: the files tools use it at once, and after the next start. What must
// not be granted is refused.
func TestAFolderIsGrantedInTheChat(t *testing.T) {
	t.Parallel()
	n := New(t, Options{Model: Script(t, func(in Asked) Reply {
		if in.Rounds() > 0 {
			return Reply{Text: "It says " + in.Results()[0]}
		}
		if strings.Contains(in.User(), "write") {
			return Reply{Calls: []Call{{Name: "files.write", Args: map[string]any{"path": "my-papers/b.txt", "content": "new"}}}}
		}
		return Reply{Calls: []Call{{Name: "files.read", Args: map[string]any{"path": "my-papers/a.txt"}}}}
	})})
	const before = "# mine\nlog: {level: warn}\n"
	file := n.Write(before, ".config", "steward", "steward.yaml")
	n.Write("the rent is 900", "My Papers", "a.txt")
	if err := os.Symlink("/etc", filepath.Join(n.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	steps := []step{{"Ask something", "/folder\r"}}
	see := "needs a path"
	for _, bad := range []string{"/etc", "/", "~", "~/data", "~/data/agents", "~/.config/steward", "link", "~/nowhere", "~/My Papers/a.txt", "~/.ssh"} {
		steps = append(steps, step{see, "/folder " + bad + "\r"})
		see = "folder_refused"
	}
	out, code := n.Dialog(append(steps,
		step{see, "read it\r"}, step{"It says", "/folder ~/My Papers\r"},
		step{"may read files", "read it\r"}, step{"the rent is 900", "write it\r"}, step{"It says", "/folder \"~/My Papers\" write\r"},
		step{"after your approval", "write it\r"}, step{"Allow it? y/n", "\x03\x03"}), "chat")
	if code != 0 {
		t.Errorf("%d %s", code, out)
	}
	b, err := os.ReadFile(file)
	if err != nil || string(b) != before+"folders:\n  - write: true\n    name: my-papers\n    path: \""+filepath.Join(n.Dir, "My Papers")+"\"\n" {
		t.Errorf("%v %s", err, b)
	}
	if r := n.Run("ask", "read it"); r.Code != 0 || !strings.Contains(r.Out, "the rent is 900") {
		t.Errorf("%+v", r)
	}
}
