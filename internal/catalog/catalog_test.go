package catalog

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/internal/fault"
	"steward/internal/resource"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/test/must"
)

func TestAnAgentIsFoundAskedForAndUsed(t *testing.T) {
	w := newWorld(t)
	w.write("personal_assistant_agent/agent.yaml", `
name: personal_assistant
description: Handles emails and to-do lists
version: "0.1.0"
config:
  default_email: "user@example.com"
  max_retries: 3
capabilities: [email, calendar]
metadata:
  author: "Basic Orchestrator"
  created: "2024-05-01"
  purpose: Keeps a person's affairs in order.
model: fast
sampling: {temperature: 0.2, max_tokens: 500, effort: low}
limits: {iterations: 5, time: 90s, tokens: 1000, cost: 0.5}
parameters: {type: object, properties: {wish: {type: string}}}
examples:
  - say: Is there mail?
    tools: [email.ask]
    expect: mail
persona: true
secrets: [MAIL_PASSWORD]
services: {llm: {source: local, offering: serve}}
tools: [math.*, time.now]
mcp:
  mail: {command: [mail-server]}
`)
	w.write("personal_assistant_agent/PROMPT.md", "Be brief.\n")
	w.write("personal_assistant_agent/AGENTS.md", "Never send on Sundays.\n")
	w.edge.offer("mail", spec("mail.list", "Lists mails."))
	c := w.open()
	if l := listing(t, c, "personal_assistant"); l.Status != Pending || l.Usable || l.Changed || len(l.Problems) != 0 {
		t.Fatalf("%+v", l)
	}
	if usable(c, "personal_assistant") || w.edge.started() != 0 {
		t.Fatal("it is used, or something was started, before anybody allowed it")
	}
	insp := inspect(t, c, "personal_assistant")
	var names []string
	for _, it := range insp.Items {
		names = append(names, it.Name)
	}
	if want := []string{"agent.yaml", "PROMPT.md", "AGENTS.md", "tool mail.list"}; !slices.Equal(names, want) || insp.Diff != "" {
		t.Fatalf("items %v, want %v; diff %q", names, want, insp.Diff)
	}
	if w.edge.started() != 1 {
		t.Fatal("an inspection starts what is to be inspected")
	}
	if l := approve(t, c, "personal_assistant"); l.Status != Approved || !l.Usable || l.By != "local" || !slices.Equal(l.Tools, []string{"mail.list"}) {
		t.Fatalf("%+v", l)
	}
	a := c.Tree().ByPath["personal_assistant"]
	if a == nil || c.Tree().Root.Children[0] != a {
		t.Fatal("it is not in the tree")
	}
	if a.Prompt != "Be brief.\n\nNever send on Sundays." || a.Model != "fast" || *a.Sampling.Temperature != 0.2 || a.Sampling.Effort != "low" ||
		a.Limits.Iterations != 5 || a.Limits.Time.Seconds() != 90 || !a.Persona || !slices.Equal(a.Uses, []string{"math.*", "time.now"}) {
		t.Fatalf("%+v", a)
	}
	for _, part := range []string{"Handles emails", "Capabilities: email, calendar.", "Keeps a person's affairs", "“Is there mail?”"} {
		if !strings.Contains(a.Description, part) {
			t.Errorf("the description for the level above lacks %q: %s", part, a.Description)
		}
	}
	if string(a.Config) != `{"default_email":"user@example.com","max_retries":3}` || !strings.HasPrefix(a.Version, "0.1.0+") || string(a.Parameters) == "" {
		t.Fatalf("config %s, version %s", a.Config, a.Version)
	}
	if res, err := call(t, c, "personal_assistant", "mail.list"); err != nil || res.Failed {
		t.Fatal(res, err)
	}
	if a.Tools.Specs()[0].Origin != "mcp:mail" {
		t.Fatalf("origin %q", a.Tools.Specs()[0].Origin)
	}
}

