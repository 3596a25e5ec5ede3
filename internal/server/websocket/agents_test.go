package websocket_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"steward/internal/server/websocket"
	"steward/test/served"
)

// paths returns the paths of the agents in a frame.
func paths(f frame) string {
	var out []string
	list, _ := f["agents"].([]any)
	for _, l := range list {
		out = append(out, l.(map[string]any)["path"].(string))
	}
	return strings.Join(out, " ")
}

// answer reads frames until the answer to a frame.
func (c *client) answer(re string) frame {
	c.t.Helper()
	for {
		if f := c.next(); f["re"] == re {
			return f
		}
	}
}

// waits reads frames until exactly these wait for an approval.
func (c *client) waits(want string) {
	c.t.Helper()
	for {
		f := c.next()
		if f["type"] == "agents_waiting" && paths(f) == want {
			return
		}
	}
}

func (c *client) about(typ, path, more string) frame {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"type":%q,"id":%q,"path":%q%s}`, typ, typ+path, path, more))
	return c.answer(typ + path)
}

func TestAgentsAreDecidedAbout(t *testing.T) {
	o := served.NewOffice(t)
	o.Agent("desk", "")
	o.Agent("desk/agents/mail", "")
	_, url := serve(t, websocket.Options{Node: newDouble(nil), Agents: o})
	boss, ana := dial(t, url, "admin"), dial(t, url, "ana")
	boss.waits("desk desk/mail")

	boss.send(`{"type":"agents","id":"list"}`)
	if f := boss.answer("list"); f["type"] != "agents" || paths(f) != "desk desk/mail" {
		t.Fatalf("%v", f)
	}
	seen := boss.about("inspect_agent", "desk", "")["agent"].(map[string]any)
	items := seen["items"].([]any)
	if len(items) != 2 || items[1].(map[string]any)["name"] != "tool notes.add" || len(seen["warnings"].([]any)) != 1 || seen["status"] != "pending" {
		t.Fatalf("%v", seen)
	}
	// An approval needs the hash that was shown.
	if f := boss.about("approve_agent", "desk", `,"hash":"123"`); f["code"] != "agent_changed" {
		t.Fatalf("%v", f)
	}
	f := boss.about("approve_agent", "desk", `,"hash":"`+seen["hash"].(string)+`","tools":{"notes.add":{"asks":true}}`)
	if a := f["agent"].(map[string]any); f["type"] != "agent" || a["status"] != "approved" || a["usable"] != true {
		t.Fatalf("%v", f)
	}
	if tl, ok := o.Tree().ByPath["desk"].Tools.Get("notes.add"); !ok || !tl.Spec().Asks {
		t.Error("the tool is not set to ask")
	}

	// Other users see what they may use.
	ana.send(`{"type":"agents","id":"1"}`)
	f = ana.answer("1")
	if want := []any{map[string]any{"path": "desk", "kind": "agent", "description": "Does desk.", "status": "approved", "usable": true}}; !reflect.DeepEqual(f["agents"], want) {
		t.Errorf("%v", f)
	}

	if a := boss.about("deny_agent", "desk/mail", `,"reason":"not needed"`)["agent"].(map[string]any); a["status"] != "denied" || a["reason"] != "not needed" {
		t.Errorf("%v", a)
	}
	if a := boss.about("revoke_agent", "desk", "")["agent"].(map[string]any); a["status"] != "revoked" {
		t.Errorf("%v", a)
	}
	ana.send(`{"type":"agents","id":"2"}`)
	if f := ana.answer("2"); len(f["agents"].([]any)) != 0 {
		t.Errorf("%v", f)
	}
}

func TestAdministratorsAreToldWhatWaits(t *testing.T) {
	o := served.NewOffice(t)
	_, url := serve(t, websocket.Options{Node: newDouble(nil), Agents: o})
	boss, ana := dial(t, url, "admin"), dial(t, url, "ana")
	boss.ask(`{"type":"ping","id":"a"}`, frame{"type": "pong", "re": "a"}) // nothing waits, so no list is sent
	o.Agent("desk", "")
	boss.waits("desk")
	o.Write("mcp.json", `{"mcpServers":{"Files":{"command":"serve-files"}}}`)
	boss.waits("desk mcp:files")

	// A later connection gets the list at once.
	late := dial(t, url, "admin")
	late.want(frame{"type": "agents_waiting"})
	hash := func(path string) string {
		return `,"hash":"` + boss.about("inspect_agent", path, "")["agent"].(map[string]any)["hash"].(string) + `"`
	}
	files := hash("mcp:files")
	late.ask(`{"type":"ping","id":"a"}`, frame{"type": "pong"}) // an inspection changes nothing
	boss.send(`{"type":"approve_agent","path":"mcp:files"` + files + `}`)
	late.waits("desk")
	boss.waits("desk")
	if _, err := o.Deny(t.Context(), "local", "desk", ""); err != nil {
		t.Fatal(err)
	}
	late.waits("")
	boss.waits("")
	o.Write("agents/desk/agent.yaml", "name: desk\ndescription: Another one.\n")
	boss.waits("desk")
	late.waits("desk")

	// Other users get no list.
	ana.ask(`{"type":"ping","id":"a"}`, frame{"type": "pong"})

	// A new connection gets the current list after all others have closed.
	boss.CloseNow()
	late.CloseNow()
	o.Write("mcp.json", `{"mcpServers":{"Files":{"command":"serve-files"},"Other":{"url":"http://127.0.0.1:1/"}}}`)
	again := dial(t, url, "admin")
	again.waits("desk mcp:other")
}

// The examples about agents in docs/reference/websocket.md are run unchanged, over a
// real catalog. Only paths and times are replaced.
func TestDocumentedAgents(t *testing.T) {
	const where, when = "/home/ada/.local/share/steward/agents", "2030-01-02T03:04:05Z"
	_, block, ok := strings.Cut(documentation(t), "## Agents and sources\n")
	if !ok {
		t.Fatal("no section about agents")
	}
	_, block, _ = strings.Cut(block, "```text\n")
	block, _, _ = strings.Cut(block, "```")
	o := served.NewOffice(t)
	o.Agent("desk", "")
	_, url := serve(t, websocket.Options{Node: newDouble(nil), Agents: o})
	c := dial(t, url, "admin")
	var early []frame
	for line := range strings.Lines(block) {
		dir, body, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if dir == ">" {
			c.send(body)
			continue
		}
		var want frame
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		found := -1
		for i := 0; found < 0; i++ { // answers and changes come in any order
			if i == len(early) {
				early = append(early, pinned(c.next(), filepath.Join(o.Dir, "agents"), where, when))
			}
			if early[i]["type"] == want["type"] {
				found = i
			}
		}
		if got := early[found]; !reflect.DeepEqual(got, want) {
			b, _ := json.Marshal(got)
			t.Fatalf("documented %s\ngot        %s", body, b)
		}
		early = append(early[:found], early[found+1:]...)
	}
}

// pinned replaces the paths and times in a frame by fixed ones.
func pinned(f map[string]any, dir, where, when string) map[string]any {
	for k, v := range f {
		switch v := v.(type) {
		case map[string]any:
			pinned(v, dir, where, when)
		case []any:
			for _, x := range v {
				if m, ok := x.(map[string]any); ok {
					pinned(m, dir, where, when)
				}
			}
		case string:
			if k == "dir" {
				f[k] = strings.Replace(v, dir, where, 1)
			}
			if k == "at" {
				f[k] = when
			}
		}
	}
	return f
}
