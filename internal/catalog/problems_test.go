package catalog

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// TestProblemsNameTheirPlaceAndRemedy checks the position and the remedy of each fault of a definition.
func TestProblemsNameTheirPlaceAndRemedy(t *testing.T) {
	const head = "name: x\ndescription: y\n"
	for _, c := range []struct{ text, want, remedy string }{
		{"", "1:1", "name and description"},
		{"# nothing\n", "1:1", "name and description"},
		{"description: y\n", "1:1", "name of the folder"},
		{"name: x\n", "1:1", "what it does"},
		{"name: X\ndescription: y\n", "1:7", "a-z"},
		{"name: x_\ndescription: y\n", "1:7", "a-z"},
		{"name: " + strings.Repeat("x", 41) + "\ndescription: y\n", "1:7", "a-z"},
		{"name: 5\ndescription: y\n", "1:7", "quotes"},
		{head + "version: 1.0\n", "3:10", "quotes"},
		{head + "promt: z\n", "3:1", `did you mean "prompt"?`},
		{head + "zzz: z\n", "3:1", "known are name, description"},
		{head + "metadata: {purpse: z}\n", "3:12", `did you mean "purpose"?`},
		{head + "metadata: {purpose: 5}\n", "3:21", "text"},
		{head + "metadata: z\n", "3:11", "purpose"},
		{head + "model: a b\n", "3:8", "alias"},
		{head + "sampling: {temperature: 9}\n", "3:25", "0 to 2"},
		{head + "sampling: {max_tokens: -1}\n", "3:24", "1 or more"},
		{head + "sampling: {effort: wild}\n", "3:20", "low, medium"},
		{head + "limits: {iterations: -1}\n", "3:22", "not negative"},
		{head + "limits: {time: 5}\n", "3:16", "30s"},
		{head + "limits: {time: -5s}\n", "3:16", "not negative"},
		{head + "parameters: {type: string}\n", "3:13", "type: object"},
		{head + "examples: [{expect: z}]\n", "3:12", "say"},
		{head + "checks: [{query: todo.list}]\n", "3:10", "word such as unread"},
		{head + "checks: [{name: a}]\n", "3:10", "only reads"},
		{head + "checks: [{name: a, query: todo.list}, {name: a, query: todo.list}]\n", "3:39", "a name of its own"},
		{head + "checks: [{name: a, query: todo.list, part: b}]\n", "3:10", "JSON pointer"},
		{head + "checks: [{name: a, query: todo.list, args: {long: " + strings.Repeat("x", 4<<10) + "}}]\n", "3:10", "fewer"},
		{head + "secrets: [a b]\n", "3:11", "letters"},
		{head + "tools: [math.evalute]\n", "3:9", "math.evaluate"},
		{head + "tools: ['a[']\n", "3:9", "glob"},
		{head + "tools: [files.zzzz_zzzz_zzzz]\n", "3:9", ""},
		{head + "services: {lm: {}}\n", "3:12", `did you mean "llm"?`},
		{head + "services: {llm: {source: near}}\n", "3:26", "local, remote, parent"},
		{head + "services: {llm: {source: remote}}\n", "3:17", "url"},
		{head + "services: {llm: {url: 'http://x'}}\n", "3:17", "remote"},
		{head + "services: {db: {source: parent, offering: wild}}\n", "3:43", "none, serve"},
		{head + "mcp: [x]\n", "3:6", "NAME:"},
		{head + "mcp: {A: {}}\n", "3:7", "a-z"},
		{head + "mcp: {a: {comand: x}}\n", "3:11", `did you mean "command"?`},
		{head + "mcp: {a: {timeout: 5}}\n", "3:20", "30s"},
		{head + "mcp: {a: {command: {x: y}}}\n", "3:20", "list"},
		{head + "mcp: {a: {env: x}}\n", "3:16", "names and their values"},
		{head + "mcp: {a: {network: 5}}\n", "3:20", "true or false"},
		{head + "mcp: {a: {url: broken}}\n", "3:10", "mend it"},
		{head + "mcp: {a: x}\n", "3:10", "keys and their values"},
		{head + "domains: {email: }\n", "3:11", "tools: [mail.*]"},
		{head + "domains: {state: }\n", "3:11", "services: {state: {tools: true}}"},
		{head + "domains: {zzzzzz: }\n", "3:11", "docs/guides/agents.md"},
		{head + "domains: x\n", "3:10", "tools:"},
		{head + "services: {llm: {tools: true}}\n", "3:25", "leave tools out"},
		{head + "deferred: ['[']\n", "3:12", "todo.*"},
		{head + "hooks: x\n", "3:8", "before_tool"},
		{head + "hooks: {befor_tool: {}}\n", "3:9", `did you mean "before_tool"?`},
		{head + "hooks: {before_tool: {comand: x}}\n", "3:23", `did you mean "command"?`},
		{head + "a: &a b\n", "3:4", "write the value out"},
		{head + "a: *a\n", "3:4", "write the value out"},
		{head + "<<: {a: b}\n", "3:1", "write the values out"},
		{head + "name: x\n", "3:1", "fix the YAML"},
		{head + "---\nname: x\n", "4:", "one document"},
		{head + "config: [\n", "", "fix the YAML"},
		{head + "config: " + strings.Repeat("[", 100), "3:", "reduce the nesting"},
		{head + "mcp: {a: {files: [nowhere.sh]}}\n", "", "fix or remove"},
		{head + "process: {a: {files: [/nowhere/x]}}\n", "", "create it"},
		{head + "persona: maybe\n", "3:10", "true or false"},
		{head + "capabilities: {a: b}\n", "3:15", "list"},
		{head + "description2: z\n", "3:1", "did you mean"},
	} {
		w := newWorld(t)
		w.write("x/agent.yaml", c.text)
		l := listing(t, w.open(), "x")
		if l.Status != Invalid || len(l.Problems) == 0 {
			t.Errorf("%q is taken: %+v", c.text, l)
			continue
		}
		if got := fmt.Sprintf("%d:%d", l.Problems[0].Line, l.Problems[0].Column); c.want != "" && !strings.HasPrefix(got, c.want) || !strings.Contains(l.Problems[0].Remedy, c.remedy) {
			t.Errorf("%q: want %s and %q, got %+v", c.text, c.want, c.remedy, l.Problems)
		}
	}
}