func TestApprovalsLastAndNothingIsStartedAgain(t *testing.T) {
	w := boxed(t, "email", "mcp: {box: {command: [x]}}\n", spec("box.list", "Lists."), tool.Spec{Name: "box.send", Description: "Sends.", Effect: tool.Action, Input: []byte(`{"type": "object"}`)})
	c := w.approved("email")
	started := w.edge.started()
	must.Do(t, c.Close())
	c = w.open()
	if !usable(c, "email") || w.edge.started() != started {
		t.Fatalf("usable %v, started %d times", usable(c, "email"), w.edge.started()-started)
	}
	a := c.Tree().ByPath["email"]
	if want := []string{"box.list", "box.send"}; !slices.Equal(a.Tools.Names(), want) {
		t.Fatalf("%v", a.Tools.Names())
	}
	tl, _ := a.Tools.Get("box.send")
	want := spec("box.send", "Sends.")
	want.Effect, want.Delivery, want.Input = tool.Action, "", []byte(`{"type": "object"}`)
	if got := tl.Spec(); string(got.Input) != `{"type": "object"}` || got.Effect != tool.Action {
		t.Fatalf("the spec is not as it was announced: %+v", got)
	}
}

func TestApprovalsAreResources(t *testing.T) {
	w := boxed(t, "email", "config: {x: 1}\nmcp: {box: {command: [x]}}\n", spec("box.list", "Lists."))
	c := w.approved("email")
	ctx, sc := context.Background(), store.ForNode(resource.System)
	uri := must.Get(resource.Parse("cld:agent.Agent.email"))
	must.Get(w.store.Get(ctx, sc, uri))
	tl, err := w.store.Get(ctx, sc, uri.Child("tool.Tool", "box.list"))
	if err != nil || !strings.Contains(string(tl.Body), `"openai":{"type":"function","function":{"name":"box__list"`) {
		t.Fatalf("%s %v", tl.Body, err)
	}
	must.Get(c.Revoke(ctx, "ann", "email", "not needed"))
	if _, err := w.store.Get(ctx, sc, uri.Child("tool.Tool", "box.list")); !fault.HasCode(err, "not_found") {
		t.Fatalf("the tool of a revoked agent is still listed: %v", err)
	}
	log, err := w.store.Log(ctx, sc, store.LogQuery{Of: uri})
	if err != nil || len(log.Entries) != 2 || log.Entries[0].Actor != "local" || log.Entries[1].Actor != "ann" {
		t.Fatalf("the decisions in the log: %+v %v", log.Entries, err)
	}
}

func TestAParentSeesItsChildrenOnly(t *testing.T) {
	w := newWorld(t)
	w.agent("assistant_office", "")
	w.agent("assistant_office/agents/email", "")
	w.agent("assistant_office/agents/email/agents/filter", "")
	c := w.open()
	approve(t, c, "assistant_office/email/filter")
	approve(t, c, "assistant_office/email")
	if len(c.Tree().ByPath) != 1 {
		t.Fatal("a child is usable without the agent above it")
	}
	if l := listing(t, c, "assistant_office/email"); l.Usable || l.Status != Approved {
		t.Fatalf("%+v", l)
	}
	approve(t, c, "assistant_office")
	tree := c.Tree()
	if len(tree.ByPath) != 4 || len(tree.Root.Children) != 1 || len(tree.Root.Children[0].Children) != 1 ||
		tree.Root.Children[0].Children[0].Children[0].Path != "assistant_office/email/filter" {
		t.Fatalf("%+v", tree.ByPath)
	}
	// The approval of an agent does not cover its children.
	before := inspect(t, c, "assistant_office").Hash
	w.agent("assistant_office/agents/calendar", "")
	if inspect(t, c, "assistant_office").Hash != before || usable(c, "assistant_office/calendar") {
		t.Fatal("a new child has changed its parent's approval, or is used without one of its own")
	}
	must.Get(c.Revoke(context.Background(), "local", "assistant_office", ""))
	if len(c.Tree().ByPath) != 1 {
		t.Fatalf("below a revoked agent something is usable: %v", c.Tree().ByPath)
	}
}

func TestTakeItAwayAndTheAbilityIsGone(t *testing.T) {
	w := boxed(t, "email", "mcp: {box: {command: [x]}}\n", spec("box.list", "Lists."))
	c := w.approved("email")
	held, _ := c.Tree().ByPath["email"].Tools.Get("box.list")
	src := w.edge.last("box")
	w.remove("email")
	rescan(t, c)
	if usable(c, "email") || len(c.Listings()) != 0 {
		t.Fatal("it is still there")
	}
	<-src.closed
	if _, err := held.Call(context.Background(), tool.Invocation{Args: []byte("{}")}); !fault.HasCode(err, "agent_changed") || !tool.CertainlyNotDone(err) {
		t.Fatalf("a tool of it can still be called: %v", err)
	}
	w.agent("email", "mcp: {box: {command: [x]}}\n")
	rescan(t, c)
	if !usable(c, "email") {
		t.Fatal("unchanged it is as approved as before")
	}
}

