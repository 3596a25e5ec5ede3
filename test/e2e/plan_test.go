//go:build long

package e2e

import (
	"strings"
	"testing"
	"time"

	"steward/test/edge"
)

// press answers a question with one key. The chat takes no answer within half a second of the question, so
// that nobody approves by accident while typing.
func (tm *terminal) press(key string) {
	<-time.After(700 * time.Millisecond)
	tm.tmux("send-keys", "-t", "chat", key)
}

// TestAPlanIsAskedAboutInTheChat: /plan shows the plan as a person reads it and asks about it. It is carried
// out as it stands, as it was edited, or not at all; while it runs it is a tree, and afterwards one line.
func TestAPlanIsAskedAboutInTheChat(t *testing.T) {
	let := make(chan struct{})
	n := edge.New(t, edge.Options{Model: edge.Script(t, func(in edge.Asked) edge.Reply {
		said, system := in.User(), in.Messages[0].Text()
		switch {
		case !strings.Contains(system, "You plan for a person"):
			<-let
			return edge.Reply{Text: "did " + said}
		case in.Rounds() > 0:
			return edge.Reply{Text: "For " + said + ": " + strings.Join(in.Results(), " ")}
		}
		return edge.Reply{Calls: []edge.Call{{Name: "plan.start", Args: map[string]any{"analysis": "a", "plan": "look at both", "confidence": 1, "subtasks": []map[string]any{
			{"name": "clock", "purpose": "the clock of " + said, "selected_tools": []string{"time.now"}}, {"name": "sky", "purpose": "the sky of " + said, "after": []string{"clock"}}}}}}}
	})})
	tm := &terminal{t: t, dir: n.Dir}
	tm.open(n.Env, edge.Binary()+" chat --model openai/gpt-test")
	tm.rest("serving at ")
	tm.type_("/plan one")
	tm.see("Allow it? y/n")
	for _, part := range []string{"steps: look at both", "- clock: the clock of one", "tools: time.now", "after: clock"} {
		tm.see(part)
	}
	tm.press("y")
	tm.see("0 of 2 tasks done")
	if screen := tm.screen(); !strings.Contains(screen, " clock  designed") || !strings.Contains(screen, "· sky    designed") {
		t.Errorf("no tree: %s", screen)
	}
	close(let)
	tm.rest("did the sky of one")
	if screen := tm.screen(); !strings.Contains(screen, "✓ 2 of 2 tasks done") || strings.Contains(screen, "· sky") {
		t.Errorf("the tree is not folded: %s", screen)
	}
	tm.press("C-o")
	tm.see("✓ sky    designed")

	tm.type_("/plan two")
	tm.see("- clock: the clock of two")
	tm.press("e")
	tm.see(`"the clock of two"`)
	for range 60 { // everything that stands in the input
		tm.tmux("send-keys", "-t", "chat", "C-e", "C-u", "BSpace")
	}
	tm.type_(`{"analysis":"a","plan":"another","confidence":1,"purpose":"the moon","selected_tools":["time.now"]}`)
	tm.rest("did the moon")

	tm.type_("/plan three")
	tm.see("- clock: the clock of three")
	tm.press("n")
	tm.rest("For three: ")
	if screen := tm.screen(); strings.Contains(screen, "did the clock of three") || !strings.Contains(screen, "denied: plan.start") {
		t.Errorf("a rejected plan was begun: %s", screen)
	}
	tm.type_("/quit")
	tm.ended()
}
