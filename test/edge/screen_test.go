//go:build long

package edge_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode"

	"steward/test/edge"
)

// evil is a text that tries to set the clipboard, clear the screen, overwrite
// its line, reverse the writing direction and hide words.
const evil = "pay \x1b]52;c;ZXZpbA==\x07 \x1b[2J \u009b2J\rover \u202egnp\u2066x\u2069 \U000e0041\u200b shown"

// evilLine is the worst possible name: names cannot contain control characters.
const evilLine = "pay \u202egnp\u2066x\u2069 \U000e0041\u200b shown"

// unsafe returns the first unsafe sequence in a terminal's output. A pty writes
// a line feed as "\r\n"; the colours of the search and of cobra are the
// program's own.
func unsafe(out string) string {
	for _, own := range []string{"\r\n", "\x1b[1;36m", "\x1b[1;33m", "\x1b[2m", "\x1b[0m"} {
		out = strings.ReplaceAll(out, own, "\n")
	}
	for i, r := range out {
		if r == '\n' || r == '\t' {
			continue
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return fmt.Sprintf("%U in %q", r, out[max(0, i-40):min(len(out), i+40)])
		}
	}
	return ""
}

// TestNoCommandLetsTextOfOthersControlTheTerminal runs every command of the
// binary at a pty on data whose texts are evil.
func TestNoCommandLetsTextOfOthersControlTheTerminal(t *testing.T) {
	t.Parallel()
	notes := t.TempDir()
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		switch {
		case strings.Contains(in.User(), "write") && in.Rounds() == 0:
			return edge.Reply{Calls: []edge.Call{{Name: "text.hash", Args: map[string]any{"text": evil}},
				{Name: "files.write", Args: map[string]any{"path": "notes/a.txt", "content": evil}}}}
		case strings.Contains(in.User(), "again"):
			return edge.Reply{Calls: []edge.Call{{Name: "files.write", Args: map[string]any{"path": "notes/b.txt", "content": evil}}}}
		}
		return edge.Reply{Text: "the answer " + evil}
	})})
	n.Write("folders: [{name: notes, path: "+notes+", write: true}]\n", ".config", "steward", "steward.yaml")
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	n.Write("description: "+string(quoted)+"\nmodel: default\n", "data", "agents", "helper", "agent.yaml")
	n.Write("Be good. "+evil, "data", "agents", "helper", "PROMPT.md")
	n.Write("package steward\n\n# "+strings.ReplaceAll(evil, "\r", " ")+"\n", "data", "policies", "house.rego")
	n.Write(`[{"title":`+string(quoted)+`,"create_time":1,"update_time":1,"mapping":{}}]`, "conversations.json")
	n.Serve()
	done := n.Ask("write it "+evil, func(edge.Approval) string { return "approve" })
	if len(done.Results) != 2 || done.Code != "" {
		t.Fatalf("%+v", done)
	}
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "id": "1", "content": "again " + evil})
	var question *edge.Approval
	for question == nil {
		f := c.Read()
		if question = f.Approval; f.Type == "complete" || f.Type == "error" {
			t.Fatalf("%s", f.Raw)
		}
	}
	conv := done.Conversation
	if status, b := n.HTTP(http.MethodPatch, "/api/v1/conversations/"+conv, map[string]string{"title": "title " + evilLine}); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	n.Must("resources", "put", "cld:home.Note.evil", "--body", `{"purpose":`+string(quoted)+`}`)
	n.Must("events", "publish", "cld:home.Lamp.1", "--body", `{"is":`+string(quoted)+`}`)
	n.Must("groups", "add", "family", "--name", "them "+evilLine)
	n.Must("users", "add", "ada", "--name", "Ada "+evilLine)
	n.Must("keys", "create", "--user", "ada", "--name", "key "+evilLine)
	n.Must("goals", "add", "goal "+evilLine)
	n.Must("projects", "add", "project "+evilLine)
	n.Must("memory", "add", "I live in "+evilLine)
	n.Must("jobs", "add", "tell "+evil, "--name", "of-others", "--every", "24h")
	message := done.Frames[len(done.Frames)-1].MessageID

	// shows holds the commands that print foreign text, which must be visible
	// ("shown"), with their arguments. given lists the others, which only must
	// not break the terminal with the arguments that they receive.
	shows := map[string][]string{
		"agents list": {}, "agents show": {"helper"}, "approvals list": {}, "approvals show": {question.ID}, "ask": {"tell " + evil},
		"conversations list": {}, "conversations show": {conv}, "conversations export": {conv, "--format", "markdown"},
		"events watch": {"--from", "start", "--json", "--bodies", "--limit", "20"}, "groups list": {}, "groups show": {"family"},
		"intents show": {question.ID}, "keys list": {}, "log": {}, "log show": {"last"}, "messages list": {conv}, "messages show": {message, "--conversation", conv},
		"plan": {"tell " + evil}, "policy show": {"house.rego"}, "requests show": {done.Frames[1].Interaction}, "requests watch": {done.Frames[1].Interaction}, "resources get": {"cld:home.Note.evil"}, "resources list": {"--bodies", "--json"}, "search": {"shown"},
		"users list": {}, "users show": {"ada"}, "branch list": {conv}, "branch siblings": {message, "--conversation", conv},
		"goals list": {}, "goals show": {"goal pay"}, "projects list": {}, "projects show": {"project pay"}, "memory list": {}, "jobs list": {}, "jobs show": {"of-others"},
	}
	given := strings.Split("agents approve,agents deny,agents keep,agents new,agents revoke,agents test,approvals approve,approvals deny,audit export,audit head,audit verify,"+
		"branch copy,branch delete,branch new,branch rename,branch restore,branch switch,chat,completion bash,completion fish,completion powershell,completion zsh,config show,conversations compact,conversations delete,conversations optimize,"+
		"conversations refresh,conversations rewind,conversations undelete,conversations whole,doctor,events erase,events publish,grants edit,grants list,grants revoke,grants show,"+
		"groups add,groups join,groups leave,groups remove,import,intents approve,intents cancel,intents deny,intents list,intents resolve,intents retry,intents undo,keys create,keys revoke,"+
		"plans list,plans show,man,mcp add,mcp connect,mcp list,mcp remove,mcp test,messages archive,messages changes,messages delete,messages insert,messages invalidate,messages pin,messages remove,messages restore,"+
		"messages rollback,messages trust,messages unpin,models,models test,models update,policy check,policy explain,policy test,policy use,requests cancel,requests list,requests pause,requests retry,requests resume,route,route stats,resources delete,resources history,resources parents,"+
		"resources put,secrets list,setup,accounts connect,home connect,skills add,skills list,skills remove,skills show,skills update,secrets remove,secrets set,serve,token,users add,users delete,users disable,users enable,users set,version,"+
		"accounts add,backup list,backup verify,channels add,channels inbox,channels list,channels outbox,channels people,channels remove,channels test,cluster,"+
		"context,documents add,documents list,documents remove,documents search,documents show,"+
		"goals add,goals changes,goals done,goals drop,goals edit,goals link,goals milestone,goals next,goals pause,goals progress,goals remove,goals resume,"+
		"graph assert,graph export,graph forget,graph import,graph neighbours,graph query,heartbeat now,heartbeat off,heartbeat on,heartbeat status,"+
		"jobs add,jobs edit,jobs history,jobs pause,jobs remove,jobs resume,jobs run,link,log level,mcp serve,"+
		"memory add,memory edit,memory export,memory forget,memory profile,memory why,migrate,pair,"+
		"projects add,projects archive,projects done,projects drop,projects edit,projects link,projects milestone,projects next,projects pause,projects progress,projects remove,projects resume,"+
		"restore,service install,service status,service uninstall,unpair,upgrade check,users export,worker", ",")
	groups := map[string]bool{}
	commands := n.Commands()
	for _, name := range commands {
		if parent, _, below := strings.Cut(name, " "); below {
			groups[parent] = true
		}
	}
	for _, name := range commands {
		if groups[name] && shows[name] == nil {
			continue // only groups other commands
		}
		args, content := shows[name]
		if !content {
			if !slices.Contains(given, name) {
				t.Errorf("steward %s has no case here: say what it prints of others", name)
				continue
			}
			args = []string{"--agent=" + evil, evil, evil}
			if name == "users delete" {
				args = append(args, "--yes") // otherwise it would ask and wait
			}
			for _, flag := range []string{"--agent", ""} { // errors quote an unknown flag and a wrong argument
				if flag == "" {
					args = args[1:]
				}
				if out, _ := n.Screen(append(strings.Fields(name), args...)...); unsafe(out) != "" {
					t.Errorf("steward %s: %s", name, unsafe(out))
				}
			}
			continue
		}
		out, code := n.Screen(append(strings.Fields(name), args...)...)
		switch bad := unsafe(out); {
		case bad != "":
			t.Errorf("steward %s: %s", name, bad)
		case code != 0 || !strings.Contains(out, "pay") && !strings.Contains(out, "shown") && !strings.Contains(out, "! content: "):
			t.Errorf("steward %s: exit %d, and it does not show the text: %s", name, code, out)
		}
	}
	// A program receives the bytes unchanged.
	if out := n.Must("conversations", "export", conv, "--format", "markdown"); !strings.Contains(out, "\u202egnp") {
		t.Errorf("%q", out)
	}
}

