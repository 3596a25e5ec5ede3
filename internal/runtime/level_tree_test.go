package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"steward/internal/catalog"
	"steward/internal/id"
	"steward/internal/message"
	"steward/internal/record"
	"steward/internal/store"
	"steward/internal/tool"
	"steward/internal/turn"
)

func TestAgentThatCannotBegin(t *testing.T) {
	w, g := newLevels(t)
	a := agentOf("odd")
	a.Model = "no/such"
	g.plant(a)
	conv, _ := w.turn(id.ID{}, ask("odd", "say x"))
	if r := w.results(conv)[0]; r.Status == message.OK || !strings.Contains(r.Text(), "model_not_found") && !strings.Contains(r.Text(), "no/such") {
		t.Errorf("%s %s", r.Status, r.Text())
	}
	w.closed(conv, 1) // of the turn: the agent was not asked
}

func TestChangedToolIsNotCalled(t *testing.T) {
	w, g := newLevels(t)
	var change sync.Once
	with := func(says string, more ...tool.Tool) {
		look := newTool(tool.Spec{Name: "first.look", Description: "It looks, as it says: " + says, Effect: tool.Query},
			func(context.Context, tool.Invocation, struct{}) (string, error) { return says, nil })
		g.plant(agentOf("personal", append(more, look)...))
	}
	start := query("start.now", "call first.look {}", 0)
	turn := newTool(tool.Spec{Name: "start.now", Description: start.Spec().Description, Effect: tool.Query},
		func(context.Context, tool.Invocation, struct{}) (string, error) {
			change.Do(func() { with("other", start) })
			return "call first.look {}", nil
		})
	with("one", turn)
	w.model.obey = true
	conv, _ := w.turn(id.ID{}, ask("personal", "call start.now {}"))
	if got := w.results(conv)[0].Text(); !strings.Contains(got, "tool_changed") {
		t.Errorf("a tool that has changed since the turn began: %s", got)
	}
	conv, _ = w.turn(id.ID{}, ask("personal", "call first.look {}"))
	if got := w.results(conv)[0].Text(); got != "ok: other" {
		t.Errorf("in the next turn: %s", got)
	}
}

func TestDeclaredParameters(t *testing.T) {
	w, g := newLevels(t)
	a := agentOf("typed")
	a.Parameters = []byte(`{"type":"object","properties":{"to":{"type":"string"},"when":{"type":"object"},"n":{"type":"integer"}},"required":["to"]}`)
	g.plant(a)
	conv, _ := w.turn(id.ID{}, `call typed.ask {"to":"say bob","n":3,"when":{"h":1}}`+"\n"+`call typed.ask {"n":3}`)
	res := w.results(conv)
	if res[1].Status != message.Failed || !strings.Contains(res[1].Text(), "to") {
		t.Errorf("without what is required: %s %s", res[1].Status, res[1].Text())
	}
	page := w.messages(w.below("typed"))
	if got, want := page[0].Text(), "n: 3\nto: say bob\nwhen: {\"h\":1}"; got != want {
		t.Errorf("it is told %q, want %q", got, want)
	}
}

func TestRevokedAgentCannotBegin(t *testing.T) {
	w, g := newLevels(t)
	plant := func() { g.plant(agentOf("personal", w.action("do.it"))) }
	plant()
	acc := w.send(id.ID{}, ask("personal", `call do.it {"what":"x"}`))
	w.approve(acc.Conversation, turn.Cursor{}, true) // it was asked before
	frames := w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	if said(frames) != "ok: ok: done x" {
		t.Fatalf("before: %s", said(frames))
	}
	w.model.begun = make(chan struct{}, 1)
	acc = w.send(acc.Conversation, ask("personal", "hang then"))
	<-w.model.begun
	g.plant()
	coded(t, second(w.Send(t.Context(), "anna", turn.Input{Agent: "personal", Content: text("say x")})), "agent_not_found") // a revoked agent begins
	close(w.model.gate)                                                                                                     // the run keeps its kit, and ends
	frames = w.until(acc.Conversation, turn.Cursor{Seq: acc.Seq}, isKind(turn.FrameComplete))
	if said(frames) != "ok: half whole" {
		t.Errorf("the run that was on: %s", said(frames))
	}
}

func TestRevokedAgentsNextCallIsRefused(t *testing.T) {
	w, g := newLevels(t)
	var revoke sync.Once
	look := newTool(tool.Spec{Name: "first.look", Description: "It looks.", Effect: tool.Query},
		func(context.Context, tool.Invocation, struct{}) (string, error) {
			revoke.Do(func() { g.plant() })
			return "call first.look {}", nil
		})
	g.plant(agentOf("personal", look))
	w.model.obey = true // what a tool says is done
	conv, _ := w.turn(id.ID{}, ask("personal", "call first.look {}"))
	page := w.messages(w.below("personal"))
	var seen []string
	for _, m := range page {
		if r := m.Result(); r != nil {
			seen = append(seen, string(r.Status)+" "+r.Text())
		}
	}
	if len(seen) != 2 || !strings.Contains(seen[1], "agent_not_approved") || !strings.HasPrefix(seen[1], string(message.DeniedCall)) {
		t.Errorf("the calls of who was revoked: %q; %v", seen, w.results(conv)[0].Text())
	}
}