func TestAllProblemsOfAFileAtOnce(t *testing.T) {
	w := newWorld(t)
	w.write("x/agent.yaml", "name: x\ndescripton: y\nlimits: {tokens: a}\nmcp: {b: {comand: x, urll: y}}\ntools: [math.evalute]\n")
	l := listing(t, w.open(), "x")
	if len(l.Problems) != 4 { // sources are opened only if the rest is valid
		t.Fatalf("%d: %+v", len(l.Problems), l.Problems)
	}
	w.write("x/agent.yaml", "name: x\ndescription: y\nmcp: {b: {comand: x, urll: y}, c: {url: broken}}\n")
	if l := listing(t, w.open(), "x"); len(l.Problems) != 3 {
		t.Fatalf("%+v", l.Problems)
	}
}

func TestProblemsOfFolders(t *testing.T) {
	w := newWorld(t)
	w.write("none/README.md", "x")
	w.write("near/agent.yml", "x")
	w.write("both/agent.yaml", "name: both\ndescription: x\n")
	w.write("both/tool_config.yaml", "name: both\ndescription: x\n")
	w.write("other/agent.yaml", "name: another\ndescription: x\n")
	w.write("prompts/agent.yaml", "name: prompts\ndescription: x\nprompt: y\n")
	w.write("prompts/PROMPT.md", "z")
	w.write("skilled/agent.yaml", "name: skilled\ndescription: x\n")
	w.write("skilled/skills/a/README.md", "z")
	w.write("skilled/skills/b/SKILL.md", "no front")
	w.write("skilled/skills/c/SKILL.md", "---\nname: d\n---\n")
	w.write("skilled/skills/E/SKILL.md", "---\nname: E\ndescription: "+strings.Repeat("x", 1025)+"\n---\n")
	w.write("skilled/skills/f/SKILL.md", "---\nname: [\n---\n")
	w.write("tooled/agent.yaml", "name: tooled\ndescription: x\n")
	w.write("tooled/tools/a.yaml", "x: y")
	w.write("tooled/tools/b.yaml", "name: B")
	w.write("tooled/tools/c.yaml", "name: [")
	w.write("large/agent.yaml", "name: large\ndescription: x\n")
	w.write("large/PROMPT.md", strings.Repeat("x", maxText+1))
	w.write("binary/agent.yaml", "name: binary\ndescription: x\n")
	w.write("binary/AGENTS.md", "\xff")
	deep := "d"
	for range maxDepth {
		w.agent(deep, "")
		deep += "/agents/d"
	}
	w.agent(deep, "")
	w.write(".hidden/agent.yaml", "x")
	w.write("_off/agent.yaml", "x")
	w.write("file.txt", "x")
	c := w.open()
	for path, codes := range map[string]string{
		"none": "definition_missing", "near": "definition_missing", "both": "definition_twice", "other": "name_mismatch", "prompts": "prompt_twice",
		"skilled": "skill_invalid skill_missing", "tooled": "name_missing name_invalid yaml_invalid", "large": "file_unreadable", "binary": "file_unreadable",
		strings.Repeat("d/", maxDepth) + "d": "agent_too_deep",
	} {
		l := listing(t, c, path)
		for code := range strings.FieldsSeq(codes) {
			if l.Status != Invalid || !strings.Contains(asJSON(t, l.Problems), `"code":"`+code+`"`) {
				t.Errorf("%s has no %s: %+v", path, code, l)
			}
		}
	}
	if l := listing(t, c, strings.TrimSuffix(strings.Repeat("d/", maxDepth), "/")); l.Status != Pending {
		t.Errorf("%d levels are too deep: %+v", maxDepth, l)
	}
	for _, l := range c.Listings() {
		if strings.HasPrefix(l.Path, ".") || strings.HasPrefix(l.Path, "_") || l.Path == "file.txt" {
			t.Errorf("%s is listed", l.Path)
		}
	}
	if !strings.Contains(listing(t, c, "near").Problems[0].Remedy, "rename agent.yml") {
		t.Errorf("%+v", listing(t, c, "near").Problems)
	}
	if _, err := c.Inspect(context.Background(), "none"); err != nil {
		t.Errorf("what is invalid can be looked at: %v", err)
	}
}