func TestACallThatRunsIsNotCutOff(t *testing.T) {
	w := boxed(t, "email", "mcp: {box: {command: [x]}}\n", spec("box.list", "Lists."))
	c := w.approved("email")
	src := w.edge.last("box")
	began, finish := make(chan struct{}), make(chan struct{})
	src.call = func(context.Context, tool.Invocation) (tool.Result, error) {
		close(began)
		<-finish
		select {
		case <-src.closed:
			return tool.Result{}, errors.New("closed under the call")
		default:
			return tool.Text("done"), nil
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := call(t, c, "email", "box.list")
		done <- err
	}()
	<-began
	w.remove("email")
	rescan(t, c)
	close(finish)
	must.Do(t, <-done)
	<-src.closed
}

func TestDecisions(t *testing.T) {
	w := boxed(t, "email", "mcp: {box: {command: [x]}}\n", spec("box.list", "Lists."), spec("box.send", "Sends."))
	c := w.open()
	ctx := context.Background()
	if _, err := c.Inspect(ctx, "emial"); !fault.HasCode(err, "agent_not_found") || !strings.Contains(err.Error(), "email") {
		t.Fatal(err)
	}
	if _, err := c.Approve(ctx, "local", "email", "wrong", nil); !fault.HasCode(err, "agent_changed") || !fault.Is(err, fault.Conflict) {
		t.Fatal(err)
	}
	if _, err := c.Revoke(ctx, "local", "email", ""); !fault.HasCode(err, "agent_not_approved") {
		t.Fatal(err)
	}
	l, err := c.Deny(ctx, "local", "email", "I do not trust it")
	if err != nil || l.Status != Denied || l.Reason != "I do not trust it" {
		t.Fatal(l, err)
	}
	hash := inspect(t, c, "email").Hash
	if _, err := c.Approve(ctx, "local", "email", hash, map[string]ToolSetting{"box.sned": {}}); !fault.HasCode(err, "tool_unknown") || !strings.Contains(err.Error(), "box.send") {
		t.Fatal(err)
	}
	if _, err := c.Approve(ctx, "local", "email", hash, map[string]ToolSetting{"box.send": {Effect: "wild"}}); !fault.HasCode(err, "tool_effect_invalid") {
		t.Fatal(err)
	}
	yes := true
	l, err = c.Approve(ctx, "local", "email", hash, map[string]ToolSetting{"box.send": {Effect: tool.Action, Asks: &yes}, "box.list": {Off: true}})
	if err != nil || !slices.Equal(l.Tools, []string{"box.send"}) {
		t.Fatal(l, err)
	}
	s := c.Tree().ByPath["email"].Tools.Specs()
	if len(s) != 1 || s[0].Effect != tool.Action || !s[0].Asks || s[0].Delivery != tool.Inline {
		t.Fatalf("%+v", s)
	}
	// A person's settings survive another approval.
	w.write("email/PROMPT.md", "")
	w.write("email/agent.yaml", "name: email\ndescription: Other.\nmcp: {box: {command: [x]}}\n")
	approve(t, c, "email")
	if s := c.Tree().ByPath["email"].Tools.Specs(); len(s) != 1 || !s[0].Asks {
		t.Fatalf("%+v", s)
	}
	if l, err := c.Revoke(ctx, "local", "email", strings.Repeat("é", 600)); err != nil || l.Status != Revoked || len(l.Reason) > 520 {
		t.Fatal(l, err)
	}
	must.Do(t, c.Close())
	if l := listing(t, w.open(), "email"); l.Status != Revoked {
		t.Fatalf("%+v", l)
	}
	if _, err := c.List(ctx); !fault.HasCode(err, "catalog_closed") {
		t.Fatal(err)
	}
}

func TestSourcesAndHooks(t *testing.T) {
	w := newWorld(t)
	w.agent("diary", "mcp: {calendar: {}}\nhooks:\n  before_tool: {files: [hooks/check.sh]}\n  after_request: [{files: [hooks/check.sh]}, {}]\n")
	w.write("diary/hooks/check.sh", "#!/bin/sh\n")
	w.edge.offer("calendar", spec("calendar.list", "Lists."))
	c := w.open()
	insp := inspect(t, c, "diary")
	if !slices.ContainsFunc(insp.Items, func(i Item) bool { return i.Name == "file hooks/check.sh" && i.Text == "#!/bin/sh\n" }) {
		t.Fatalf("%+v", insp.Items)
	}
	approve(t, c, "diary")
	a := c.Tree().ByPath["diary"]
	if len(a.Hooks[tool.BeforeTool]) != 1 || len(a.Hooks[tool.AfterRequest]) != 2 {
		t.Fatalf("%+v", a.Hooks)
	}
	h := a.Hooks[tool.BeforeTool][0]
	if ans, err := h.Fire(context.Background(), tool.HookEvent{On: tool.BeforeTool}); err != nil || ans.Note != "fired before_tool" {
		t.Fatal(ans, err)
	}
	w.write("diary/hooks/check.sh", "#!/bin/sh\nrm -rf ~\n")
	if _, err := h.Fire(context.Background(), tool.HookEvent{}); !fault.HasCode(err, "agent_changed") {
		t.Fatalf("a hook that is not as approved is called: %v", err)
	}
	if env := w.edge.last("calendar").env; env.Agent != "diary" || env.Dir != filepath.Join(w.dir, "diary") || !strings.HasPrefix(env.Data, w.data) || env.Log == nil {
		t.Fatalf("%+v", env)
	}
}

// The tools of an agent's own services are a source that is approved like any other. An alias of
// Steward's own tools is no fault, even if the tools are not set up.
func TestToolsOfServicesAndAliases(t *testing.T) {
	w := newWorld(t)
	w.agent("desk", "services: {state: {tools: true}}\ntools: [notification, math.evaluate]\ndeferred: [math.*]\n")
	w.edge.offer("state", spec("state.get", "Gets."))
	c := w.approved("desk")
	a := c.Tree().ByPath["desk"]
	got, ok := a.Tools.Get("state.get")
	if !ok || got.Spec().Origin != tool.OriginOwn || !slices.Equal(a.Uses, []string{"notification", "math.evaluate"}) || !slices.Equal(a.Deferred, []string{"math.*"}) {
		t.Fatalf("%+v", a)
	}
}

func TestSecretsAreThoseThatAreDeclared(t *testing.T) {
	w := newWorld(t)
	w.agent("email", "secrets: [MAIL_PASSWORD]\nmcp: {box: {}}\n")
	w.opt.Secrets = func(agent, name string) (string, bool) { return agent + "'s " + name, true }
	w.open()
	env := w.edge.last("box").env
	if s, ok := env.Secret("MAIL_PASSWORD"); !ok || s != "email's MAIL_PASSWORD" {
		t.Fatal(s, ok)
	}
	if s, ok := env.Secret("AWS_KEY"); ok {
		t.Fatalf("a secret that was not declared is given away: %q", s)
	}
}

func TestSkills(t *testing.T) {
	w := newWorld(t)
	w.agent("writer", "")
	w.write("writer/skills/letters/SKILL.md", "---\nname: letters\ndescription: How letters are written.\nlicense: MIT\n---\n# Letters\nBegin with Dear.\n")
	w.write("writer/skills/letters/reference/forms.md", "Sir, Madam")
	w.write("writer/skills/letters/logo.bin", "\xff\xfe\x00")
	c := w.approved("writer")
	a := c.Tree().ByPath["writer"]
	if !strings.Contains(a.Prompt, "- letters: How letters are written.") {
		t.Fatal(a.Prompt)
	}
	read := func(args string) (string, error) {
		tl, ok := a.Tools.Get("skill.read")
		if !ok {
			t.Fatal("there is no skill.read")
		}
		res, err := tl.Call(context.Background(), tool.Invocation{Args: []byte(args)})
		return asJSON(t, res), err
	}
	if got, err := read(`{"name":"letters"}`); err != nil || !strings.Contains(got, "Begin with Dear.") || !strings.Contains(got, "reference/forms.md") || strings.Contains(got, "license") {
		t.Fatal(got, err)
	}
	if got, err := read(`{"name":"letters","file":"reference/forms.md"}`); err != nil || !strings.Contains(got, "Sir, Madam") {
		t.Fatal(got, err)
	}
	if _, err := read(`{"name":"letters","file":"../../agent.yaml"}`); !fault.HasCode(err, "skill_file_not_found") {
		t.Fatal(err)
	}
	if _, err := read(`{"name":"other"}`); !fault.HasCode(err, "args_invalid") {
		t.Fatal(err)
	}
	w.write("writer/skills/letters/reference/forms.md", "Comrade")
	rescan(t, c)
	if usable(c, "writer") {
		t.Fatal("a changed skill is used unseen")
	}
	if d := inspect(t, c, "writer").Diff; !strings.Contains(d, "-Sir, Madam\n+Comrade\n") {
		t.Fatal(d)
	}
}

func TestWhatTheSourcesCannotSay(t *testing.T) {
	w := newWorld(t)
	w.agent("email", "mcp: {box: {command: [x]}}\n")
	w.edge.refuses = map[string]error{"box": fault.New(fault.Unavailable, "server_dead", "it does not start").WithHint("install it")}
	c := w.open()
	if _, err := c.Inspect(context.Background(), "email"); !fault.HasCode(err, "server_dead") || !strings.Contains(err.Error(), "box of email") {
		t.Fatal(err)
	}
	if l := listing(t, c, "email"); l.Status != Pending {
		t.Fatalf("%+v", l)
	}
}

func TestRootSources(t *testing.T) {
	w := newWorld(t)
	file := w.write(filepath.Join(w.data, "mcp.json"), `{
	"mcpServers": {
		"Brave Search": {"command": "npx", "args": ["--token=abc", "--key", "abc"], "env": {"API_KEY": "sk-12345", "HOME": "/h"}, "autoApprove": []},
		"off": {"command": "x", "disabled": true}
	}
}`)
	w.opt.Servers = []string{file, filepath.Join(w.data, "none.json")}
	w.opt.Root = []RootSource{{Kind: "grpc", Name: "hash", File: "steward.yaml:3", Definition: []byte(`{"command":["x"],"timeout":"3s"}`)}}
	w.opt.Openers["mcp"] = func(env tool.Env, decode func(any) error) (tool.Source, error) {
		s := &source{edge: w.edge, env: env, closed: make(chan struct{})}
		w.edge.opened = append(w.edge.opened, s)
		return s, decode(&struct {
			Command string            `yaml:"command"`
			Args    []string          `yaml:"args"`
			Env     map[string]string `yaml:"env"`
		}{})
	}
	w.edge.offer("brave_search", spec("brave_search.web", "Searches the web."))
	w.edge.offer("hash", spec("hash.md5", "Hashes."))
	c := w.open()
	insp := inspect(t, c, "mcp:brave_search")
	if insp.Kind != KindSource || strings.Contains(asJSON(t, insp), "sk-12345") || strings.Contains(asJSON(t, insp), "abc") || !strings.Contains(asJSON(t, insp), "/h") {
		t.Fatalf("%s", asJSON(t, insp))
	}
	approve(t, c, "mcp:brave_search")
	approve(t, c, "grpc:hash")
	if got := c.Tree().Root.Tools.Names(); !slices.Equal(got, []string{"brave_search.web", "hash.md5"}) {
		t.Fatalf("%v", got)
	}
	must.Get(call(t, c, "", "hash.md5"))
	if d := w.edge.last("hash").decl; d.Timeout.Seconds() != 3 {
		t.Fatalf("%+v", d)
	}
	// A changed secret counts as a change, although it is masked.
	w.write(file, `{"mcpServers":{"Brave Search":{"command":"npx","args":["--token=abc","--key","abc"],"env":{"API_KEY":"sk-99999","HOME":"/h"},"autoApprove":[]}}}`)
	rescan(t, c)
	if l := listing(t, c, "mcp:brave_search"); l.Status != Pending || !l.Changed {
		t.Fatalf("%+v", l)
	}
	if d := inspect(t, c, "mcp:brave_search").Diff; d == "" || strings.Contains(d, "99999") {
		t.Fatal(d)
	}
	if got := c.Tree().Root.Tools.Names(); !slices.Equal(got, []string{"hash.md5"}) {
		t.Fatalf("%v", got)
	}
	w.write(file, `{"mcpServers": {"a": {}, "A": {}, "math": {}, "…": {}}, }`)
	rescan(t, c)
	if n := strings.Count(w.log.String(), "invalid JSON"); n != 1 {
		t.Fatalf("told %d times: %s", n, w.log)
	}
	if l := listing(t, c, "mcp:mcp.json"); l.Status != Invalid || len(l.Problems) != 1 || l.Problems[0].Line != 1 {
		t.Fatalf("%+v", l)
	}
	w.write(file, `{"mcpServers": {"a": {}, "A": {}, "math": {}, "…": {}}}`)
	rescan(t, c)
	for _, l := range c.Listings() {
		if l.Path != "grpc:hash" && l.Status != Invalid {
			t.Errorf("%+v", l)
		}
	}
}