func TestPersonas(t *testing.T) {
	w, g := newLevels(t)
	poet := agentOf("poet", query("rhyme.find", "moon, june", 0))
	poet.Persona, poet.Uses = true, []string{"math.*"}
	g.plant(poet, agentOf("clerk", query("file.read", "paper", 0)))
	conv, _ := w.turn(id.ID{}, `call math.multiply {"a":2,"b":3}`)
	ask := func(agent, words string) []turn.Frame {
		t.Helper()
		acc := w.sent(turn.Input{Conversation: conv, Agent: agent, Content: text(words)})
		return w.until(conv, turn.Cursor{Seq: acc.Seq - 1}, isKind(turn.FrameComplete))
	}
	if got := said(ask("poet", "call rhyme.find {}")); got != "ok: moon, june" {
		t.Errorf("the poet: %s", got)
	}
	if got := said(ask("", `call ledger.add {"what":"x"}`)); !strings.HasPrefix(got, "error: There is no tool") {
		t.Errorf("the poet has the conversation, and the assistant's tools: %s", got)
	}
	if c, err := w.Conversations.Get(t.Context(), store.ForUser("anna"), conv); err != nil || c.Agent != "poet" || c.Messages != 6 {
		t.Errorf("the conversation: %+v, %v", c, err)
	}
	if got := w.model.last(); got != 11 {
		t.Errorf("the last model call saw %d messages, want all that was said", got)
	}
	coded(t, second(w.Send(t.Context(), "anna", turn.Input{Conversation: conv, Agent: "clerk", Content: text("say x")})), "agent_no_persona") // an agent that is no persona
	w.reopen()
	if got := said(ask("", `call math.multiply {"a":2,"b":3}`)); got != "ok: 6" {
		t.Errorf("the poet, after a restart: %s", got)
	}
	ask("assistant", "say back")
	if c, _ := w.Conversations.Get(t.Context(), store.ForUser("anna"), conv); c.Agent != "assistant" {
		t.Errorf("the conversation is %s's", c.Agent)
	}
	acc := w.sent(turn.Input{Agent: "clerk", Content: text("call file.read {}")})
	if got := said(w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))); got != "ok: paper" {
		t.Errorf("an agent run alone: %s", got)
	}
}

func TestNamesThatCollide(t *testing.T) {
	w, g := newLevels(t)
	a := agentOf("math", query("math.multiply", "wrong", 0))
	a.Uses = []string{"math.multiply", "no.such"}
	g.plant(a, agentOf("math/multiply"))
	conv, _ := w.turn(id.ID{}, ask("math", `call math.multiply {"a":2,"b":3}`))
	if got := w.results(conv)[0].Text(); got != "ok: 6" {
		t.Errorf("the node's own tool does not win: %s", got)
	}
	var names []string
	for _, sp := range w.Tools("math") {
		names = append(names, sp.Name)
	}
	if got := strings.Join(names, " "); got != "math.multiply multiply.ask results.read" {
		t.Errorf("tools: %s", got)
	}
	if got := w.Tools("nobody"); got != nil {
		t.Errorf("tools of nobody: %v", got)
	}
	if list := w.Agents(t.Context()); len(list) != 4 || list[0].Path != "assistant" || list[1].Path != "planner" || list[3].Path != "math/multiply" {
		t.Errorf("agents: %+v", list)
	}
}

func TestDepthIsBounded(t *testing.T) {
	w, g := newLevels(t)
	var agents []*catalog.Agent
	path := ""
	words := "say deep"
	for i := range 9 {
		path = strings.TrimPrefix(fmt.Sprintf("%s/a%d", path, i), "/")
		agents = append(agents, agentOf(path))
	}
	for i := 8; i >= 0; i-- {
		words = ask(fmt.Sprintf("a%d", i), words)
	}
	g.plant(agents...)
	_, frames := w.turn(id.ID{}, words)
	if got := said(frames); !strings.Contains(got, "agent_too_deep") {
		t.Errorf("nine levels: %s", got)
	}
}

func TestAskedAgentsInheritTheModel(t *testing.T) {
	w, g := newLevels(t)
	own := agentOf("own")
	own.Model = "test/o"
	g.plant(own, agentOf("own/below"), agentOf("other"))
	acc := w.sent(turn.Input{Model: "test/chosen", Content: text(ask("other", "say a") + "\n" + ask("own", ask("below", "say b")))})
	w.until(acc.Conversation, turn.Cursor{}, isKind(turn.FrameComplete))
	want := map[string]string{"other": "test/chosen", "own": "test/o", "own/below": "test/o"}
	for it, err := range store.Items(t.Context(), w.store, store.ForUser("anna"), store.Query{Type: record.TypeRun}) {
		ok(t, err)
		var r record.Run
		ok(t, record.Decode(it.URI, it.Body, &r))
		if m := want[r.Agent]; m != "" && r.Model != m {
			t.Errorf("%s ran with %s, want %s", r.Agent, r.Model, m)
		}
	}
}