func TestAFolderThatIsAFile(t *testing.T) {
	w := newWorld(t)
	w.opt.Folders = append(w.opt.Folders, w.write("plain", "no folder"))
	w.open()
	if strings.Count(w.log.String(), "folder_unreadable") != 1 {
		t.Error(w.log)
	}
}

func TestServicesThatNobodyOffers(t *testing.T) {
	w := newWorld(t)
	w.agent("top", "services: {db: {source: local}}\n")
	w.agent("top/agents/below", "services: {db: {source: parent}}\n")
	c := w.open()
	if l := listing(t, c, "top/below"); l.Status != Invalid || l.Problems[0].Code != "service_not_offered" || l.Problems[0].Line != 4 {
		t.Fatalf("%+v", l)
	}
	w.agent("top", "services: {db: {source: local, offering: serve}}\n")
	rescan(t, c)
	approve(t, c, "top")
	approve(t, c, "top/below")
	if b := c.Tree().ByPath["top/below"].Bindings["db"]; b.Owner != "top" {
		t.Fatalf("%+v", b)
	}
}

// The programs of an agent get its model, unless its service names another one. An agent that names no
// model has that of the level above.
func TestTheModelOfTheLLMService(t *testing.T) {
	w := newWorld(t)
	w.agent("top", "model: fast\nservices: {llm: {source: local, offering: serve}}\n")
	w.agent("top/agents/silent", "services: {llm: {source: local, offering: serve}}\n")
	w.agent("top/agents/other", "model: big\nservices: {llm: {source: local, model: small}}\n")
	w.agent("top/agents/lent", "model: big\nservices: {llm: {source: parent}}\n")
	c := w.open()
	for _, x := range []struct{ path, want string }{{"top", "fast"}, {"top/silent", "fast"}, {"top/other", "small"}, {"top/lent", "fast"}} {
		approve(t, c, x.path)
		if b := c.Tree().ByPath[x.path].Bindings["llm"]; b.Model != x.want {
			t.Errorf("%s: %+v", x.path, b)
		}
	}
}