// TestALongArgumentHidesNoShortOne: 110 KB of body precede a bcc that the
// schema does not declare and a recipient with a look-alike letter. Wherever a
// person decides, the important facts about each argument come first.
func TestALongArgumentHidesNoShortOne(t *testing.T) {
	t.Parallel()
	args := map[string]any{"Xbody": strings.Repeat("lorem ipsum ", 9000), "bcc": "mallory@evil.example", "to": "ann@ex\u0430mple.com"}
	n := edge.New(t, edge.Options{Model: edge.Script(t, edge.Steps(edge.Call{Name: "post.send", Args: args}))})
	n.Write("name: post\ndescription: Sends.\nprocess:\n  post:\n    command: ./send\n    tools:\n"+
		"      - {name: send, description: Sends., input: {properties: {to: {type: string}, Xbody: {type: string}}, additionalProperties: true}}\n", "data", "agents", "post", "agent.yaml")
	n.Write("#!/bin/sh\n", "data", "agents", "post", "send")
	n.Must("agents", "approve", "post", "--yes")
	n.Serve()
	c := n.Dial()
	c.Send(map[string]any{"type": "message", "id": "1", "content": "send it", "agent": "post"})
	var f edge.Frame
	for f.Approval == nil {
		if f = c.Read(); f.Type == "complete" || f.Type == "error" {
			t.Fatalf("%s", f.Raw)
		}
	}
	var told struct {
		Approval struct {
			Arguments []struct {
				Name  string
				Size  int
				Marks []string
			}
		}
	}
	if err := json.Unmarshal(f.Raw, &told); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(told.Approval.Arguments)
	if want := "[{Xbody 108002 []} {bcc 22 [not in the tool's schema]} {to 18 [look-alike letters]}]"; got != want {
		t.Errorf("over WebSocket: %s", got)
	}
	list, _ := n.Screen("approvals", "list")
	if !strings.Contains(list, "! bcc, to: Post: send") {
		t.Errorf("list: %s", list)
	}
	shown, _ := n.Screen("approvals", "show", f.Approval.ID)
	first, _, _ := strings.Cut(strings.Join(strings.Fields(shown), " "), "lorem")
	for _, want := range []string{"? Post: send", "bcc ! not in the tool's schema: mallory@evil.example", "to ! look-alike letters:"} {
		if !strings.Contains(first, want) {
			t.Errorf("show does not begin with %q: %.2000s", want, shown)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(shown), " "), "(cut: 108.0 KB in all)") || len(shown) > 2000 || !strings.Contains(shown, "--whole") {
		t.Errorf("show: %d bytes: %.2000s", len(shown), shown)
	}
	if whole, _ := n.Screen("approvals", "show", f.Approval.ID, "--whole"); strings.Count(whole, "ipsum") != 9000 {
		t.Errorf("--whole shows %d of 9000", strings.Count(whole, "ipsum"))
	}
}
